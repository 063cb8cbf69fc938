/* What the rest of the library tells the compute room; all calls come through the table of events. */
#ifndef HAMI_COMPUTE_H
#define HAMI_COMPUTE_H

#include "compute_abi.h"
#include "cuda_abi.h"

/* A context is about to end: no event of ours may be in it then. */
void hami_compute_context_ending(CUcontext context);

/* Takes what a dead process had under way off the accounts. Repeating it is harmless. */
void hami_compute_forget(struct hami_region *region, unsigned slot);

/* In the child of a fork: there is no helper, and nothing is under way. */
void hami_compute_after_fork(void);

#endif
