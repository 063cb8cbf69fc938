/*
 * What other rooms call: first the functions that parts.c calls when a context or a process ends and after a fork, then
 * those that the generated wrappers call before and after the driver's function (spec/cuda.toml).
 */
#ifndef HAMI_COMPUTE_H
#define HAMI_COMPUTE_H

#include "compute/charging.h"

/* A context is about to end. Its timing events are given up, and their work is charged by estimate. */
void hami_compute_context_ending(CUcontext context);
/* The process that had this slot of the region is dead: charges its unfinished work. May be repeated. */
void hami_compute_forget(struct hami_region *region, unsigned slot);
/* In the child of a fork: forgets the parent's state, since the child has no helper thread and no work under way. */
void hami_compute_after_fork(void);

/* What hami_launch_end needs after the driver's call of a launch. */
struct hami_pass {
    struct stream_account *account; /* NULL: nothing is left to do, and the other fields are not set */
    int64_t cost;                   /* ns that the launch took of its stream's grant */
    struct cost_sample *sample;     /* NULL: the launch is not sampled */
    enum close_when close;
    uint32_t closed; /* `account->closed` before the driver's call */
    struct grant how;
};

/* Before a launch. Waits in the gate if the device has a core limit and the launch's time is not granted yet. */
struct hami_pass hami_launch_begin(const void *function, uint64_t grid, uint64_t block, CUstream stream,
                                   bool per_thread);
/* Before a launch whose grid, block and stream stand in a CUlaunchConfig, which may be NULL. */
struct hami_pass hami_launch_begin_config(const struct hami_launch_config *config, const void *function,
                                          bool per_thread);
/* After a launch. Returns `status`, the driver's answer. */
int32_t hami_launch_end(struct hami_pass *p, int32_t status);

/* Before a capture begins: closes all grants of this process. */
void hami_close_grants(void);
/* Before the program waits for its work: closes all grants. Returns the argument `frees` of hami_pools_waited. */
uint64_t hami_wait_begin(void);
/* Before a stream is destroyed: closes its grant, and tells stream_pool.h, since the driver may reuse its handle. */
void hami_stream_ending(CUstream stream);

/* After the driver began or ended a capture: both count the captured streams, and return the driver's `status`. */
int32_t hami_capture_began(int32_t status);
int32_t hami_capture_ended(int32_t status);

#endif
