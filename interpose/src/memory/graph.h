/*
 * Memory of graphs. An allocation node takes memory when its graph runs, from a pool that the driver keeps for each
 * device and process and that shrinks only when trimmed. What counts is what the driver says it has reserved there.
 */
#ifndef HAMI_GRAPH_H
#define HAMI_GRAPH_H

#include "cuda_abi.h"

#include <stdbool.h>

struct hami_graph_memory;

/* Around cuGraphLaunch: reserves what the graph may have to take. False: refuse, nothing to end. */
bool hami_graph_run_begin(void *exec, struct hami_graph_memory **memory);

/* Brings the charge in step with what the driver has taken, whatever it answered. */
void hami_graph_run_end(struct hami_graph_memory *memory, CUresult status);

/* Same for all devices, before anything is refused. */
void hami_graphs_settle(void);

void hami_graphs_after_fork(void);

#endif
