/*
 * Stream-ordered allocation. A pool keeps a reserve on the device; what it hands out comes from there. What was freed
 * stays in the reserve until somebody waits for a stream, an event or a context, and the streams have come to the
 * frees.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_impl.h"
#include "driver.h"
#include "shared.h"

struct sim_pool {
    struct sim_object object;
    struct sim_pool *next; /* of this process */
    unsigned device;
    CUdevice ordinal;
    CUmemLocation location;
    pthread_mutex_t lock;
    uint64_t reserved, used, reserved_high, used_high, threshold;
    int reuse[3];
    bool shareable, imported;
    bool in_host; /* pinned there, or managed: takes no device memory */
    bool managed;
    bool destroyed;            /* by the program; ends once nothing of it is in use */
    uint64_t freed[SIM_LANES]; /* how far each lane must come until what was freed in it is free */
    int entry;                 /* in the books, once other processes may hold it as well; else -1 */
    struct sim_heap heap;
};

static struct sim_pool *all;
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned destroyed; /* of them */

/* How pools differ between drivers, and what depends on the moment: see README.md. */
static struct {
    pthread_once_t once;
    uint64_t step;   /* by which they grow */
    bool fragmented; /* what is spare serves no new allocation */
    bool kept;       /* pools that can be shared keep what they have until they are destroyed */
    bool mapped;     /* graphs' memory is in use until it is trimmed */
    unsigned end_ms; /* until the call that destroys one returns, when its handle may be another's */
} habit = {.once = PTHREAD_ONCE_INIT};

static void read_habit(void) {
    const char *step = getenv("HAMI_SIM_POOL_STEP_MIB"), *fragmented = getenv("HAMI_SIM_POOL_FRAGMENTED");
    const char *mapped = getenv("HAMI_SIM_GRAPH_MAPPED"), *kept = getenv("HAMI_SIM_POOL_SHARED_KEPT");
    uint64_t mib = step != NULL ? strtoull(step, NULL, 10) : 0;
    habit.step = (mib >= 2 && mib < 4096 ? mib : 32) << 20;
    habit.fragmented = fragmented != NULL && *fragmented == '1';
    const char *end = getenv("HAMI_SIM_POOL_END_MS");
    habit.end_ms = end != NULL ? (unsigned)strtoul(end, NULL, 10) % 1000 : 0;
    habit.kept = kept != NULL && *kept == '1';
    habit.mapped = mapped != NULL && *mapped == '1';
}

static bool grow(const struct sim_pool *pool, uint64_t bytes) {
    return pool->in_host      ? true
           : pool->entry >= 0 ? sim_share_grow((unsigned)pool->entry, bytes)
                              : sim_charge(pool->device, bytes);
}

static void shrink(const struct sim_pool *pool, uint64_t bytes) {
    if (pool->in_host) {
        return;
    }
    if (pool->entry >= 0) {
        sim_share_shrink((unsigned)pool->entry, bytes);
    } else {
        sim_discharge(pool->device, bytes);
    }
}

bool sim_pool_take(struct sim_pool *pool, uint64_t bytes) {
    pthread_once(&habit.once, read_habit);
    pthread_mutex_lock(&pool->lock);
    uint64_t spare = habit.fragmented ? 0 : pool->reserved - pool->used;
    uint64_t more = spare >= bytes ? 0 : sim_round_up(bytes - spare, habit.step);
    bool fits = more == 0 || grow(pool, more);
    if (!fits) { /* less than a step is left */
        more = bytes - spare;
        fits = grow(pool, more);
    }
    if (fits) {
        pool->reserved += more;
        pool->used += bytes;
        pool->reserved_high = pool->reserved > pool->reserved_high ? pool->reserved : pool->reserved_high;
        pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    }
    pthread_mutex_unlock(&pool->lock);
    return fits;
}

/* Whole steps are given back, and nothing as long as some free lies before its stream. */
static void trim_locked(struct sim_pool *pool, uint64_t keep) {
    pthread_once(&habit.once, read_habit);
    if (!sim_lanes_reached(pool->device, pool->freed) || (habit.kept && pool->shareable)) {
        return;
    }
    uint64_t target = pool->used > keep ? pool->used : keep;
    if (pool->reserved > target) {
        uint64_t left = pool->reserved - target;
        target = pool->reserved - left / habit.step * habit.step;
    }
    if (pool->reserved > target) {
        shrink(pool, pool->reserved - target);
        pool->reserved = target;
    }
}

