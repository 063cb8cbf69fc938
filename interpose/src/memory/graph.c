/* Memory of graphs; see graph.h. The nodes are found when a graph is made executable, whichever way they came into it.
 */
#include "memory/graph.h"

#include "doors/hook.h"
#include "memory/charge.h"
#include "memory/map.h"
#include "policies.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { NODE_GRAPH = 4, NODE_ALLOC = 10, NODE_FREE = 11 };
enum { USED_CURRENT = 0, RESERVED_CURRENT = 2 };
enum { AUTO_FREE_ON_LAUNCH = 1, UPLOAD = 2 }; /* CUgraphInstantiate_flags */

/* CUDA_MEM_ALLOC_NODE_PARAMS: properties of the pool, access, size, address. */
struct node_params {
    int32_t type, handle_types;
    struct hami_mem_location location;
    uint8_t rest_of_pool[72];
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr address;
};
_Static_assert(sizeof(struct node_params) == 120, "CUDA_MEM_ALLOC_NODE_PARAMS");

/* What the nodes of one executable graph may take together on one device. */
struct part {
    uint64_t bytes;
    uint64_t left;              /* of these, what the graph itself does not free */
    uint64_t held, used, taken; /* of the pool, after the graph last ran there; 0: it has not */
};

struct hami_graph_memory {
    struct part parts[HAMI_DEVICES];
    CUdeviceptr left; /* the sum of what its nodes take less that of what they free; 0: it frees all that it takes */
    bool frees_first; /* at a launch the driver frees what is left of the one before */
};

/* What one node takes or frees; or a graph whose nodes have yet to be read. */
enum { UNREAD_GRAPH = -1 };
struct item {
    CUdeviceptr address; /* or the graph's handle */
    uint64_t bytes;      /* 0: frees */
    CUdevice device;     /* or UNREAD_GRAPH */
};

/* What is found in a graph. */
struct search {
    struct hami_graph_memory *memory;
    struct item *items;
    size_t count, room;
};

/* The driver's pool for graphs on one device. */
struct pool {
    atomic_flag busy;
    bool unusable;       /* it has grown although it had enough to spare */
    uint64_t held, lack; /* before the run under way, and what it was thought to have to grow by */
    uint64_t freed;      /* what is sure to be freed when that run starts */
    uint64_t taken;      /* what runs have left allocated, all together; what was freed is not taken off */
    struct hami_charge charge;
};

static struct hami_map graphs; /* executable graph → memory */
static struct pool pools[HAMI_DEVICES];

/* ---- what is in a graph ---- */

/* False: this process's own memory is full. */
static bool add_item(struct search *search, struct item item) {
    if (search->count == search->room) {
        size_t room = search->room == 0 ? 16 : 2 * search->room;
        struct item *items = realloc(search->items, room * sizeof *items);
        if (items == NULL) {
            return false;
        }
        search->items = items;
        search->room = room;
    }
    search->items[search->count++] = item;
    return true;
}

static bool add_graph(const void *graph, struct search *search) {
    return add_item(search, (struct item){(CUdeviceptr)(uintptr_t)graph, 0, UNREAD_GRAPH});
}

static bool add_alloc(void *node, struct search *search) {
    struct node_params params;
    CUresult (*get_params)(void *, struct node_params *) = hami_cuda_function("cuGraphMemAllocNodeGetParams");
    memset(&params, 0, sizeof params);
    if (get_params == NULL || get_params(node, &params) != CUDA_SUCCESS) {
        return true;
    }
    search->memory->left += params.address;
    if (params.location.type != CU_MEM_LOCATION_TYPE_DEVICE || params.location.id < 0 ||
        params.location.id >= HAMI_DEVICES) {
        return true;
    }
    uint64_t bytes = hami_large(params.bytes), *sum = &search->memory->parts[params.location.id].bytes;
    *sum = __builtin_add_overflow(*sum, bytes, sum) ? UINT64_MAX : *sum;
    return add_item(search, (struct item){params.address, bytes, params.location.id});
}

