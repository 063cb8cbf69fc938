/* The table of stream-ordered pools, and pending frees (stream_pool.h). */
#include "memory/stream_pool.h"

#include "doors/calls.h"
#include "memory/contexts.h"
#include "memory/map.h"
#include "memory/sizes.h"

#include <stdlib.h>

/* For frees in several streams, or in a per-thread default stream, whose name is the same in every thread. */
#define SEVERAL_STREAMS ((CUstream)(uintptr_t)-1)

/* Records are used again, never freed: allocations' records point to them, and look-ups take no lock. */
static struct hami_stream_pool *_Atomic all; /* records; changed under the lock `entering` */
static struct hami_map handles;              /* handle → record */
static atomic_flag entering = ATOMIC_FLAG_INIT;
static _Atomic(CUstream) freed_in; /* the one stream of all frees so far; NULL: none in a stream; or SEVERAL_STREAMS */

_Thread_local CUstream hami_pool_freeing;
_Atomic uint64_t hami_pools_frees;
_Atomic uint64_t hami_pools_frees_over;

/* ---- what the driver tells ---- */

/* An attribute of a pool. 0: the driver does not tell it. */
static uint64_t pool_attribute(const struct hami_stream_pool *pool, int which) {
    uint64_t value = 0;
    return hami_call_cuMemPoolGetAttribute(atomic_load(&pool->handle), which, &value) == CUDA_SUCCESS ? value : 0;
}

static CUmemoryPool pool_handle(const struct hami_driver_pool *base) {
    return atomic_load(&((const struct hami_stream_pool *)base)->handle);
}

static bool pool_reserved(const struct hami_driver_pool *base, uint64_t *bytes) {
    return hami_call_cuMemPoolGetAttribute(pool_handle(base), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, bytes) ==
           CUDA_SUCCESS;
}

static void pool_trim(struct hami_driver_pool *base) {
    (void)hami_call_cuMemPoolTrimTo(pool_handle(base), 0);
}

/* `request` points to the size of one allocation. */
static uint64_t pool_lack(struct hami_driver_pool *base, const void *request, uint64_t held) {
    const uint64_t *bytes = request;
    uint64_t used = held;
    (void)hami_call_cuMemPoolGetAttribute(pool_handle(base), CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used);
    return hami_excess(held, used) >= *bytes ? 0 : hami_large(*bytes);
}

static const struct hami_pool_kind stream_pool_kind = {.reserved = pool_reserved, .trim = pool_trim, .lack = pool_lack};

/* ---- the table ---- */

struct hami_stream_pool *hami_pool_known(CUmemoryPool handle) {
    return handle == NULL ? NULL : hami_map_pointer(&handles, hami_map_key(handle));
}

/* While a thread waits for the lock, the driver may give the handle to another pool. Then it is looked up again. */
struct hami_stream_pool *hami_pool_known_locked(CUmemoryPool handle) {
    struct hami_stream_pool *pool = NULL;
    while ((pool = hami_pool_known(handle)) != NULL) {
        hami_spin_lock(&pool->base.busy);
        if (atomic_load(&pool->handle) == handle) {
            break;
        }
        hami_spin_unlock(&pool->base.busy);
    }
    return pool;
}

/* An unused record. The caller holds the lock `entering`. NULL: calloc(3) failed. */
static struct hami_stream_pool *pool_free_record(void) {
    struct hami_stream_pool *pool = atomic_load(&all);
    while (pool != NULL && atomic_load(&pool->handle) != NULL) {
        pool = pool->next;
    }
    if (pool == NULL && (pool = calloc(1, sizeof *pool)) != NULL) { /* an atomic_flag of zeros is clear */
        pool->next = atomic_load(&all);
        atomic_store(&all, pool);
    }
    return pool;
}

struct hami_stream_pool *hami_pool_enter(CUmemoryPool handle, CUdevice device) {
    HAMI_HOLD(&entering);
    struct hami_stream_pool *pool = hami_pool_known(handle);
    struct hami_stream_pool *fresh = pool != NULL ? NULL : pool_free_record();
    if (fresh == NULL) {
        return pool;
    }
    hami_spin_lock(&fresh->base.busy); /* a thread may still hold the record for the pool that it stood for before */
    hami_driver_pool_init(&fresh->base, &stream_pool_kind, device);
    atomic_store(&fresh->handle, handle);
    hami_spin_unlock(&fresh->base.busy);
    if (!hami_map_put(&handles, hami_map_key(handle), hami_map_key(fresh))) {
        atomic_store(&fresh->handle, NULL);
        return NULL;
    }
    return fresh;
}

/* ---- the end of a pool ---- */

/*
 * Whether the driver has given back all memory of a locked pool. Imported pools, and pools that the driver does not
 * trim, are empty when nothing in them is in use and the program has waited for all frees.
 */
static bool pool_is_empty(struct hami_stream_pool *pool) {
    bool waited_for = pool->freed_async_at <= atomic_load(&hami_pools_frees_over);
    if (pool->base.charge.device < 0) {
        return pool->allocations == 0 && (pool->base.share < 0 || waited_for);
    }
    return hami_driver_pool_trim(&pool->base) &&
           (pool->base.charge.pages == 0 ||
            (waited_for && pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0));
}

/*
 * Has the driver destroy a locked pool, and frees its record. The driver may give the handle to a new pool before this
 * call of it returns. So it holds the lock `entering` meanwhile: a thread that enters the new pool waits.
 */
