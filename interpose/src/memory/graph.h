/*
 * Memory of graphs: what the nodes of an executable graph may take is read when the graph is instantiated, whichever
 * way they came into it, and reserved around each launch (graph_pool.h). compute/launch.c calls this around
 * cuGraphLaunch.
 */
#ifndef HAMI_GRAPH_H
#define HAMI_GRAPH_H

#include "cuda_abi.h"

#include <stdbool.h>

struct hami_graph_memory;

/* Before the launch: reserves what the graph may have to take. False: refuse, nothing to end. */
bool hami_graph_run_begin(void *exec, struct hami_graph_memory **memory);

/* After it: brings the charge in step with what the driver has taken, whatever it answered. */
void hami_graph_run_end(struct hami_graph_memory *memory, CUresult status);

void hami_graphs_after_fork(void);

#endif
