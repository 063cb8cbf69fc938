/*
 * Stream-ordered memory pools of this process (cuMemAllocAsync), and frees that are pending in streams. stream_calls.c
 * has the policies. The generated wrappers of functions that wait call hami_pools_waited.
 *
 * A free in a stream is pending until the stream reaches it, and until then the driver keeps the memory. A pool leaves
 * the table only when the driver has given back all its memory, even if the program destroyed it before. What remains
 * after a trim shows that, so each time the program waits, a destroyed pool is trimmed again. The driver never trims
 * pools that can be exported (CUDA programming guide, "Interprocess communication support"). A free in such a pool
 * counts as over when the program has waited for the free's stream; a wait for another stream proves nothing.
 */
#ifndef HAMI_STREAM_POOL_H
#define HAMI_STREAM_POOL_H

#include "compiler.h"
#include "memory/driver_pool.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The name of a stream. NULL is a default stream: the thread's in functions named …_ptsz, the legacy one in others. */
static inline CUstream hami_stream_named(CUstream stream, bool per_thread) {
    return stream != NULL ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* ---- waits ---- */

/* What a program waits for: a named stream (CU_STREAM_LEGACY is the default one), or one of these. */
#define HAMI_NO_STREAM ((CUstream)0)                    /* an event */
#define HAMI_ALL_STREAMS ((CUstream)((uintptr_t)0 - 2)) /* a context */

/* Frees are numbered from 1. These are the last number given, and the number up to which all frees are over. */
extern _Atomic uint64_t hami_pools_frees, hami_pools_frees_over;

/* Corrects the charges of pools whose memory the driver may have given back by the end of a wait. */
HAMI_APART void hami_pools_reconcile_freed(CUstream waited, uint64_t frees);

/* Called before the driver waits. Returns the number of the last free. */
static inline uint64_t hami_pools_waiting(void) {
    return atomic_load_explicit(&hami_pools_frees, memory_order_acquire); /* the driver has all frees up to it */
}

/* Called after the driver's wait. `frees` is what hami_pools_waiting returned before it. Returns `status`. */
static inline CUresult hami_pools_waited(CUresult status, CUstream waited, uint64_t frees) {
    uint64_t over = atomic_load_explicit(&hami_pools_frees_over, memory_order_relaxed); /* an old value does no harm */
    if (!HAMI_LIKELY(over == frees)) {
        hami_pools_reconcile_freed(status == CUDA_SUCCESS ? waited : HAMI_NO_STREAM, frees);
    }
    return status;
}

/* Called before the driver ends a stream, whose handle it may then give to a new stream. */
void hami_pools_stream_ending(CUstream stream);

/* ---- pools ---- */

/* Values of a pool's device that name no device. */
enum {
    HAMI_POOL_ANYWHERE = -3, /* a managed pool before its first allocation */
    HAMI_POOL_IN_HOST = -2,
    HAMI_POOL_UNKNOWN = -1 /* an imported pool */
};

struct hami_stream_pool {
    struct hami_driver_pool base;
    _Atomic(CUmemoryPool) handle; /* NULL: the record is unused */
    _Atomic bool freed;           /* frees may be pending, so waits look at the pool */
    bool destroyed;               /* by the program; we tell the driver only when it is empty */
    unsigned allocations;
    uint64_t freed_at;             /* number of the pool's last free, see hami_pools_frees */
    uint64_t freed_async_at;       /* number of its last free in a stream */
    uint64_t identity;             /* importers find its share by this; 0: it was not exported */
    struct hami_stream_pool *next; /* in the list of all records */
};

/* The record of a pool, or NULL. The second function returns it locked. */
struct hami_stream_pool *hami_pool_known(CUmemoryPool handle);
struct hami_stream_pool *hami_pool_known_locked(CUmemoryPool handle);

/* Returns a pool's record, and makes it if there is none. Threads may do so at once. NULL: out of memory. */
struct hami_stream_pool *hami_pool_enter(CUmemoryPool handle, CUdevice device);

/* Called when the program destroys a pool, which is locked. Returns what the program is to be answered. */
CUresult hami_pool_destroyed(struct hami_stream_pool *pool, CUmemoryPool handle);

/* Notes that memory of a locked pool was freed in a named stream. NULL: without a stream (cuMemFree). */
void hami_pool_note_free(struct hami_stream_pool *pool, CUstream stream);

/* The named stream of the free that this thread is making; NULL: it frees without a stream. */
extern _Thread_local CUstream hami_pool_freeing;

/* An allocation of `pool` (struct hami_stream_pool) was freed; hami_pool_freeing says in which stream. */
void hami_pool_allocation_freed(void *pool);

/* Corrects the charges of all pools; called before a request is refused. */
void hami_pools_reconcile(void);

void hami_pools_after_fork(void);

#endif
