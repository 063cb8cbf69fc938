/*
 * A memory pool of the driver: a stream-ordered pool (stream_pool.c), or a device's pool for graphs (graph_pool.c). The
 * driver reserves device memory for a pool in advance and gives it back when it likes. A pool is charged for what the
 * driver reports as reserved, which is read again after each call that may change it. So the charge may be too
 * low only while such a call is under way. The caller of each function holds the pool's lock.
 */
#ifndef HAMI_DRIVER_POOL_H
#define HAMI_DRIVER_POOL_H

#include "memory/shared.h"
#include "threads.h"

struct hami_driver_pool;

/* What the two kinds of pools do differently. */
struct hami_pool_kind {
    /* Bytes that the driver has reserved. False: it does not tell. */
    bool (*reserved)(const struct hami_driver_pool *pool, uint64_t *bytes);
    void (*trim)(struct hami_driver_pool *pool);
    /* Bytes that the pool has to grow by for a request, if the driver has reserved `held`. */
    uint64_t (*lack)(struct hami_driver_pool *pool, const void *request, uint64_t held);
    /* True: a request that needs no growth passes even while the container is over its limit. */
    bool reuses_above_limit;
};

struct hami_driver_pool {
    atomic_flag busy;
    const struct hami_pool_kind *kind;
    _Atomic CUdevice device; /* negative: HAMI_POOL_... of stream_pool.h; also read without the lock */
    struct hami_charge charge;
    hami_share share; /* of an exported or imported pool; -1: none */
};

void hami_driver_pool_init(struct hami_driver_pool *pool, const struct hami_pool_kind *kind, CUdevice device);

static inline bool hami_driver_pool_try_lock(struct hami_driver_pool *pool) {
    return !atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire);
}

/* Pages that the driver has reserved. If the driver does not tell, `*told` is false: the pages that are charged. */
uint64_t hami_driver_pool_pages(const struct hami_driver_pool *pool, bool *told);

/* Sets the charge to what the driver has reserved, whatever the limit. False: the driver does not tell. */
bool hami_driver_pool_reconcile(struct hami_driver_pool *pool);

/*
 * Sets the share of an exported pool to `pages`. Call it as soon as the pool grows: this process may be killed while
 * importers keep the pool. False: this process has not exported the pool.
 */
bool hami_driver_pool_tell_size(struct hami_driver_pool *pool, uint64_t pages);

/* Has the driver give back unused memory, and corrects the charge. False: the driver does not tell what is left. */
bool hami_driver_pool_trim(struct hami_driver_pool *pool);

/* Charges what the pool lacks for a request. If that does not fit, trims the pool and tries again. False: refuse. */
bool hami_driver_pool_reserve(struct hami_driver_pool *pool, const void *request);

#endif
