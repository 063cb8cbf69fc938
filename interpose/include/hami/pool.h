/*
 * Stream-ordered memory pools. A pool takes memory in advance and gives it back when it likes, so what counts is
 * what the driver says it has reserved, read after every call that may change it.
 */
#ifndef HAMI_POOL_H
#define HAMI_POOL_H

#include "hami/compiler.h"
#include "hami/cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Reads what pool number `pool` has reserved and brings its charge in step. */
void hami_pool_settle(unsigned pool);

/* Same for all pools, before anything is refused. */
void hami_pools_settle(void);

/* Something was freed that pools may still have: the driver gives it back when somebody waits. */
extern _Atomic bool hami_pools_freed;
HAMI_APART void hami_pools_settle_freed(void);

/* After the driver has waited for a stream, an event or a context; returns the driver's answer. */
static inline CUresult hami_pools_waited(CUresult status) {
    if (__builtin_expect(atomic_load_explicit(&hami_pools_freed, memory_order_relaxed), 0)) {
        hami_pools_settle_freed();
    }
    return status;
}

void hami_pools_after_fork(void);

#endif
