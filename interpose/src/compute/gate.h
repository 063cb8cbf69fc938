/* What launch.c, sync.c and the gate, where launches wait until they may start, need of each other. */
#ifndef HAMI_COMPUTE_GATE_H
#define HAMI_COMPUTE_GATE_H

#include "compute/limited_device.h"

/*
 * Waits until `amount` ns of device time may start, and reserves them for launches of up to `longest` ns. After a wait
 * it may reserve more than GRANT_NS; `amount` then says how much. True: it had to wait.
 *
 * A launch passes when it is next in the container's line, the balance is positive, little enough is under way, and it
 * is the container's turn. Every wait ends, at the latest 100 ms after the last progress. Without the process's lock.
 */
bool gate_pass(struct limited_device *d, int64_t *amount, bool unknown, int64_t longest);
/* Reserves what was granted before and set aside. */
void gate_reserve(struct limited_device *d, int64_t amount, int64_t longest, uint64_t now);

/* Adds this thread's launches since the last call to its process's figure. */
void launch_count(void);
/* What this thread has taken ahead of grants that are still open goes back to them. Lock held. */
void launch_return_ahead(void);

#endif
