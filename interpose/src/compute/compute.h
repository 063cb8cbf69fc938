/*
 * What other rooms call. The first functions come through the table of parts.c. The others are called by generated
 * wrappers, before and after the driver's function; spec/cuda.toml says which.
 */
#ifndef HAMI_COMPUTE_H
#define HAMI_COMPUTE_H

#include "compute/charging.h"

/* A context is about to end: no event of ours may be in it then. */
void hami_compute_context_ending(CUcontext context);
/* Takes what a dead process had under way off the accounts. Repeating it is harmless. */
void hami_compute_forget(struct hami_region *region, unsigned slot);
/* In the child of a fork: there is no helper, and nothing is under way. */
void hami_compute_after_fork(void);

/* What a launch that went through the gate leaves to do after the driver's call. */
struct hami_pass {
    struct stream_account *account; /* NULL: nothing */
    int64_t cost;
    CUevent sample;
    enum close_when close;
    uint32_t closed; /* of the account, before the call */
    struct grant how;
};

/* Before a launch. May wait in the gate. The second: the launch is described by a structure, which may be NULL. */
struct hami_pass hami_launch_begin(const void *function, uint64_t grid, uint64_t block, CUstream stream,
                                   bool per_thread);
struct hami_pass hami_launch_begin_config(const struct hami_launch_config *config, const void *function,
                                          bool per_thread);
/* After it. Returns the driver's answer. */
int32_t hami_launch_end(struct hami_pass *p, int32_t status);

/* Before a capture begins: closes all grants of this process. */
void hami_close_grants(void);
/* Before the program waits for work: closes them too. Returns what hami_pools_waited needs after it. */
uint64_t hami_wait_begin(void);
/* The name of a stream that was passed to a function without _ptsz. */
static inline CUstream hami_stream_name(CUstream stream) {
    return stream == NULL ? CU_STREAM_LEGACY : stream;
}
void hami_stream_ending(CUstream stream);

/* After the begin of a capture, and after its end. Both return the driver's answer. */
int32_t hami_capture_began(int32_t status);
int32_t hami_capture_ended(int32_t status);

#endif
