/*
 * Shared memory of the compute room: the compute block of a container's region, and the turn page of a device.
 *
 * The compute block follows struct hami_block (abi.h) in the region. It has one account for each device. For each
 * process and device it has one record of the work that the process has under way. Readers add up the records of all
 * processes, so the record of a dead process is zeroed and no sum has to be repaired.
 *
 * All containers with a core limit on a device mount its turn page, a file. The page tells which container may launch
 * work now. Tenants do not trust each other, so processes use system calls to read and write it (compute/page.c).
 *
 * Times are ns of CLOCK_MONOTONIC, durations are ns. compute/README.md defines span, grant, turn, timing event, helper.
 */
#ifndef HAMI_COMPUTE_ABI_H
#define HAMI_COMPUTE_ABI_H

#include "abi.h"

#define HAMI_COMPUTE_OFFSET ((HAMI_BLOCK_OFFSET + sizeof(struct hami_block) + 4095) / 4096 * 4096)
#define HAMI_COMPUTE_MAGIC UINT64_C(0x31504d4f43494d48) /* "HMICOMP1" */
#define HAMI_COMPUTE_VERSION 1

/*
 * A container's account on one device. Its balance, in device time, is
 *     (now - zero) × share - expected charge of the work under way.
 * The balance grows by itself as time passes. A charge of x ns moves `zero` forward by x / share. Example: at 40 % a
 * charge of 1 ms moves `zero` by 2.5 ms.
 */
struct hami_compute_device {
    _Atomic int64_t zero;
    _Atomic uint64_t frontier;          /* the latest time at which charged work ended */
    _Atomic uint64_t last_grant_at;     /* when the gate last granted time, or the helper last saw a grant used */
    _Atomic uint32_t completions;       /* futex: counts completed timing events */
    _Atomic uint32_t ticket;            /* the ticket that the next launch draws if it has to wait */
    _Atomic uint32_t serving;           /* futex: the launch with this ticket is first in line */
    _Atomic uint32_t waiting_for_event; /* threads that wait for `completions`; a killed thread stays counted */
    _Atomic uint64_t longest_launch;    /* estimate of the longest recent launch, ns; rises at once, falls slowly */
    _Atomic uint64_t identity;          /* random name of the container on turn pages; 0: not drawn yet */
    _Atomic uint64_t served_at;         /* when the first thread in line last wrote that it is alive */
    /* Figures for metrics and reports. */
    _Atomic uint64_t charged;       /* device time, ns */
    _Atomic uint64_t waited;        /* waits of all launches, summed, ns */
    _Atomic uint64_t longest_wait;  /* the longest wait of one launch, ns */
    _Atomic uint64_t grants;        /* how many grants were made; one may cover several short launches */
    _Atomic uint64_t timeouts;      /* waits that ended after 100 ms without a completion */
    _Atomic uint64_t turns;         /* turns that this container took */
    _Atomic uint64_t turn_timeouts; /* launches that stopped waiting for the turn and started without it */
    _Atomic uint64_t estimated;     /* device time charged by estimate instead of span, ns */
    _Atomic uint64_t last_wait_at;  /* when a launch last had to wait */
    _Atomic uint64_t share;         /* percent; the share with which `zero` was computed; 0: not known yet */
    uint64_t reserved;              /* unused; earlier versions of the library summed up spans in it */
    /* The line of spans ends at `spanned_to`. It has no gap between `spanned_from` and there. */
    _Atomic uint64_t spanned_to, spanned_from;
    uint64_t spare[3];
    /* The turn. Launches that take from a grant read `turn`, so it begins a cache line of its own. */
    _Atomic uint64_t turn;                /* copy of the page's `turn`; when it changes, all grants are void */
    _Atomic uint64_t turns_off_until;     /* until then the container ignores turns: it waited for one in vain */
    _Atomic uint64_t turn_since;          /* when a process of this container first saw that it has the turn */
    _Atomic uint64_t turn_forfeited;      /* clock time lost to the cap in waits for turns (see yield_forfeited) */
    _Atomic uint64_t turn_forfeited_at;   /* when `turn_forfeited` was last updated */
    _Atomic uint64_t turn_uncontested_at; /* when this container last had the turn and none further behind waited */
    _Atomic uint64_t turn_wake_ns;        /* how long a process takes to wake up for a turn, smoothed */
    _Atomic uint64_t turn_alone_at;       /* when the page was last seen to list no other container; 0: it lists one */
};

