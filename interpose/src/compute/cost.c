/* Implements cost.h: a table of costs by key, and the samples under way. */
#include "compute/cost.h"

#include "compute/wait.h"

#include <string.h>

enum { COSTS = 4096, PROBES = 8, SAMPLES = 32 };
enum { FIRST_SAMPLES = 8, OFTEN_SAMPLES = 64, SELDOM_SAMPLES = 256, AVERAGED_SAMPLES = 64 };
enum { LAUNCHES_OFTEN = 32, LAUNCHES_SELDOM = 256, LAUNCHES_MOST = 4096, SAMPLE_EVERY_NS = 2000000 };
enum { SHORTEST_NS = 250 }; /* cost of a launch whose two events have equal times: half a step of the device's clock */

struct cost_sample {
    CUcontext context;
    CUevent before; /* the event before the launch; NULL: this sample is unused */
    CUevent after;  /* the event behind the launch; NULL: the driver has not returned from the launch */
    uint64_t key;
    bool idle; /* the stream had no work before the launch */
};

static struct cost costs[COSTS];
static struct cost_sample samples[SAMPLES];

struct cost *cost_of(uint64_t key) {
    for (unsigned i = 0; i < PROBES; i++) {
        struct cost *c = &costs[(key + i) % COSTS];
        if (c->key == key || c->key == 0) {
            c->key = key;
            return c;
        }
    }
    struct cost *evicted = &costs[key % COSTS];
    *evicted = (struct cost){.key = key};
    return evicted;
}

uint32_t cost_launches_until_sample(const struct cost *c) {
    if (c->samples < FIRST_SAMPLES) {
        return 0;
    }
    if (c->samples < OFTEN_SAMPLES) {
        return LAUNCHES_OFTEN - 1;
    }
    uint64_t apart = c->samples < SELDOM_SAMPLES ? 0 : (uint64_t)(SAMPLE_EVERY_NS / (c->mean > 1 ? c->mean : 1));
    return (uint32_t)earlier(later(apart, LAUNCHES_SELDOM), LAUNCHES_MOST) - 1;
}

/*
 * Learns from a sample. In an idle stream, the time between the two events includes the overhead of the launch, about
 * 4 µs. Such samples count until better ones come: the first sample taken behind other work starts a new average. As
 * soon as this average has eight samples, it takes no more samples from idle streams.
 */
static void cost_learn(const struct cost_sample *sample, double ns) {
    struct cost *c = cost_of(sample->key);
    if (sample->idle && c->from_busy && c->samples >= FIRST_SAMPLES) {
        return;
    }
    if (!sample->idle && !c->from_busy) {
        c->from_busy = true;
        c->samples = 0;
    }
    c->samples += c->samples < UINT32_MAX;
    double weight = 1.0 / (c->samples < AVERAGED_SAMPLES ? c->samples : AVERAGED_SAMPLES);
    c->mean += (ns - c->mean) * weight;
    c->spread += ((ns > c->mean ? ns - c->mean : c->mean - ns) - c->spread) * weight;
}

static struct cost_sample *cost_unused_sample(void) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (samples[i].before == NULL) {
            return &samples[i];
        }
    }
    return NULL;
}

struct cost_sample *cost_sample_begin(CUcontext context, CUstream stream, uint64_t key) {
    struct cost_sample *s = atomic_load(&event_captures) > 0 ? NULL : cost_unused_sample();
    CUevent event = s == NULL ? NULL : event_take(context);
    if (event == NULL) {
        return NULL;
    }
    bool idle = event_stream_state(stream) == CUDA_SUCCESS;
    if (hami_call_cuEventRecord(event, stream) != CUDA_SUCCESS) {
        event_give_back(context, event);
        return NULL;
    }
    *s = (struct cost_sample){context, event, NULL, key, idle};
    return s;
}

void cost_sample_end(struct cost_sample *s, CUstream stream) {
    if (s != NULL && s->before != NULL) { /* `before` is NULL if the context has ended */
        s->after = event_take(s->context);
        if (s->after == NULL || hami_call_cuEventRecord(s->after, stream) != CUDA_SUCCESS) {
            cost_sample_drop(s);
        }
    }
}

void cost_sample_drop(struct cost_sample *s) {
    if (s != NULL && s->before != NULL) {
        event_give_back(s->context, s->before);
        if (s->after != NULL) {
            event_give_back(s->context, s->after);
        }
        *s = (struct cost_sample){0};
    }
}

void cost_learn_samples(void) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct cost_sample *s = &samples[i];
        float ms = 0;
        if (s->after == NULL || hami_call_cuEventQuery(s->after) == CUDA_ERROR_NOT_READY) {
            continue;
        }
        if (hami_call_cuEventElapsedTime(&ms, s->before, s->after) == CUDA_SUCCESS) {
            cost_learn(s, ms > 0 ? (double)ms * 1e6 : SHORTEST_NS);
        }
        cost_sample_drop(s);
    }
}

void cost_forget_context(CUcontext context) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (samples[i].context == context) {
            samples[i] = (struct cost_sample){0};
        }
    }
}

void cost_after_fork(void) {
    memset(costs, 0, sizeof costs);
    memset(samples, 0, sizeof samples);
}
