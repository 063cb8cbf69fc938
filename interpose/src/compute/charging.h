/*
 * How work is charged. Closing a launch's grant records a timing event (close.c). The helper thread (helper.c), or the
 * next launch, collects the event when it is complete (collect.c) and charges the work before it (span.c).
 *
 * All functions except collect_if_due and collect_can_wait need the process's lock (compute_lock).
 */
#ifndef HAMI_COMPUTE_CHARGING_H
#define HAMI_COMPUTE_CHARGING_H

#include "compute/stream.h"

/* ---- span.c ---- */

/* Charges the work before an event that completed at `end`. `rest` is what else this process has under way. */
void span_charge(struct stream_account *a, const struct timing_event *event, struct under_way rest, uint64_t end);

/* ---- collect.c ---- */

/* Collects all complete events of this process and charges their work. */
void collect_events(void);
/* Called by the gate. Collects events if one should be complete and the helper will not look for it soon. */
void collect_if_due(struct limited_device *d, uint64_t now);
/*
 * True: the helper need not look for completed events soon, because this process's next launch collects them. False if
 * a launch waits for a completion or a stream is captured. Also false beside other processes or containers: until they
 * know that an event is complete, their spans count the idle time after it.
 */
bool collect_can_wait(const struct limited_device *d, uint64_t now);
/* When to look for the stream's oldest event for the first time. The stream must have an event. */
uint64_t collect_first_look(const struct stream_account *a);
/* When the helper should look again; UINT64_MAX: nothing is under way. */
uint64_t collect_next_look(uint64_t now);

/* ---- close.c: closes grants: records a timing event after the granted work, and gives back the unused time ---- */

enum close_when {
    CLOSE_WHEN_FULL, /* once a millisecond of the grant was used */
    CLOSE_NOW,       /* however little was used */
    CLOSE_AFTER_ONE  /* however little was used, after a single launch of a bursty process (ADR 11) */
};

void close_if_due(struct stream_account *a, enum close_when when);
/* Closes the grants of all streams on this device, or on all devices if `d` is NULL. */
void close_all(struct limited_device *d);
/* Closes grants that no launch used for QUIET_AFTER_NS. Only the helper calls it: it changes the current context. */
void close_quiet(uint64_t now);
/*
 * Closes the grants of streams that end: all streams of `context`, or `stream` if `context` is NULL. If a context ends,
 * its timing events end too, so all unfinished work of its streams is charged by estimate.
 */
void close_ended(CUcontext context, CUstream stream);
/* Makes the helper look at the device's events when they should be complete, because a launch waits for one. */
void close_hurry(const struct limited_device *d);

/* ---- helper.c: the thread that sleeps until an event should be complete, collects it, and gives turns on ---- */

/* Makes the helper look now if nothing was under way, so that it has no next look. Starts it if it does not run. */
void helper_wake(void);

#endif
