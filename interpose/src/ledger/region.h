/*
 * The region as one process sees it: mapped once, with one slot of its own. Here is decided whose a slot is and whether
 * its owner lives; what processes hold is in ledger.h.
 *
 * Identity. While the record lock of a slot is held, its owner lives. Where nobody holds it, the owner may still live:
 * a program that closes any descriptor of the region loses its record locks until the library's next look. So an owner
 * of our own pid namespace is looked up in /proc before it is called dead. An owner of another namespace cannot be, and
 * goes by the lock alone. Two processes never share a slot: a process claims none whose lock another holds.
 */
#ifndef HAMI_REGION_H
#define HAMI_REGION_H

#include "compiler.h"
#include "compute_abi.h"
#include "ledger/ledger.h"
#include "ledger/limits.h"

#include <stdbool.h>

struct hami_region_view {
    struct hami_region *region;    /* NULL: nothing is mapped, nothing can be charged */
    const char *path;              /* of the file; empty: memory of this process alone */
    _Atomic int file;              /* held open for record locks; -1: none */
    uint64_t device, inode;        /* of the file */
    unsigned slot;                 /* ours; meaningful while has_slot */
    uint64_t self;                 /* our owner word, without a state */
    struct hami_slot *own;         /* our slot */
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
 * Maps the region at `path`, or memory of this process alone if `path` is empty. Makes a missing file only with
 * `create` (limits from the environment). False: there is no such file, or it is not a region of this layout.
 */
bool hami_region_attach(struct hami_region_view *view, const char *path, bool create, const struct hami_limits *limits);

/* Fills a zeroed region for `limits`. */
void hami_region_format(struct hami_region *region, const struct hami_limits *limits);

/* Writes a device's limits into the region, for its readers. */
void hami_region_show_limit(struct hami_region *region, unsigned index, const struct hami_device_limit *limit);

/* Takes a slot for this process. False when all are in use. */
bool hami_region_claim(struct hami_region_view *view);

/* In what follows `device` is a number of abi.h's counters: i + HAMI_DEVICES is host memory on device i's behalf. */

/*
 * Adds `pages` to what this process holds of `device` unless all together would then exceed `limit_pages`. True if they
 * were added. With HAMI_UNLIMITED they always are, save for the width of a word.
 */
bool hami_region_charge(struct hami_region_view *view, unsigned device, uint64_t pages, uint64_t limit_pages,
                        enum hami_column column);

/* Takes `pages` of this process off again. */
void hami_region_release(struct hami_region_view *view, unsigned device, uint64_t pages, enum hami_column column);

/* Changes only what HAMi's monitor is shown: of pages that are counted in a share. */
void hami_region_show_less(struct hami_region_view *view, unsigned device, uint64_t pages, enum hami_column column);

/* Pages in use of `device`, as a driver would say: without what a process held that its parent has seen end. */
uint64_t hami_region_used_now(struct hami_region_view *view, unsigned device);

/* Pages of `device` that the process in `slot` has; 0 if the slot is free, or on devices if it is suspended. */
uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned device);

/* Pid of the process in `slot`, or 0. */
int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot);

/* Whether the owner of a slot, which is not this process's own, lives. `owner`: its word. */
bool hami_region_owner_lives(const struct hami_region_view *view, unsigned slot, uint64_t owner);

/* Sets the record lock of our slot again, and opens the file again if the program has closed our descriptor. */
HAMI_COLD void hami_region_relock(struct hami_region_view *view);

/*
 * Takes a lock on one byte of the region by polling, for at most `patience_ms`; it ends with its holder. `threads`
 * keeps out the other threads of this process, which record locks do not. False: somebody else has it.
 */
HAMI_COLD bool hami_region_lock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte,
                                unsigned patience_ms);
void hami_region_unlock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte);

/* Frees the slots of dead processes. True if there were any. */
HAMI_COLD bool hami_region_sweep(struct hami_region_view *view);

/* Same unless a process of the container did so within the last quarter of a second; also moves the heartbeat. */
HAMI_COLD void hami_region_sweep_in_turn(struct hami_region_view *view);

/* Notes a refusal. `device` may be HAMI_DEVICES when there is none. */
HAMI_COLD void hami_region_refused(struct hami_region_view *view, enum hami_reason reason, unsigned device,
                                   uint64_t bytes);

/* After fork, in the child: forget the parent's slot and the locks its threads may have held. */
void hami_region_after_fork(struct hami_region_view *view);

#endif
