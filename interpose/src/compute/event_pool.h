/*
 * CUDA events for this room: the driver's functions on them, and per context the events that may be used again.
 *
 * Events belong to a context and end with it. All functions but the first two need the process's lock.
 */
#ifndef HAMI_COMPUTE_EVENT_POOL_H
#define HAMI_COMPUTE_EVENT_POOL_H

#include "cuda_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef void *CUevent;

enum { SPARE_EVENTS = 64 };

/* When a way to compare the clocks was last tried in vain, and how long to wait before the next try. */
struct clock_retry {
    uint64_t last, pause;
};

struct context_events {
    CUcontext context; /* NULL: the place is free */
    unsigned count;
    CUevent spare[SPARE_EVENTS];
    /* device_clock.c: a completed event, and its time on the host's clock. Times of other events are told from it. */
    CUevent base;
    uint64_t base_time;
    uint64_t compared_at; /* when the two clocks were last compared */
    struct clock_retry toward_end, when_idle;
    unsigned steps; /* looks close to an event's end since then */
};

extern struct event_driver {
    CUresult (*create)(CUevent *, unsigned);
    CUresult (*destroy)(CUevent);
    CUresult (*record)(CUevent, CUstream);
    CUresult (*query)(CUevent);
    CUresult (*elapsed)(float *, CUevent, CUevent);
    CUresult (*stream_query)(CUstream);
    CUresult (*set_context)(CUcontext);
    bool looked_up, usable;
} event_driver;

extern _Atomic int event_captures; /* streams that are being captured, as far as known */
bool event_stream_is_captured(CUstream stream);

bool event_driver_is_usable(void);
/* NULL: more contexts are in use than can be followed. */
struct context_events *events_of(CUcontext context);
/* An event made in `context`, which is current; NULL: none is to be had. */
CUevent event_take(CUcontext context);
void event_give_back(CUcontext context, CUevent event);
void events_forget_context(CUcontext context); /* it ends, and its events with it */
void events_after_fork(void);

#endif
