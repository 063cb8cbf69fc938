/* The gate, where launches wait until they may start. Also declares what launch.c offers to sync.c. */
#ifndef HAMI_COMPUTE_GATE_H
#define HAMI_COMPUTE_GATE_H

#include "compute/limited_device.h"

/*
 * Waits until work of `amount` ns may start, and reserves this time for launches of up to `longest` ns each. After a
 * wait it may reserve more than was asked, and sets `amount` to what it reserved. `unknown`: the launch has no known
 * cost, so it starts only when no other work is under way. True: the launch had to wait.
 *
 * A launch passes when it is first in the container's line, the balance is positive, little enough work is under way,
 * and the container has the turn. A wait for work or for the line ends after 100 ms without progress. A wait for the
 * turn ends after 3 s. The caller must not hold the lock.
 */
bool gate_pass(struct limited_device *d, int64_t *amount, bool unknown, int64_t longest);
/* Reserves `amount` without waiting, for a launch that takes it from the part of an earlier grant kept aside. */
void gate_reserve(struct limited_device *d, int64_t amount, int64_t longest, uint64_t now);

/* launch.c: adds this thread's launches since the last call to the count of launches in the process's slot. */
void launch_count(void);
/* launch.c: this thread took device time from open grants in advance. Gives back what is unused. Needs the lock. */
void launch_return_ahead(void);

#endif
