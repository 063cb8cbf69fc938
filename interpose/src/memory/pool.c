/* Stream-ordered allocation; see pool.h. */
#include "memory/pool.h"

#include "doors/hook.h"
#include "memory/account.h"
#include "memory/context.h"
#include "memory/identity.h"
#include "memory/map.h"
#include "memory/shared.h"
#include "policies.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_POOLS = 256, CHUNKS = 4096, ANYWHERE = -3, IN_HOST = -2, UNKNOWN = -1 };
enum { MANAGED = 2 };                                         /* CUmemAllocationType */
enum { POSIX_DESCRIPTOR = 1, FABRIC = 8, FABRIC_BYTES = 64 }; /* CUmemAllocationHandleType */

/* Frees were in several streams, or in one that has no name of its own: a thread's own default stream. */
#define SEVERAL_STREAMS ((CUstream)(uintptr_t)-1)

struct pool {
    _Atomic(CUmemoryPool) handle; /* NULL: the place is free */
    _Atomic bool freed;           /* the driver may still have something that was freed: waits look at the pool */
    atomic_flag busy;
    unsigned index;          /* of the place */
    uint64_t freed_at;       /* number of the last free, in hami_pools_frees */
    uint64_t freed_async_at; /* number of the last free in a stream */
    bool destroyed;          /* by the program; the driver's pool is there until nothing is left in it */
    /* Or IN_HOST; UNKNOWN of an imported one; ANYWHERE until a managed one is first used. Read without the lock too. */
    _Atomic CUdevice device;
    unsigned allocations;
    struct hami_charge charge;
    uint64_t identity; /* by which its importers know it; 0: it was not exported */
    hami_share share;  /* with other processes; of an imported pool too */
    struct pool *next_free;
};

/* The table grows by a chunk at a time and pools never move: the record of an allocation holds its pool's index. */
static struct pool *_Atomic chunks[CHUNKS];
static _Atomic unsigned pool_count;
static struct pool *free_places; /* like the next two, under the lock `entering` */
static struct hami_map handles;  /* handle → pool; read without the lock */
static atomic_flag entering = ATOMIC_FLAG_INIT;
static _Thread_local CUstream freeing; /* in which this thread is just freeing something */
static _Atomic(CUstream) freed_in;     /* the stream of all frees so far; NULL: none; or SEVERAL_STREAMS */

_Atomic uint64_t hami_pools_frees;
_Atomic uint64_t hami_pools_frees_over;

/* ---- the table ---- */

static struct pool *pool_at(unsigned index) {
    return &atomic_load_explicit(&chunks[index / CHUNK_POOLS], memory_order_acquire)[index % CHUNK_POOLS];
}

static void lock(struct pool *pool) {
    hami_spin_lock(&pool->busy);
}

static bool pool_try_lock(struct pool *pool) {
    return !atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire);
}

static void unlock(struct pool *pool) {
    hami_spin_unlock(&pool->busy);
}

static struct pool *known(CUmemoryPool handle) {
    return handle == NULL ? NULL : (struct pool *)(uintptr_t)hami_map_get(&handles, (uint64_t)(uintptr_t)handle);
}

/* The same, locked: another pool may have been given the handle while this one was waited for. */
static struct pool *known_locked(CUmemoryPool handle) {
    for (struct pool *pool = known(handle); pool != NULL; pool = known(handle)) {
        lock(pool);
        if (atomic_load(&pool->handle) == handle) {
            return pool;
        }
        unlock(pool);
    }
    return NULL;
}

/* A free place, with the lock `entering`. NULL: this process's own memory is full. */
static struct pool *pool_place(void) {
    struct pool *pool = free_places;
    unsigned index = atomic_load(&pool_count), chunk = index / CHUNK_POOLS;
    if (pool != NULL) {
        free_places = pool->next_free;
        return pool;
    }
    if (chunk < CHUNKS && atomic_load(&chunks[chunk]) == NULL) {
        atomic_store(&chunks[chunk], calloc(CHUNK_POOLS, sizeof *pool)); /* no bits set is a clear flag */
    }
    if (chunk == CHUNKS || atomic_load(&chunks[chunk]) == NULL) {
        return NULL;
    }
    pool = pool_at(index);
    pool->index = index;
    atomic_store(&pool_count, index + 1);
    return pool;
}