void sim_pool_return(struct sim_pool *pool, uint64_t bytes) {
    pthread_mutex_lock(&pool->lock);
    pool->used -= bytes;
    pthread_mutex_unlock(&pool->lock);
}

struct sim_heap *sim_pool_heap(struct sim_pool *pool) {
    return &pool->heap;
}

static struct sim_pool *pool_new(CUdevice ordinal) {
    struct sim_pool *pool = sim_object_new(SIM_TAG_POOL, sizeof *pool);
    if (pool != NULL) {
        pool->ordinal = ordinal;
        pool->device = sim_driver.gpus[ordinal].index;
        pool->location = (CUmemLocation){CU_MEM_LOCATION_DEVICE, ordinal};
        pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
        pool->entry = -1;
        pthread_mutex_init(&pool->lock, NULL);
        sim_heap_init(&pool->heap, NULL, pool->device, pool);
        pthread_mutex_lock(&all_lock);
        pool->next = all;
        all = pool;
        pthread_mutex_unlock(&all_lock);
    }
    return pool;
}

static bool forget_if_pooled(struct sim_span *span, void *pool) {
    if (span->pool == pool) {
        if (span->kind == SIM_KIND_BLOCK) {
            sim_block_forget(span->block);
        }
        sim_span_delete(span);
    }
    return true;
}

/* A destroyed pool stays until all of it is free. With the list's lock; false: it is still there. */
static bool end_if_free(struct sim_pool **at) {
    struct sim_pool *pool = *at;
    pthread_mutex_lock(&pool->lock);
    bool over = pool->destroyed && pool->used == 0 && sim_lanes_reached(pool->device, pool->freed);
    if (over && pool->entry >= 0) { /* what others have imported stays for as long as they do */
        sim_share_drop((unsigned)pool->entry);
    } else if (over) {
        shrink(pool, pool->reserved);
    }
    pthread_mutex_unlock(&pool->lock);
    if (over) {
        *at = pool->next;
        sim_span_each(forget_if_pooled, pool);
        sim_object_delete(pool);
        atomic_fetch_sub(&destroyed, 1);
    }
    return over;
}

