/*
 * Times of completed events on the host's clock. An event's time is on the device's clock, which may run at another
 * rate, so the two are compared about every 50 ms, to within 60 µs. All functions need the process's lock.
 */
#ifndef HAMI_COMPUTE_DEVICE_CLOCK_H
#define HAMI_COMPUTE_DEVICE_CLOCK_H

#include "compute/event_pool.h"

/* The host time at which a completed event completed, not before `earliest`. Takes the event. */
uint64_t clock_time_of(CUcontext context, CUevent event, uint64_t earliest);

/* Compares the clocks by an event in a stream that nobody captures, if it is due and the stream is idle. */
void clock_compare_when_idle(CUcontext context, CUstream stream);

/*
 * An event that is seen incomplete, and complete shortly after, compares the clocks. If that is due, moves `end`, the
 * event's expected end, forward so that the looks begin before it. Returns ns until the next look; 0: not due.
 */
uint64_t clock_look_step(CUcontext context, uint64_t now, uint64_t *end);

#endif
