/*
 * The shared region: what the processes of one container, the agent and HAMi's monitor read and write together.
 *
 * The file starts with HAMi-core's layout, version 1.2, at its offsets, so that monitors made for it can read ours
 * (struct hami_v1). Behind it, page aligned, lies our own block (struct hami_block), which is what enforcement
 * uses; the first part is a projection of it. All integers are little endian; every field that several processes
 * write is a C11 atomic. The file has HAMI_REGION_SIZE bytes (compute_abi.h), always, and is made by the agent;
 * hami_interpose.region (Python) has the same offsets and a test compares them.
 *
 * Charges are counted in pages of 4 KiB: everything a device hands out is a multiple of that.
 *
 * The counter of a device is one 64-bit word: 35 bits of pages in use, 13 bits naming the cell that changed it last (10
 * of its slot, 3 of its number there), 16 bits of that cell's sequence number. A process changes it through one of its
 * own cells:
 *
 *   1. cell.amount = n, cell.state = PENDING | sequence          the intent
 *   2. note in `seen` which cell and sequence the word names, before it forgets
 *   3. compare-and-swap the word to (pages + n, this cell, sequence)
 *   4. cell.total[other] = total + n, cell.state = IDLE | other | sequence + 1      the commit, one store
 *
 * `seen` lies beside the word, so that nobody has to go where others are at work; each cell has a place there, which it
 * may share with a few. A note gives way to a later one of the same cell, since that has committed in between, and to
 * another cell's once the cell that it names was marked APPLIED, if it is still PENDING with that sequence.
 *
 * A process that dies anywhere in between leaves a cell that says what happened: IDLE, nothing pending; APPLIED, or
 * PENDING and the word or a note names it with that sequence, step 3 happened; otherwise it did not. Who wants to know
 * looks at the word, then at the note, then at the cell: what is no longer in the one is in the next. Whoever comes
 * next finishes or reverts, then takes the sum of the cells off the counter through the same four steps (cells.c).
 *
 * While a process is checkpointed (cuCheckpointProcess…), what it has charged is not on the device. It can change no
 * cell then, so its slot has one more, HAMI_CELL_AWAY, that another writes: the negative amount of what is away, so the
 * cells together say what counts at any moment. Whoever writes there is the slot's keeper; of one who died, what was
 * under way in the cell is finished or reverted, and the driver's state of the process tells where the rest belongs
 * (checkpoint.c).
 *
 * Inside the container the owner of a slot is looked up by pid and start time. A reader in another pid namespace asks
 * for the record lock instead, which the kernel drops with the process or at its exec: F_GETLK says whether it is held.
 */
#ifndef HAMI_ABI_H
#define HAMI_ABI_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HAMI_DEVICES = 16,
    HAMI_COUNTERS = 2 * HAMI_DEVICES, /* of memory: on device i, and at i + HAMI_DEVICES in the host on its behalf */
    HAMI_PROCESSES = 1024,
    HAMI_CELLS = 5,
    HAMI_CELL_AWAY = 4, /* the last, which its keeper writes; the others are the owner's */
    HAMI_SHARES = 4096,
    HAMI_SEEN = 12, /* with the word and what else every change looks at in one cache line */
    HAMI_PAGE_SHIFT = 12,
    HAMI_UUID_BYTES = 96,
    HAMI_BUILD_BYTES = 48
};

#define HAMI_V1_MAGIC 19920718
#define HAMI_V1_SIZE 2008952
#define HAMI_BLOCK_OFFSET 2011136
#define HAMI_BLOCK_MAGIC UINT64_C(0x55504756494d4148) /* "HAMIVGPU" */
#define HAMI_BLOCK_VERSION 6
#define HAMI_LOCK_BASE (INT64_C(1) << 40) /* beyond the end; fcntl(2) locks need no bytes there */

/* ---- HAMi-core v1.2 ---- */

struct hami_v1_memory {
    _Atomic uint64_t context, module, data, offset, total;
    uint64_t spare[3];
};

struct hami_v1_utilization {
    uint64_t decoder, encoder, sm, spare[3];
};

struct hami_v1_process {
    _Atomic int32_t pid;
    _Atomic int32_t host_pid; /* written by the agent, who sees both; 0 = not known */
    struct hami_v1_memory used[HAMI_DEVICES];
    uint64_t monitor_used[HAMI_DEVICES];
    struct hami_v1_utilization utilization[HAMI_DEVICES];
    _Atomic int32_t status; /* 1 running, 2 suspended, 0 gone */
    uint32_t pad;
    uint64_t seqlock;
    uint64_t spare[2];
};

