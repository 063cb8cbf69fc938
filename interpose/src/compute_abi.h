/*
 * Shared memory of the compute room: the compute block of a container's region, and the turn page of a device.
 *
 * The compute block lies behind the block of abi.h. It has one account per device, and one record per process and
 * device of the work that this process has under way. Readers add up the processes' records, so the record of a dead
 * process is zeroed and nothing has to be repaired.
 *
 * All containers with a limit on a device mount its turn page. It says which of them may give the device work now.
 * Tenants do not trust each other: the page is read and written by system calls only (compute/page.c).
 *
 * Times are ns of CLOCK_MONOTONIC. compute/README.md defines the terms: span, grant, turn, timing event.
 */
#ifndef HAMI_COMPUTE_ABI_H
#define HAMI_COMPUTE_ABI_H

#include "abi.h"

#define HAMI_COMPUTE_OFFSET ((HAMI_BLOCK_OFFSET + sizeof(struct hami_block) + 4095) / 4096 * 4096)
#define HAMI_COMPUTE_MAGIC UINT64_C(0x31504d4f43494d48) /* "HMICOMP1" */
#define HAMI_COMPUTE_VERSION 1

/*
 * A container's account on a device. Its balance in device time is (now - zero) × share - expected charge of the work
 * under way. Time itself pays in. A charge of x ns moves `zero` forward by x / share.
 */
struct hami_compute_device {
    _Atomic int64_t zero;
    _Atomic uint64_t frontier;          /* all work that ended before is known to be complete */
    _Atomic uint64_t last_grant_at;     /* when a launch last got through, as far as a thread has looked */
    _Atomic uint32_t completions;       /* futex: moves when a timing event completes */
    _Atomic uint32_t ticket;            /* next number for a launch that has to wait */
    _Atomic uint32_t serving;           /* futex: the number that is served now */
    _Atomic uint32_t waiting_for_event; /* threads; too high after one was killed, which costs needless wakes */
    _Atomic uint64_t longest_launch;    /* smoothed maximum of recent launches */
    _Atomic uint64_t identity;          /* of the container on turn pages; 0: not drawn yet */
    _Atomic uint64_t served_at;         /* when the thread that is served last showed life */
    /* Figures. */
    _Atomic uint64_t charged;       /* device time */
    _Atomic uint64_t waited;        /* by launches, summed */
    _Atomic uint64_t longest_wait;  /* of one launch */
    _Atomic uint64_t grants;        /* reservations; one covers several short launches */
    _Atomic uint64_t timeouts;      /* waits that ended after 100 ms without a completion */
    _Atomic uint64_t turns;         /* taken */
    _Atomic uint64_t turn_timeouts; /* launches that went without their turn */
    _Atomic uint64_t estimated;     /* device time charged by estimate instead of span */
    _Atomic uint64_t last_wait_at;  /* when a launch last had to wait */
    _Atomic uint64_t share;         /* percent in which `zero` counts a debt; 0: not known yet */
    uint64_t reserved;              /* not used now; earlier versions of the library summed up spans in it */
    /* Line of spans: its end, and the start of the newest part of it that has no gap. */
    _Atomic uint64_t spanned_to, spanned_from;
    uint64_t spare[3];
    /* The turn. Launches that take from a grant read `turn`, so it lies on a cache line of its own. */
    _Atomic uint64_t turn;              /* the page's word as last seen here; when it changes, grants are void */
    _Atomic uint64_t turns_off_until;   /* the container does without turns: it waited for one in vain */
    _Atomic uint64_t turn_since;        /* when a process first saw that the turn is ours */
    _Atomic uint64_t turn_forfeited;    /* allowance that waits for turns took beyond the cap; decays by half of time */
    _Atomic uint64_t turn_forfeited_at; /* when that was last updated */
    _Atomic uint64_t turn_uncontested_at; /* when the turn was last ours with no waiter further behind */
    _Atomic uint64_t turn_wake_ns;        /* how long a process takes to wake up for a turn, smoothed */
    _Atomic uint64_t turn_alone_at;       /* when no other container was last seen on the page; 0: one is there */
};

