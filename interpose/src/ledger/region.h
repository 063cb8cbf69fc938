/*
 * The shared region (abi.h) as this process uses it. The process maps it once and owns one slot in it. memory/,
 * compute/ and nvml/ call these functions.
 *
 * These functions also decide whether the owner of a slot lives. While a process holds the record lock of a slot, the
 * owner lives. Without the lock it may still live: a program that closes any descriptor of the region's file loses the
 * lock (fcntl(2)), until the next look at the limits file (state.c) sets it again. So an owner in our pid namespace is
 * looked up in /proc before it counts as dead. In another namespace the lock alone decides. Two processes never share a
 * slot: a claim fails if another process has the slot's lock, or has claimed the slot first.
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
    const char *path;              /* the region's file; empty: the region is private memory of this process */
    _Atomic int file;              /* descriptor of the file, for record locks; -1: none */
    uint64_t device, inode;        /* st_dev and st_ino of the file */
    unsigned slot;                 /* number of this process's slot, if has_slot */
    uint64_t self;                 /* owner word of this process, with state bits 0 */
    struct hami_v1_process *shown; /* this process's slot in HAMi's layout, which HAMi's monitor reads */
    _Atomic bool has_slot;
};

/* What kind of memory is charged. The values are offsets of the columns that HAMi's monitor reads. */
enum hami_column {
    HAMI_COLUMN_CONTEXT = offsetof(struct hami_v1_memory, context),
    HAMI_COLUMN_MODULE = offsetof(struct hami_v1_memory, module),
    HAMI_COLUMN_DATA = offsetof(struct hami_v1_memory, data)
};

/*
 * Maps the region's file at `path`; with an empty `path`, private memory of this process. With `create`, makes the file
 * if it is missing. Returns false if there is no file, or if it is not a region of this layout.
 */
bool hami_region_attach(struct hami_region_view *view, const char *path, bool create, const struct hami_limits *limits);

/* Writes the limits in force into the region, where monitors and the agent read them. */
void hami_region_show_limits(struct hami_region *region, const struct hami_limits *limits);

/* Frees the slots of dead processes, then claims a slot for this process. Returns false if all slots are in use. */
bool hami_region_claim(struct hami_region_view *view);

/*
 * Charges this process with pages of a counter (abi.h): device memory, or host memory in its place. Returns false, and
 * charges nothing, if all processes together would exceed `limit_pages`. HAMI_UNLIMITED is no limit.
 */
bool hami_region_charge(struct hami_region_view *view, unsigned counter, uint64_t pages, uint64_t limit_pages,
                        enum hami_column column);

/* Takes pages off what this process is charged with. */
void hami_region_release(struct hami_region_view *view, unsigned counter, uint64_t pages, enum hami_column column);

/* Takes pages off only what HAMi's monitor shows for this process. For pages that the ledger counts in a share. */
void hami_region_show_less(struct hami_region_view *view, unsigned counter, uint64_t pages, enum hami_column column);

/* Pages of a counter in use, after a sweep: a parent that called wait(2) expects its child's memory to be free. */
uint64_t hami_region_used_now(struct hami_region_view *view, unsigned counter);

/* Pages of a counter that the owner of `slot` holds; 0 if the slot is free or its memory does not count as in use. */
uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned counter);

/* Pid of the owner of `slot`, or 0 if the slot is free or claimed. */
int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot);

/* Whether the process `owner` (its owner word), which owns `slot`, still lives. Not for this process's own slot. */
bool hami_region_owner_lives(const struct hami_region_view *view, unsigned slot, uint64_t owner);

/* Sets the record lock of this process's slot again. Reopens the file if the program has closed our descriptor. */
HAMI_COLD void hami_region_relock(struct hami_region_view *view);

/*
 * Locks one byte of the region's file (HAMI_LOCK_...), trying for at most `patience_ms`. The kernel drops the lock when
 * this process ends. A record lock does not keep out threads of one process: the flag `threads` does. Returns false if
 * another process or thread still holds the lock.
 */
HAMI_COLD bool hami_region_lock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte,
                                unsigned patience_ms);
void hami_region_unlock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte);

/* Frees the slots of dead processes ("sweeps"). Returns whether it found any. */
HAMI_COLD bool hami_region_sweep(struct hami_region_view *view);

/* Sets the region's heartbeat and sweeps, unless a process of the container did so in the 250 ms before `now_ms`. */
HAMI_COLD void hami_region_sweep_in_turn(struct hami_region_view *view, uint64_t now_ms);

/* Records a refusal in the region, for the agent's metrics. `device` is HAMI_DEVICES if the refusal concerns none. */
HAMI_COLD void hami_region_refused(struct hami_region_view *view, enum hami_reason reason, unsigned device,
                                   uint64_t bytes);

/* Called in the child of a fork: forgets the parent's slot, and frees a lock that a thread of the parent held. */
void hami_region_after_fork(struct hami_region_view *view);

#endif
