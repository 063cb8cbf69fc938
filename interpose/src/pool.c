/* Stream-ordered allocation; see pool.h. */
#include "hami/pool.h"

#include "hami/account.h"
#include "hami/context.h"
#include "hami/hook.h"
#include "hami/identity.h"
#include "hami/pending.h"
#include "hami/policy.h"
#include "hami/shared.h"
#include "hami/spin.h"

#include <stdatomic.h>
#include <string.h>

enum { POOLS = 256, ANYWHERE = -3, IN_HOST = -2, UNKNOWN = -1 };
enum { MANAGED = 2 };                                         /* CUmemAllocationType */
enum { POSIX_DESCRIPTOR = 1, FABRIC = 8, FABRIC_BYTES = 64 }; /* CUmemAllocationHandleType */

struct pool {
    _Atomic(CUmemoryPool) handle;
    _Atomic bool used;
    _Atomic bool freed; /* something was, and the driver may still have it */
    atomic_flag busy;
    uint64_t freed_at; /* the last time, of hami_pools_frees */
    bool destroyed;    /* by the program; gone when nothing is left in it */
    /* Or IN_HOST; UNKNOWN of an imported one; ANYWHERE until a managed one is first used. Read without the lock too. */
    _Atomic CUdevice device;
    unsigned allocations;
    struct hami_charge charge;
    uint64_t identity;           /* by which its importers know it; 0: it was not exported */
    hami_share share;            /* with other processes; of an imported pool too */
    struct hami_pending pending; /* no wait has seen the end of what was freed in these, whether that matters or not */
};

static struct pool pools[POOLS];
static _Atomic unsigned pool_count;
static atomic_flag entering = ATOMIC_FLAG_INIT;
static _Thread_local CUstream freeing; /* in which this thread is just freeing something */

_Atomic bool hami_pools_freed;
_Atomic uint64_t hami_pools_frees;

/* ---- the table ---- */

static void lock(struct pool *pool) {
    hami_spin_lock(&pool->busy);
}

static void unlock(struct pool *pool) {
    hami_spin_unlock(&pool->busy);
}

static struct pool *known(CUmemoryPool handle) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    for (unsigned i = 0; handle != NULL && i < count; i++) {
        if (atomic_load_explicit(&pools[i].handle, memory_order_acquire) == handle) {
            return &pools[i];
        }
    }
    return NULL;
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

/* NULL when the table is full. What is beyond the count was never used: a fork need not clear it. */
static struct pool *enter(CUmemoryPool handle, CUdevice device) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    for (unsigned i = 0; i < POOLS; i++) {
        bool unused = false;
        while (count < i + 1 && !atomic_compare_exchange_weak(&pool_count, &count, i + 1)) {
        }
        if (!atomic_compare_exchange_strong(&pools[i].used, &unused, true)) {
            continue;
        }
        lock(&pools[i]); /* whoever met the one before may be busy with it still */
        pools[i].device = device;
        pools[i].destroyed = false;
        pools[i].pending.count = 0;
        atomic_store(&pools[i].freed, false);
        pools[i].allocations = 0;
        pools[i].charge = (struct hami_charge){-1, 0};
        pools[i].identity = 0;
        pools[i].share = -1;
        atomic_store_explicit(&pools[i].handle, handle, memory_order_release);
        unlock(&pools[i]);
        return &pools[i];
    }
    return NULL;
}

