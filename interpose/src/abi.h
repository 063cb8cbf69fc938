/*
 * The shared region: a file that the processes of one container, the agent and HAMi's monitor map and write together.
 *
 * The file begins with HAMi-core's layout, version 1.2 (struct hami_v1), so that monitors made for HAMi can read it.
 * Behind that, page aligned, lies our own block (struct hami_block). Only our block decides about requests. Integers
 * are little endian; fields that several processes write are C11 atomics. Memory is counted in pages of 4 KiB: every
 * driver allocation is a multiple of that.
 *
 * The agent makes the file, always of HAMI_REGION_SIZE bytes (compute_abi.h), with the Python structures that
 * gen/layouts.py generates from this header. If the limits come from the environment, the library makes it (region.c).
 * The library refuses a region of another version: it meets one only if the agent was upgraded while a container ran.
 *
 * The ledger. A process that uses the region owns a slot, a number below HAMI_PROCESSES. A counter is one kind of
 * memory: that of device i, or host memory in its place. `held` has a word for each counter and slot: the pages that
 * the slot's owner holds. A share is memory that several processes hold; it is counted apart from the words. The memory
 * in use of a counter is the sum of its words and shares. These rules keep the sum right, even if a process dies at any
 * step:
 *
 *   - Only the process that owns a slot changes the slot's words. A word is never less than what its process holds.
 *   - To reserve, a process sums, adds to its word, and sums again. If a sum is above the limit, the process is refused
 *     and subtracts what it added. The process that adds last sums after all others have added, so its second sum has
 *     every reservation.
 *   - A sum reads the words before the shares. Memory moves only from a word to a share, and the share is written
 *     first. So a sum may count memory twice for a moment; it never misses any.
 *   - The owner word of a slot shows whether the slot is free, claimed or counted. A sum leaves out the words of a
 *     claimed slot. The new owner clears what the last owner left; then it marks the slot as counted.
 *   - A process that finds the owner of a slot dead claims the slot, clears it and frees it.
 *   - The owner word of a process that cuCheckpointProcess... has suspended is marked as such. A sum leaves out its
 *     words for devices, since its memory is not there. Before it resumes, the sum is taken with these words; if that
 *     is above the limit, the process stays suspended.
 *
 * Memory order: all accesses to owner words, held words and shares are sequentially consistent. The second sum of a
 * reservation must see every addition before it, which acquire and release do not promise across several words.
 *
 * A process is known by its owner word (the pid and start time of its own /proc/self/stat), by the inode of its pid
 * namespace, and by a record lock on one byte of the file, HAMI_LOCK_BASE + slot. The kernel drops the lock when the
 * process ends or calls exec(2). region.h has the rules.
 */
#ifndef HAMI_ABI_H
#define HAMI_ABI_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HAMI_DEVICES = 16,
    HAMI_COUNTERS = 2 * HAMI_DEVICES, /* i: memory of device i; i + HAMI_DEVICES: host memory used in its place */
    HAMI_PROCESSES = 1024,
    HAMI_SHARES = 4096,
    HAMI_PAGE_SHIFT = 12,
    HAMI_UUID_BYTES = 96,
    HAMI_BUILD_BYTES = 48
};

#define HAMI_PAGES_MAX ((UINT64_C(1) << 35) - 1) /* 128 TiB; a word with a larger number counts as this many */

#define HAMI_V1_MAGIC 19920718
#define HAMI_V1_SIZE 2008952
#define HAMI_BLOCK_OFFSET 2011136
#define HAMI_BLOCK_MAGIC UINT64_C(0x55504756494d4148) /* "HAMIVGPU" */
#define HAMI_BLOCK_VERSION 7

/* Bytes of the region's file for record locks. They lie beyond its end, where fcntl(2) can lock as well. */
#define HAMI_LOCK_BASE (INT64_C(1) << 40)                       /* + slot: the slot's owner locks it for life */
#define HAMI_LOCK_RETRY (HAMI_LOCK_BASE + HAMI_PROCESSES)       /* locked to retry a request that did not fit */
#define HAMI_LOCK_SUSPEND (HAMI_LOCK_BASE + 2 * HAMI_PROCESSES) /* + slot: locked to suspend or resume its owner */

/* ---- the layout of HAMi-core v1.2 ---- */

