/* Implements cost.h. */
#include "compute/cost.h"

#include <string.h>

enum { COSTS = 4096, PROBES = 8, SAMPLES = 32 };
enum { FIRST_SAMPLES = 8, OFTEN_SAMPLES = 64, SELDOM_SAMPLES = 256, AVERAGED_SAMPLES = 64 };
enum { LAUNCHES_OFTEN = 32, LAUNCHES_SELDOM = 256, LAUNCHES_MOST = 4096, SAMPLE_EVERY_NS = 2000000 };
enum { SHORTEST_NS = 250 }; /* a pair with equal times took half a step of the device's clock */

struct sample {
    CUcontext context;
    CUevent before, after; /* NULL: unused; NULL: not launched yet */
    uint64_t key;
    bool idle; /* the stream had no work before */
};

static struct cost costs[COSTS];
static struct sample samples[SAMPLES];

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
    double apart = SAMPLE_EVERY_NS / (c->mean > 1 ? c->mean : 1);
    return c->samples < SELDOM_SAMPLES || apart < LAUNCHES_SELDOM ? LAUNCHES_SELDOM - 1
           : apart > LAUNCHES_MOST                                ? LAUNCHES_MOST - 1
                                                                  : (uint32_t)apart;
}

/*
 * In an idle stream the pair also measures the launch itself, about 4 µs: much for a short kernel, but better than
 * nothing. The first sample behind other work starts the average anew, and samples of idle streams then do not count.
 */
static void cost_learn(const struct sample *sample, double ns) {
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

/* NULL finds an unused sample. */
static struct sample *cost_sample_of(CUevent before) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (samples[i].before == before) {
            return &samples[i];
        }
    }
    return NULL;
}

CUevent cost_sample_begin(CUcontext context, CUstream stream, uint64_t key) {
    CUevent event = atomic_load(&event_captures) > 0 ? NULL : event_take(context);
    if (event == NULL) {
        return NULL;
    }
    bool idle = hami_call_cuStreamQuery(stream) == CUDA_SUCCESS;
    struct sample *s = hami_call_cuEventRecord(event, stream) == CUDA_SUCCESS ? cost_sample_of(NULL) : NULL;
    if (s == NULL) {
        event_give_back(context, event);
        return NULL;
    }
    *s = (struct sample){context, event, NULL, key, idle};
    return event;
}

void cost_sample_end(CUstream stream, CUevent before) {
    struct sample *s = before == NULL ? NULL : cost_sample_of(before);
    CUevent after = s == NULL ? NULL : event_take(s->context);
    if (after == NULL || hami_call_cuEventRecord(after, stream) != CUDA_SUCCESS) {
        cost_sample_drop(before);
    } else {
        s->after = after;
    }
}

void cost_sample_drop(CUevent before) {
    struct sample *s = before == NULL ? NULL : cost_sample_of(before);
    if (s != NULL) {
        event_give_back(s->context, before);
        *s = (struct sample){0};
    }
}

void cost_learn_samples(void) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct sample *s = &samples[i];
        float ms = 0;
        if (s->after == NULL || hami_call_cuEventQuery(s->after) == CUDA_ERROR_NOT_READY) {
            continue;
        }
        if (hami_call_cuEventElapsedTime(&ms, s->before, s->after) == CUDA_SUCCESS) {
            cost_learn(s, ms > 0 ? (double)ms * 1e6 : SHORTEST_NS);
        }
        event_give_back(s->context, s->before);
        event_give_back(s->context, s->after);
        *s = (struct sample){0};
    }
}

void cost_forget_context(CUcontext context) {
    for (unsigned i = 0; i < SAMPLES; i++) {
        if (samples[i].context == context) {
            samples[i] = (struct sample){0};
        }
    }
}

void cost_after_fork(void) {
    memset(costs, 0, sizeof costs);
    memset(samples, 0, sizeof samples);
}
