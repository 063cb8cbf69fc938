/*
 * CUDA events for this room: a stock of unused events for each context, and the times of events on the host's clock.
 *
 * Events belong to a context and end with it. Their times are of the device's clock, which may run at another rate than
 * the host's (compute_now). So the clocks are compared about every 50 ms, to within 60 µs. All functions except
 * the two that ask for a stream's state need the process's lock (compute_lock).
 */
#ifndef HAMI_COMPUTE_EVENT_H
#define HAMI_COMPUTE_EVENT_H

#include "doors/calls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef void *CUevent;

extern _Atomic int event_captures; /* streams that are being captured, as far as known */
/*
 * True also if cuStreamIsCapturing fails. For the legacy default stream it fails while a stream that synchronizes with
 * that one is captured, and CUDA then forbids any use of the legacy stream.
 */
bool event_stream_is_captured(CUstream stream);
/* CUDA_SUCCESS: the stream is idle. CUDA_ERROR_NOT_READY: it has work. Any other value: its state is not known. */
CUresult event_stream_state(CUstream stream);

/* Takes an event from the context's stock, or makes one. `context` must be current. NULL: no event could be made. */
CUevent event_take(CUcontext context);
void event_give_back(CUcontext context, CUevent event);
void events_forget_context(CUcontext context); /* called when a context ends, which also ends its events */
void events_after_fork(void);

/* The host time at which a completed event completed, but not before `earliest`. Takes the event from the caller. */
uint64_t event_time(CUcontext context, CUevent event, uint64_t earliest);
/* If a comparison is due and the stream is idle: compares the clocks by an event in the stream. */
void event_compare_clocks(CUcontext context, CUstream stream);
/*
 * If one look finds an event incomplete and a look 30 µs later finds it complete, its end is known on both clocks. If
 * such a comparison is due, returns the 30 µs and makes `*end`, the time of the first look, 50 µs earlier. Otherwise
 * returns 0.
 */
uint64_t event_look_step(CUcontext context, uint64_t now, uint64_t *end);

#endif
