/*
 * Closes grants: records the timing event of what was used, and gives the rest back. All functions need the lock.
 */
#ifndef HAMI_COMPUTE_CLOSE_H
#define HAMI_COMPUTE_CLOSE_H

#include "compute/stream.h"

enum close_when {
    CLOSE_WHEN_FULL, /* once a millisecond of the grant was used */
    CLOSE_NOW,       /* however little was used */
    CLOSE_AFTER_ONE  /* likewise, and the event follows a single launch of a bursty process (ADR 11) */
};

void close_if_due(struct stream_account *a, enum close_when when);
void close_all(struct limited_device *d); /* grants on this device; NULL: on all */
void close_quiet(uint64_t now);           /* grants that nobody used for a while; by the helper */
/* A context with its streams ends, or, if that is NULL, a stream. */
void close_ended(CUcontext context, CUstream stream);

/* Asks the helper to look when the events of this device should be complete: a launch waits for one. */
void close_hurry(const struct limited_device *d);

#endif
