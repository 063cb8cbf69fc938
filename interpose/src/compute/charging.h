/*
 * How work is charged. A launch's grant is closed (close.c), which records a timing event. The helper thread, or the
 * next launch, collects the event when it is complete (collect.c), and charges its work (span.c).
 */
#ifndef HAMI_COMPUTE_CHARGING_H
#define HAMI_COMPUTE_CHARGING_H

#include "compute/stream.h"

/* ---- span.c; needs the lock ---- */

/* `rest`: what else this process has under way; `end`: when the event completed. */
void span_charge(struct stream_account *a, const struct timing_event *event, struct under_way rest, uint64_t end);

/* ---- collect.c: collects completed events; says when to look for them next ---- */

void collect_events(void); /* needs the lock */
/* For the gate, without the lock: collects if an event should be complete and nobody else will look soon. */
void collect_if_due(struct limited_device *d, uint64_t now);
/*
 * True: only the next launch has to know when an event completes, and it looks itself. False beside other processes or
 * containers: until an event is seen complete, their spans count the idle time after it as work.
 */
bool collect_can_wait(const struct limited_device *d, uint64_t now);
/* When to look for the first event of a stream, which has one. */
uint64_t collect_first_look(const struct stream_account *a);
/* When the helper should look again; UINT64_MAX: nothing is under way. Needs the lock. */
uint64_t collect_next_look(uint64_t now);

/* ---- close.c: records the timing event of what was used, and gives the rest back; needs the lock ---- */

enum close_when {
    CLOSE_WHEN_FULL, /* once a millisecond of the grant was used */
    CLOSE_NOW,       /* however little was used */
    CLOSE_AFTER_ONE  /* likewise, and the event follows a single launch of a bursty process (ADR 11) */
};

void close_if_due(struct stream_account *a, enum close_when when);
void close_all(struct limited_device *d); /* grants on this device; NULL: on all */
void close_quiet(uint64_t now);           /* grants that no launch used for a while; by the helper */
/* A context with its streams ends, or, if that is NULL, a stream. */
void close_ended(CUcontext context, CUstream stream);
/* The helper looks when the events of this device should be complete: a launch waits for one. */
void close_hurry(const struct limited_device *d);

/* ---- helper.c: a thread that sleeps until an event should be complete, collects it, and gives turns on ---- */

void helper_wake(void); /* starts the thread if need be; needs the lock */

#endif
