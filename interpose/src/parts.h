/*
 * The one way up. Files call only files of their own room or of rooms below (doors, ledger, memory, compute, nvml).
 * Where something happens that concerns rooms above, a file calls an event of this header. The event calls, in order,
 * the functions that the table `hami_parts` has for it. parts.c fills the table and knows every room.
 *
 * To listen to an event: add the function to its row in parts.c, and one to the length of the row here.
 * `python interpose/gen/calls.py` shows who calls whom.
 */
#ifndef HAMI_PARTS_H
#define HAMI_PARTS_H

#include <stdbool.h>
#include <stddef.h>

struct hami_region;
struct hami_region_view;

/* One row for each event: who is told, first to last. NULL is nobody. */
struct hami_parts {
    void (*forked[14])(void);
    void (*context_ending[1])(void *context);
    void (*context_freed[1])(unsigned id, bool now);
    void (*context_ended[4])(unsigned id);
    void (*memory_short[2])(void);
    void (*pool_memory_freed[1])(unsigned pool);
    void (*awake[1])(struct hami_region_view *view);
    void (*swept[1])(struct hami_region_view *view);
    void (*process_gone[1])(struct hami_region *region, unsigned slot);
};

extern const struct hami_parts hami_parts;

#define HAMI_TELL(event, ...)                                                                                          \
    for (size_t i = 0; i < sizeof hami_parts.event / sizeof hami_parts.event[0]; i++) {                                \
        if (hami_parts.event[i] != NULL) {                                                                             \
            hami_parts.event[i](__VA_ARGS__);                                                                          \
        }                                                                                                              \
    }

/* In the child of a fork: every file forgets what was the parent's. For pthread_atfork(3). */
static inline void hami_event_forked(void) {
    HAMI_TELL(forked)
}

/* A CUDA context (CUcontext) is about to end. Nothing of ours may be in it when it does. */
static inline void hami_event_context_ending(void *context) {
    HAMI_TELL(context_ending, context)
}

/*
 * The driver call that ends a context begins (`now`) or has returned (not `now`). In between, the driver may give the
 * context's memory to others. `id` as in memory/context.h.
 */
static inline void hami_event_context_freed(unsigned id, bool now) {
    HAMI_TELL(context_freed, id, now)
}

/* A context has ended, and all memory in it is free. */
static inline void hami_event_context_ended(unsigned id) {
    HAMI_TELL(context_ended, id)
}

/* A request does not fit. Parts that have reserved more than the driver has taken release the difference. */
static inline void hami_event_memory_short(void) {
    HAMI_TELL(memory_short)
}

/* An allocation from a pool was freed. `pool` as in memory/pool.c. */
static inline void hami_event_pool_memory_freed(unsigned pool) {
    HAMI_TELL(pool_memory_freed, pool)
}

/* This process is running, though another process may have left its slot marked as suspended. */
static inline void hami_event_awake(struct hami_region_view *view) {
    HAMI_TELL(awake, view)
}

/* A thread of this process has looked for dead processes. */
static inline void hami_event_swept(struct hami_region_view *view) {
    HAMI_TELL(swept, view)
}

/* A slot is claimed, and its last owner's memory is no longer counted. May come more than once for one owner. */
static inline void hami_event_process_gone(struct hami_region *region, unsigned slot) {
    HAMI_TELL(process_gone, region, slot)
}

#endif
