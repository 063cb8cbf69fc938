/* Reads what the nodes of graphs may take, and has the policies of executable graphs (graph.h). */
#include "memory/graph.h"

#include "memory/charge.h"
#include "memory/map.h"
#include "memory/sizes.h"
#include "policies.h"

#include <stdlib.h>
#include <string.h>

/* Memory that one node takes or frees; or, if `device` is UNREAD_GRAPH, a graph whose nodes are still to be read. */
enum { UNREAD_GRAPH = -1 };
struct item {
    CUdeviceptr address; /* of the memory; or the graph's handle */
    uint64_t bytes;      /* 0: the node frees the memory */
    CUdevice device;
};

/* The memory nodes found so far in a graph and the graphs in it. */
struct search {
    struct hami_graph_memory *memory;
    struct item *items;
    size_t count, room;
};

static struct hami_map graphs; /* executable graph → struct hami_graph_memory */

/* ---- reading a graph; functions that return bool return false if malloc(3) fails ---- */

static bool search_add(struct search *search, struct item item) {
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

static bool search_add_graph(const void *graph, struct search *search) {
    return search_add(search, (struct item){(CUdeviceptr)(uintptr_t)graph, 0, UNREAD_GRAPH});
}

static bool search_add_alloc(void *node, struct search *search) {
    struct hami_alloc_node_params params = {0};
    if (hami_call_cuGraphMemAllocNodeGetParams(node, &params) != CUDA_SUCCESS) {
        return true;
    }
    search->memory->left += params.address;
    if (params.location.type != CU_MEM_LOCATION_TYPE_DEVICE || params.location.id < 0 ||
        params.location.id >= HAMI_DEVICES) {
        return true;
    }
    uint64_t bytes = hami_large(params.bytes), *sum = &search->memory->parts[params.location.id].bytes;
    *sum = hami_sum(*sum, bytes);
    return search_add(search, (struct item){params.address, bytes, params.location.id});
}

static bool search_add_free(void *node, struct search *search) {
    CUdeviceptr address = 0;
    if (hami_call_cuGraphMemFreeNodeGetParams(node, &address) != CUDA_SUCCESS) {
        return true;
    }
    search->memory->left -= address;
    return search_add(search, (struct item){address, 0, 0});
}

static bool search_add_node(void *node, struct search *search) {
    int type = -1;
    void *child = NULL;
    if (node == NULL || hami_call_cuGraphNodeGetType(node, &type) != CUDA_SUCCESS) {
        return true;
    }
    switch (type) {
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return hami_call_cuGraphChildGraphNodeGetGraph(node, &child) != CUDA_SUCCESS || search_add_graph(child, search);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return search_add_alloc(node, search);
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return search_add_free(node, search);
    default:
        return true;
    }
}

/* Adds the memory nodes of one graph. Adds its child graphs as unread. */
static bool search_read(void *graph, struct search *search) {
    size_t count = 0;
    if (hami_call_cuGraphGetNodes(graph, NULL, &count) != CUDA_SUCCESS || count == 0) {
        return true;
    }
    void **nodes = calloc(count, sizeof *nodes);
    bool fine = nodes != NULL;
    if (fine && hami_call_cuGraphGetNodes(graph, nodes, &count) == CUDA_SUCCESS) {
        for (size_t i = 0; fine && i < count; i++) {
            fine = search_add_node(nodes[i], search);
        }
    }
    free(nodes);
    return fine;
}

static int item_order(const void *one, const void *other) {
    const struct item *a = one, *b = other;
    return a->address != b->address ? (a->address > b->address) - (a->address < b->address)
                                    : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* Adds up what is taken and not freed. Nodes come in any order; sorted, a free stands just before its allocation. */
static void search_add_left(struct search *search) {
    if (search->count != 0) {
        qsort(search->items, search->count, sizeof *search->items, item_order);
    }
    for (size_t i = 0; i < search->count; i++) {
        const struct item *at = &search->items[i];
        bool freed = i > 0 && at[-1].address == at->address && at[-1].bytes == 0;
        uint64_t *sum = &search->memory->parts[at->device].left;
        *sum = hami_sum(*sum, freed ? 0 : at->bytes);
    }
}

/* Reads what all nodes of a graph, and of graphs in it, may take. */
static bool graph_read(void *graph, uint64_t flags, struct hami_graph_memory *memory) {
    struct search search = {.memory = memory};
    memset(memory, 0, sizeof *memory);
    bool fine = search_add_graph(graph, &search);
    for (size_t i = 0; fine && i < search.count; i++) {
        struct item at = search.items[i];
        if (at.device == UNREAD_GRAPH) {
            search.items[i] = (struct item){0, 0, 0}; /* an item without effect */
            fine = search_read((void *)(uintptr_t)at.address, &search);
        }
    }
    if (fine) {
        search_add_left(&search);
        memory->frees_first = (flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0 && memory->left != 0;
    }
    free(search.items);
    return fine;
}

static bool graph_takes_memory(const struct hami_graph_memory *memory) {
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        if (memory->parts[i].bytes != 0) {
            return true;
        }
    }
    return false;
}

static bool graph_keep(void *exec, const struct hami_graph_memory *found) {
    struct hami_graph_memory *kept = malloc(sizeof *kept);
    if (kept != NULL) {
        *kept = *found;
    }
    if (kept == NULL || !hami_map_put(&graphs, hami_map_key(exec), hami_map_key(kept))) {
        free(kept);
        return false;
    }
    return true;
}

/* ---- policies ---- */

CUresult hami_graph_instantiated(CUresult status, void *const *exec, void *graph, uint64_t flags) {
    struct hami_graph_memory found;
    if (status != CUDA_SUCCESS || exec == NULL || *exec == NULL) {
        return status;
    }
    if (graph_read(graph, flags, &found) && (!graph_takes_memory(&found) || graph_keep(*exec, &found))) {
        return status;
    }
    (void)hami_call_cuGraphExecDestroy(*exec);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* `params` (CUDA_GRAPH_INSTANTIATE_PARAMS) begins with flags. One flag uploads the graph, which may take memory. */
int32_t hami_graph_instantiate_params(enum hami_hook hook, void **exec, void *graph, void *params) {
    uint64_t flags = params == NULL ? 0 : *(const uint64_t *)params;
    struct hami_graph_memory memory;
    memset(&memory, 0, sizeof memory);
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0 &&
        (!graph_read(graph, flags, &memory) || !hami_graph_pools_begin(&memory))) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_graph_instantiate_params(hook, exec, graph, params);
    status = hami_graph_instantiated(status, exec, graph, flags);
    hami_graph_pools_end(&memory, false);
    return status;
}

int32_t hami_graph_exec_destroy(enum hami_hook hook, void *exec) {
    uint64_t key = hami_map_key(exec), known = key == 0 ? 0 : hami_map_take(&graphs, key);
    CUresult status = hami_call_graph_exec_destroy(hook, exec);
    if (known != 0 && status != CUDA_SUCCESS) {
        (void)hami_map_put(&graphs, key, known);
    } else {
        free((void *)(uintptr_t)known);
    }
    return status;
}

struct hami_graph_memory *hami_graph_memory_of(const void *exec) {
    return exec == NULL ? NULL : hami_map_pointer(&graphs, hami_map_key(exec));
}

int32_t hami_graph_upload(enum hami_hook hook, void *exec, CUstream stream) {
    struct hami_graph_memory *memory = hami_graph_memory_of(exec);
    if (!hami_graph_pools_begin(memory)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_graph_upload(hook, exec, stream);
    hami_graph_pools_end(memory, false); /* false: some drivers take the memory only at the launch */
    return status;
}

CUresult hami_graph_trimmed(CUresult status, CUdevice device) {
    if (status == CUDA_SUCCESS && device >= 0 && device < HAMI_DEVICES) {
        hami_graph_pool_reconcile(device);
    }
    return status;
}

/* The records leak: between fork and exec a child must not call free(3), whose lock another thread may have held. */
void hami_graphs_after_fork(void) {
    hami_map_reset(&graphs);
}
