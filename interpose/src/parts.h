/*
 * The one way up. Files call only files of their own room or of rooms below (doors, ledger, memory, compute, nvml).
 * Where something happens that concerns rooms above, a file tells it: HAMI_TELL(awake, view). That calls, in order, the
 * functions that the table `hami_parts` has for the event. parts.c fills the table and knows every room.
 *
 * To listen to an event: add one to the length of its row here, and the function to the row in parts.c.
 * `python interpose/gen/calls.py` shows who calls whom.
 */
#ifndef HAMI_PARTS_H
#define HAMI_PARTS_H

#include <stdbool.h>
#include <stddef.h>

struct hami_region;
struct hami_region_view;

/* One row for each event: the functions to call, first to last. NULL is none. */
extern const struct hami_parts {
    /* This process is the child of a fork. Every file forgets the parent's state and unlocks its locks. */
    void (*forked[16])(void);

    /* Other limits come into force. Told before and after they do. */
    void (*limits_changed[1])(void);

    /* A CUDA context (CUcontext) is about to end. Files destroy the events that they have made in it. */
    void (*context_ending[1])(void *context);

    /* A context has ended, and all memory in it is free. `id` as in memory/contexts.h. */
    void (*context_ended[3])(unsigned id);

    /* A request does not fit. Files that have reserved more than the driver has taken release the difference. */
    void (*memory_short[2])(void);

    /* An allocation from a pool was freed. `pool` as in memory/stream_pool.h. */
    void (*pool_memory_freed[1])(void *pool);

    /* This process runs. If another process has left its slot marked as suspended, the mark is wrong. */
    void (*awake[1])(struct hami_region_view *view);

    /* A thread of this process has looked for dead processes. */
    void (*swept[1])(struct hami_region_view *view);

    /* A slot is claimed, and its last owner's memory is no longer counted. May come more than once for one owner. */
    void (*process_gone[1])(struct hami_region *region, unsigned slot);
} hami_parts;

#define HAMI_TELL(event, ...)                                                                                          \
    do {                                                                                                               \
        for (size_t told = 0; told < sizeof hami_parts.event / sizeof hami_parts.event[0]; told++) {                   \
            if (hami_parts.event[told] != NULL) {                                                                      \
                hami_parts.event[told](__VA_ARGS__);                                                                   \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#endif
