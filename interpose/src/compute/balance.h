/*
 * The container's account on one device: its balance, the work that its processes have under way, and the line of
 * spans.
 *
 * The functions add up the records of all processes of the container. They leave out other processes that are silent
 * (stopped by SIGSTOP or a debugger): such a process collects no events, so its work may have ended long ago.
 */
#ifndef HAMI_COMPUTE_BALANCE_H
#define HAMI_COMPUTE_BALANCE_H

#include "compute/limited_device.h"

/* The account as one call of balance_read found it. Amounts are ns of device time. */
struct snapshot {
    uint64_t now;
    int64_t balance;    /* nothing starts while it is 0 or less */
    int64_t reserved;   /* granted and not charged yet */
    int64_t expected;   /* the part of `reserved` that will be charged */
    int64_t steady;     /* the part of `expected` that belongs to this process or to processes that are not bursty */
    uint64_t forfeited; /* clock time in ns that this call took off the balance because of the cap */
    unsigned events;    /* timing events under way, of the processes that `steady` counts */
    unsigned waiters;   /* threads of the container that wait in the gate */
    unsigned waiting_for_event, waiting_for_turn; /* how many of `waiters` wait for a completion, for the turn */
};
/* Takes a snapshot. First lowers the balance to its cap, if it is above. */
struct snapshot balance_read(struct limited_device *d);
void balance_charge(struct limited_device *d, uint64_t device_time);
int64_t balance_share(const struct limited_device *d); /* percent; 100 without a limit */
/* By how much clock time, in ns, the container is behind its limit; negative: ahead. Example: 4 ms at 40 % is 10 ms. */
int64_t balance_arrears(const struct limited_device *d, const struct snapshot *s);

/* ---- processes of the container ---- */

bool balance_is_bursty(const struct hami_compute_process *process);
bool balance_is_silent(const struct hami_compute_process *process, uint64_t now);
/* True: in the last 2 s, no other process's helper has looked at timing events on this device. */
bool balance_is_only_process(const struct limited_device *d, uint64_t now);
/* True: some thread of the container waits for its turn. */
bool balance_waits_for_turn(const struct limited_device *d);

/* The container's other processes. A peer asks for more if it waits in the gate, or got a grant a moment ago. */
struct peers {
    int64_t granted;       /* device time granted to all peers so far, ns */
    int64_t least;         /* granted to the asking peer that got least, ns; INT64_MAX: no peer asks */
    int64_t least_waiting; /* granted to the waiting peer that got least, ns; INT64_MAX: no peer waits */
    unsigned asking;       /* how many peers ask for more */
};
struct peers balance_peers(const struct limited_device *d, uint64_t now);
/* By how much a grant of `amount` raises `granted_total`: by less if streams of this process overlap. */
int64_t balance_counted_grant(const struct limited_device *d, int64_t amount);

/* ---- work under way ---- */

enum balance_work {
    ALL_WORK,       /* each process counts since the launch of its oldest work under way */
    SURE_WORK,      /* as ALL_WORK, but a bursty process counts since the device surely has its work */
    PEERS_SURE_WORK /* as SURE_WORK, but this process does not count */
};
/* Returns since when the container has such work under way, or `first` if that is earlier. */
uint64_t balance_work_since(const struct limited_device *d, enum balance_work work, uint64_t first);
/* The value that the account's `charged` is expected to have when all work under way is complete. */
uint64_t balance_charged_after(const struct limited_device *d, uint64_t now);
/* When the account's `charged` is expected to reach the value `charged`, for work launched at `opened`. */
uint64_t balance_expected_end(const struct limited_device *d, uint64_t opened, uint64_t charged);
/* Moves the frontier forward to `end`, the end of work that is being charged. Never moves it back. */
void balance_move_frontier(struct limited_device *d, uint64_t end);

/* ---- the line of spans ---- */

/* Adds the time from `start` to `end` to the line. Returns how many ns of it lie after the line's previous end. */
uint64_t balance_take_span(struct limited_device *d, uint64_t start, uint64_t end);
/* The line ends at `to` and has no gap between `from` and `to`. */
struct span_line {
    uint64_t from, to;
};
struct span_line balance_span_line(const struct limited_device *d);

#endif
