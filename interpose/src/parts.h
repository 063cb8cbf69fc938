/*
 * Events: how a file of a lower room calls functions of a room above. The rooms are folders, from below: doors, ledger,
 * memory, compute, nvml. Files call only functions of their own room and of rooms below. If an event concerns a room
 * above, they call HAMI_TELL, for example HAMI_TELL(awake, view). It calls the functions that `hami_parts` lists for
 * the event, in order. Only parts.c, which fills this table, knows every room.
 *
 * To listen to an event, add the function to its row in parts.c, and 1 to the length of the row here.
 * `python interpose/gen/calls.py` checks that no other call goes up.
 */
#ifndef HAMI_PARTS_H
#define HAMI_PARTS_H

#include <stdbool.h>
#include <stddef.h>

struct hami_region;
struct hami_region_view;

/* A row for each event: the functions to call, in this order. A test program may leave entries NULL. */
extern const struct hami_parts {
    /* This process is the child of a fork. Listeners forget the parent's state and free the parent's locks. */
    void (*forked[17])(void);

    /* New limits come into force. Told just before and after it. Listeners forget what came from the old limits. */
    void (*limits_changed[1])(void);

    /* A CUDA context (CUcontext) is about to be destroyed. Listeners forget their CUDA events, which end with it. */
    void (*context_ending[1])(void *context);

    /* A context was destroyed, and all its memory is free. `id` is its number in memory/contexts.h. */
    void (*context_ended[3])(unsigned id);

    /* A request exceeds the limit. Listeners lower their charges to what the driver really holds. */
    void (*memory_short[2])(void);

    /* An allocation from a pool was freed. `pool` is a pool of memory/stream_pool.h. */
    void (*pool_memory_freed[1])(void *pool);

    /* This process runs, so it is not suspended. Listeners correct its slot if the slot's state is "suspended". */
    void (*awake[1])(struct hami_region_view *view);

    /* This process has looked for dead processes, and has freed their slots. */
    void (*swept[1])(struct hami_region_view *view);

    /* The last owner of `slot` has ended, and its memory no longer counts. May be told twice for one process. */
    void (*process_gone[1])(struct hami_region *region, unsigned slot);
} hami_parts;

/* Calls the listeners of an event. */
#define HAMI_TELL(event, ...)                                                                                          \
    do {                                                                                                               \
        for (size_t told = 0; told < sizeof hami_parts.event / sizeof hami_parts.event[0]; told++) {                   \
            if (hami_parts.event[told] != NULL) {                                                                      \
                hami_parts.event[told](__VA_ARGS__);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#endif
