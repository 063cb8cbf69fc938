/*
 * Policies of stream-ordered memory: allocations, frees, and making, ending and sharing pools (stream_pool.h). An
 * allocation takes three steps, with the pool locked: charge what the pool may grow by; call the driver; set the charge
 * to what the driver has reserved then. If the pool grew beyond the limit, the allocation is freed again.
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
    bool from_pool; /* false: the driver takes the current pool of the stream's device */
};

/* During a capture the call makes a node of the graph and takes no memory. The legacy stream is never captured. */
static bool stream_is_captured(CUstream stream, enum hami_hook hook) {
    int status = 0;
    CUstream asked = hami_stream_named(stream, hami_hooks[hook].per_thread);
    return (stream != NULL || asked != CU_STREAM_LEGACY) &&
           hami_call_cuStreamIsCapturing(asked, &status) == CUDA_SUCCESS && status != 0;
}

/* The device of a stream's context. A default stream belongs to the current context. False: no context is current. */
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

/* Frees what the driver has just allocated. The memory may be charged until the program waits for the stream. */
static void request_undo(const struct request *r, struct hami_stream_pool *pool, CUdeviceptr before) {
    (void)(hami_hooks[r->hook].per_thread ? hami_call_cuMemFreeAsync_ptsz(*r->address, r->stream)
                                          : hami_call_cuMemFreeAsync(*r->address, r->stream));
    *r->address = before;
    (void)hami_driver_pool_trim(&pool->base);
    hami_pool_note_free(pool, hami_stream_named(r->stream, hami_hooks[r->hook].per_thread));
}

/*
 * First tries to charge the full size of the allocation, without asking the driver what the pool has spare. The charge
 * is corrected after the allocation. If the full size does not fit, charges only what the pool lacks.
 */
static bool request_reserve(const struct request *r, struct hami_driver_pool *pool) {
    return hami_charge_try(&pool->charge, hami_large(r->bytes)) || hami_driver_pool_reserve(pool, &r->bytes);
}

/* Charges what the pool has grown by beyond its charge. False: it does not fit; if `last`, the refusal is counted. */
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
 * A pool may grow although it has spare memory, or by more than was asked; only the driver knows by how much. If the
 * growth does not fit, frees the allocation and trims the pool. Then there may be room, so tries once more.
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

/* The device of a pool that we did not see made: the device whose default pool it is, or else `otherwise`. */
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

/* If another thread destroys the pool meanwhile, looks the handle up again: it may belong to a new pool by now. */
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
    hami_pool_freeing = hami_stream_named(stream, hami_hooks[hook].per_thread);
    (void)hami_record_freed(address, record, status);
    hami_pool_freeing = NULL;
    return status;
}

/* ---- pools ---- */

/* The device to charge. A managed pool, wherever it is, may move to a device: charged as cuMemAllocManaged is. */
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

/* Makes a locked pool a share (shared.h) at its first export. */
static void pool_share(struct hami_stream_pool *pool, const void *shareable, int32_t type) {
    struct hami_driver_pool *base = &pool->base;
    if (base->charge.device < 0) { /* no allocation has charged it yet */
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

/* Holds the share of an imported pool. Refuses if the share does not fit, or if memory for the record runs out. */
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
 * The driver does not tell how much memory an imported pool has reserved. If a process of the container exported it,
 * the pool's share has the size. The identity of a file descriptor is read before the call, which may close it.
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

/* An imported pointer counts as an allocation: its pool stays until the pointer is freed. */
int32_t hami_pool_import_pointer(enum hami_hook hook, CUdeviceptr *address, CUmemoryPool handle, const void *data) {
    struct hami_stream_pool *pool = hami_pool_known_locked(handle);
    CUresult status = hami_call_pool_import_pointer(hook, address, handle, data);
    if (pool != NULL) {
        pool->allocations += status == CUDA_SUCCESS && hami_record_pool(*address, pool);
        hami_spin_unlock(&pool->base.busy);
    }
    return status;
}
