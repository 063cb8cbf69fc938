/*
 * What processes share to divide a device's time.
 *
 * The compute block lies behind the block of abi.h in the container's region: per device the account of the container,
 * per process and device what that process has under way. Sums are made by whoever needs them, so a dead process
 * leaves words to be zeroed and nothing to be repaired.
 *
 * A turn page is one file per device that all containers with a limit on it have mounted: who may give it work now. It
 * is the only thing that tenants share. Nonsense in it can cost turns, never time of one's own account.
 *
 * Times are nanoseconds of CLOCK_MONOTONIC. hami_interpose.region and hami_interpose.turn have the same offsets.
 */
#ifndef HAMI_COMPUTE_ABI_H
#define HAMI_COMPUTE_ABI_H

#include "hami/abi.h"

#define HAMI_COMPUTE_OFFSET ((HAMI_BLOCK_OFFSET + sizeof(struct hami_block) + 4095) / 4096 * 4096)
#define HAMI_COMPUTE_MAGIC UINT64_C(0x31504d4f43494d48) /* "HMICOMP1" */
#define HAMI_COMPUTE_VERSION 1

/*
 * The account of a container on a device. Its balance in device time is (now - zero) × share - what is under way: one
 * word that time itself pays into, and a charge of x moves by x / share.
 */
struct hami_compute_device {
    _Atomic int64_t zero;
    _Atomic uint64_t frontier;   /* device time is charged up to here */
    _Atomic uint64_t last_grant; /* when work was last let through */
    _Atomic uint32_t done;       /* futex: moves when a mark completes */
    _Atomic uint32_t ticket;     /* next number for those who have to wait */
    _Atomic uint32_t serving;    /* futex: the number whose turn it is */
    uint32_t pad;
    _Atomic uint64_t longest;  /* of recent launches */
    _Atomic uint64_t identity; /* of the container on turn pages; 0 = not drawn yet */
    _Atomic uint64_t served;   /* when that number last showed life */
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
    uint64_t spare[15];
};

struct hami_compute_process {
    _Atomic int64_t out;      /* device time granted and not charged yet */
    _Atomic uint32_t marks;   /* under way */
    _Atomic uint32_t waiting; /* threads */
    _Atomic uint64_t beat;    /* of the helper thread */
    _Atomic uint64_t since;   /* when the oldest of it was launched; 0 = nothing is under way */
    _Atomic uint32_t fed;     /* of the waiting threads, those that wait for a completion: more work is coming */
    uint32_t pad;
    uint64_t spare[3];
};

struct hami_compute {
    uint64_t magic;
    uint32_t version, size, header_size, device_size, process_size, pad;
    _Atomic uint64_t agent_beat; /* when the agent last looked, seconds since 1970; 0 = none does */
    uint8_t spare[4056];
    struct hami_compute_device devices[HAMI_DEVICES];
    struct hami_compute_process processes[HAMI_PROCESSES][HAMI_DEVICES];
};

#define HAMI_TURN_MAGIC UINT64_C(0x314e525554494d48) /* "HMITURN1" */
#define HAMI_TURN_VERSION 1
enum { HAMI_TURN_SLOTS = 63 };

struct hami_turn_slot {
    _Atomic uint64_t owner;  /* identity of the container; 0 = free */
    _Atomic uint64_t beat;   /* when it last showed life here */
    _Atomic int64_t arrears; /* how long it is behind its limit */
    _Atomic uint32_t waiting;
    _Atomic uint32_t futex;
    _Atomic uint64_t longest; /* of its launches */
    _Atomic uint64_t lost;    /* turns that others took away from it, because it was silent or did not give them back */
    uint64_t spare[2];
};

struct hami_turn_page {
    uint64_t magic;
    uint32_t version, size;
    _Atomic uint64_t turn; /* slot + 1 of the holder, 0 = nobody; above 16 bits a number that moves with every change */
    _Atomic uint64_t since;    /* when the holder got it */
    _Atomic uint64_t frontier; /* end of the last work under any turn */
    uint64_t spare[3];
    struct hami_turn_slot slots[HAMI_TURN_SLOTS];
};

_Static_assert(sizeof(struct hami_compute_device) == 256, "compute device");
_Static_assert(sizeof(struct hami_compute_process) == 64, "compute process");
_Static_assert(offsetof(struct hami_compute, devices) == 4096, "compute header");
_Static_assert(sizeof(struct hami_turn_slot) == 64, "turn slot");
_Static_assert(sizeof(struct hami_turn_page) == 4096, "turn page");

#endif
