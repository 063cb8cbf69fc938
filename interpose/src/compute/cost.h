/*
 * What launches take. A function launched in one shape has a cost, learnt from samples: pairs of events around a
 * launch. The first eight launches are sampled, then one in 32, later one in 256, and of very short ones one in 2 ms of
 * work. Costs only reserve device time; spans charge it. All functions need the process's lock.
 */
#ifndef HAMI_COMPUTE_COST_H
#define HAMI_COMPUTE_COST_H

#include "compute/event.h"

struct cost {
    uint64_t key;
    double mean;   /* ns; 0: unknown */
    double spread; /* mean distance from it, ns */
    uint32_t samples;
    bool from_busy; /* a sample began behind other work of the stream */
};

struct cost *cost_of(uint64_t key); /* never NULL */
uint32_t cost_launches_until_sample(const struct cost *c);

/* Before and after a sampled launch. The first returns the event recorded before it; NULL: it is no sample. */
CUevent cost_sample_begin(CUcontext context, CUstream stream, uint64_t key);
void cost_sample_end(CUstream stream, CUevent before);
void cost_sample_drop(CUevent before);
void cost_learn_samples(void); /* those that are complete */

void cost_forget_context(CUcontext context);
void cost_after_fork(void);

#endif
