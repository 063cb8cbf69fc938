/*
 * The gate with everything around it replaced. The work that a launch waits for completes just after the gate has
 * looked. Prints how often the gate went to sleep all the same: nobody would have woken it.
 */
#include "../../src/compute/gate.c"

#include "../fuzz/alone.h"

#include <stdio.h>

static struct hami_compute_device shared;
static struct hami_compute_process own;
static unsigned asleep;

void balance_read(struct limited_device *d, struct snapshot *s) {
    int64_t reserved = atomic_load(&d->own->reserved);
    *s = (struct snapshot){
        .now = 1, .balance = 1, .reserved = reserved, .expected = reserved, .steady = reserved, .events = reserved > 0};
    if (reserved > 0) { /* the helper collects the last event, in this order */
        atomic_store(&d->own->reserved, 0);
        atomic_fetch_add(&d->shared->completions, 1);
    }
}

void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    (void)ns;
    asleep += atomic_load(word) == value;
}

enum turn turn_take(struct limited_device *d, uint64_t now) {
    (void)d;
    (void)now;
    return TURN_OURS;
}

bool yield_is_due(struct limited_device *d, const struct snapshot *s) {
    (void)d;
    (void)s;
    return false;
}

uint64_t yield_turn(struct limited_device *d) {
    (void)d;
    return UINT64_MAX;
}

uint64_t turn_patience(struct limited_device *d) {
    (void)d;
    return 0;
}

bool turn_has_company(const struct limited_device *d, uint64_t now) {
    (void)d;
    (void)now;
    return false;
}

void yield_wait(struct limited_device *d, const struct snapshot *s, enum turn why) {
    (void)d;
    (void)s;
    (void)why;
}

void yield_forfeited(struct limited_device *d, const struct snapshot *s) {
    (void)d;
    (void)s;
}

void turn_give_up(struct limited_device *d, uint64_t now, uint64_t waited) {
    (void)d;
    (void)now;
    (void)waited;
}

uint64_t compute_now(void) {
    return 1;
}

void compute_sleep_until(uint64_t due) {
    (void)due;
}

void compute_look_by(uint64_t due) {
    (void)due;
}

int main(void) {
    struct limited_device device = {.share = 50, .shared = &shared, .own = &own, .charge_ratio = 1};
    int64_t amount = GRANT_NS;
    atomic_store(&own.reserved, 1);
    (void)gate_pass(&device, &amount, true, amount);
    printf("%u\n", asleep);
    return atomic_load(&own.reserved) == amount ? 0 : 1;
}
