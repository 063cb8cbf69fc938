/*
 * Stream-ordered memory pools. A pool takes memory in advance and gives it back when it likes, so what counts is
 * what the driver says it has reserved, read after every call that may change it.
 */
#ifndef HAMI_POOL_H
#define HAMI_POOL_H

#include "compiler.h"
#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Reads what pool number `pool` has reserved and brings its charge in step. */
void hami_pool_settle(unsigned pool);

/* Same for all pools, before anything is refused. */
void hami_pools_settle(void);

/* What a program waits for, besides streams by their name (the legacy default stream's is 1). */
#define HAMI_NO_STREAM ((CUstream)0)                    /* an event */
#define HAMI_ALL_STREAMS ((CUstream)((uintptr_t)0 - 2)) /* a context */

/* Frees from pools so far, and how many of the first of them are known to be over: their streams were waited for. */
extern _Atomic uint64_t hami_pools_frees, hami_pools_frees_over;

/* After a wait, brings pools in step that the driver may have given something back of. */
HAMI_APART void hami_pools_settle_freed(CUstream waited, uint64_t frees);

/* Before the driver waits. */
static inline uint64_t hami_pools_waiting(void) {
    return atomic_load_explicit(&hami_pools_frees, memory_order_acquire);
}

/* Afterwards, with what it waited for and the number from before; returns the driver's answer. */
static inline CUresult hami_pools_waited(CUresult status, CUstream waited, uint64_t frees) {
    if (__builtin_expect(atomic_load_explicit(&hami_pools_frees_over, memory_order_relaxed) != frees, 0)) {
        hami_pools_settle_freed(status == CUDA_SUCCESS ? waited : HAMI_NO_STREAM, frees);
    }
    return status;
}

/* Before the driver ends a stream. */
void hami_pools_stream_ending(CUstream stream);

void hami_pools_after_fork(void);

#endif
