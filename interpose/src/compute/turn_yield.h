/* When to give the turn on, and how to wait for it: turn.h does it, the balance decides. */
#ifndef HAMI_COMPUTE_TURN_YIELD_H
#define HAMI_COMPUTE_TURN_YIELD_H

#include "compute/balance.h"
#include "compute/turn.h"

/*
 * If the turn is ours: shows life, and gives the turn on if it should. Returns when to look again; UINT64_MAX: the turn
 * is not ours. Lock held.
 */
uint64_t yield_turn(struct limited_device *d);
/* True: the turn, which is ours, has lasted long enough for a container that is further behind. */
bool yield_is_due(struct limited_device *d, const struct snapshot *s);
/* Waits for the turn, 20 ms at most. `why`: what turn_take said. */
void yield_wait(struct limited_device *d, const struct snapshot *s, enum turn why);
/* In a wait for the turn: the balance forfeited s->forfeited. Too much of that, and turns are given up. */
void yield_forfeited(struct limited_device *d, const struct snapshot *s);

#endif
