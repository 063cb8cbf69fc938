/*
 * The container's account on one device: its balance, what its processes have under way, and the line of spans.
 *
 * The functions add up the records of all processes of the container. A process that is silent (stopped by SIGSTOP or
 * a debugger) is left out: its work may be over, and nobody waits for it.
 */
#ifndef HAMI_COMPUTE_BALANCE_H
#define HAMI_COMPUTE_BALANCE_H

#include "compute/limited_device.h"

struct snapshot {
    uint64_t now;
    int64_t balance;    /* device time; nothing starts while it is not positive */
    int64_t reserved;   /* granted and not charged yet */
    int64_t expected;   /* part of `reserved` that will be charged */
    int64_t steady;     /* part of `expected` of this process and of those others that are not bursty (ADR 10) */
    uint64_t forfeited; /* time that this snapshot found beyond the cap of the balance */
    unsigned events;    /* timing events under way, of the processes of `steady` */
    unsigned waiters, waiting_for_event;
};
void balance_read(struct limited_device *d, struct snapshot *s); /* forfeits what is beyond the cap */
void balance_charge(struct limited_device *d, uint64_t device_time);
int64_t balance_share(const struct limited_device *d); /* percent */
int64_t balance_arrears(const struct limited_device *d, const struct snapshot *s);

/* ---- processes of the container ---- */

bool balance_is_bursty(const struct hami_compute_process *process);
bool balance_is_silent(const struct hami_compute_process *process, uint64_t now);
bool balance_is_only_process(const struct limited_device *d, uint64_t now); /* that uses the device */
bool balance_waits_for_turn(const struct limited_device *d);                /* some thread of the container does */

/* The container's other processes. */
struct peers {
    int64_t granted;       /* to all of them so far */
    int64_t least;         /* ... to the one of those that want more which got least; INT64_MAX: none wants more */
    int64_t least_waiting; /* ... of those that wait now */
    unsigned asking;       /* want more */
};
struct peers balance_peers(const struct limited_device *d, uint64_t now);
/* What a grant counts between processes: less than all of it where the streams of this process overlap. */
int64_t balance_counted_grant(const struct limited_device *d, int64_t amount);

/* ---- work under way ---- */

/* When the oldest work under way was launched; `opened` if that is earlier. */
uint64_t balance_oldest(const struct limited_device *d, uint64_t opened);
/* The same, but of a bursty process only since when the device surely has work of it. */
uint64_t balance_busy_since(const struct limited_device *d, uint64_t opened);
uint64_t balance_peers_busy_since(const struct limited_device *d); /* UINT64_MAX: no peer is busy */
/* The figure `charged` once all that is under way is complete. */
uint64_t balance_charged_after(const struct limited_device *d, uint64_t now);
/* When the figure reaches `charged`, as far as can be told. */
uint64_t balance_expected_end(const struct limited_device *d, uint64_t opened, uint64_t charged);
void balance_move_frontier(struct limited_device *d, uint64_t end); /* all work is complete up to there */

/* ---- the line of spans ---- */

/* Puts the time from `start` to `end` on the line. Returns how much of it was not there before. */
uint64_t balance_take_span(struct limited_device *d, uint64_t start, uint64_t end);
/*
 * How much of a busy period of `span` ns other processes could have used, after the device was idle for `rest` ns. The
 * device gives work that begins on an idle device its first time slice alone.
 */
uint64_t balance_shared_part(uint64_t rest, uint64_t span);
struct span_line {
    uint64_t from, to; /* the start of its newest part without a gap; its end */
};
struct span_line balance_span_line(const struct limited_device *d);

#endif