struct hami_v1 {
    int32_t initialized; /* HAMI_V1_MAGIC */
    uint32_t major, minor;
    int32_t sm_init;
    uint64_t owner_pid;
    uint8_t sem[32];
    uint64_t device_num;
    char uuids[HAMI_DEVICES][HAMI_UUID_BYTES];
    uint64_t limit[HAMI_DEVICES];
    uint64_t sm_limit[HAMI_DEVICES];
    struct hami_v1_process processes[HAMI_PROCESSES];
    _Atomic int32_t process_num;
    _Atomic int32_t utilization_switch; /* 0: HAMi's monitor lets the core limit rest */
    _Atomic int32_t recent_kernel;      /* 2 active, counted down by the monitor; -1: suspended */
    int32_t priority;
    _Atomic uint64_t last_kernel_time;
    uint8_t sem_postinit[32];
};

/* ---- our block ---- */

enum hami_reason {
    HAMI_REASON_NONE = 0,
    HAMI_REASON_OVER_LIMIT = 1,     /* the request and what is in use exceed the limit */
    HAMI_REASON_NO_LIMITS = 2,      /* limits folder without a readable file */
    HAMI_REASON_BAD_LIMITS = 3,     /* limits file is not of the format */
    HAMI_REASON_UNKNOWN_DEVICE = 4, /* device that the limits file does not name */
    HAMI_REASON_BAD_REGION = 5,     /* region missing, of another size, or foreign */
    HAMI_REASON_NO_SLOT = 6         /* more live processes than slots */
};

/* State of a cell: bits 0-1 phase, bit 2 which total is valid, bits 16-31 sequence. */
enum { HAMI_CELL_IDLE = 0, HAMI_CELL_PENDING = 1, HAMI_CELL_APPLIED = 2, HAMI_CELL_PHASE = 3, HAMI_CELL_SIDE = 4 };

struct hami_cell {
    _Atomic uint64_t state;
    _Atomic int64_t amount;   /* pages, negative to give back */
    _Atomic int64_t total[2]; /* pages this cell has added so far; negative when it gave back what others took */
};

/* Where the memory of a slot's process is: on the device, under way, or not there and not counted. */
enum hami_suspension { HAMI_SUSPENSION_HOME = 0, HAMI_SUSPENSION_MOVING = 1, HAMI_SUSPENSION_AWAY = 2 };

struct hami_slot {
    _Atomic uint64_t owner;    /* process start time << 22 | pid; 0 = free */
    _Atomic uint64_t sweeper;  /* owner word of the process that cleans up after a dead one */
    _Atomic uint64_t launches; /* kernels and graphs that were given to devices, to a few for each thread */
    _Atomic uint64_t image;    /* tells the owner's program from one that it became by exec; 0 = not known */
    _Atomic uint64_t locked;   /* 1: the owner holds a write lock on byte HAMI_LOCK_BASE + slot while it lives */
    _Atomic uint64_t settled;  /* owner word of a dead owner whose cells are off the counters and need not agree now */
    _Atomic uint64_t suspension; /* enum hami_suspension */
    _Atomic uint64_t keeper;     /* owner word of the process that suspends or resumes the owner; 0 = nobody does */
    struct hami_cell cells[HAMI_COUNTERS][HAMI_CELLS];
};

/*
 * One counter and what goes with it. The first HAMI_DEVICES are of devices. The others are of host memory that stands
 * in for theirs where the administrator scales it; they have used, peak, limit_bytes and what was ever put there.
 */
struct hami_device {
    _Atomic uint64_t used;     /* the counter: pages << 29 | slot << 19 | cell << 16 | sequence */
    _Atomic uint64_t orphaned; /* pages in use beyond the counter: processes hold them, whoever took them does not */
    /* At (slot + 3 * cell) % HAMI_SEEN: 1 << 31 | slot << 19 | cell << 16 | sequence; 0: nothing noted. */
    _Atomic uint32_t seen[HAMI_SEEN];
    _Atomic uint64_t peak;          /* most pages ever in use */
    _Atomic uint64_t denied;        /* refused allocations */
    _Atomic uint64_t context_pages; /* what one process's context takes, as measured; 0 = not yet */
    _Atomic uint64_t limit_bytes;   /* the limit in force, host memory included; for readers, decides nothing */
    _Atomic uint32_t cores;
    uint32_t pad;
    _Atomic uint64_t placed;          /* allocations ever put into host memory */
    _Atomic uint64_t placed_bytes;    /* their sizes */
    _Atomic uint64_t context_guessed; /* 1: context_pages may be too much; whoever makes a context looks again */
    uint64_t spare[16];
};

