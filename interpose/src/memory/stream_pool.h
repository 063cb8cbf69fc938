/*
 * Stream-ordered memory pools of this process: a table that pools never leave while the driver has something of them,
 * and what has been freed but may still be in use. stream_calls.c has the policies; compute/launch.c tells of waits.
 *
 * A pending free is one whose stream has perhaps not come to it: the driver keeps the memory until then. It tells by
 * what remains when it is asked to trim the pool, so waits of any kind ask it. Of a pool that the driver never trims
 * (all that can be shared, says CUDA's programming guide) a free is over only when its stream was waited for: a wait
 * for another stream says nothing about it.
 */
#ifndef HAMI_STREAM_POOL_H
#define HAMI_STREAM_POOL_H

#include "compiler.h"
#include "memory/driver_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- waits ---- */

/* What a program waits for, besides streams by their name (the legacy default stream's is 1). */
#define HAMI_NO_STREAM ((CUstream)0)                    /* an event */
#define HAMI_ALL_STREAMS ((CUstream)((uintptr_t)0 - 2)) /* a context */

/* Frees from pools so far, and how many of the first of them are known to be over: their streams were waited for. */
extern _Atomic uint64_t hami_pools_frees, hami_pools_frees_over;

/* After a wait, brings pools in step that the driver may have given something back of. */
HAMI_APART void hami_pools_reconcile_freed(CUstream waited, uint64_t frees);

/* Before the driver waits. */
static inline uint64_t hami_pools_waiting(void) {
    return atomic_load_explicit(&hami_pools_frees, memory_order_acquire); /* a free counts before it is pending */
}

/* Afterwards, with what it waited for and the number from before; returns the driver's answer. */
static inline CUresult hami_pools_waited(CUresult status, CUstream waited, uint64_t frees) {
    uint64_t over = atomic_load_explicit(&hami_pools_frees_over, memory_order_relaxed); /* late is early enough */
    if (!HAMI_LIKELY(over == frees)) {
        hami_pools_reconcile_freed(status == CUDA_SUCCESS ? waited : HAMI_NO_STREAM, frees);
    }
    return status;
}

/* Before the driver ends a stream. */
void hami_pools_stream_ending(CUstream stream);

/* ---- pools ---- */

/* Where a pool is, besides on a device. */
enum {
    HAMI_POOL_ANYWHERE = -3, /* a managed one, until it is first used */
    HAMI_POOL_IN_HOST = -2,
    HAMI_POOL_UNKNOWN = -1 /* an imported one */
};

struct hami_stream_pool {
    struct hami_driver_pool base;
    _Atomic(CUmemoryPool) handle; /* NULL: the record is free */
    _Atomic bool freed;           /* the driver may still have something that was freed: waits look at the pool */
    bool destroyed;               /* by the program; the driver's pool is there until nothing is left in it */
    unsigned allocations;
    uint64_t freed_at;             /* number of the last free, in hami_pools_frees */
    uint64_t freed_async_at;       /* number of the last free in a stream */
    uint64_t identity;             /* by which importers know the pool; 0: it was not exported */
    struct hami_stream_pool *next; /* of all */
};

/* NULL: not known. The second returns the pool locked. */
struct hami_stream_pool *hami_pool_known(CUmemoryPool handle);
struct hami_stream_pool *hami_pool_known_locked(CUmemoryPool handle);

/* Threads that meet the same pool at the same time enter it once. NULL: this process's own memory is full. */
struct hami_stream_pool *hami_pool_enter(CUmemoryPool handle, CUdevice device);

/* The program destroys a locked pool. */
CUresult hami_pool_destroyed(struct hami_stream_pool *pool, CUmemoryPool handle);

/* Something of a locked pool was freed in a stream, by its name; NULL: at once. */
void hami_pool_note_free(struct hami_stream_pool *pool, CUstream stream);

/* In which stream this thread frees memory whose record says that it is a pool's. NULL: at once. */
extern _Thread_local CUstream hami_pool_freeing;

/* An allocation of a pool (struct hami_stream_pool) was freed. */
void hami_pool_allocation_freed(void *pool);

/* Brings all pools in step, before anything is refused. */
void hami_pools_reconcile(void);

void hami_pools_after_fork(void);

#endif