static bool add_free(void *node, struct search *search) {
    CUdeviceptr address = 0;
    CUresult (*get_params)(void *, CUdeviceptr *) = hami_cuda_function("cuGraphMemFreeNodeGetParams");
    if (get_params == NULL || get_params(node, &address) != CUDA_SUCCESS) {
        return true;
    }
    search->memory->left -= address;
    return add_item(search, (struct item){address, 0, 0});
}

static bool add_node(void *node, struct search *search) {
    CUresult (*get_type)(void *, int *) = hami_cuda_function("cuGraphNodeGetType");
    int type = -1;
    if (get_type == NULL || get_type(node, &type) != CUDA_SUCCESS) {
        return true;
    }
    if (type == NODE_GRAPH) {
        void *child = NULL;
        CUresult (*get_graph)(void *, void **) = hami_cuda_function("cuGraphChildGraphNodeGetGraph");
        return get_graph == NULL || get_graph(node, &child) != CUDA_SUCCESS || add_graph(child, search);
    }
    return type == NODE_ALLOC ? add_alloc(node, search) : type == NODE_FREE ? add_free(node, search) : true;
}

/* Adds the memory nodes of one graph, and the graphs in it. False: this process's own memory is full. */
static bool read_graph(void *graph, struct search *search) {
    CUresult (*get_nodes)(void *, void **, size_t *) = hami_cuda_function("cuGraphGetNodes");
    size_t count = 0;
    if (get_nodes == NULL || get_nodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0) {
        return true;
    }
    void **nodes = calloc(count, sizeof *nodes);
    bool fine = nodes != NULL;
    if (fine && get_nodes(graph, nodes, &count) == CUDA_SUCCESS) {
        for (size_t i = 0; fine && i < count; i++) {
            fine = nodes[i] == NULL || add_node(nodes[i], search);
        }
    }
    free(nodes);
    return fine;
}

static int by_address(const void *one, const void *other) {
    const struct item *a = one, *b = other;
    return a->address != b->address ? (a->address > b->address) - (a->address < b->address)
                                    : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Adds up what is taken and not freed: nodes come in any order, so those of one address are brought together. */
static void add_left(struct search *search) {
    if (search->count != 0) {
        qsort(search->items, search->count, sizeof *search->items, by_address);
    }
    for (size_t i = 0; i < search->count; i++) {
        const struct item *at = &search->items[i];
        bool freed = i > 0 && at[-1].address == at->address && at[-1].bytes == 0;
        uint64_t *sum = &search->memory->parts[at->device].left;
        *sum = __builtin_add_overflow(*sum, freed ? 0 : at->bytes, sum) ? UINT64_MAX : *sum;
    }
}

/* Adds up what a graph's nodes may take. False: this process's own memory is full. */
static bool look(void *graph, uint64_t flags, struct hami_graph_memory *memory) {
    struct search search = {.memory = memory};
    memset(memory, 0, sizeof *memory);
    bool fine = add_graph(graph, &search);
    for (size_t i = 0; fine && i < search.count; i++) {
        struct item at = search.items[i];
        if (at.device == UNREAD_GRAPH) {
            search.items[i] = (struct item){0, 0, 0}; /* stands for nothing */
            fine = read_graph((void *)(uintptr_t)at.address, &search);
        }
    }
    if (fine) {
        add_left(&search);
        memory->frees_first = (flags & AUTO_FREE_ON_LAUNCH) != 0 && memory->left != 0;
    }
    free(search.items);
    return fine;
}

static bool takes_memory(const struct hami_graph_memory *memory) {
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        if (memory->parts[i].bytes != 0) {
            return true;
        }
    }
    return false;
}

