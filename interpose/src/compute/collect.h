/* Collects completed timing events and charges their work; says when to look for them next. */
#ifndef HAMI_COMPUTE_COLLECT_H
#define HAMI_COMPUTE_COLLECT_H

#include "compute/stream.h"

void collect_events(void); /* lock held */

/* For the gate, without the lock: collects if an event should be complete and nobody else will look soon. */
void collect_if_due(struct limited_device *d, uint64_t now);

/*
 * True: only the next launch has to know when an event completes, and it looks itself. False beside other processes or
 * containers: until an event is seen complete, their spans count the idle time after it as work.
 */
bool collect_can_wait(const struct limited_device *d, uint64_t now);

/* When to look for the first event of a stream, which has one. */
uint64_t collect_first_look(const struct stream_account *a);
/* When the helper should look again; UINT64_MAX: nothing is under way. Lock held. */
uint64_t collect_next_look(uint64_t now);

#endif
