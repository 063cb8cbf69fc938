/* Charging the driver's pools for graphs; see graph_pool.h. */
#include "memory/graph_pool.h"

#include "doors/calls.h"
#include "memory/sizes.h"

struct graph_pool {
    struct hami_driver_pool base;
    bool unusable;       /* it has grown although it had enough to spare */
    uint64_t held, lack; /* before the run under way, and what it was thought to have to grow by */
    uint64_t freed;      /* what is sure to be freed when that run starts */
    uint64_t taken;      /* what all runs together have left allocated; what was freed is not taken off */
};

struct graph_request {
    const struct hami_graph_part *part;
    bool frees_first;
};

static uint64_t graph_pool_used(CUdevice device, uint64_t unless_told) {
    uint64_t value = 0;
    CUresult status = hami_call_cuDeviceGetGraphMemAttribute(device, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &value);
    return status == CUDA_SUCCESS ? value : unless_told;
}

static bool graph_pool_reserved(const struct hami_driver_pool *pool, uint64_t *bytes) {
    return hami_call_cuDeviceGetGraphMemAttribute(pool->device, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, bytes) ==
           CUDA_SUCCESS;
}

static void graph_pool_trim(struct hami_driver_pool *pool) {
    (void)hami_call_cuDeviceGraphMemTrim(pool->device);
}

/*
 * Bytes that a graph left allocated in its last run and that surely still are: the program may have freed them, and
 * other graphs have taken them. What is in use beyond what was in use then, and beyond all that graphs have left
 * allocated since, is this graph's.
 */
static uint64_t graph_still_left(const struct graph_pool *pool, const struct hami_graph_part *part, uint64_t used) {
    uint64_t since = pool->taken - part->taken;
    return part->held == 0 ? 0 : hami_excess(used + part->left, part->used + since);
}

/*
 * Bytes that there are for a graph at least: what is spare, with what the driver frees before it launches the graph; or
 * what the graph had in its last run, with what the pool has grown by and without what other graphs have taken since.
 * Only the second holds where drivers keep memory mapped to the graphs that had it, and call that used.
 */
static uint64_t graph_available(const struct graph_pool *pool, const struct hami_graph_part *part, uint64_t held,
                                uint64_t used) {
    uint64_t since = pool->taken - part->taken, spare = hami_excess(held, used) + pool->freed;
    uint64_t had = part->held == 0 ? 0 : hami_excess(part->bytes + held, part->held + since);
    return had > spare ? had : spare;
}

static uint64_t graph_pool_lack(struct hami_driver_pool *base, const void *request, uint64_t held) {
    struct graph_pool *pool = (struct graph_pool *)base;
    const struct graph_request *r = request;
    uint64_t used = graph_pool_used(base->device, UINT64_MAX);
    uint64_t left = graph_still_left(pool, r->part, used == UINT64_MAX ? 0 : used);
    pool->freed = !r->frees_first ? 0 : left < r->part->left ? left : r->part->left;
    uint64_t available = graph_available(pool, r->part, held, used == UINT64_MAX ? held : used);
    pool->held = held;
    pool->lack = hami_excess(r->part->bytes, pool->unusable ? 0 : available);
    return pool->lack;
}

static const struct hami_pool_kind graph_pool_kind = {
    .reserved = graph_pool_reserved,
    .trim = graph_pool_trim,
    .lack = graph_pool_lack,
    .reuses_above_limit = true,
};

static struct graph_pool pools[HAMI_DEVICES]; /* `kind` is NULL until a graph first runs there */

/* Locks the pool of a device. */
static struct graph_pool *graph_pool_lock(CUdevice device) {
    struct graph_pool *pool = &pools[device];
    hami_spin_lock(&pool->base.busy);
    if (pool->base.kind == NULL) {
        hami_driver_pool_init(&pool->base, &graph_pool_kind, device);
    }
    return pool;
}

/* Whether a pool has grown by `grown` as if what it had to spare served nothing. */
static bool graph_pool_grew_in_vain(const struct graph_pool *pool, const struct hami_graph_part *part, uint64_t grown) {
    return pool->lack == 0 ? grown != 0 : pool->lack < part->bytes && grown >= part->bytes;
}

/* After a run, which cannot be undone: if the pool took more than was reserved for it, trims the pool. */
static void graph_pool_finish(struct graph_pool *pool, const struct hami_graph_part *part) {
    uint64_t allowed = pool->base.charge.pages;
    (void)hami_driver_pool_reconcile(&pool->base);
    uint64_t grown = hami_excess(pool->base.charge.pages << HAMI_PAGE_SHIFT, pool->held);
    bool passed = pool->base.charge.pages > allowed && !hami_charge_within(&pool->base.charge);
    pool->unusable = pool->unusable || passed || graph_pool_grew_in_vain(pool, part, grown);
    if (passed) {
        (void)hami_driver_pool_trim(&pool->base);
    }
}

/* After a run, records how much pool memory the graph has, if its next launch can reuse it. */
static void graph_pool_remember(struct graph_pool *pool, struct hami_graph_part *part,
                                const struct hami_graph_memory *memory) {
    pool->taken += hami_excess(part->left, pool->freed);
    if (memory->left == 0 || memory->frees_first) {
        part->held = pool->base.charge.pages << HAMI_PAGE_SHIFT;
        part->used = graph_pool_used(pool->base.device, memory->frees_first ? part->held : 0);
        part->taken = pool->taken;
    }
}

bool hami_graph_pools_begin(struct hami_graph_memory *memory) {
    bool fits = true;
    CUdevice device = 0;
    for (; fits && device < HAMI_DEVICES; device++) {
        struct graph_request request = {&memory->parts[device], memory->frees_first};
        fits = request.part->bytes == 0 || hami_driver_pool_reserve(&graph_pool_lock(device)->base, &request);
    }
    while (!fits && --device >= 0) {
        if (memory->parts[device].bytes != 0) {
            (void)hami_driver_pool_reconcile(&pools[device].base);
            hami_spin_unlock(&pools[device].base.busy);
        }
    }
    return fits;
}

void hami_graph_pools_end(struct hami_graph_memory *memory, bool ran) {
    for (CUdevice device = 0; device < HAMI_DEVICES; device++) {
        struct hami_graph_part *part = &memory->parts[device];
        if (part->bytes != 0) {
            graph_pool_finish(&pools[device], part);
            if (ran) {
                graph_pool_remember(&pools[device], part, memory);
            }
            hami_spin_unlock(&pools[device].base.busy);
        }
    }
}

void hami_graph_pool_reconcile(CUdevice device) {
    struct hami_driver_pool *pool = &pools[device].base;
    if (hami_driver_pool_try_lock(pool)) {
        if (pool->kind != NULL) {
            (void)hami_driver_pool_reconcile(pool);
        }
        hami_spin_unlock(&pool->busy);
    }
}

void hami_graph_pools_reconcile(void) {
    for (CUdevice device = 0; device < HAMI_DEVICES; device++) {
        hami_graph_pool_reconcile(device);
    }
}

void hami_graph_pools_after_fork(void) {
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        atomic_flag_clear(&pools[i].base.busy);
        pools[i].base.kind = NULL;
        pools[i].unusable = false;
    }
}