/*
 * Device memory that several processes may hold. An owned one is in its owner's charge. An orphaned one, whose owner
 * has let go of it or ended, is in `orphaned` of its device; so is one that its last holder is leaving. A vacant one
 * counts nowhere and is still known, since a descriptor of it may be under way, until its entry is used anew.
 *
 * Who wants to hold a share sets its bit first and then looks at the word: owned or orphaned, it is held; leaving, it
 * is once the word was put back to orphaned; vacant, it is once there was room for it and the word was put to orphaned.
 * Who leaves clears its bit; where no other is left it puts the word from orphaned to leaving, with its own slot, looks
 * at the bits again, and puts it from that to vacant, or back.
 */
enum hami_share_state {
    HAMI_SHARE_FREE = 0,
    HAMI_SHARE_CLAIMED = 1,
    HAMI_SHARE_OWNED = 2,
    HAMI_SHARE_ORPHANED = 3,
    HAMI_SHARE_LEAVING = 4,
    HAMI_SHARE_VACANT = 5
};

struct hami_share_entry {
    _Atomic uint64_t word;                         /* state << 61 | slot << 51 | device << 47 | pages */
    _Atomic uint64_t identity;                     /* identity.h; 0: nobody else can know it */
    _Atomic uint64_t holders[HAMI_PROCESSES / 64]; /* bit per slot */
};

struct hami_block {
    uint64_t magic;
    uint32_t version;
    uint32_t size;        /* of this block, in bytes */
    uint32_t header_size; /* offset of devices[] */
    uint32_t device_size; /* sizes of the parts, so that readers can check themselves */
    uint32_t slot_size;
    uint32_t device_count;
    _Atomic uint64_t generation; /* of the limits file last read */
    _Atomic uint64_t heartbeat;  /* seconds since 1970 when a process here was last at work, to a quarter */
    _Atomic uint32_t reason;     /* enum hami_reason: why something was last refused */
    _Atomic uint32_t reason_device;
    _Atomic uint64_t reason_bytes;
    _Atomic uint64_t reason_time; /* seconds since 1970 */
    char build[HAMI_BUILD_BYTES]; /* build id of the library that last started here */
    _Atomic uint64_t swept;       /* CLOCK_MONOTONIC in ms when somebody last looked for dead processes */
    _Atomic uint32_t shares_used; /* entries from here on were never used */
    uint32_t pad;
    _Atomic uint64_t launches; /* by processes that have ended */
    uint8_t spare[3952];
    struct hami_device devices[HAMI_COUNTERS];
    struct hami_slot slots[HAMI_PROCESSES];
    struct hami_share_entry shares[HAMI_SHARES];
};

struct hami_region {
    struct hami_v1 v1;
    uint8_t gap[HAMI_BLOCK_OFFSET - HAMI_V1_SIZE];
    struct hami_block block;
};

_Static_assert(sizeof(struct hami_v1_memory) == 64, "v1 device memory");
_Static_assert(sizeof(struct hami_v1_process) == 1960, "v1 process slot");
_Static_assert(offsetof(struct hami_v1_process, used) == 8, "v1 used");
_Static_assert(offsetof(struct hami_v1_process, monitor_used) == 1032, "v1 monitorused");
_Static_assert(offsetof(struct hami_v1_process, utilization) == 1160, "v1 device_util");
_Static_assert(offsetof(struct hami_v1_process, status) == 1928, "v1 status");
_Static_assert(offsetof(struct hami_v1_process, seqlock) == 1936, "v1 seqlock");
_Static_assert(offsetof(struct hami_v1, device_num) == 56, "v1 device_num");
_Static_assert(offsetof(struct hami_v1, uuids) == 64, "v1 uuids");
_Static_assert(offsetof(struct hami_v1, limit) == 1600, "v1 limit");
_Static_assert(offsetof(struct hami_v1, sm_limit) == 1728, "v1 sm_limit");
_Static_assert(offsetof(struct hami_v1, processes) == 1856, "v1 procs");
_Static_assert(offsetof(struct hami_v1, process_num) == 2008896, "v1 proc_num");
_Static_assert(offsetof(struct hami_v1, last_kernel_time) == 2008912, "v1 last_kernel_time");
_Static_assert(sizeof(struct hami_v1) == HAMI_V1_SIZE, "v1 size");
_Static_assert(offsetof(struct hami_region, block) == HAMI_BLOCK_OFFSET, "block offset");
_Static_assert(sizeof(struct hami_cell) == 32, "cell");
_Static_assert(sizeof(struct hami_slot) == 64 + HAMI_COUNTERS * HAMI_CELLS * 32, "slot");
_Static_assert(sizeof(struct hami_device) == 256, "device");
_Static_assert(offsetof(struct hami_device, peak) == 64, "what every change looks at");
_Static_assert(sizeof(struct hami_share_entry) == 144, "share");
_Static_assert(offsetof(struct hami_block, devices) == 4096, "block header");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics between processes need no lock");

#endif