/* What one process has under way on one device. */
struct hami_compute_process {
    _Atomic int64_t reserved;           /* device time granted and not charged yet */
    _Atomic uint32_t events;            /* timing events under way, the open one included */
    _Atomic uint32_t waiters;           /* threads that wait in the gate */
    _Atomic uint64_t beat;              /* when the helper thread last looked */
    _Atomic uint64_t oldest_at;         /* when the oldest work under way was launched; 0: none is */
    _Atomic uint32_t waiting_for_event; /* of `waiters`: wait for a completion, so more work is coming */
    _Atomic uint32_t waiting_for_turn;  /* of `waiters` */
    _Atomic uint32_t overlap;           /* low 16 bits: part of `reserved`, in 1/65536, that overlaps other work
                                           and will not be charged; bit 16: */
#define HAMI_BURSTY (UINT32_C(1) << 16) /* most launches of the process come more slowly than they run */
    _Atomic uint32_t granted_at;        /* when it last got a grant, in units of 65,536 ns; wraps */
    _Atomic uint64_t granted_total;     /* device time granted, less what was given back */
    _Atomic uint64_t busy_since;        /* since when the device surely has work of it; 0: not known */
};

struct hami_compute {
    uint64_t magic;
    uint32_t version, size, header_size, device_size, process_size, pad;
    _Atomic uint64_t agent_beat; /* when the agent last looked, seconds since 1970; 0: there is no agent */
    _Atomic uint64_t boot;       /* number of the system start that all times belong to; 0: not known */
    uint8_t spare[4048];
    struct hami_compute_device devices[HAMI_DEVICES];
    struct hami_compute_process processes[HAMI_PROCESSES][HAMI_DEVICES];
};

#define HAMI_TURN_MAGIC UINT64_C(0x314e525554494d48) /* "HMITURN1" */
#define HAMI_TURN_VERSION 1
enum { HAMI_TURN_SLOTS = 63 };

/* What a container says of itself on the page. Each of these two structures is written by one system call. */
struct hami_turn_life {
    uint64_t beat;           /* when the container last showed life */
    uint64_t longest_launch; /* ns */
};
struct hami_turn_wish {
    int64_t arrears;  /* how many ns the container is behind its limit */
    uint64_t waiting; /* 1: it waits for its turn */
};

struct hami_turn_slot {
    uint64_t owner; /* identity of the container; 0: free */
    uint32_t futex; /* moves when the turn is handed to this slot */
    uint32_t pad;
    struct hami_turn_life life;
    struct hami_turn_wish wish;
    uint64_t spare[2];
};

/*
 * `turn`, `since` and the owners change only under a record lock of fcntl(2) on the bytes of `turn`. The kernel
 * releases it when its holder dies.
 */
struct hami_turn_page {
    uint64_t magic;
    uint32_t version, size;
    uint64_t turn;     /* low 16 bits: slot + 1 of the holder, 0: nobody; above: a number that every change moves */
    uint64_t since;    /* when the holder got it */
    uint64_t frontier; /* end of the last work under any turn */
    uint64_t spare[3];
    struct hami_turn_slot slots[HAMI_TURN_SLOTS];
};

_Static_assert(sizeof(struct hami_compute_device) == 256, "compute device");
_Static_assert(offsetof(struct hami_compute_device, turn) == 192, "the word that launches look at");
_Static_assert(sizeof(struct hami_compute_process) == 64, "compute process");
_Static_assert(offsetof(struct hami_compute, devices) == 4096, "compute header");
_Static_assert(sizeof(struct hami_turn_slot) == 64, "turn slot");
_Static_assert(sizeof(struct hami_turn_page) == 4096, "turn page");

#define HAMI_REGION_SIZE (HAMI_COMPUTE_OFFSET + sizeof(struct hami_compute))

/* The compute block of a region. */
static inline struct hami_compute *hami_compute_of(struct hami_region *region) {
    return (struct hami_compute *)((char *)region + HAMI_COMPUTE_OFFSET);
}

#endif
