/*
 * What concerns parts of the library above the one where it happens. Includes point downwards everywhere else: region,
 * guest, charge, context, account, and on them the files of the calls themselves.
 */
#ifndef HAMI_EVENTS_H
#define HAMI_EVENTS_H

#include "compiler.h"
#include "cuda_abi.h"
#include "ledger/region.h"

#include <stdbool.h>

/* For pthread_atfork(3), in the child: every part forgets what was the parent's. */
void hami_event_forked(void);

/* A context is about to end: nothing of ours may be in it then. */
void hami_event_context_ending(CUcontext context);

/* The driver's call that ends one, with what is forgotten then, begins or is over: others may be given its memory. */
void hami_event_context_freed(unsigned id, bool now);

/* A context has ended, and what lay in it; `id` as in context.h. */
void hami_event_context_ended(unsigned id);

/* The limit is reached: whoever holds more than the driver has really taken gives it back. */
HAMI_COLD void hami_event_memory_short(void);

/* An allocation of a pool was freed; pool.c knows which pool that is. */
HAMI_APART void hami_event_pool_memory_freed(unsigned pool);

/* This process is at work; by others' doing the region may still say that it is suspended. */
void hami_event_awake(struct hami_region_view *view);

/* Somebody has looked for dead processes. */
void hami_event_swept(struct hami_region_view *view);

/* A slot has just been claimed, and what its last owner held is not counted any more. May be told more than once. */
void hami_event_process_gone(struct hami_region *region, unsigned slot);

#endif
