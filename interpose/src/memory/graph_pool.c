/* Charges the driver's pools for graphs (graph.h). */
#include "memory/graph.h"

#include "doors/calls.h"
#include "memory/driver_pool.h"
#include "memory/sizes.h"

struct graph_pool {
    struct hami_driver_pool base;
    bool unusable;  /* it once grew although it had spare memory, which is no longer relied on */
    uint64_t held;  /* bytes that it had reserved before the run under way */
    uint64_t lack;  /* bytes that it was expected to grow by in that run */
    uint64_t freed; /* bytes that the driver is sure to free when that run starts */
    uint64_t taken; /* bytes that all runs so far have left allocated; frees are not subtracted */
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
 * Bytes that the graph's last run left allocated and that certainly still are; the program may have freed some. Other
 * memory in use is at most what was in use then without this graph's, plus what runs have left allocated since. What is
 * in use beyond that is still this graph's.
 */
static uint64_t graph_still_left(const struct graph_pool *pool, const struct hami_graph_part *part, uint64_t used) {
    uint64_t since = pool->taken - part->taken;
    return part->held == 0 ? 0 : hami_excess(used + part->left, part->used + since);
}

/*
 * Bytes in the pool that a run of the graph can surely use, by the larger of two estimates. `spare`: what is reserved
 * and not in use, and what the driver frees first. `had`: what the graph had in its last run, plus the pool's growth
 * since, less what other graphs have taken since. Some drivers keep memory mapped for the graphs that used it and
 * report it as used; for them only `had` is right.
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

static struct graph_pool pools[HAMI_DEVICES]; /* `base.kind` is NULL until a graph first runs on the device */

static struct graph_pool *graph_pool_lock(CUdevice device) {
    struct graph_pool *pool = &pools[device];
    hami_spin_lock(&pool->base.busy);
    if (pool->base.kind == NULL) {
        hami_driver_pool_init(&pool->base, &graph_pool_kind, device);
    }
    return pool;
}

/* True if a run made the pool grow, by `grown` bytes, as if the graph could use none of the pool's spare memory. */
static bool graph_pool_grew_in_vain(const struct graph_pool *pool, const struct hami_graph_part *part, uint64_t grown) {
    return pool->lack == 0 ? grown != 0 : pool->lack < part->bytes && grown >= part->bytes;
}

/* Corrects the charge after a run, which cannot be undone. If the charge then exceeds the limit, trims the pool. */
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

/* After a run, records the pool's figures, if the graph's next launch can reuse the memory. */
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
    if (memory == NULL) {
        return true;
    }
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
    for (CUdevice device = 0; memory != NULL && device < HAMI_DEVICES; device++) {
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
