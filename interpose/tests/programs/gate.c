/*
 * The gate with everything around it replaced: what a launch waits for completes just after it has looked. Prints how
 * often it went to sleep all the same; nobody would have woken it.
 */
#include "../../src/compute/gate.c"

#include "../fuzz/alone.h"

#include <stdio.h>

_Atomic int compute_state;

static struct hami_compute_device shared;
static struct hami_compute_process own;
static unsigned asleep;

void balance_read(struct machine *m, struct standing *s) {
    int64_t out = atomic_load(&m->own->out);
    *s = (struct standing){.now = 1, .balance = 1, .out = out, .expected = out, .steady = out, .marks = out > 0};
    if (out > 0) { /* as a helper settles the last mark, in this order */
        atomic_store(&m->own->out, 0);
        atomic_fetch_add(&m->shared->done, 1);
    }
}

void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    (void)ns;
    asleep += atomic_load(word) == value;
}

int64_t balance_arrears(const struct machine *m, const struct standing *s) {
    (void)m;
    return s->balance;
}

enum turn turn_take(struct machine *m, uint64_t now) {
    (void)m;
    (void)now;
    return TURN_OURS;
}

bool turn_expired(struct machine *m, const struct standing *s) {
    (void)m;
    (void)s;
    return false;
}

uint64_t turn_yield(struct machine *m) {
    (void)m;
    return UINT64_MAX;
}

uint64_t turn_patience(struct machine *m) {
    (void)m;
    return 0;
}

bool turn_company(const struct machine *m, uint64_t now) {
    (void)m;
    (void)now;
    return false;
}

const _Atomic uint64_t *turn_word(const struct machine *m) {
    return &m->shared->turn;
}

void turn_wait(struct machine *m, const struct standing *s, enum turn why) {
    (void)m;
    (void)s;
    (void)why;
}

void turn_lost(struct machine *m, const struct standing *s) {
    (void)m;
    (void)s;
}

void turn_given_up(struct machine *m, uint64_t now, uint64_t waited) {
    (void)m;
    (void)now;
    (void)waited;
}

uint64_t compute_now(void) {
    return 1;
}

void compute_sleep_until(uint64_t due) {
    (void)due;
}

void helper_wake_by(uint64_t due) {
    (void)due;
}

int main(void) {
    struct machine machine = {.share = 50, .shared = &shared, .own = &own, .ratio = 1};
    int64_t amount = BATCH;
    atomic_store(&own.out, 1);
    (void)gate_pass(&machine, &amount, true, amount);
    printf("%u\n", asleep);
    return atomic_load(&own.out) == amount ? 0 : 1;
}
