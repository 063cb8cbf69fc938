/*
 * The region as this process sees it: mapped once, with one slot of its own. Called by every room above.
 *
 * This file decides who owns a slot, and whether the owner lives. While the record lock of a slot is held, its owner
 * lives. Without the lock it may still live: a program that closes any descriptor of the file loses its record locks
 * until our next look. So an owner in our pid namespace is looked up in /proc before it is called dead; an owner in
 * another namespace cannot be, and the lock alone decides. Two processes never share a slot: none claims a slot whose
 * lock another process holds.
 */
#ifndef HAMI_REGION_H
#define HAMI_REGION_H

#include "compiler.h"
#include "compute_abi.h"
#include "ledger/ledger.h"
#include "ledger/limits.h"

#include <stdbool.h>

struct hami_region_view {
    struct hami_region *region;    /* NULL: nothing is mapped */
    const char *path;              /* of the file; empty: memory of this process alone */
    _Atomic int file;              /* descriptor for record locks; -1: none */
    uint64_t device, inode;        /* of the file */
    unsigned slot;                 /* ours; meaningful while has_slot */
    uint64_t self;                 /* our owner word, without a state */
    struct hami_slot *own;         /* our slot */
    struct hami_v1_process *shown; /* the same in HAMi's layout, for its monitor */
    _Atomic bool has_slot;
};

/* The columns of HAMi's layout, by offset: what kind of memory a charge is. */
enum hami_column {
    HAMI_COLUMN_CONTEXT = offsetof(struct hami_v1_memory, context),
    HAMI_COLUMN_MODULE = offsetof(struct hami_v1_memory, module),
    HAMI_COLUMN_DATA = offsetof(struct hami_v1_memory, data)
};

/*
 * Maps the region at `path`, or memory of this process alone if `path` is empty. Makes a missing file only with
 * `create` (limits from the environment). False: there is no such file, or it is not a region of this layout.
 */
bool hami_region_attach(struct hami_region_view *view, const char *path, bool create, const struct hami_limits *limits);

/* Fills a zeroed region for `limits`. */
void hami_region_format(struct hami_region *region, const struct hami_limits *limits);

/* Writes a device's limits into the region, for its readers. */
void hami_region_show_limit(struct hami_region *region, unsigned index, const struct hami_device_limit *limit);

/* Claims a slot for this process, after a sweep. False: all are in use. */
bool hami_region_claim(struct hami_region_view *view);

/* Below, `device` is a counter of abi.h: i + HAMI_DEVICES is host memory on behalf of device i. */

/*
 * Adds `pages` to what this process holds of `device`. False, and nothing is added, if the sum of all processes would
 * exceed `limit_pages` or the number does not fit a word. HAMI_UNLIMITED is no limit.
 */
bool hami_region_charge(struct hami_region_view *view, unsigned device, uint64_t pages, uint64_t limit_pages,
                        enum hami_column column);

/* Subtracts `pages` from what this process holds. */
void hami_region_release(struct hami_region_view *view, unsigned device, uint64_t pages, enum hami_column column);

/* Subtracts `pages` only from what HAMi's monitor is shown: they are now counted in a share. */
void hami_region_show_less(struct hami_region_view *view, unsigned device, uint64_t pages, enum hami_column column);

/* Pages in use of `device`. Sweeps first: a parent that has seen its child end expects the child's memory free. */
uint64_t hami_region_used_now(struct hami_region_view *view, unsigned device);

/* Pages of `device` that the owner of `slot` holds; 0 if it is not summed there. */
uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned device);

/* Pid of the process in `slot`, or 0. */
int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot);

/* Whether the owner of a slot other than ours lives. `owner` is its word. */
bool hami_region_owner_lives(const struct hami_region_view *view, unsigned slot, uint64_t owner);

/* Sets the record lock of our slot again. Opens the file again if the program has closed our descriptor. */
HAMI_COLD void hami_region_relock(struct hami_region_view *view);

/*
 * Takes a record lock on one byte of the region by polling, for at most `patience_ms`; it ends with this process.
 * `threads` keeps out other threads of this process, which a record lock does not. False: another holds it.
 */
HAMI_COLD bool hami_region_lock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte,
                                unsigned patience_ms);
void hami_region_unlock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte);

/* Frees the slots of dead processes. True if there were any. */
HAMI_COLD bool hami_region_sweep(struct hami_region_view *view);

/* Sweeps unless a process of the container did so in the last 250 ms. Sets the region's heartbeat. */
HAMI_COLD void hami_region_sweep_in_turn(struct hami_region_view *view);

/* Writes a refusal into the region, for readers. `device` is HAMI_DEVICES if it concerns none. */
HAMI_COLD void hami_region_refused(struct hami_region_view *view, enum hami_reason reason, unsigned device,
                                   uint64_t bytes);

/* In the child of a fork: forgets the parent's slot, and unlocks what its threads may have locked. */
void hami_region_after_fork(struct hami_region_view *view);

#endif
