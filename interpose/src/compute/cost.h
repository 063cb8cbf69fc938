/*
 * What launches cost, in device time. A function launched in one shape has a cost, learnt from samples: two events
 * around a launch tell how long it took. The first eight launches are sampled, then one in 32, later one in 256, and of
 * launches below 8 µs one in 2 ms of work. Costs only reserve device time; spans charge it (charging.h).
 *
 * All functions need the process's lock (compute_lock).
 */
#ifndef HAMI_COMPUTE_COST_H
#define HAMI_COMPUTE_COST_H

#include "compute/event.h"

struct cost {
    uint64_t key;
    double mean;   /* ns; 0: unknown */
    double spread; /* mean distance of samples from `mean`, ns */
    uint32_t samples;
    bool from_busy; /* a sample began while the stream had other work */
};

/* The cost of a launch. Never NULL: a new key gets an unknown cost, perhaps in place of another key's. */
struct cost *cost_of(uint64_t key);
uint32_t cost_launches_until_sample(const struct cost *c); /* 0: sample the next launch */

/* Records an event before a launch. NULL: no event could be recorded, so the launch is not sampled. */
struct cost_sample *cost_sample_begin(CUcontext context, CUstream stream, uint64_t key);
/* Records the event after a sampled launch. */
void cost_sample_end(struct cost_sample *s, CUstream stream);
/* Gives up a sample, for example because its launch failed. */
void cost_sample_drop(struct cost_sample *s);
void cost_learn_samples(void); /* learns from the samples whose launches are complete */

void cost_forget_context(CUcontext context);
void cost_after_fork(void);

#endif