/* With the lock `entering`. */
static void pool_free_place(struct pool *pool) {
    atomic_store(&pool->handle, NULL);
    pool->next_free = free_places;
    free_places = pool;
}

/* Threads that meet the same pool at the same time enter it once. NULL: this process's own memory is full. */
static struct pool *pool_enter(CUmemoryPool handle, CUdevice device) {
    hami_spin_lock(&entering);
    struct pool *pool = known(handle);
    struct pool *fresh = pool != NULL ? NULL : pool_place();
    if (fresh != NULL) {
        lock(fresh); /* a thread that met the pool before in this place may be busy with it still */
        fresh->device = device;
        fresh->charge = (struct hami_charge){-1, 0};
        fresh->share = -1;
        atomic_store_explicit(&fresh->handle, handle, memory_order_release);
        unlock(fresh);
        if (hami_map_put(&handles, (uint64_t)(uintptr_t)handle, (uint64_t)(uintptr_t)fresh)) {
            pool = fresh;
        } else {
            pool_free_place(fresh);
        }
    }
    hami_spin_unlock(&entering);
    return pool;
}

static bool ask(CUmemoryPool handle, int which, uint64_t *value) {
    CUresult (*get)(CUmemoryPool, int, void *) = hami_cuda_function("cuMemPoolGetAttribute");
    return get != NULL && get(handle, which, value) == CUDA_SUCCESS;
}

static uint64_t attribute(CUmemoryPool handle, int which) {
    uint64_t value = 0;
    return ask(handle, which, &value) ? value : 0;
}

/* Pages that the driver has reserved for a pool; where it does not say, what it said last. */
static uint64_t reserved(struct pool *pool, bool *told) {
    uint64_t bytes = 0;
    *told = ask(atomic_load(&pool->handle), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes);
    return *told ? (bytes + (1u << HAMI_PAGE_SHIFT) - 1) >> HAMI_PAGE_SHIFT : pool->charge.pages;
}

/*
 * Has the share of an exported pool, which is locked, say what the pool has: as soon as it grows, since this process
 * may end. False: it is no such pool. An imported pool is its exporter's to tell of.
 */
static bool pool_tell_size(struct pool *pool, uint64_t pages) {
    bool exported = pool->share >= 0 && pool->charge.device >= 0;
    if (exported) {
        hami_shared_resize(pool->share, &pool->charge, pages);
    }
    return exported;
}

/* Brings the charge of a locked pool in step with that. False: the driver does not say. */
static bool settle(struct pool *pool) {
    bool told = true;
    if (pool->charge.device < 0) {
        return true;
    }
    uint64_t pages = reserved(pool, &told);
    if (pool_tell_size(pool, pages)) {
        return told;
    }
    if (pages < pool->charge.pages) {
        hami_charge_shrink(&pool->charge, pool->charge.pages - pages);
    } else if (pages > pool->charge.pages) { /* grown behind our back, and nothing to be done about it */
        hami_charge_found(pool->device, HAMI_COLUMN_DATA, &pool->charge, pages - pool->charge.pages);
    }
    return told;
}

/* Has the driver give back what the locked pool has to spare. False: the driver does not say what is left. */
static bool trim(struct pool *pool) {
    CUresult (*driver)(CUmemoryPool, size_t) = hami_driver_function(HAMI_cuMemPoolTrimTo);
    (void)driver(atomic_load(&pool->handle), 0);
    return settle(pool);
}

/* An exported pool is its taker's until it lets go; then it stays whole for as long as an importer has it. */
static void let_go(struct pool *pool) {
    if (pool->share < 0) {
        hami_charge_give_back(&pool->charge, HAMI_COLUMN_DATA);
    } else if (pool->charge.device >= 0) {
        hami_shared_let_go(pool->share, &pool->charge);
    } else {
        hami_shared_close(pool->share);
    }
}

/* ---- the end of a pool ---- */

/*
 * Whether nothing of a locked pool is left in the driver. A stream may have yet to come to a free: the driver tells by
 * what remains when it is asked to trim the pool. CUDA's programming guide says that drivers trim no pool that can be
 * shared, and nothing is known of an imported one: those are empty once all that was freed has been waited for.
 */
