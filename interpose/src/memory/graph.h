/*
 * Memory of graphs. When a graph runs, its allocation nodes take memory from the pool that the driver keeps for graphs
 * on each device. The pool shrinks only when it is trimmed. graph.c reads the nodes of a graph when the graph is
 * instantiated, whichever function added them. graph_pool.c charges the pools: it reserves what a run may take, and
 * corrects the charge afterwards. compute/launch.c calls these functions around cuGraphLaunch.
 */
#ifndef HAMI_GRAPH_H
#define HAMI_GRAPH_H

#include "abi.h"
#include "cuda_abi.h"

#include <stdbool.h>

/* What the nodes of one executable graph may take together on one device, in bytes. */
struct hami_graph_part {
    uint64_t bytes;
    uint64_t left; /* the part of `bytes` that the graph itself does not free */
    /* The pool's bytes after the graph's last run: reserved, in use, graph_pool.taken. All 0: not recorded. */
    uint64_t held, used, taken;
};

struct hami_graph_memory {
    struct hami_graph_part parts[HAMI_DEVICES];
    CUdeviceptr left; /* sum of the addresses that nodes take, less those that nodes free; 0: all are freed */
    bool frees_first; /* CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH: a launch frees what the last one left */
};

/* Reads the nodes of `graph`, from which the driver has made `*exec`. If that fails, destroys `*exec` and refuses. */
CUresult hami_graph_instantiated(CUresult status, void *const *exec, void *graph, uint64_t flags);

/* What the nodes of an executable graph may take. NULL: they take nothing. */
struct hami_graph_memory *hami_graph_memory_of(const void *exec);

/* Locks the pools of the graph's devices and reserves what a run may take. False: refuse; nothing is locked then. */
bool hami_graph_pools_begin(struct hami_graph_memory *memory);

/* Corrects the charges to what the driver has taken, and unlocks. `ran`: the graph was launched, not only uploaded. */
void hami_graph_pools_end(struct hami_graph_memory *memory, bool ran);

/* Corrects the charge of one device's pool, or of all pools. Leaves out pools that another thread has locked. */
void hami_graph_pool_reconcile(CUdevice device);
void hami_graph_pools_reconcile(void);

/* Corrects the charge after the driver has trimmed a device's pool. Returns `status`. */
CUresult hami_graph_trimmed(CUresult status, CUdevice device);

void hami_graphs_after_fork(void);
void hami_graph_pools_after_fork(void);

#endif