/* After the driver has made a graph executable: remembers what it may take. */
static CUresult instantiated(CUresult status, void *const *exec, void *graph, uint64_t flags) {
    struct hami_graph_memory found;
    if (status != CUDA_SUCCESS || exec == NULL || *exec == NULL) {
        return status;
    }
    bool fine = look(graph, flags, &found);
    if (fine && takes_memory(&found)) {
        struct hami_graph_memory *kept = malloc(sizeof *kept);
        fine = kept != NULL;
        if (fine) {
            *kept = found;
            fine = hami_map_put(&graphs, (uint64_t)(uintptr_t)*exec, (uint64_t)(uintptr_t)kept);
        }
        if (!fine) {
            free(kept);
        }
    }
    if (!fine) {
        CUresult (*destroy)(void *) = hami_driver_function(HAMI_cuGraphExecDestroy);
        (void)destroy(*exec);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

int32_t hami_graph_instantiate(enum hami_hook hook, void **exec, void *graph, void *error_node, char *log,
                               uint64_t bytes) {
    CUresult (*driver)(void **, void *, void *, char *, size_t) = hami_driver_function(hook);
    return instantiated(driver(exec, graph, error_node, log, bytes), exec, graph, 0);
}

int32_t hami_graph_instantiate_flags(enum hami_hook hook, void **exec, void *graph, uint64_t flags) {
    CUresult (*driver)(void **, void *, uint64_t) = hami_driver_function(hook);
    return instantiated(driver(exec, graph, flags), exec, graph, flags);
}

int32_t hami_graph_exec_destroy(enum hami_hook hook, void *exec) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    uint64_t key = (uint64_t)(uintptr_t)exec;
    uint64_t known = key == 0 ? 0 : hami_map_take(&graphs, key);
    CUresult status = driver(exec);
    if (known != 0 && status != CUDA_SUCCESS) {
        (void)hami_map_put(&graphs, key, known);
    } else {
        free((void *)(uintptr_t)known);
    }
    return status;
}

/* ---- what the driver has taken for graphs ---- */

static void lock(struct pool *pool) {
    hami_spin_lock(&pool->busy);
}

static void unlock(struct pool *pool) {
    hami_spin_unlock(&pool->busy);
}

static uint64_t attribute(CUdevice device, int which, uint64_t unless_told) {
    uint64_t value = 0;
    CUresult (*get)(CUdevice, int, void *) = hami_cuda_function("cuDeviceGetGraphMemAttribute");
    return get != NULL && get(device, which, &value) == CUDA_SUCCESS ? value : unless_told;
}

/* What the driver has reserved in a locked pool; where it does not say, what it said last. */
static uint64_t reserved(const struct pool *pool, CUdevice device) {
    return attribute(device, RESERVED_CURRENT, pool->charge.pages << HAMI_PAGE_SHIFT);
}

/* Brings the charge of a locked pool in step with what is reserved; what is taken already counts whatever the limit. */
static void settle(struct pool *pool, CUdevice device) {
    uint64_t pages = (reserved(pool, device) + (1u << HAMI_PAGE_SHIFT) - 1) >> HAMI_PAGE_SHIFT;
    if (pages < pool->charge.pages) {
        hami_charge_shrink(&pool->charge, pool->charge.pages - pages);
    } else if (pages > pool->charge.pages) {
        hami_charge_found(device, HAMI_COLUMN_DATA, &pool->charge, pages - pool->charge.pages);
    }
}

static void settle_if_free(CUdevice device) {
    struct pool *pool = &pools[device];
    if (!atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire)) {
        if (pool->charge.pages != 0) {
            settle(pool, device);
        }
        unlock(pool);
    }
}

void hami_graphs_settle(void) {
    for (CUdevice device = 0; device < HAMI_DEVICES; device++) {
        settle_if_free(device);
    }
}

static uint64_t less(uint64_t from, uint64_t bytes) {
    return from > bytes ? from - bytes : 0;
}