static bool pool_is_empty(struct pool *pool) {
    bool waited_for = pool->freed_async_at <= atomic_load(&hami_pools_frees_over);
    if (pool->charge.device < 0) {
        return pool->allocations == 0 && (pool->share < 0 || waited_for);
    }
    return trim(pool) && (pool->charge.pages == 0 ||
                          (waited_for && attribute(atomic_load(&pool->handle), CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == 0));
}

/*
 * Has the driver destroy a locked pool, whose place is free then. The driver may hand the same handle out again before
 * it returns: a thread that meets the pool meanwhile waits until it is known whether the pool goes.
 */
static CUresult pool_end(struct pool *pool) {
    CUresult (*driver)(CUmemoryPool) = hami_driver_function(HAMI_cuMemPoolDestroy);
    CUmemoryPool handle = atomic_load(&pool->handle);
    uint64_t key = (uint64_t)(uintptr_t)handle;
    hami_spin_lock(&entering);
    (void)hami_map_take(&handles, key);
    atomic_store(&pool->handle, NULL);
    CUresult status = driver(handle);
    if (status != CUDA_SUCCESS) {
        atomic_store(&pool->handle, handle);
        (void)hami_map_put(&handles, key, (uint64_t)(uintptr_t)pool); /* into the place that it has just left */
    } else {
        let_go(pool);
        atomic_store(&pool->freed, false);
        pool->destroyed = false;
        pool->allocations = 0;
        pool->identity = pool->freed_at = pool->freed_async_at = 0;
        pool_free_place(pool);
    }
    hami_spin_unlock(&entering);
    return status;
}

/* Whether a locked pool that the program has destroyed is no more. */
static bool pool_has_ended(struct pool *pool) {
    return pool->destroyed && pool_is_empty(pool) && pool_end(pool) == CUDA_SUCCESS;
}

/* As the driver does with a pool that is destroyed. False: the pool is the device's own. */
static bool pool_stop_being_current(const struct pool *pool, CUmemoryPool handle) {
    CUmemoryPool current = NULL, own = NULL;
    CUresult (*get)(CUmemoryPool *, CUdevice) = hami_cuda_function("cuDeviceGetMemPool");
    CUresult (*get_own)(CUmemoryPool *, CUdevice) = hami_cuda_function("cuDeviceGetDefaultMemPool");
    CUresult (*set)(CUdevice, CUmemoryPool) = hami_cuda_function("cuDeviceSetMemPool");
    bool told = get != NULL && get_own != NULL && set != NULL && get(&current, pool->device) == CUDA_SUCCESS &&
                get_own(&own, pool->device) == CUDA_SUCCESS;
    if (told && current == handle && own != handle) {
        (void)set(pool->device, own);
    }
    return own != handle;
}

/* A driver tells nothing more of a pool that it has destroyed, so it keeps the pool until nothing is left in it. */
int32_t hami_pool_destroy(enum hami_hook hook, CUmemoryPool handle) {
    CUresult (*driver)(CUmemoryPool) = hami_driver_function(hook);
    CUresult status = CUDA_SUCCESS;
    struct pool *pool = known_locked(handle);
    if (pool == NULL) {
        return driver(handle);
    }
    if (pool->destroyed) {
        status = CUDA_ERROR_INVALID_VALUE;
    } else if (pool_is_empty(pool) || (pool->device >= 0 && !pool_stop_being_current(pool, handle))) {
        status = pool_end(pool);
    } else {
        pool->destroyed = true;
        atomic_store(&pool->freed, true);
    }
    unlock(pool);
    return status;
}

/* ---- what was freed ---- */

/* The default stream of each thread is another, by the same name. */
static CUstream named(CUstream stream, bool threaded) {
    const uintptr_t legacy = 1, per_thread = 2;
    uintptr_t name = stream != NULL ? (uintptr_t)stream : threaded ? per_thread : legacy;
    return name == per_thread ? SEVERAL_STREAMS : (CUstream)name;
}

/* Notes that something of a locked pool was freed in a stream; NULL: at once. */
static void note_freed(struct pool *pool, CUstream stream) {
    CUstream none = NULL;
    if (stream != NULL && !atomic_compare_exchange_strong(&freed_in, &none, stream) && none != stream) {
        atomic_store(&freed_in, SEVERAL_STREAMS);
    }
    pool->freed_at = atomic_fetch_add(&hami_pools_frees, 1) + 1;
    pool->freed_async_at = stream != NULL ? pool->freed_at : pool->freed_async_at;
    atomic_store(&pool->freed, true);
}

void hami_pool_settle(unsigned index) {
    struct pool *pool = pool_at(index);
    lock(pool);
    pool->allocations -= pool->allocations > 0;
    (void)settle(pool);
    note_freed(pool, freeing);
    (void)pool_has_ended(pool);
    unlock(pool);
}

/* Inside a capture nothing is taken now; the graph's memory node is. Only the legacy default stream has none. */
static bool capturing(CUstream stream, bool threaded) {
    int status = 0;
    CUresult (*is)(CUstream, int *) = hami_cuda_function("cuStreamIsCapturing");
    CUstream asked = stream == NULL && threaded ? (CUstream)(uintptr_t)2 : stream;
    return asked != NULL && is != NULL && is(asked, &status) == CUDA_SUCCESS && status != 0;
}

void hami_pools_settle(void) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        struct pool *pool = pool_at(i);
        /* A pool that another thread is busy with settles itself. */
        if (atomic_load(&pool->handle) != NULL && pool_try_lock(pool)) {
            if (atomic_load(&pool->handle) != NULL && !pool_has_ended(pool)) {
                (void)settle(pool);
            }
            unlock(pool);
        }
    }
}

