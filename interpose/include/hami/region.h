/*
 * The region as one process sees it: mapped once, one slot of its own, and the charge of each device.
 * Thread-safe without locks in shared memory; layout and protocol are in abi.h.
 */
#ifndef HAMI_REGION_H
#define HAMI_REGION_H

#include "hami/compiler.h"
#include "hami/compute_abi.h"
#include "hami/limits.h"

#include <stdbool.h>

struct hami_region_view {
    struct hami_region *region;    /* NULL: nothing is mapped, nothing can be charged */
    int file;                      /* held open for its lock; -1: none */
    unsigned slot;                 /* ours; meaningful while has_slot */
    struct hami_slot *own;         /* it */
    struct hami_v1_process *shown; /* what HAMi's monitor sees of it */
    _Atomic bool has_slot;
};

/* What part of a process's use a charge belongs to: the v1 layout's columns, by where they are. */
enum hami_column {
    HAMI_COLUMN_CONTEXT = offsetof(struct hami_v1_memory, context),
    HAMI_COLUMN_MODULE = offsetof(struct hami_v1_memory, module),
    HAMI_COLUMN_DATA = offsetof(struct hami_v1_memory, data)
};

/*
 * Maps the region at `path`, or memory of this process alone if `path` is empty. A file that is missing is made only
 * when `create` says so (limits from the environment). Returns HAMI_REASON_NONE or why not.
 */
enum hami_reason hami_region_attach(struct hami_region_view *view, const char *path, bool create,
                                    const struct hami_limits *limits);

/* Fills a zeroed region for `limits`. */
void hami_region_format(struct hami_region *region, const struct hami_limits *limits);

/* Takes a slot for this process. False when all are in use. */
bool hami_region_claim(struct hami_region_view *view);

/* In what follows `device` is a number of abi.h's counters: i + HAMI_DEVICES is host memory on device i's behalf. */

/*
 * Adds `pages` to the charge of `device` unless it would then exceed `limit_pages`. True if it was added. With
 * UINT64_MAX as limit it always is, save for the counter's own width.
 */
bool hami_region_charge(struct hami_region_view *view, unsigned device, uint64_t pages, uint64_t limit_pages,
                        enum hami_column column);

/* Takes `pages` off the charge of `device`. Never fails, never goes below zero. */
void hami_region_release(struct hami_region_view *view, unsigned device, uint64_t pages, enum hami_column column);

/* Pages in use of `device`, by all processes of the container. */
uint64_t hami_region_used(const struct hami_region_view *view, unsigned device);

/* Pages of `device` that the process in `slot` has; 0 if it is free. */
uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned device);

/* Pid of the live process in `slot`, or 0. */
int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot);

/* Slots from here on were never taken. */
unsigned hami_region_slots(const struct hami_region *region);

/*
 * Makes this process the slot's keeper, who may write its HAMI_CELL_AWAY and suspension; false: somebody else is, or
 * another thread. What a keeper who died was doing in those cells is finished or reverted.
 */
bool hami_region_keep(struct hami_region *region, unsigned slot);
void hami_region_keep_no_more(struct hami_region *region, unsigned slot);

/* Takes what dead processes held off the counters. True if there were any. */
HAMI_COLD bool hami_region_sweep(struct hami_region_view *view);

/* Same unless a process of the container did so within the last quarter of a second; also moves the heartbeat. */
HAMI_COLD void hami_region_sweep_in_turn(struct hami_region_view *view);

/* Notes a refusal. `device` may be HAMI_DEVICES when there is none. */
HAMI_COLD void hami_region_refused(struct hami_region_view *view, enum hami_reason reason, unsigned device,
                                   uint64_t bytes);

/* After fork, in the child: forget the parent's slot and the locks its threads may have held. */
void hami_region_after_fork(struct hami_region_view *view);

#endif