/* The work that one process has under way on one device. The process writes it, and after its death the sweeper. */
struct hami_compute_process {
    _Atomic int64_t reserved;           /* device time granted and not charged yet, ns */
    _Atomic uint32_t events;            /* timing events that are recorded or will be, for work already granted */
    _Atomic uint32_t waiters;           /* threads that wait in the gate */
    _Atomic uint64_t beat;              /* when the helper thread of the process last looked at timing events */
    _Atomic uint64_t oldest_at;         /* when the oldest work under way was launched; 0: no work is under way */
    _Atomic uint32_t waiting_for_event; /* how many of `waiters` wait for a completion, to launch more work then */
    _Atomic uint32_t waiting_for_turn;  /* how many of `waiters` wait for the container's turn */
    _Atomic uint32_t overlap;           /* low 16 bits: the part of `reserved`, in 1/65536, that overlaps other work
                                           and will not be charged; bit 16: the process is bursty */
#define HAMI_BURSTY (UINT32_C(1) << 16) /* the device could run most launches of the process faster than they come */
    _Atomic uint32_t granted_at;        /* when the process last got a grant, in units of 65,536 ns; wraps */
    _Atomic uint64_t granted_total;     /* device time granted, less what was given back, ns (see gate_count_grant) */
    _Atomic uint64_t busy_since;        /* since when the device surely has work of this process; 0: not known */
};

struct hami_compute {
    uint64_t magic;
    uint32_t version, size, header_size, device_size, process_size, pad;
    _Atomic uint64_t agent_beat; /* when the agent last wrote here, seconds since 1970; 0: there is no agent */
    _Atomic uint64_t boot;       /* hash of the boot ID that all times belong to; 0: not known */
    uint8_t spare[4048];
    struct hami_compute_device devices[HAMI_DEVICES];
    struct hami_compute_process processes[HAMI_PROCESSES][HAMI_DEVICES];
};

#define HAMI_TURN_MAGIC UINT64_C(0x314e525554494d48) /* "HMITURN1" */
#define HAMI_TURN_VERSION 1
enum { HAMI_TURN_SLOTS = 63 };

/* A container writes each of these two structures into its slot by one pwrite(2). */
struct hami_turn_life {
    uint64_t beat;           /* when the container last wrote this: its sign of life */
    uint64_t longest_launch; /* copy of the container's `longest_launch`, ns */
};
struct hami_turn_wish {
    int64_t arrears;  /* by how many ns the container is behind its limit; negative: ahead */
    uint64_t waiting; /* 1: the container waits for its turn */
};

struct hami_turn_slot {
    uint64_t owner; /* identity of the container; 0: the slot is free */
    uint32_t futex; /* counts how often another container handed the turn to this slot */
    uint32_t pad;
    struct hami_turn_life life;
    struct hami_turn_wish wish;
    uint64_t spare[2];
};

/*
 * A process changes `turn`, `since` and the owners of slots only while it holds a record lock (fcntl(2)) on the bytes
 * of `turn`. The kernel releases this lock when the process dies.
 */
struct hami_turn_page {
    uint64_t magic;
    uint32_t version, size;
    uint64_t turn;     /* low 16 bits: slot + 1 of the holder, 0: nobody has it; high bits: counts changes of holder */
    uint64_t since;    /* when the holder got the turn */
    uint64_t frontier; /* when the last work of any container ended, as far as holders wrote it */
    uint64_t spare[3];
    struct hami_turn_slot slots[HAMI_TURN_SLOTS];
};

_Static_assert(sizeof(struct hami_compute_device) == 256, "compute device");
_Static_assert(offsetof(struct hami_compute_device, turn) == 192, "launches read turn: its own cache line");
_Static_assert(sizeof(struct hami_compute_process) == 64, "compute process");
_Static_assert(offsetof(struct hami_compute, devices) == 4096, "compute header");
_Static_assert(sizeof(struct hami_turn_slot) == 64, "turn slot");
_Static_assert(sizeof(struct hami_turn_page) == 4096, "turn page");

#define HAMI_REGION_SIZE (HAMI_COMPUTE_OFFSET + sizeof(struct hami_compute))

static inline struct hami_compute *hami_compute_of(struct hami_region *region) {
    return (struct hami_compute *)((char *)region + HAMI_COMPUTE_OFFSET);
}

#endif