/* Whether the driver may give more of a locked pool back, once it has seen the end of what uses it. */
static bool may_shrink(struct pool *pool) {
    CUmemoryPool handle = atomic_load(&pool->handle);
    uint64_t held = pool->charge.pages << HAMI_PAGE_SHIFT;
    return pool->charge.device >= 0 && held > attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) &&
           held > attribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
}

/* Whether a wait has seen the end of all that was freed before it. Each context has its own default streams. */
static bool covers_all(CUstream waited) {
    CUstream stream = atomic_load(&freed_in);
    return stream == NULL ||
           (hami_context_only_one() && (waited == HAMI_ALL_STREAMS || (waited == stream && stream != SEVERAL_STREAMS)));
}

/* Looks at pools until all that was freed has gone, or will not go. */
void hami_pools_settle_freed(CUstream waited, uint64_t frees) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    uint64_t over = atomic_load(&hami_pools_frees_over);
    while (covers_all(waited) && over < frees && !atomic_compare_exchange_weak(&hami_pools_frees_over, &over, frees)) {
    }
    for (unsigned i = 0; i < count; i++) {
        struct pool *pool = pool_at(i);
        if (!atomic_load(&pool->freed) || !pool_try_lock(pool)) {
            continue;
        }
        if (atomic_load(&pool->freed) && !pool_has_ended(pool)) {
            bool told = settle(pool), waited_for = pool->freed_at <= atomic_load(&hami_pools_frees_over);
            atomic_store(&pool->freed, pool->destroyed || !told || (!waited_for && may_shrink(pool)));
        }
        unlock(pool);
    }
}

/* The driver may give its handle to another stream. */
void hami_pools_stream_ending(CUstream stream) {
    (void)atomic_compare_exchange_strong(&freed_in, &stream, SEVERAL_STREAMS);
}

void hami_pools_after_fork(void) {
    unsigned count = atomic_load(&pool_count);
    for (unsigned i = 0; i < count; i += CHUNK_POOLS) {
        memset((void *)pool_at(i), 0, CHUNK_POOLS * sizeof(struct pool)); /* no bits set is a clear flag */
    }
    atomic_store(&pool_count, 0);
    atomic_flag_clear(&entering);
    free_places = NULL;
    hami_map_reset(&handles);
    atomic_store(&freed_in, NULL);
}

/* ---- allocation ---- */

/* What the locked pool lacks for an allocation, and what it has grown by behind our back: by an import, by the driver.
 */