/* Threads that meet the same pool at the same time enter it once. */
static struct pool *known_or_entered(CUmemoryPool handle, CUdevice device) {
    hami_spin_lock(&entering);
    struct pool *pool = known(handle);
    pool = pool != NULL ? pool : enter(handle, device);
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
    if (pool->charge.device < 0 || pool->destroyed) {
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

/* Whether the driver may still have what was freed of a locked pool, because a stream has yet to come to that. */
static bool is_pending(const struct pool *pool) {
    return pool->pending.count != 0;
}

/* The last allocation of a destroyed pool has gone, and no stream has yet to come to a free: so has the pool. */
static void end_if_empty(struct pool *pool) {
    if (pool->destroyed && pool->allocations == 0 && !is_pending(pool)) {
        atomic_store(&pool->freed, false);
        let_go(pool);
        pool->charge = (struct hami_charge){-1, 0};
        pool->share = -1;
        pool->destroyed = false;
        atomic_store(&pool->used, false);
    }
}

/* The default stream of each thread is another, by the same name. */
static CUstream named(CUstream stream, bool threaded) {
    const uintptr_t legacy = 1, per_thread = 2;
    uintptr_t name = stream != NULL ? (uintptr_t)stream : threaded ? per_thread : legacy;
    return name == per_thread ? HAMI_UNKNOWN_STREAM : (CUstream)name;
}

static CUcontext current_handle(void) {
    struct hami_context current;
    return hami_context_current(&current) ? current.handle : NULL;
}

/* NULL: not known. */
static CUcontext context_of(CUstream stream) {
    CUcontext context = NULL;
    CUresult (*of)(CUstream, CUcontext *) = hami_cuda_function("cuStreamGetCtx");
    if (hami_is_default_stream(stream) || hami_context_only_one()) {
        return current_handle();
    }
    return of != NULL && of(stream, &context) == CUDA_SUCCESS ? context : NULL;
}

/* Notes that something of a locked pool was freed in a stream; NULL: at once. */
static void note_freed(struct pool *pool, CUstream stream) {
    pool->freed_at = atomic_fetch_add(&hami_pools_frees, 1) + 1;
    if (stream != NULL) {
        hami_pending_add(&pool->pending, context_of(stream), stream, pool->freed_at);
    }
    atomic_store(&pool->freed, true);
    atomic_store(&hami_pools_freed, true);
}

void hami_pool_settle(unsigned index) {
    struct pool *pool = &pools[index % POOLS];
    lock(pool);
    pool->allocations -= pool->allocations > 0;
    (void)settle(pool);
    note_freed(pool, freeing);
    end_if_empty(pool);
    unlock(pool);
}

/* Inside a capture nothing is taken now; the graph's memory node is. Only the legacy default stream has none. */
static bool capturing(CUstream stream, bool threaded) {
    int status = 0;
    CUresult (*is)(CUstream, int *) = hami_cuda_function("cuStreamIsCapturing");
    CUstream asked = stream == NULL && threaded ? (CUstream)(uintptr_t)2 : stream;
    return asked != NULL && is != NULL && is(asked, &status) == CUDA_SUCCESS && status != 0;
}

/*
 * Whether nothing is left to do in a stream. One that is captured must not be asked, nor one that may have ended with
 * its context; and a capture that another thread has begun would end by the question.
 */
static bool is_idle(CUstream stream) {
    struct hami_context current;
    int status = 0, mode = 2 /* relaxed */;
    CUresult (*captured)(CUstream, int *) = hami_cuda_function("cuStreamIsCapturing");
    CUresult (*query)(CUstream) = hami_cuda_function("cuStreamQuery");
    CUresult (*exchange)(int *) = hami_cuda_function("cuThreadExchangeStreamCaptureMode");
    if (stream == HAMI_UNKNOWN_STREAM || !hami_context_only_one() || !hami_context_current(&current) ||
        captured == NULL || query == NULL || exchange == NULL || exchange(&mode) != CUDA_SUCCESS) {
        return false;
    }
    bool idle = captured(stream, &status) == CUDA_SUCCESS && status == 0 && query(stream) == CUDA_SUCCESS;
    (void)exchange(&mode);
    return idle;
}

/* What a locked pool had that was destroyed; its streams may have come to the frees without anybody waiting. */
static void look_at_destroyed(struct pool *pool) {
    if (!pool->destroyed || pool->allocations != 0) {
        return;
    }
    for (unsigned i = 0; i < pool->pending.count;) {
        const struct hami_pending_free *freed = &pool->pending.frees[i];
        struct hami_wait seen = {freed->context, freed->stream, freed->at, true};
        if (is_idle(freed->stream)) {
            hami_pending_waited(&pool->pending, &seen); /* takes it out, at least */
        } else {
            i++;
        }
    }
    end_if_empty(pool);
}

void hami_pools_settle(void) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    for (unsigned i = 0; i < count; i++) {
        /* A pool that another thread is busy with settles itself. */
        if (atomic_load(&pools[i].used) && !atomic_flag_test_and_set_explicit(&pools[i].busy, memory_order_acquire)) {
            (void)settle(&pools[i]);
            look_at_destroyed(&pools[i]);
            unlock(&pools[i]);
        }
    }
}

/*
 * Whether the driver may give more of a locked pool back, once it has seen the end of what uses it. Of a destroyed one
 * it tells nothing any more.
 */
static bool may_shrink(struct pool *pool) {
    CUmemoryPool handle = atomic_load(&pool->handle);
    if (pool->destroyed) {
        return true;
    }
    uint64_t held = pool->charge.pages << HAMI_PAGE_SHIFT;
    return pool->charge.device >= 0 && held > attribute(handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) &&
           held > attribute(handle, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD);
}

/* Others may wait for other streams: a pool is looked at until all that was freed has gone, or will not go. */
void hami_pools_settle_freed(CUstream waited, CUcontext context, uint64_t frees) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    bool again = false;
    struct hami_wait wait = {context != NULL ? context : current_handle(), waited, frees, hami_context_only_one()};
    atomic_store(&hami_pools_freed, false);
    for (unsigned i = 0; i < count; i++) {
        struct pool *pool = &pools[i];
        if (!atomic_load(&pool->freed)) {
            continue;
        }
        bool more = true;
        if (!atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {
            bool told = settle(pool);
            hami_pending_waited(&pool->pending, &wait);
            bool over = !is_pending(pool) && pool->freed_at <= frees;
            more = !told || (!over && may_shrink(pool));
            atomic_store(&pool->freed, more);
            end_if_empty(pool);
            unlock(pool);
        }
        again = again || more;
    }
    if (again) {
        atomic_store(&hami_pools_freed, true);
    }
}

/* Of a stream or a context. */
static void tell_all_pending(void (*tell)(struct hami_pending *, void *), void *of) {
    unsigned count = atomic_load_explicit(&pool_count, memory_order_acquire);
    for (unsigned i = 0; of != NULL && i < count; i++) {
        if (atomic_load(&pools[i].used)) {
            lock(&pools[i]);
            tell(&pools[i].pending, of);
            end_if_empty(&pools[i]);
            unlock(&pools[i]);
        }
    }
}

void hami_pools_stream_ending(CUstream stream) {
    tell_all_pending(hami_pending_stream_ending, stream);
}

void hami_pools_context_ending(CUcontext context) {
    tell_all_pending(hami_pending_context_ending, context);
}

void hami_pools_context_ended(CUcontext context) {
    tell_all_pending(hami_pending_context_ended, context);
}

void hami_pools_after_fork(void) {
    atomic_store(&hami_pools_freed, false);
    unsigned count = atomic_load(&pool_count);
    memset(pools, 0, count * sizeof pools[0]);
    for (unsigned i = 0; i < count; i++) {
        atomic_flag_clear(&pools[i].busy);
    }
    atomic_store(&pool_count, 0);
    atomic_flag_clear(&entering);
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

/* Has the driver give back what the locked pool has to spare. */
static void trim(struct pool *pool) {
    CUresult (*driver)(CUmemoryPool, size_t) = hami_driver_function(HAMI_cuMemPoolTrimTo);
    (void)driver(atomic_load(&pool->handle), 0);
    (void)settle(pool);
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
    trim(pool);
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
    trim(pool);
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
        if (within && hami_record_pool(*r->address, (unsigned)(pool - pools))) {
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
    return pool != NULL ? pool : known_or_entered(handle, place_of(handle, device));
}

/* Where another thread tries to destroy the pool meanwhile, it is looked for again. */
static CUresult allocate_in(const struct request *r, CUmemoryPool handle, CUdevice device) {
    struct pool *pool = met(handle, device);
    while (pool != NULL && pool->device != IN_HOST) {
        struct pool *locked = known_locked(handle);
        if (locked != NULL) {
            CUresult status = allocate(r, locked, device);
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
    if (status == CUDA_SUCCESS) {
        (void)enter(*handle, place_named(&props->location, props->type));
    }
    return status;
}

int32_t hami_pool_get(enum hami_hook hook, CUmemoryPool *handle, const struct hami_mem_location *location,
                      int32_t type) {
    CUresult (*driver)(CUmemoryPool *, const struct hami_mem_location *, int32_t) = hami_driver_function(hook);
    CUresult status = driver(handle, location, type);
    if (status == CUDA_SUCCESS) {
        (void)known_or_entered(*handle, place_named(location, type));
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

/*
 * Before a locked pool is destroyed, as long as the driver tells what it has: when that is nothing, it has come to all
 * that was freed.
 */
static void empty(struct pool *pool) {
    uint64_t left = 0;
    if (pool->allocations > 0 || !is_pending(pool) || pool->charge.device < 0) {
        return;
    }
    trim(pool);
    if (ask(atomic_load(&pool->handle), CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &left) && left == 0) {
        pool->pending.count = 0;
        atomic_store(&pool->freed, false);
    }
}

/* A pool that would have kept it all was perhaps not watched any more. */
static void watch_if_pending(struct pool *pool) {
    if (is_pending(pool)) {
        atomic_store(&pool->freed, true);
        atomic_store(&hami_pools_freed, true);
    }
}

/*
 * The driver may hand the same handle out again before it returns. Whoever meets the pool meanwhile waits until it is
 * known whether it goes.
 */
int32_t hami_pool_destroy(enum hami_hook hook, CUmemoryPool handle) {
    CUresult (*driver)(CUmemoryPool) = hami_driver_function(hook);
    struct pool *pool = known_locked(handle);
    if (pool == NULL) {
        return driver(handle);
    }
    empty(pool);
    hami_spin_lock(&entering);
    atomic_store(&pool->handle, NULL);
    CUresult status = driver(handle);
    if (status != CUDA_SUCCESS) {
        atomic_store(&pool->handle, handle);
    }
    hami_spin_unlock(&entering);
    if (status == CUDA_SUCCESS) {
        pool->destroyed = true;
        watch_if_pending(pool);
        end_if_empty(pool);
    }
    unlock(pool);
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
    struct pool *pool = hami_shared_take_up(identity, 0, &share) ? enter(handle, UNKNOWN) : NULL;
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
    if (status == CUDA_SUCCESS && hami_record_pool(*address, (unsigned)(pool - pools))) {
        pool->allocations++;
    }
    unlock(pool);
    return status;
}