/*
 * Of what a graph left allocated when it last ran, what still is for sure: the program may have freed it, and others
 * have taken it. What is in use beyond what was then, and beyond all that has been taken since, is the graph's.
 */
static uint64_t still_left(const struct pool *pool, const struct part *part, uint64_t used) {
    uint64_t since = pool->taken - part->taken;
    return part->held == 0 ? 0 : less(used + part->left, part->used + since);
}

/*
 * What there is for a graph, and at least that: what is spare, with what the driver frees before it launches it; or
 * what it had when it last ran, with what the pool has grown by and without what others have taken since. Only the
 * second holds where drivers keep memory mapped to the graphs that had it, and call that used.
 */
static uint64_t there_for(const struct pool *pool, const struct part *part, uint64_t held, uint64_t used) {
    uint64_t since = pool->taken - part->taken, spare = less(held, used) + pool->freed;
    uint64_t had = part->held == 0 ? 0 : less(part->bytes + held, part->held + since);
    return had > spare ? had : spare;
}

/* What a locked pool lacks for a graph's nodes, and what it has grown by behind our back. */
static uint64_t missing(struct pool *pool, CUdevice device, const struct part *part, bool frees_first) {
    uint64_t held = reserved(pool, device);
    uint64_t told = attribute(device, USED_CURRENT, UINT64_MAX), used = told == UINT64_MAX ? held : told;
    uint64_t charged = pool->charge.pages << HAMI_PAGE_SHIFT;
    uint64_t left = still_left(pool, part, told == UINT64_MAX ? 0 : told);
    pool->freed = !frees_first ? 0 : left < part->left ? left : part->left;
    uint64_t spare = pool->unusable ? 0 : there_for(pool, part, held, used);
    uint64_t owed = held > charged ? held - charged : 0;
    uint64_t wanted = 0;
    pool->held = held;
    pool->lack = part->bytes > spare ? part->bytes - spare : 0;
    return __builtin_add_overflow(pool->lack, owed, &wanted) ? UINT64_MAX : wanted;
}

/* Has the driver give back what no graph uses now. */
static void trim(struct pool *pool, CUdevice device) {
    CUresult (*driver)(CUdevice) = hami_driver_function(HAMI_cuDeviceGraphMemTrim);
    (void)driver(device);
    settle(pool, device);
}

/*
 * Reserves what a locked pool lacks. What it has to spare goes before anything is refused: it may be too little, or, as
 * was once seen, of no use.
 */
static bool reserve(struct pool *pool, CUdevice device, const struct part *part, bool frees_first) {
    uint64_t wanted = missing(pool, device, part, frees_first);
    if (pool->charge.pages == 0) {
        return wanted == 0 || hami_charge_take(device, wanted, HAMI_COLUMN_DATA, &pool->charge);
    }
    if (wanted == 0 || hami_charge_try(&pool->charge, wanted)) {
        return true;
    }
    trim(pool, device);
    wanted = missing(pool, device, part, frees_first);
    return wanted == 0 || hami_charge_grow(&pool->charge, wanted);
}

/* Whether a pool that had something to spare has grown by `grown` as if it had not. */
static bool in_vain(const struct pool *pool, const struct part *part, uint64_t grown) {
    return pool->lack == 0 ? grown != 0 : pool->lack < part->bytes && grown >= part->bytes;
}

/* After a run, which cannot be undone: what it took without being reserved may be made up for. */
static void finish(struct pool *pool, CUdevice device, const struct part *part) {
    uint64_t allowed = pool->charge.pages;
    settle(pool, device);
    uint64_t held = pool->charge.pages << HAMI_PAGE_SHIFT;
    bool passed = pool->charge.pages > allowed && !hami_charge_within(&pool->charge);
    pool->unusable = pool->unusable || passed || in_vain(pool, part, held > pool->held ? held - pool->held : 0);
    if (passed) {
        trim(pool, device);
    }
}

