/*
 * A pool that the driver takes memory for in advance and gives back when it likes: a stream-ordered pool
 * (stream_pool.c) or the pool for graphs of a device (graph_pool.c). What counts is what the driver says it has
 * reserved, read after every call that may change it. Every function wants the pool locked; it must hold that a charge
 * is never less than what the driver has reserved, except between the driver's call and the reading of it.
 */
#ifndef HAMI_DRIVER_POOL_H
#define HAMI_DRIVER_POOL_H

#include "memory/shared.h"
#include "threads.h"

struct hami_driver_pool;

/* What the two kinds of pools do differently. */
struct hami_pool_kind {
    /* Bytes that the driver has reserved. False: it does not say. */
    bool (*reserved)(const struct hami_driver_pool *pool, uint64_t *bytes);
    void (*trim)(struct hami_driver_pool *pool);
    /* Bytes that the pool has to grow by for a request, where the driver has reserved `held`. */
    uint64_t (*lack)(struct hami_driver_pool *pool, const void *request, uint64_t held);
    /* A request that needs no growth may pass even where the limit is exceeded. */
    bool reuses_above_limit;
};

struct hami_driver_pool {
    atomic_flag busy;
    const struct hami_pool_kind *kind;
    _Atomic CUdevice device; /* negative: no device's; read without the lock too */
    struct hami_charge charge;
    hami_share share; /* with other processes; -1: none */
};

void hami_driver_pool_init(struct hami_driver_pool *pool, const struct hami_pool_kind *kind, CUdevice device);

static inline bool hami_driver_pool_try_lock(struct hami_driver_pool *pool) {
    return !atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire);
}

/* Pages that the driver has reserved; where it does not say, what it said last. */
uint64_t hami_driver_pool_pages(const struct hami_driver_pool *pool, bool *told);

/* Brings the charge in step with what the driver has reserved, whatever the limit. False: the driver does not say. */
bool hami_driver_pool_reconcile(struct hami_driver_pool *pool);

/*
 * Has the share of an exported pool say what the pool has: as soon as the pool grows, since this process may end.
 * False: it is no such pool. An imported pool is its exporter's to tell of.
 */
bool hami_driver_pool_tell_size(struct hami_driver_pool *pool, uint64_t pages);

/* Has the driver give back what the pool has to spare. False: the driver does not say what is left. */
bool hami_driver_pool_trim(struct hami_driver_pool *pool);

/* Reserves what the pool lacks for a request; at last without what it has to spare. False: refuse. */
bool hami_driver_pool_reserve(struct hami_driver_pool *pool, const void *request);

#endif
