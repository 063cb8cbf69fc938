/*
 * Policies of stream-ordered memory: allocations, frees, and the making, ending and sharing of pools (stream_pool.h).
 * An allocation takes three steps, with the pool locked: reserve what the pool may grow by; call the driver; bring the
 * charge in step with what the pool has then. What is too much is undone.
 */
#include "memory/contexts.h"
#include "memory/identity.h"
#include "memory/records.h"
#include "memory/stream_pool.h"
#include "policies.h"

/* ---- allocation ---- */

struct request {
    enum hami_hook hook;
    CUdeviceptr *address;
    uint64_t bytes;
    CUmemoryPool pool;
    CUstream stream;
    bool from_pool; /* `pool` is named; else it is the stream's device's current one */
};

/* Whether stream NULL is the calling thread's own. */
static bool hook_is_per_thread(enum hami_hook hook) {
    return hook == HAMI_cuMemAllocAsync_ptsz || hook == HAMI_cuMemAllocFromPoolAsync_ptsz ||
           hook == HAMI_cuMemFreeAsync_ptsz;
}

/* A stream by a name that tells the two default streams apart. */
static CUstream stream_named(CUstream stream, enum hami_hook hook) {
    return stream != NULL ? stream : hook_is_per_thread(hook) ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

/* Inside a capture nothing is taken now; the graph's memory node is. The legacy default stream is never captured. */
static bool stream_is_captured(CUstream stream, enum hami_hook hook) {
    int status = 0;
    CUstream asked = stream_named(stream, hook);
    return (stream != NULL || asked != CU_STREAM_LEGACY) &&
           hami_call_cuStreamIsCapturing(asked, &status) == CUDA_SUCCESS && status != 0;
}

/* Device of a stream: its context's; the default streams are the current context's. */
static bool stream_device(CUstream stream, CUdevice *device) {
    struct hami_context current;
    bool known = hami_context_current(&current), named = (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD;
    *device = current.device;
    return (named && hami_call_cuStreamGetDevice(stream, device) == CUDA_SUCCESS) || known;
}

static CUresult request_call(const struct request *r) {
    return r->from_pool ? hami_call_mem_alloc_from_pool(r->hook, r->address, r->bytes, r->pool, r->stream)
                        : hami_call_mem_alloc_async(r->hook, r->address, r->bytes, r->stream);
}

/* Frees what the driver has given, in the order of its stream: it may count until that was waited for. */
static void request_undo(const struct request *r, struct hami_stream_pool *pool, CUdeviceptr before) {
    (void)(hook_is_per_thread(r->hook) ? hami_call_cuMemFreeAsync_ptsz(*r->address, r->stream)
                                       : hami_call_cuMemFreeAsync(*r->address, r->stream));
    *r->address = before;
    (void)hami_driver_pool_trim(&pool->base);
    hami_pool_note_free(pool, stream_named(r->stream, r->hook));
}

/*
 * Reserves first the most that the pool may grow by, since settling corrects it; and only where that does not fit, what
 * it has to grow by.
 */
static bool request_reserve(const struct request *r, struct hami_driver_pool *pool) {
    return hami_charge_try(&pool->charge, hami_large(r->bytes)) || hami_driver_pool_reserve(pool, &r->bytes);
}

/* Charges what a pool has grown by beyond its reserve. False: that is too much. */
static bool request_fits(struct hami_driver_pool *pool, bool last) {
    bool told = true;
    uint64_t pages = pool->charge.device < 0 ? 0 : hami_driver_pool_pages(pool, &told);
    if (pages <= pool->charge.pages) {
        return true;
    }
    uint64_t bytes = hami_driver_pool_tell_size(pool, pages) ? 0 : (pages - pool->charge.pages) << HAMI_PAGE_SHIFT;
    if (last) {
        return hami_charge_grow(&pool->charge, bytes);
    }
    return bytes == 0 ? hami_charge_within(&pool->charge) : hami_charge_try(&pool->charge, bytes);
}

/*
 * A pool may grow although it has enough to spare, or in larger steps than asked; only the driver knows by how much.
 * Without what the pool had to spare, which undoing gives back, there may be room: so it is tried twice.
 */
static CUresult request_take(const struct request *r, struct hami_stream_pool *pool) {
    CUdeviceptr before = *r->address;
    for (bool last = false;; last = true) {
        CUresult status = request_call(r);
        if (status != CUDA_SUCCESS) {
            return status;
        }
        bool fits = request_fits(&pool->base, last);
        if (fits && hami_record_pool(*r->address, pool)) {
            pool->allocations++;
            return CUDA_SUCCESS;
        }
        request_undo(r, pool, before);
        if (fits || last || !hami_charge_grow(&pool->base.charge, hami_large(r->bytes))) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        (void)hami_driver_pool_tell_size(&pool->base, pool->base.charge.pages);
    }
}

/* Of a locked pool. */
static CUresult request_allocate(const struct request *r, struct hami_stream_pool *pool, CUdevice device) {
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    if (pool->destroyed) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (pool->base.device == HAMI_POOL_ANYWHERE) {
        pool->base.device = device;
    }
    if (request_reserve(r, &pool->base)) {
        (void)hami_driver_pool_tell_size(&pool->base, pool->base.charge.pages);
        status = request_take(r, pool);
    }
    (void)hami_driver_pool_reconcile(&pool->base);
    return status;
}

/* Device of a pool that was not made here: it is some device's own, or was imported. */
static CUdevice pool_place(CUmemoryPool handle, CUdevice otherwise) {
    int count = 0;
    if (hami_call_cuDeviceGetCount(&count) != CUDA_SUCCESS) {
        return otherwise;
    }
    for (CUdevice device = 0; device < count; device++) {
        CUmemoryPool own = NULL;
        if (hami_call_cuDeviceGetDefaultMemPool(&own, device) == CUDA_SUCCESS && own == handle) {
            return device;
        }
    }
    return otherwise;
}

/* Where another thread destroys the pool meanwhile, and the driver gives its handle to another, that is looked up. */
static CUresult request_allocate_in(const struct request *r, CUmemoryPool handle, CUdevice device) {
    for (;;) {
        struct hami_stream_pool *pool = hami_pool_known(handle);
        pool = pool != NULL ? pool : hami_pool_enter(handle, pool_place(handle, device));
        if (pool == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (pool->base.device == HAMI_POOL_IN_HOST) {
            return request_call(r);
        }
        pool = hami_pool_known_locked(handle);
        if (pool != NULL) {
            CUresult status = request_allocate(r, pool, device);
            hami_spin_unlock(&pool->base.busy);
            return status;
        }
    }
}

int32_t hami_mem_alloc_async(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, CUstream stream) {
    struct request r = {hook, address, bytes, NULL, stream, false};
    CUmemoryPool handle = NULL;
    CUdevice device = 0;
    if (address == NULL || bytes == 0 || stream_is_captured(stream, hook) || !stream_device(stream, &device) ||
        hami_call_cuDeviceGetMemPool(&handle, device) != CUDA_SUCCESS) {
        return request_call(&r);
    }
    return request_allocate_in(&r, handle, device);
}

int32_t hami_mem_alloc_from_pool(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, CUmemoryPool handle,
                                 CUstream stream) {
    struct request r = {hook, address, bytes, handle, stream, true};
    CUdevice device = 0;
    if (address == NULL || bytes == 0 || handle == NULL || stream_is_captured(stream, hook) ||
        !stream_device(stream, &device)) {
        return request_call(&r);
    }
    return request_allocate_in(&r, handle, device);
}

int32_t hami_mem_free_async(enum hami_hook hook, CUdeviceptr address, CUstream stream) {
    if (stream_is_captured(stream, hook)) {
        return hami_call_mem_free_async(hook, address, stream);
    }
    uint64_t record = hami_record_take(address);
    CUresult status = hami_call_mem_free_async(hook, address, stream);
    hami_pool_freeing = stream_named(stream, hook);
    (void)hami_record_freed(address, record, status);
    hami_pool_freeing = NULL;
    return status;
}

/* ---- pools ---- */

/* Managed memory may come to lie on a device whole, wherever it prefers to be: it counts as cuMemAllocManaged's does.
 */
static CUdevice pool_place_named(const struct hami_mem_location *location, int32_t type) {
    return location->type == CU_MEM_LOCATION_TYPE_DEVICE ? location->id
           : type == CU_MEM_ALLOCATION_TYPE_MANAGED      ? HAMI_POOL_ANYWHERE
                                                         : HAMI_POOL_IN_HOST;
}

int32_t hami_pool_create(enum hami_hook hook, CUmemoryPool *handle, const struct hami_allocation_prop *props) {
    CUresult status = hami_call_pool_create(hook, handle, props);
    if (status == CUDA_SUCCESS && hami_pool_enter(*handle, pool_place_named(&props->location, props->type)) == NULL) {
        (void)hami_call_cuMemPoolDestroy(*handle);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

int32_t hami_pool_get(enum hami_hook hook, CUmemoryPool *handle, const struct hami_mem_location *location,
                      int32_t type) {
    CUresult status = hami_call_pool_get(hook, handle, location, type);
    if (status == CUDA_SUCCESS) {
        (void)hami_pool_enter(*handle, pool_place_named(location, type));
    }
    return status;
}

int32_t hami_pool_destroy(enum hami_hook hook, CUmemoryPool handle) {
    struct hami_stream_pool *pool = hami_pool_known_locked(handle);
    if (pool == NULL) {
        return hami_call_pool_destroy(hook, handle);
    }
    CUresult status = hami_pool_destroyed(pool, handle);
    hami_spin_unlock(&pool->base.busy);
    return status;
}

int32_t hami_pool_trim(enum hami_hook hook, CUmemoryPool handle, uint64_t keep) {
    CUresult status = hami_call_pool_trim(hook, handle, keep);
    struct hami_stream_pool *pool = hami_pool_known_locked(handle);
    if (pool != NULL) {
        (void)hami_driver_pool_reconcile(&pool->base);
        hami_spin_unlock(&pool->base.busy);
    }
    return status;
}

/* ---- shared with other processes ---- */

/* From its first export on, a locked pool is a share of the size that it has. */
static void pool_share(struct hami_stream_pool *pool, const void *shareable, int32_t type) {
    struct hami_driver_pool *base = &pool->base;
    if (base->charge.device < 0) { /* nothing is in it yet */
        (void)hami_charge_take(base->device, 0, HAMI_COLUMN_DATA, &base->charge);
    }
    pool->identity = pool->identity == 0 ? hami_identity_of_export(shareable, type) : pool->identity;
    base->share = base->share < 0 ? hami_shared_export(pool->identity, &base->charge) : base->share;
    hami_identity_put_on_export(shareable, type, pool->identity);
    (void)hami_driver_pool_reconcile(base);
}

int32_t hami_pool_export(enum hami_hook hook, void *shareable, CUmemoryPool handle, int32_t type, uint64_t flags) {
    CUresult status = hami_call_pool_export(hook, shareable, handle, type, flags);
    struct hami_stream_pool *pool = status == CUDA_SUCCESS ? hami_pool_known_locked(handle) : NULL;
    if (pool != NULL) {
        if (pool->base.device >= 0) {
            pool_share(pool, shareable, type);
        }
        hami_spin_unlock(&pool->base.busy);
    }
    return status;
}

/* Holds the share of a pool. Where there is no room for it, or in the table, it is not to be had. */
static CUresult pool_import(CUmemoryPool handle, uint64_t identity) {
    hami_share share = -1;
    bool fits = hami_shared_take_up(identity, 0, &share);
    struct hami_stream_pool *pool = fits ? hami_pool_enter(handle, HAMI_POOL_UNKNOWN) : NULL;
    if (pool != NULL) {
        pool->base.share = share;
        return CUDA_SUCCESS;
    }
    if (share >= 0) {
        hami_shared_close(share);
    }
    (void)hami_call_cuMemPoolDestroy(handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/*
 * The driver does not say how much memory an imported pool has reserved. If no process of the container made the pool,
 * its imported pointers are counted instead. The identity is read first: the driver may close the descriptor.
 */
int32_t hami_pool_import(enum hami_hook hook, CUmemoryPool *handle, void *shareable, int32_t type, uint64_t flags) {
    bool bytes = type == CU_MEM_HANDLE_TYPE_FABRIC;
    uint64_t identity = bytes ? 0 : hami_identity_of_import(shareable, type);
    CUresult status = hami_call_pool_import(hook, handle, shareable, type, flags);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    return pool_import(*handle, bytes ? hami_identity_of_import(shareable, type) : identity);
}

/* The pool is there until the last of its pointers is freed. */
int32_t hami_pool_import_pointer(enum hami_hook hook, CUdeviceptr *address, CUmemoryPool handle, const void *data) {
    struct hami_stream_pool *pool = hami_pool_known_locked(handle);
    CUresult status = hami_call_pool_import_pointer(hook, address, handle, data);
    if (pool != NULL) {
        pool->allocations += status == CUDA_SUCCESS && hami_record_pool(*address, pool);
        hami_spin_unlock(&pool->base.busy);
    }
    return status;
}