/* Remembers what a graph has now that it ran, where that is there for it when it is launched again. */
static void remember(struct pool *pool, CUdevice device, struct part *part, const struct hami_graph_memory *memory) {
    pool->taken += less(part->left, pool->freed);
    if (memory->left == 0 || memory->frees_first) {
        part->held = pool->charge.pages << HAMI_PAGE_SHIFT;
        part->used = attribute(device, USED_CURRENT, memory->frees_first ? part->held : 0);
        part->taken = pool->taken;
    }
}

/* Locks the pools of the devices and reserves. False: refuse; nothing is locked then. */
static bool reserve_all(const struct hami_graph_memory *memory) {
    for (CUdevice device = 0; device < HAMI_DEVICES; device++) {
        if (memory->parts[device].bytes == 0) {
            continue;
        }
        lock(&pools[device]);
        if (reserve(&pools[device], device, &memory->parts[device], memory->frees_first)) {
            continue;
        }
        for (; device >= 0; device--) {
            if (memory->parts[device].bytes != 0) {
                settle(&pools[device], device);
                unlock(&pools[device]);
            }
        }
        return false;
    }
    return true;
}

static struct hami_graph_memory *memory_of(const void *exec) {
    return exec == NULL ? NULL : (void *)(uintptr_t)hami_map_get(&graphs, (uint64_t)(uintptr_t)exec);
}

static void end_run(struct hami_graph_memory *memory, bool ran) {
    for (CUdevice device = 0; memory != NULL && device < HAMI_DEVICES; device++) {
        if (memory->parts[device].bytes != 0) {
            finish(&pools[device], device, &memory->parts[device]);
            if (ran) {
                remember(&pools[device], device, &memory->parts[device], memory);
            }
            unlock(&pools[device]);
        }
    }
}

bool hami_graph_run_begin(void *exec, struct hami_graph_memory **memory) {
    *memory = memory_of(exec);
    return *memory == NULL || reserve_all(*memory);
}

void hami_graph_run_end(struct hami_graph_memory *memory, CUresult status) {
    end_run(memory, status == CUDA_SUCCESS);
}

/* Like an upload where CUDA_GRAPH_INSTANTIATE_PARAMS, which starts with flags, asks for one. */
int32_t hami_graph_instantiate_params(enum hami_hook hook, void **exec, void *graph, void *params) {
    CUresult (*driver)(void **, void *, void *) = hami_driver_function(hook);
    uint64_t flags = params == NULL ? 0 : *(const uint64_t *)params;
    struct hami_graph_memory memory;
    memset(&memory, 0, sizeof memory);
    if ((flags & UPLOAD) != 0 && (!look(graph, flags, &memory) || !reserve_all(&memory))) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = instantiated(driver(exec, graph, params), exec, graph, flags);
    end_run(&memory, false);
    return status;
}

int32_t hami_graph_upload(enum hami_hook hook, void *exec, CUstream stream) {
    CUresult (*driver)(void *, CUstream) = hami_driver_function(hook);
    struct hami_graph_memory *memory = NULL;
    if (!hami_graph_run_begin(exec, &memory)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(exec, stream);
    end_run(memory, false); /* not every driver takes memory then */
    return status;
}

int32_t hami_graph_trim(enum hami_hook hook, int32_t device) {
    CUresult (*driver)(CUdevice) = hami_driver_function(hook);
    CUresult status = driver(device);
    if (status == CUDA_SUCCESS && device >= 0 && device < HAMI_DEVICES) {
        settle_if_free(device);
    }
    return status;
}

/* The child leaks the parent's few records rather than touch its allocator between fork and exec. */
void hami_graphs_after_fork(void) {
    hami_map_reset(&graphs);
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        atomic_flag_clear(&pools[i].busy);
        pools[i].unusable = false;
        pools[i].charge = (struct hami_charge){0, 0};
    }
}
