/* What the gate calls that plays no part in a test; for includers of src/compute/gate.c. */
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

struct peers balance_peers(const struct limited_device *d, uint64_t now) {
    (void)d;
    (void)now;
    return (struct peers){0, INT64_MAX, INT64_MAX, 0};
}

int64_t balance_counted_grant(const struct limited_device *d, int64_t amount) {
    (void)d;
    return amount;
}

int64_t balance_share(const struct limited_device *d) {
    return d->share;
}

int64_t balance_arrears(const struct limited_device *d, const struct snapshot *s) {
    return s->balance * 100 / balance_share(d);
}

int limited_devices_refresh(void) {
    return COMPUTE_ON;
}

void compute_lock(void) {
}

void compute_unlock(void) {
}

void helper_wake(void) {
}

void close_all(struct limited_device *d) {
    (void)d;
}

void close_hurry(const struct limited_device *d) {
    (void)d;
}

void collect_if_due(struct limited_device *d, uint64_t now) {
    (void)d;
    (void)now;
}

bool hami_region_sweep(struct hami_region_view *view) {
    (void)view;
    return false;
}

#endif
