/*
 * CUDA events for this room: the events of each context that may be used again, and their times on the host's clock.
 *
 * Events belong to a context and end with it. Their times are on the device's clock, which may run at another rate than
 * the host's, so the two are compared about every 50 ms, to within 60 µs. All functions but the first need the
 * process's lock.
 */
#ifndef HAMI_COMPUTE_EVENT_H
#define HAMI_COMPUTE_EVENT_H

#include "doors/calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef void *CUevent;

extern _Atomic int event_captures; /* streams that are being captured, as far as known */
bool event_stream_is_captured(CUstream stream);

CUevent event_take(CUcontext context); /* which is current; NULL: there is none */
void event_give_back(CUcontext context, CUevent event);
void events_forget_context(CUcontext context); /* it ends, and its events with it */
void events_after_fork(void);

/* The host time at which a completed event completed, not before `earliest`. Takes the event. */
uint64_t event_time(CUcontext context, CUevent event, uint64_t earliest);
/* Compares the clocks by an event in a stream that nobody captures, if it is due and the stream is idle. */
void event_compare_clocks(CUcontext context, CUstream stream);
/*
 * An event that is seen incomplete, and complete shortly after, compares the clocks. If that is due, moves `end`, the
 * event's expected end, forward so that the looks begin before it. Returns ns until the next look; 0: not due.
 */
uint64_t event_look_step(CUcontext context, uint64_t now, uint64_t *end);

#endif