void sim_pools_end_free(void) {
    if (atomic_load(&destroyed) == 0) {
        return;
    }
    pthread_mutex_lock(&all_lock);
    for (struct sim_pool **at = &all; *at != NULL;) {
        if (!end_if_free(at)) {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&all_lock);
}

static void pool_delete(struct sim_pool *pool) {
    atomic_store(&pool->object.tag, SIM_TAG_FREE); /* no handle any more */
    pthread_mutex_lock(&pool->lock);
    pool->destroyed = true;
    pthread_mutex_unlock(&pool->lock);
    atomic_fetch_add(&destroyed, 1);
    sim_pools_end_free();
}

void sim_pools_synchronised(void) {
    pthread_mutex_lock(&all_lock);
    for (struct sim_pool *pool = all; pool != NULL; pool = pool->next) {
        pthread_mutex_lock(&pool->lock);
        if (!pool->destroyed) {
            trim_locked(pool, pool->threshold);
        }
        pthread_mutex_unlock(&pool->lock);
    }
    pthread_mutex_unlock(&all_lock);
    sim_pools_end_free();
}

static struct sim_pool *default_pool(CUdevice ordinal) {
    struct sim_gpu *gpu = &sim_driver.gpus[ordinal];
    pthread_mutex_lock(&gpu->lock);
    if (gpu->default_pool == NULL) {
        gpu->default_pool = pool_new(ordinal);
        gpu->current_pool = gpu->current_pool != NULL ? gpu->current_pool : gpu->default_pool;
    }
    struct sim_pool *pool = gpu->default_pool;
    pthread_mutex_unlock(&gpu->lock);
    return pool;
}

struct sim_pool *sim_graph_pool(CUdevice ordinal) {
    struct sim_gpu *gpu = &sim_driver.gpus[ordinal];
    pthread_mutex_lock(&gpu->lock);
    if (gpu->graph_pool == NULL) {
        gpu->graph_pool = pool_new(ordinal);
        if (gpu->graph_pool != NULL) {
            gpu->graph_pool->threshold = UINT64_MAX;
        }
    }
    struct sim_pool *pool = gpu->graph_pool;
    pthread_mutex_unlock(&gpu->lock);
    return pool;
}

static CUresult allocate(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream,
                         struct sim_context *context) {
    struct sim_stream *stream = sim_stream_of(hStream, context);
    if (dptr == NULL || !sim_is(pool, SIM_TAG_POOL) || pool->imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (bytesize == 0) {
        *dptr = 0;
        return sim_capturing(stream) ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    }
    if (sim_capturing(stream)) {
        struct sim_work work;
        CUresult error = sim_graph_allocate(pool->ordinal, bytesize, context, &work);
        *dptr = error == CUDA_SUCCESS ? work.target : 0;
        return error == CUDA_SUCCESS ? sim_capture(stream, &work) : error;
    }
    return sim_allocate(&pool->heap, bytesize, dptr);
}

CUresult sim_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    struct sim_gpu *gpu = &sim_driver.gpus[context->ordinal];
    (void)default_pool(context->ordinal);
    return allocate(dptr, bytesize, gpu->current_pool, hStream, context);
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    return context == NULL ? error : allocate(dptr, bytesize, pool, hStream, context);
}

/* What is freed in a stream stays where it is until the stream has come so far. */
static void note_freed(CUdeviceptr address, const struct sim_stream *stream) {
    struct sim_span *span = sim_span_at(address);
    struct sim_pool *pool = span != NULL ? span->pool : NULL;
    if (pool != NULL && pool->device == stream->context->device) {
        uint64_t filled = sim_stream_filled(stream);
        pthread_mutex_lock(&pool->lock);
        pool->freed[stream->lane] = filled;
        pthread_mutex_unlock(&pool->lock);
    }
}

CUresult sim_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    struct sim_stream *stream = sim_stream_of(hStream, context);
    if (stream == NULL) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (dptr != 0 && sim_capturing(stream)) {
        struct sim_work work = {.type = SIM_WORK_FREE, .target = dptr};
        return sim_capture(stream, &work);
    }
    note_freed(dptr, stream);
    error = dptr == 0 ? CUDA_SUCCESS : sim_release(dptr);
    sim_pools_end_free();
    return error;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
    if (sim_ready() != CUDA_SUCCESS || pool_out == NULL || sim_gpu_of(dev) == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready()
               : pool_out == NULL          ? CUDA_ERROR_INVALID_VALUE
                                           : CUDA_ERROR_INVALID_DEVICE;
    }
    *pool_out = default_pool(dev);
    return *pool_out != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
    CUresult error = sim_cuDeviceGetDefaultMemPool(pool, dev);
    if (error == CUDA_SUCCESS) {
        *pool = sim_driver.gpus[dev].current_pool;
    }
    return error;
}

CUresult sim_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (sim_gpu_of(dev) == NULL || !sim_is(pool, SIM_TAG_POOL) || pool->ordinal != dev) {
        return sim_gpu_of(dev) == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    (void)default_pool(dev);
    sim_driver.gpus[dev].current_pool = pool;
    return CUDA_SUCCESS;
}