static uint64_t missing(struct pool *pool, uint64_t bytes) {
    CUmemoryPool handle = atomic_load(&pool->handle);
    uint64_t held = attribute(handle, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
    uint64_t used = attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    uint64_t charged = pool->charge.pages << HAMI_PAGE_SHIFT;
    uint64_t spare = held > used ? held - used : 0;
    uint64_t grow = spare >= bytes ? 0 : hami_large(bytes);
    uint64_t owed = held > charged ? held - charged : 0;
    return grow + owed < grow ? UINT64_MAX : grow + owed;
}

/*
 * Reserves what the locked pool may have to grow by: first the most that can be, which settling corrects; what it
 * really is only when that does not fit; and at last without what it has to spare, which may be too small. False:
 * refuse.
 */
static bool reserve(struct pool *pool, uint64_t bytes) {
    if (hami_charge_try(&pool->charge, hami_large(bytes))) {
        return true;
    }
    uint64_t wanted = missing(pool, bytes);
    if (pool->charge.device < 0) {
        return hami_charge_take(pool->device, wanted, HAMI_COLUMN_DATA, &pool->charge);
    }
    if (wanted == 0 ? hami_charge_within(&pool->charge) : hami_charge_try(&pool->charge, wanted)) {
        return true;
    }
    (void)trim(pool);
    return hami_charge_grow(&pool->charge, missing(pool, bytes));
}

/* Whether stream NULL is the calling thread's own. */
static bool is_threaded(enum hami_hook hook) {
    return hook == HAMI_cuMemAllocAsync_ptsz || hook == HAMI_cuMemAllocFromPoolAsync_ptsz ||
           hook == HAMI_cuMemFreeAsync_ptsz;
}

struct request {
    enum hami_hook hook;
    CUdeviceptr *address;
    uint64_t bytes;
    CUmemoryPool pool;
    CUstream stream;
    bool from_pool; /* that one; else the stream's device's current one */
};

static CUresult call(const struct request *r) {
    if (!r->from_pool) {
        CUresult (*driver)(CUdeviceptr *, size_t, CUstream) = hami_driver_function(r->hook);
        return driver(r->address, r->bytes, r->stream);
    }
    CUresult (*driver)(CUdeviceptr *, size_t, CUmemoryPool, CUstream) = hami_driver_function(r->hook);
    return driver(r->address, r->bytes, r->pool, r->stream);
}

/* Takes back what the driver has given, in the order of its stream: it may count until somebody has waited for that. */
static void undo(const struct request *r, struct pool *pool, CUdeviceptr before) {
    bool threaded = is_threaded(r->hook);
    CUresult (*driver)(CUdeviceptr, CUstream) =
        hami_driver_function(threaded ? HAMI_cuMemFreeAsync_ptsz : HAMI_cuMemFreeAsync);
    (void)driver(*r->address, r->stream);
    *r->address = before;
    (void)trim(pool);
    note_freed(pool, named(r->stream, threaded));
}

/* Brings the charge in step with a pool that may have grown by more than was reserved. False: that is too much. */
static bool fits(struct pool *pool, bool last) {
    bool told = true;
    uint64_t pages = pool->charge.device < 0 ? 0 : reserved(pool, &told);
    if (pages > pool->charge.pages) {
        uint64_t bytes = pool_tell_size(pool, pages) ? 0 : (pages - pool->charge.pages) << HAMI_PAGE_SHIFT;
        if (bytes == 0 && !last) {
            return hami_charge_within(&pool->charge);
        }
        return last ? hami_charge_grow(&pool->charge, bytes) : hami_charge_try(&pool->charge, bytes);
    }
    return true;
}

/*
 * A pool may grow although it has enough to spare, or in larger steps than asked; only the driver knows by how much.
 * What is too much is undone. Without what it had to spare there may be room.
 */
static CUresult take(const struct request *r, struct pool *pool) {
    CUdeviceptr before = *r->address;
    for (bool last = false;; last = true) {
        CUresult status = call(r);
        if (status != CUDA_SUCCESS) {
            return status;
        }
        bool within = fits(pool, last);
        if (within && hami_record_pool(*r->address, pool->index)) {
            pool->allocations++;
            return CUDA_SUCCESS;
        }
        undo(r, pool, before);
        if (within || last || !hami_charge_grow(&pool->charge, hami_large(r->bytes))) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        (void)pool_tell_size(pool, pool->charge.pages);
    }
}

/* Of a locked pool. */
static CUresult allocate(const struct request *r, struct pool *pool, CUdevice device) {
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    if (pool->device == ANYWHERE) {
        pool->device = device;
    }
    if (reserve(pool, r->bytes)) {
        (void)pool_tell_size(pool, pool->charge.pages);
        status = take(r, pool);
    }
    (void)settle(pool);
    return status;
}

/* Device of a stream: its context's; the default streams are the current context's. */
static bool device_of(CUstream stream, CUdevice *device) {
    struct hami_context current;
    CUresult (*direct)(CUstream, CUdevice *) = hami_cuda_function("cuStreamGetDevice");
    bool known = hami_context_current(&current);
    *device = current.device;
    bool named = (uintptr_t)stream > 2; /* 0, 1 and 2 are the default streams */
    if (named && direct != NULL && direct(stream, device) == CUDA_SUCCESS) {
        return true;
    }
    return known;
}

/* A pool that was not made here is some device's own, or was imported. */
static CUdevice place_of(CUmemoryPool handle, CUdevice otherwise) {
    int count = 0;
    CUresult (*devices)(int *) = hami_cuda_function("cuDeviceGetCount");
    CUresult (*own)(CUmemoryPool *, CUdevice) = hami_cuda_function("cuDeviceGetDefaultMemPool");
    if (devices == NULL || own == NULL || devices(&count) != CUDA_SUCCESS) {
        return otherwise;
    }
    for (CUdevice device = 0; device < count; device++) {
        CUmemoryPool pool = NULL;
        if (own(&pool, device) == CUDA_SUCCESS && pool == handle) {
            return device;
        }
    }
    return otherwise;
}

static struct pool *met(CUmemoryPool handle, CUdevice device) {
    struct pool *pool = known(handle);
    return pool != NULL ? pool : pool_enter(handle, place_of(handle, device));
}

/* Where another thread tries to destroy the pool meanwhile, it is looked for again. */
static CUresult allocate_in(const struct request *r, CUmemoryPool handle, CUdevice device) {
    struct pool *pool = met(handle, device);
    while (pool != NULL && pool->device != IN_HOST) {
        struct pool *locked = known_locked(handle);
        if (locked != NULL) {
            CUresult status = locked->destroyed ? CUDA_ERROR_INVALID_VALUE : allocate(r, locked, device);
            unlock(locked);
            return status;
        }
        pool = met(handle, device);
    }
    return pool == NULL ? CUDA_ERROR_OUT_OF_MEMORY : call(r);
}

int32_t hami_mem_alloc_async(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, CUstream stream) {
    struct request r = {hook, address, bytes, NULL, stream, false};
    CUresult (*current)(CUmemoryPool *, CUdevice) = hami_cuda_function("cuDeviceGetMemPool");
    CUmemoryPool handle = NULL;
    CUdevice device = 0;
    if (address == NULL || bytes == 0 || capturing(stream, is_threaded(hook)) || !device_of(stream, &device) ||
        current == NULL || current(&handle, device) != CUDA_SUCCESS) {
        return call(&r);
    }
    return allocate_in(&r, handle, device);
}

int32_t hami_mem_alloc_from_pool(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, CUmemoryPool handle,
                                 CUstream stream) {
    struct request r = {hook, address, bytes, handle, stream, true};
    CUdevice device = 0;
    if (address == NULL || bytes == 0 || handle == NULL || capturing(stream, is_threaded(hook)) ||
        !device_of(stream, &device)) {
        return call(&r);
    }
    return allocate_in(&r, handle, device);
}

int32_t hami_mem_free_async(enum hami_hook hook, CUdeviceptr address, CUstream stream) {
    CUresult (*driver)(CUdeviceptr, CUstream) = hami_driver_function(hook);
    if (capturing(stream, is_threaded(hook))) {
        return driver(address, stream);
    }
    uint64_t record = hami_record_take(address);
    CUresult status = driver(address, stream);
    if (status != CUDA_SUCCESS) {
        hami_record_restore(address, record);
    } else if (record != 0) {
        freeing = named(stream, is_threaded(hook));
        hami_record_release(address, record);
        freeing = NULL;
    }
    return status;
}

/* Managed memory may come to lie on a device whole, wherever it prefers to be: it counts as cuMemAllocManaged's does.
 */
static CUdevice place_named(const struct hami_mem_location *location, int32_t type) {
    bool on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
    return on_device ? location->id : type == MANAGED ? ANYWHERE : IN_HOST;
}

int32_t hami_pool_create(enum hami_hook hook, CUmemoryPool *handle, const struct hami_pool_props *props) {
    CUresult (*driver)(CUmemoryPool *, const struct hami_pool_props *) = hami_driver_function(hook);
    CUresult status = driver(handle, props);
    if (status == CUDA_SUCCESS && pool_enter(*handle, place_named(&props->location, props->type)) == NULL) {
        CUresult (*destroy)(CUmemoryPool) = hami_driver_function(HAMI_cuMemPoolDestroy);
        (void)destroy(*handle);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

int32_t hami_pool_get(enum hami_hook hook, CUmemoryPool *handle, const struct hami_mem_location *location,
                      int32_t type) {
    CUresult (*driver)(CUmemoryPool *, const struct hami_mem_location *, int32_t) = hami_driver_function(hook);
    CUresult status = driver(handle, location, type);
    if (status == CUDA_SUCCESS) {
        (void)pool_enter(*handle, place_named(location, type));
    }
    return status;
}

int32_t hami_pool_trim(enum hami_hook hook, CUmemoryPool handle, uint64_t keep) {
    CUresult (*driver)(CUmemoryPool, size_t) = hami_driver_function(hook);
    CUresult status = driver(handle, keep);
    struct pool *pool = known_locked(handle);
    if (pool != NULL) {
        (void)settle(pool);
        unlock(pool);
    }
    return status;
}

/* ---- shared with other processes ---- */

int32_t hami_pool_export(enum hami_hook hook, void *shareable, CUmemoryPool handle, int32_t type, uint64_t flags) {
    CUresult (*driver)(void *, CUmemoryPool, int32_t, uint64_t) = hami_driver_function(hook);
    CUresult status = driver(shareable, handle, type, flags);
    struct pool *pool = status == CUDA_SUCCESS ? known_locked(handle) : NULL;
    if (pool == NULL) {
        return status;
    }
    if (pool->device < 0) {
        unlock(pool);
        return status;
    }
    if (pool->charge.device < 0) { /* nothing is in it yet */
        (void)hami_charge_take(pool->device, 0, HAMI_COLUMN_DATA, &pool->charge);
    }
    if (pool->identity == 0) {
        pool->identity = type == FABRIC ? hami_identity_of_bytes(shareable, FABRIC_BYTES) : hami_identity_fresh();
    }
    if (pool->share < 0) {
        pool->share = hami_shared_export(pool->identity, &pool->charge);
    }
    if (type == POSIX_DESCRIPTOR) {
        int fd = -1;
        memcpy(&fd, shareable, sizeof fd);
        hami_identity_put(fd, pool->identity);
    }
    (void)settle(pool);
    unlock(pool);
    return status;
}

/* Where there is no room for it, or in the table, it is not to be had. */
static CUresult note_import(CUmemoryPool handle, uint64_t identity) {
    CUresult (*destroy)(CUmemoryPool) = hami_driver_function(HAMI_cuMemPoolDestroy);
    hami_share share = -1;
    struct pool *pool = hami_shared_take_up(identity, 0, &share) ? pool_enter(handle, UNKNOWN) : NULL;
    if (pool != NULL) {
        pool->share = share;
        return CUDA_SUCCESS;
    }
    if (share >= 0) {
        hami_shared_close(share);
    }
    (void)destroy(handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Of a pool that no process of the container made nothing is known but what its pointers say. */
int32_t hami_pool_import(enum hami_hook hook, CUmemoryPool *handle, void *shareable, int32_t type, uint64_t flags) {
    CUresult (*driver)(CUmemoryPool *, void *, int32_t, uint64_t) = hami_driver_function(hook);
    uint64_t identity = type == POSIX_DESCRIPTOR ? hami_identity_on((int)(intptr_t)shareable) : 0;
    CUresult status = driver(handle, shareable, type, flags);
    if (status == CUDA_SUCCESS) {
        identity = type == FABRIC ? hami_identity_of_bytes(shareable, FABRIC_BYTES) : identity;
        status = note_import(*handle, identity);
    }
    return status;
}

/* The pool is there until the last of its pointers is freed. */
int32_t hami_pool_import_pointer(enum hami_hook hook, CUdeviceptr *address, CUmemoryPool handle, const void *data) {
    CUresult (*driver)(CUdeviceptr *, CUmemoryPool, const void *) = hami_driver_function(hook);
    struct pool *pool = known_locked(handle);
    if (pool == NULL) {
        return driver(address, handle, data);
    }
    CUresult status = driver(address, handle, data);
    if (status == CUDA_SUCCESS && hami_record_pool(*address, pool->index)) {
        pool->allocations++;
    }
    unlock(pool);
    return status;
}
