/*
 * The helper: one thread of a process that has work under way on a limited device. It sleeps until the oldest timing
 * event should be complete, collects what is complete, and gives turns on. With nothing under way it sleeps until
 * woken.
 */
#ifndef HAMI_COMPUTE_HELPER_H
#define HAMI_COMPUTE_HELPER_H

void helper_wake(void); /* lock held; starts the thread if need be */

#endif