static CUresult pool_end(struct hami_stream_pool *pool) {
    CUmemoryPool handle = atomic_load(&pool->handle);
    HAMI_HOLD(&entering);
    (void)hami_map_take(&handles, hami_map_key(handle));
    atomic_store(&pool->handle, NULL);
    CUresult status = hami_call_cuMemPoolDestroy(handle);
    if (status != CUDA_SUCCESS) {
        atomic_store(&pool->handle, handle);
        (void)hami_map_put(&handles, hami_map_key(handle), hami_map_key(pool)); /* cannot fail: its place is free */
    } else {
        hami_shared_give_back(pool->base.share, &pool->base.charge);
        atomic_store(&pool->freed, false);
        pool->destroyed = false;
        pool->allocations = 0;
        pool->identity = pool->freed_at = pool->freed_async_at = 0;
    }
    return status;
}

/* Ends a locked pool that the program has destroyed, if it is empty. True: the pool is gone. */
static bool pool_end_if_over(struct hami_stream_pool *pool) {
    return pool->destroyed && pool_is_empty(pool) && pool_end(pool) == CUDA_SUCCESS;
}

/* If the pool is current, makes the default pool current, as a destroy does. False: the pool is the default pool. */
static bool pool_stop_being_current(const struct hami_stream_pool *pool, CUmemoryPool handle) {
    CUmemoryPool current = NULL, own = NULL;
    CUdevice device = pool->base.device;
    bool told = hami_call_cuDeviceGetMemPool(&current, device) == CUDA_SUCCESS &&
                hami_call_cuDeviceGetDefaultMemPool(&own, device) == CUDA_SUCCESS;
    if (told && current == handle && own != handle) {
        (void)hami_call_cuDeviceSetMemPool(device, own);
    }
    return own != handle;
}

/* The driver tells nothing about a pool that it has destroyed, so we have it destroy the pool only when it is empty. */
CUresult hami_pool_destroyed(struct hami_stream_pool *pool, CUmemoryPool handle) {
    if (pool->destroyed) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (pool_is_empty(pool) || (pool->base.device >= 0 && !pool_stop_being_current(pool, handle))) {
        return pool_end(pool);
    }
    pool->destroyed = true;
    atomic_store(&pool->freed, true);
    return CUDA_SUCCESS;
}

/* ---- pending frees ---- */

void hami_pool_note_free(struct hami_stream_pool *pool, CUstream stream) {
    CUstream none = NULL;
    stream = stream == CU_STREAM_PER_THREAD ? SEVERAL_STREAMS : stream;
    if (stream != NULL && !atomic_compare_exchange_strong(&freed_in, &none, stream) && none != stream) {
        atomic_store(&freed_in, SEVERAL_STREAMS);
    }
    pool->freed_at = atomic_fetch_add(&hami_pools_frees, 1) + 1;
    pool->freed_async_at = stream != NULL ? pool->freed_at : pool->freed_async_at;
    atomic_store(&pool->freed, true);
}

void hami_pool_allocation_freed(void *of) {
    struct hami_stream_pool *pool = of;
    HAMI_HOLD(&pool->base.busy);
    pool->allocations -= pool->allocations > 0;
    (void)hami_driver_pool_reconcile(&pool->base);
    hami_pool_note_free(pool, hami_pool_freeing);
    (void)pool_end_if_over(pool);
}

/* A new stream may get the handle. From then on, a wait for that handle proves nothing about frees before. */
void hami_pools_stream_ending(CUstream stream) {
    (void)atomic_compare_exchange_strong(&freed_in, &stream, SEVERAL_STREAMS);
}

/* True if a wait proves all earlier frees over. With several contexts none does: each has its own default streams. */
static bool wait_covers_all(CUstream waited) {
    CUstream stream = atomic_load(&freed_in);
    return stream == NULL ||
           (hami_context_only_one() && (waited == HAMI_ALL_STREAMS || (waited == stream && stream != SEVERAL_STREAMS)));
}

/* Whether the driver may give back more of a locked pool, once the work that uses the memory has ended. */
static bool pool_may_shrink(const struct hami_stream_pool *pool) {
    uint64_t held = pool->base.charge.pages << HAMI_PAGE_SHIFT;
    return pool->base.charge.device >= 0 && held > pool_attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) &&
           held > pool_attribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
}

/* Corrects a locked pool's charge, or ends the pool. True: the driver may give more back later. */
static bool pool_reconcile_or_end(struct hami_stream_pool *pool) {
    if (pool_end_if_over(pool)) {
        return false;
    }
    bool told = hami_driver_pool_reconcile(&pool->base);
    bool waited_for = pool->freed_at <= atomic_load(&hami_pools_frees_over);
    return pool->destroyed || !told || (!waited_for && pool_may_shrink(pool));
}

/* Leaves out pools that are locked: the thread that holds the lock corrects the charge itself. */
static void pools_reconcile(bool freed_only) {
    for (struct hami_stream_pool *pool = atomic_load(&all); pool != NULL; pool = pool->next) {
        if ((freed_only && !atomic_load(&pool->freed)) || !hami_driver_pool_try_lock(&pool->base)) {
            continue;
        }
        if (atomic_load(&pool->handle) != NULL) {
            atomic_store(&pool->freed, pool_reconcile_or_end(pool));
        }
        hami_spin_unlock(&pool->base.busy);
    }
}

void hami_pools_reconcile(void) {
    pools_reconcile(false);
}

void hami_pools_reconcile_freed(CUstream waited, uint64_t frees) {
    uint64_t over = atomic_load(&hami_pools_frees_over);
    while (wait_covers_all(waited) && over < frees &&
           !atomic_compare_exchange_weak(&hami_pools_frees_over, &over, frees)) {
    }
    pools_reconcile(true);
}

/* The records leak: between fork and exec a child must not call free(3), whose lock another thread may have held. */
void hami_pools_after_fork(void) {
    atomic_store(&all, NULL);
    atomic_flag_clear(&entering);
    hami_map_reset(&handles);
    atomic_store(&freed_in, NULL);
}