/* Where a pool may be: managed ones anywhere, pinned ones on a device or in the host. */
static CUresult check_place(const CUmemLocation *location, int type) {
    bool managed = type == CU_MEM_ALLOCATION_MANAGED;
    if ((!managed && type != CU_MEM_ALLOCATION_PINNED) || location->type < CU_MEM_LOCATION_NONE ||
        location->type > CU_MEM_LOCATION_HOST_NUMA_CURRENT || (!managed && location->type == CU_MEM_LOCATION_NONE)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool known = location->type != CU_MEM_LOCATION_DEVICE || sim_gpu_of(location->id) != NULL;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static struct sim_pool *pool_at(const CUmemLocation *location, int type) {
    bool on_device = location->type == CU_MEM_LOCATION_DEVICE;
    struct sim_pool *pool = pool_new(on_device ? location->id : 0);
    if (pool != NULL) {
        pool->location = *location;
        pool->managed = type == CU_MEM_ALLOCATION_MANAGED;
        pool->in_host = pool->managed || !on_device;
    }
    return pool;
}

/* Default pools that are no device's own: pinned in the host, and managed with each preference. */
static struct sim_pool **other_default(const CUmemLocation *location, int type) {
    static struct sim_pool *pinned, *managed[SIM_MAX_CARDS + 1];
    bool on_device = location->type == CU_MEM_LOCATION_DEVICE;
    return type == CU_MEM_ALLOCATION_PINNED ? &pinned : &managed[on_device ? (unsigned)location->id : SIM_MAX_CARDS];
}

static bool is_default(struct sim_pool *pool) {
    int type = pool->managed ? CU_MEM_ALLOCATION_MANAGED : CU_MEM_ALLOCATION_PINNED;
    return pool == sim_driver.gpus[pool->ordinal].default_pool || pool == *other_default(&pool->location, type);
}

static CUresult own_pool(CUmemoryPool *pool, const CUmemLocation *location, int type) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    struct sim_pool **at = other_default(location, type);
    *at = *at != NULL ? *at : pool_at(location, type);
    *pool = *at;
    pthread_mutex_unlock(&lock);
    return *pool != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult pool_for(CUmemoryPool *pool, CUmemLocation *location, int type, bool current) {
    if (sim_ready() != CUDA_SUCCESS || pool == NULL || location == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    CUresult error = check_place(location, type);
    if (error != CUDA_SUCCESS) {
        return error;
    }
    if (type == CU_MEM_ALLOCATION_PINNED && location->type == CU_MEM_LOCATION_DEVICE) {
        return current ? sim_cuDeviceGetMemPool(pool, location->id) : sim_cuDeviceGetDefaultMemPool(pool, location->id);
    }
    return own_pool(pool, location, type);
}

CUresult sim_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, int type) {
    return pool_for(pool_out, location, type, false);
}

CUresult sim_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, int type) {
    return pool_for(pool, location, type, true);
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (pool == NULL || poolProps == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult error = check_place(&poolProps->location, poolProps->allocType);
    if (error != CUDA_SUCCESS) {
        return error;
    }
    *pool = pool_at(&poolProps->location, poolProps->allocType);
    if (*pool != NULL) {
        (*pool)->shareable = !(*pool)->in_host && (poolProps->handleTypes & POSIX_DESCRIPTOR) != 0;
    }
    return *pool != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sim_cuMemPoolDestroy(CUmemoryPool pool) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(pool, SIM_TAG_POOL) || is_default(pool)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_gpu *gpu = &sim_driver.gpus[pool->ordinal];
    if (gpu->current_pool == pool) {
        gpu->current_pool = gpu->default_pool;
    }
    pool_delete(pool);
    pthread_once(&habit.once, read_habit);
    if (habit.end_ms != 0) {
        nanosleep(&(struct timespec){0, habit.end_ms * 1000000L}, NULL);
    }
    return CUDA_SUCCESS;
}

/* ---- shared with other processes ---- */

CUresult sim_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool, int handleType,
                                              unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (handle_out == NULL || !sim_is(pool, SIM_TAG_POOL) || flags != 0 || !pool->shareable || pool->imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (handleType != POSIX_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sim_parcel parcel = {.device = pool->device};
    pthread_mutex_lock(&pool->lock);
    pool->entry = pool->entry < 0 ? sim_share(pool->device, pool->reserved) : pool->entry;
    int fd = pool->entry < 0 ? -1 : sim_share_send((unsigned)pool->entry, &parcel);
    pthread_mutex_unlock(&pool->lock);
    if (fd >= 0) {
        memcpy(handle_out, &fd, sizeof fd);
    }
    return fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle, int handleType,
                                                unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS || pool_out == NULL || flags != 0) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    if (handleType != POSIX_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sim_parcel parcel;
    int entry = sim_share_receive((int)(intptr_t)handle, &parcel);
    if (entry < 0 || parcel.size != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUdevice ordinal = sim_ordinal_of(parcel.device);
    struct sim_pool *pool = ordinal < 0 ? NULL : pool_new(ordinal);
    if (pool == NULL) {
        return ordinal < 0 ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!sim_share_hold((unsigned)entry, parcel.generation)) {
        pool_delete(pool);
        return CUDA_ERROR_INVALID_VALUE;
    }
    pool->entry = entry;
    pool->imported = true;
    *pool_out = pool;
    return CUDA_SUCCESS;
}

/* What stands in CUmemPoolPtrExportData. */
struct ticket {
    uint64_t size;
    int entry;
};

CUresult sim_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr) {
    CUresult error = CUDA_SUCCESS;
    struct sim_allocation found;
    if (sim_current(&error) == NULL) {
        return error;
    }
    bool known = shareData_out != NULL && sim_find(ptr, &found) && found.pool != NULL && found.pool->entry >= 0;
    if (!known || found.pool->imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct ticket ticket = {found.size, found.pool->entry};
    memset(shareData_out, 0, sizeof *shareData_out);
    memcpy(shareData_out, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData *shareData) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    struct ticket ticket;
    if (context == NULL) {
        return error;
    }
    if (ptr_out == NULL || shareData == NULL || !sim_is(pool, SIM_TAG_POOL) || !pool->imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&ticket, shareData, sizeof ticket);
    if (ticket.entry != pool->entry || ticket.size == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_DEVICE, ticket.size, 0);
    if (span == NULL) {
        return CUDA_ERROR_MAP_FAILED;
    }
    span->device = pool->device;
    span->context = context;
    span->pool = pool;
    *ptr_out = span->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
    if (sim_ready() != CUDA_SUCCESS || !sim_is(pool, SIM_TAG_POOL)) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&pool->lock);
    trim_locked(pool, minBytesToKeep);
    pthread_mutex_unlock(&pool->lock);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, int attr, void *value) {
    if (sim_ready() != CUDA_SUCCESS || !sim_is(pool, SIM_TAG_POOL) || value == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    if (attr >= 1 && attr <= 3) {
        memcpy(value, &pool->reuse[attr - 1], sizeof(int));
        return CUDA_SUCCESS;
    }
    pthread_mutex_lock(&pool->lock);
    const uint64_t numbers[] = {pool->threshold, pool->reserved, pool->reserved_high, pool->used, pool->used_high};
    pthread_mutex_unlock(&pool->lock);
    if (attr < 4 || attr > 8) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(value, &numbers[attr - 4], sizeof numbers[0]);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, int attr, void *value) {
    if (sim_ready() != CUDA_SUCCESS || !sim_is(pool, SIM_TAG_POOL) || value == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    if (attr >= 1 && attr <= 3) {
        memcpy(&pool->reuse[attr - 1], value, sizeof(int));
        return CUDA_SUCCESS;
    }
    uint64_t number = 0;
    memcpy(&number, value, sizeof number);
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&pool->lock);
    if (attr == 4) {
        pool->threshold = number;
    } else if (attr == 6 && number == 0) {
        pool->reserved_high = pool->reserved;
    } else if (attr == 8 && number == 0) {
        pool->used_high = pool->used;
    } else {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&pool->lock);
    return error;
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    return sim_is(pool, SIM_TAG_POOL) && (map != NULL || count == 0) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPoolGetAccess(int *flags, CUmemoryPool memPool, CUmemLocation *location) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(memPool, SIM_TAG_POOL) || flags == NULL || location == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = location->type == CU_MEM_LOCATION_DEVICE && location->id == memPool->ordinal ? 3 : 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGraphMemTrim(CUdevice device) {
    if (sim_ready() != CUDA_SUCCESS || sim_gpu_of(device) == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_DEVICE;
    }
    struct sim_pool *pool = sim_graph_pool(device);
    return pool == NULL ? CUDA_ERROR_OUT_OF_MEMORY : sim_cuMemPoolTrimTo(pool, 0);
}

/* Attributes 0 to 3: used now and at most, reserved now and at most. */
CUresult sim_cuDeviceGetGraphMemAttribute(CUdevice device, int attr, void *value) {
    if (sim_ready() != CUDA_SUCCESS || sim_gpu_of(device) == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_DEVICE;
    }
    static const int pool_attribute[] = {7, 8, 5, 6};
    struct sim_pool *pool = sim_graph_pool(device);
    if (value == NULL || attr < 0 || attr > 3 || pool == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_once(&habit.once, read_habit);
    return sim_cuMemPoolGetAttribute(pool, pool_attribute[habit.mapped ? attr | 2 : attr], value);
}
