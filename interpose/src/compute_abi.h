/*
 * What processes share to divide a device's time.
 *
 * The compute block lies behind the block of abi.h in the container's region: per device the account of the container,
 * per process and device what that process has under way. Sums are made by whoever needs them, so a dead process
 * leaves words to be zeroed and nothing to be repaired.
 *
 * A turn page is one file per device that all containers with a limit on it have mounted: who may give it work now. It
 * is the only thing that tenants share, so it is read and written by system calls alone (src/compute/page.c), and what
 * it says is judged and never trusted. Nonsense in it can cost turns, never time of one's own account.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. gen/layouts.py writes these structures for Python.
 */
#ifndef HAMI_COMPUTE_ABI_H
#define HAMI_COMPUTE_ABI_H

#include "abi.h"

#define HAMI_COMPUTE_OFFSET ((HAMI_BLOCK_OFFSET + sizeof(struct hami_block) + 4095) / 4096 * 4096)
#define HAMI_COMPUTE_MAGIC UINT64_C(0x31504d4f43494d48) /* "HMICOMP1" */
#define HAMI_COMPUTE_VERSION 1

/*
 * The account of a container on a device. Its balance in device time is (now - zero) × share - what is under way: one
 * word that time itself pays into, and a charge of x moves by x / share.
 */
struct hami_compute_device {
    _Atomic int64_t zero;
    _Atomic uint64_t frontier;   /* work is known to be complete up to here */
    _Atomic uint64_t last_grant; /* when work was last let through, as far as anybody has looked */
    _Atomic uint32_t done;       /* futex: moves when a mark completes */
    _Atomic uint32_t ticket;     /* next number for those who have to wait */
    _Atomic uint32_t serving;    /* futex: the number whose turn it is */
    _Atomic uint32_t expectant;  /* threads that wait for `done`; after one was killed too many, which costs wakes */
    _Atomic uint64_t longest;    /* of recent launches */
    _Atomic uint64_t identity;   /* of the container on turn pages; 0 = not drawn yet */
    _Atomic uint64_t served;     /* when that number last showed life */
    /* Figures. */
    _Atomic uint64_t charged;       /* device time */
    _Atomic uint64_t waited;        /* by launches, summed */
    _Atomic uint64_t longest_wait;  /* of one launch */
    _Atomic uint64_t grants;        /* reservations; one covers several short launches */
    _Atomic uint64_t timeouts;      /* waits that ended after 100 ms without a completion */
    _Atomic uint64_t turns;         /* taken */
    _Atomic uint64_t turn_timeouts; /* launches that went without their turn */
    _Atomic uint64_t estimated;     /* device time charged by estimate instead of span */
    _Atomic uint64_t last_wait;     /* when a launch last had to wait */
    _Atomic uint64_t share;         /* percent in which `zero` counts a debt; 0: not yet known */
    /* Of what is charged, that by spans: how much, since when without a rest in between, and up to when. */
    _Atomic uint64_t spanned, spanned_to, spanned_from;
    uint64_t spare[3];
    /* Of the turn page, for launches that take from a grant; on a cache line of its own. */
    _Atomic uint64_t turn;      /* its word as one of us last read or wrote it; another: grants of before are void */
    _Atomic uint64_t turns_off; /* until then the container does without turns; it waited for one in vain */
    _Atomic uint64_t turn_got;  /* when one of us first saw that it is ours */
    _Atomic uint64_t turn_lost; /* of late, in waits for turns: time that the balance could not keep */
    _Atomic uint64_t turn_lost_at;
    _Atomic uint64_t turn_free;  /* when one of us last saw that it is ours and nobody further behind waits for it */
    _Atomic uint64_t turn_woke;  /* how long one of us takes to wake up for a turn that is handed over, smoothed */
    _Atomic uint64_t turn_alone; /* when one of us last saw that no other container takes turns; 0: one does */
};

struct hami_compute_process {
    _Atomic int64_t out;      /* device time granted and not charged yet */
    _Atomic uint32_t marks;   /* under way */
    _Atomic uint32_t waiting; /* threads */
    _Atomic uint64_t beat;    /* of the helper thread */
    _Atomic uint64_t since;   /* when the oldest of it was launched; 0 = nothing is under way */
    _Atomic uint32_t fed;     /* of the waiting threads, those that wait for a completion: more work is coming */
    _Atomic uint32_t in_turn; /* those that wait for the turn */
    _Atomic uint32_t hidden;  /* of `out`, in 1/65536: what will not be charged, since it runs beside other work; and */
#define HAMI_RESTS (UINT32_C(1) << 16) /* it leaves the device idle between its launches */
    _Atomic uint32_t granted;          /* when it last got some, in 65536 ns; wraps */
    _Atomic uint64_t had;              /* device time granted to it, less what it gave back */
    _Atomic uint64_t busy;             /* since when the device has surely had work of it; 0 = that is not known */
};

struct hami_compute {
    uint64_t magic;
    uint32_t version, size, header_size, device_size, process_size, pad;
    _Atomic uint64_t agent_beat; /* when the agent last looked, seconds since 1970; 0 = none does */
    _Atomic uint64_t boot;       /* of the machine's start that all times are of, a number; 0 = not known */
    uint8_t spare[4048];
    struct hami_compute_device devices[HAMI_DEVICES];
    struct hami_compute_process processes[HAMI_PROCESSES][HAMI_DEVICES];
};

#define HAMI_TURN_MAGIC UINT64_C(0x314e525554494d48) /* "HMITURN1" */
#define HAMI_TURN_VERSION 1
enum { HAMI_TURN_SLOTS = 63 };

/* What a container says of itself here; each of the two is written at once. */
struct hami_turn_life {
    uint64_t beat;    /* when it last showed life */
    uint64_t longest; /* of its launches */
};
struct hami_turn_wish {
    int64_t arrears;  /* how long it is behind its limit */
    uint64_t waiting; /* 1: for its turn */
};

struct hami_turn_slot {
    uint64_t owner; /* identity of the container; 0 = free */
    uint32_t futex; /* moves when the turn is handed to it */
    uint32_t pad;
    struct hami_turn_life life;
    struct hami_turn_wish wish;
    uint64_t spare[2];
};

/* `turn`, `since` and the owners change only under a lock on the bytes of `turn`: fcntl(2)'s, which ends with whoever
 * has it. */
struct hami_turn_page {
    uint64_t magic;
    uint32_t version, size;
    uint64_t turn;     /* slot + 1 of the holder, 0 = nobody; above 16 bits a number that moves with every change */
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