struct hami_v1_memory {
    _Atomic uint64_t context, module, data, offset, total;
    uint64_t spare[3];
};

struct hami_v1_utilization {
    uint64_t decoder, encoder, sm, spare[3];
};

struct hami_v1_process {
    _Atomic int32_t pid;
    _Atomic int32_t host_pid; /* the pid on the host, which the agent writes; 0: not yet */
    struct hami_v1_memory used[HAMI_DEVICES];
    uint64_t monitor_used[HAMI_DEVICES];
    struct hami_v1_utilization utilization[HAMI_DEVICES];
    _Atomic int32_t status; /* 1: the process runs; 2: its launches wait, see recent_kernel; 0: it has ended */
    uint32_t pad;
    uint64_t seqlock;
    uint64_t spare[2];
};

struct hami_v1 {
    int32_t initialized; /* HAMI_V1_MAGIC once all other fields are set */
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
    _Atomic int32_t utilization_switch; /* 0: the agent or HAMi's monitor has switched the core limit off */
    _Atomic int32_t recent_kernel;      /* a launch sets 2, agent or monitor counts down; negative: launches wait */
    int32_t priority;
    _Atomic uint64_t last_kernel_time;
    uint8_t sem_postinit[32];
};

/* ---- our block ---- */

enum hami_reason {
    HAMI_REASON_NONE = 0,
    HAMI_REASON_OVER_LIMIT = 1,     /* the request does not fit under the limit beside the memory in use */
    HAMI_REASON_NO_LIMITS = 2,      /* the limits folder has no file that can be read */
    HAMI_REASON_BAD_LIMITS = 3,     /* the limits file, or a variable that sets a limit, cannot be parsed */
    HAMI_REASON_UNKNOWN_DEVICE = 4, /* the limits file does not name the device */
    HAMI_REASON_BAD_REGION = 5,     /* the region's file is missing, or is not of this size and layout */
    HAMI_REASON_NO_SLOT = 6         /* all HAMI_PROCESSES slots have live owners */
};

/*
 * State of a slot that has an owner. The slot's owner word is state << 62 | start time in clock ticks << 22 | pid of
 * its owner, or 0 if the slot is free. The state tells whether the owner's memory counts as in use ("summed").
 */
enum hami_slot_state {
    HAMI_SLOT_CLAIMED = 0,   /* not summed: the process that claimed the slot is clearing its words */
    HAMI_SLOT_COUNTED = 1,   /* summed: the owner runs */
    HAMI_SLOT_MOVING = 2,    /* summed: the driver is suspending or resuming the owner */
    HAMI_SLOT_SUSPENDED = 3, /* device memory is not summed; host memory is, since a suspended process keeps it */
};
enum { HAMI_OWNER_PID_BITS = 22, HAMI_OWNER_START_BITS = 40, HAMI_OWNER_STATE_SHIFT = 62 };

/* What the region has about the owner of a slot, apart from its owner word. */
struct hami_slot {
    _Atomic uint64_t pid_namespace; /* inode of /proc/self/ns/pid; 0: not known */
    _Atomic uint64_t image;         /* what hami_process_image() returned; another number after exec(2) */
    _Atomic uint64_t locked;        /* 1: the owner has locked byte HAMI_LOCK_BASE + slot of the file */
    _Atomic uint64_t launches;      /* kernels and graphs that it has launched; threads add them with a delay */
};

/*
 * Figures of a counter: i < HAMI_DEVICES is device i; i + HAMI_DEVICES is host memory in place of device memory, which
 * an administrator allows by scaling. A host counter uses only peak, limit_bytes, placed and placed_bytes.
 */
struct hami_device {
    _Atomic uint64_t peak;          /* the most pages that were ever in use */
    _Atomic uint64_t denied;        /* number of allocations that we have refused */
    _Atomic uint64_t context_pages; /* measured size of a CUDA context on this device; 0: not measured */
    _Atomic uint64_t limit_bytes;   /* the limit in force, for the agent; a device's includes its host memory */
    _Atomic uint32_t cores;         /* the compute limit in force, in percent */
    uint32_t pad;
    _Atomic uint64_t placed;          /* number of allocations that were ever put into host memory */
    _Atomic uint64_t placed_bytes;    /* bytes of these allocations together */
    _Atomic uint64_t context_guessed; /* 1: context_pages may be too much; the next context is measured again */
    uint64_t spare[8];
};

