/*
 * Stream-ordered memory pools. A pool takes memory in advance and gives it back when it likes, so what counts is
 * what the driver says it has reserved, read after every call that may change it.
 */
#ifndef HAMI_POOL_H
#define HAMI_POOL_H

#include "hami/compiler.h"
#include "hami/cuda_abi.h"
#include "hami/pending.h"

#include <stdatomic.h>
#include <stdbool.h>

/* Reads what pool number `pool` has reserved and brings its charge in step. */
void hami_pool_settle(unsigned pool);

/* Same for all pools, before anything is refused. */
void hami_pools_settle(void);

/* Something was freed that pools may still have: the driver gives it back when somebody waits. */
extern _Atomic bool hami_pools_freed;
extern _Atomic uint64_t hami_pools_frees; /* so far */
/* With the context that the wait was in; NULL: the current one. */
HAMI_APART void hami_pools_settle_freed(CUstream waited, CUcontext context, uint64_t frees);

/* Before the driver waits. */
static inline uint64_t hami_pools_waiting(void) {
    return atomic_load_explicit(&hami_pools_frees, memory_order_acquire);
}

static inline CUresult hami_pools_waited_in(CUresult status, CUstream waited, CUcontext context, uint64_t frees) {
    if (__builtin_expect(atomic_load_explicit(&hami_pools_freed, memory_order_relaxed), 0)) {
        hami_pools_settle_freed(status == CUDA_SUCCESS ? waited : HAMI_NO_STREAM, context, frees);
    }
    return status;
}

/* Afterwards, with what it waited for; returns the driver's answer. */
static inline CUresult hami_pools_waited(CUresult status, CUstream waited, uint64_t frees) {
    return hami_pools_waited_in(status, waited, NULL, frees);
}

/* Before the driver ends a stream. */
void hami_pools_stream_ending(CUstream stream);

/* Around the driver's end of a context. */
void hami_pools_context_ending(CUcontext context);
void hami_pools_context_ended(CUcontext context);

void hami_pools_after_fork(void);

#endif
