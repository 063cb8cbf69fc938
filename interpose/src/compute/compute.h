/*
 * Holding the container to a share of each device's time: device time is charged, and nothing starts while the balance
 * is negative. docs/explanation/compute.md tells the whole; this is what the rest of the library needs of it.
 */
#ifndef HAMI_COMPUTE_H
#define HAMI_COMPUTE_H

#include "compute_abi.h"
#include "cuda_abi.h"
#include "ledger/region.h"

/* A context or stream is about to end: nothing of ours may be in it then. */
void hami_compute_context_ending(CUcontext context);
void hami_compute_stream_ending(CUstream stream);

/* Takes what a dead process had under way off the accounts. Repeating it is harmless. */
void hami_compute_forget(struct hami_region *region, unsigned slot);

/* In the child of a fork: no helper, nothing under way. */
void hami_compute_after_fork(void);

#endif