/*
 * A share: device memory that several processes may hold. When a process exports memory, the memory moves from the
 * process's word to a share. A share counts in the sum once, while at least one slot that is summed has its bit set.
 *
 * To hold a share, a process sets the bit of its slot, sums, and clears the bit again if the sum is above the limit. A
 * share that no process holds does not count. Its entry stays until a new share claims it, since a process may be about
 * to receive a descriptor of the memory.
 *
 * The share's word is claimed << 63 | slot << 51 | device << 47 | pages. The slot is that of the process for which
 * monitors show the memory. In a claimed entry, which look-ups skip, it is that of the process which makes the new
 * share.
 */
#define HAMI_SHARE_CLAIMED (UINT64_C(1) << 63)
enum { HAMI_SHARE_SLOT_SHIFT = 51, HAMI_SHARE_DEVICE_SHIFT = 47 };

struct hami_share_entry {
    _Atomic uint64_t word;
    _Atomic uint64_t identity;                     /* of the memory, see memory/identity.h; 0: not known */
    _Atomic uint64_t holders[HAMI_PROCESSES / 64]; /* a bit for each slot whose owner holds the share */
};

struct hami_block {
    uint64_t magic;
    uint32_t version;
    uint32_t size;        /* bytes of struct hami_block */
    uint32_t header_size; /* bytes before devices[] */
    uint32_t device_size; /* bytes of struct hami_device, so that a reader can compare it with its own */
    uint32_t slot_size;   /* bytes of struct hami_slot */
    uint32_t device_count;
    _Atomic uint64_t generation;    /* the line "generation" of the limits in force */
    _Atomic uint64_t heartbeat;     /* seconds since 1970 when a process of the container last called the library */
    _Atomic uint32_t reason;        /* enum hami_reason of the last refusal */
    _Atomic uint32_t reason_device; /* device of the last refusal; HAMI_DEVICES: it concerned none */
    _Atomic uint64_t reason_bytes;  /* size of the request that was last refused */
    _Atomic uint64_t reason_time;   /* seconds since 1970 at the last refusal */
    char build[HAMI_BUILD_BYTES];   /* build id of the library that last mapped the region */
    _Atomic uint64_t swept;         /* CLOCK_MONOTONIC in ms of the last sweep for dead processes */
    _Atomic uint32_t shares_used;   /* entries of shares[] from this index on were never used */
    uint32_t pad;
    _Atomic uint64_t launches; /* kernels and graphs launched by processes that have ended */
    uint8_t spare[3952];
    struct hami_device devices[HAMI_COUNTERS];
    _Atomic uint64_t owners[HAMI_PROCESSES];              /* owner words, see enum hami_slot_state */
    _Atomic uint64_t held[HAMI_COUNTERS][HAMI_PROCESSES]; /* in pages; a counter's words are adjacent, for sums */
    struct hami_slot slots[HAMI_PROCESSES];
    struct hami_share_entry shares[HAMI_SHARES];
};

struct hami_region {
    struct hami_v1 v1;
    uint8_t gap[HAMI_BLOCK_OFFSET - HAMI_V1_SIZE];
    struct hami_block block;
};

/* Offsets that HAMi-core 1.2 and the agent rely on. tests/test_region.py compares struct hami_v1 with HAMi's source. */
_Static_assert(sizeof(struct hami_v1_memory) == 64, "v1 device memory");
_Static_assert(sizeof(struct hami_v1_process) == 1960, "v1 process slot");
_Static_assert(offsetof(struct hami_v1_process, status) == 1928, "v1 status");
_Static_assert(offsetof(struct hami_v1, processes) == 1856, "v1 procs");
_Static_assert(offsetof(struct hami_v1, process_num) == 2008896, "v1 proc_num");
_Static_assert(sizeof(struct hami_v1) == HAMI_V1_SIZE, "v1 size");
_Static_assert(offsetof(struct hami_region, block) == HAMI_BLOCK_OFFSET, "block offset");
_Static_assert(sizeof(struct hami_slot) == 32, "slot");
_Static_assert(sizeof(struct hami_device) == 128, "device");
_Static_assert(sizeof(struct hami_share_entry) == 144, "share");
_Static_assert(offsetof(struct hami_block, devices) == 4096, "block header");
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2, "atomics between processes need no lock");

#endif
