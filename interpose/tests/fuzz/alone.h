/* What the gate asks of the rest of the library, where that has nothing to say; for includers of src/compute/gate.c. */
#ifndef ALONE_H
#define ALONE_H

void compute_wait_number(const _Atomic uint32_t *word, uint32_t value, uint32_t number, uint64_t ns) {
    (void)number;
    compute_wait(word, value, ns);
}

void compute_wake(const _Atomic uint32_t *word) {
    (void)word;
}

void compute_wake_number(const _Atomic uint32_t *word, uint32_t number) {
    (void)word;
    (void)number;
}

struct others balance_others(const struct machine *m, uint64_t now) {
    (void)m;
    (void)now;
    return (struct others){0, INT64_MAX, INT64_MAX, 0};
}

int64_t balance_own(const struct machine *m, int64_t amount) {
    (void)m;
    return amount;
}

int64_t balance_share(const struct machine *m) {
    return m->share;
}

int machines_refresh(void) {
    return COMPUTE_ON;
}

void compute_lock(void) {
}

void compute_unlock(void) {
}

void helper_wake(void) {
}

void runners_close(struct machine *m) {
    (void)m;
}

void runners_hurry(const struct machine *m) {
    (void)m;
}

void runners_look(struct machine *m, uint64_t now) {
    (void)m;
    (void)now;
}

bool hami_region_sweep(struct hami_region_view *view) {
    (void)view;
    return false;
}

#endif
