/*
 * The driver's pool for graphs on each device. An allocation node takes memory from it when its graph runs; the pool
 * shrinks only when it is trimmed. graph.c calls begin and end around a run, with what the graph may take.
 */
#ifndef HAMI_GRAPH_POOL_H
#define HAMI_GRAPH_POOL_H

#include "memory/driver_pool.h"

/* What the nodes of one executable graph may take together on one device. */
struct hami_graph_part {
    uint64_t bytes;
    uint64_t left;              /* bytes of these that the graph itself does not free */
    uint64_t held, used, taken; /* figures of the pool after the graph last ran there; held 0: it has not */
};

struct hami_graph_memory {
    struct hami_graph_part parts[HAMI_DEVICES];
    CUdeviceptr left; /* the sum of what its nodes take less that of what they free; 0: it frees all that it takes */
    bool frees_first; /* at a launch the driver frees what is left of the one before */
};

/* Locks the pools of the devices and reserves what a run may take. False: refuse; nothing is locked then. */
bool hami_graph_pools_begin(struct hami_graph_memory *memory);

/* Brings the charges in step with what the driver has taken and unlocks. `ran`: keeps figures for the next run. */
void hami_graph_pools_end(struct hami_graph_memory *memory, bool ran);

/* Brings the charge of one device, or of all, in step where no run is under way. */
void hami_graph_pool_reconcile(CUdevice device);
void hami_graph_pools_reconcile(void);

void hami_graph_pools_after_fork(void);

#endif
