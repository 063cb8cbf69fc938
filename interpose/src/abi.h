/*
 * The shared region: a file that the processes of one container, the agent and HAMi's monitor map and write together.
 *
 * It begins with HAMi-core's layout, version 1.2 (struct hami_v1), so that monitors made for HAMi can read it. Behind
 * it, page aligned, lies our own block (struct hami_block), which decides. Integers are little endian; fields that
 * several processes write are C11 atomics. Memory is counted in pages of 4 KiB, of which all devices give multiples.
 * The agent makes the file, always of HAMI_REGION_SIZE bytes (compute_abi.h). It uses Python structures that
 * gen/layouts.py generates from these. A library refuses a region of another version. It meets one only if the agent
 * was upgraded while the container ran.
 *
 * The ledger. What is in use of a counter is a sum: one word of each process, `held`, and the shares of that counter.
 * ledger.c has the steps. These rules make the sum right at any moment, whoever dies or stops in between:
 *
 *   - Only the process that owns a slot changes the slot's words. A word is never less than what its process holds.
 *   - To reserve, a process sums, adds to its word, and sums again. Above the limit it takes its addition back. The
 *     process that adds last sums after all others have added, so its sum has every reservation.
 *   - A sum reads the words before the shares. Memory moves only from a word to a share, and the share is written
 *     first. So a sum may count memory twice for a moment; it never misses any.
 *   - A slot is free, claimed or counted, as its owner word says. The words of a claimed slot are not summed: its new
 *     owner clears what the last one left, and then the slot is counted.
 *   - A process that finds the owner of a slot dead claims the slot, clears it and frees it.
 *   - The owner word of a suspended process (cuCheckpointProcess...) says so. Its words are not summed, since its
 *     memory is not on the device. To resume it, its words are summed first; above the limit it stays suspended.
 *
 * Memory order: all accesses to owner words, held words and shares are sequentially consistent. The second sum of a
 * reservation must see every addition before it, which acquire and release do not promise across several words.
 *
 * A process is known by its owner word (pid and start time, as its own /proc/self/stat has them), by the inode of its
 * pid namespace, and by a record lock on one byte of the file, HAMI_LOCK_BASE + slot. The kernel drops the lock when
 * the process ends or becomes another program (exec). region.h has the rules.
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
    HAMI_SHARES = 4096,
    HAMI_PAGE_SHIFT = 12,
    HAMI_UUID_BYTES = 96,
    HAMI_BUILD_BYTES = 48
};

#define HAMI_PAGES_MAX ((UINT64_C(1) << 35) - 1) /* 128 TiB; a larger number counts as this */

#define HAMI_V1_MAGIC 19920718
#define HAMI_V1_SIZE 2008952
#define HAMI_BLOCK_OFFSET 2011136
#define HAMI_BLOCK_MAGIC UINT64_C(0x55504756494d4148) /* "HAMIVGPU" */
#define HAMI_BLOCK_VERSION 7

/* Offsets of record locks. They lie beyond the end of the file, where fcntl(2) can lock as well. */
#define HAMI_LOCK_BASE (INT64_C(1) << 40)                       /* + slot: held while its owner lives */
#define HAMI_LOCK_RETRY (HAMI_LOCK_BASE + HAMI_PROCESSES)       /* a process retries a request that did not fit */
#define HAMI_LOCK_SUSPEND (HAMI_LOCK_BASE + 2 * HAMI_PROCESSES) /* + slot: a process suspends or resumes its owner */

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
    _Atomic int32_t host_pid; /* written by the agent; 0 = not known */
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
    _Atomic int32_t utilization_switch; /* 0: HAMi's monitor has switched the core limit off */
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
    HAMI_REASON_BAD_LIMITS = 3,     /* limits file, or a variable that sets a limit, is not of the format */
    HAMI_REASON_UNKNOWN_DEVICE = 4, /* device that the limits file does not name */
    HAMI_REASON_BAD_REGION = 5,     /* region missing, of another size, or foreign */
    HAMI_REASON_NO_SLOT = 6         /* more live processes than slots */
};

/*
 * Owner word of a slot: state << 62 | start time in clock ticks << 22 | pid; 0: the slot is free. The enumerators are
 * the states of a slot that has an owner.
 */
enum hami_slot_state {
    HAMI_SLOT_CLAIMED = 0,   /* not summed: its words are being cleared */
    HAMI_SLOT_COUNTED = 1,   /* summed */
    HAMI_SLOT_MOVING = 2,    /* summed; the owner is being suspended or resumed, the driver knows how far */
    HAMI_SLOT_SUSPENDED = 3, /* not summed on devices; what lies in the host stays there and is summed */
};
enum { HAMI_OWNER_PID_BITS = 22, HAMI_OWNER_START_BITS = 40, HAMI_OWNER_STATE_SHIFT = 62 };

/* More about the owner of a slot. */
struct hami_slot {
    _Atomic uint64_t pid_namespace; /* inode of /proc/self/ns/pid; 0: not known */
    _Atomic uint64_t image;         /* differs after exec, see process.h; 0: not known */
    _Atomic uint64_t locked;        /* 1: the owner holds the record lock of the slot while it lives */
    _Atomic uint64_t launches;      /* kernels and graphs launched; each thread may be a few behind */
};

/*
 * Figures of a counter. The first HAMI_DEVICES are of devices. The others are of host memory that replaces device
 * memory where the administrator scales it; of these only peak, limit_bytes, placed and placed_bytes are used.
 */
struct hami_device {
    _Atomic uint64_t peak;          /* most pages ever in use */
    _Atomic uint64_t denied;        /* refused allocations */
    _Atomic uint64_t context_pages; /* measured size of one process's context; 0 = not yet */
    _Atomic uint64_t limit_bytes;   /* the limit in force, host memory included; for readers only */
    _Atomic uint32_t cores;
    uint32_t pad;
    _Atomic uint64_t placed;          /* allocations ever put into host memory */
    _Atomic uint64_t placed_bytes;    /* their sizes */
    _Atomic uint64_t context_guessed; /* 1: context_pages may be too much; measured again with the next context */
    uint64_t spare[8];
};

/*
 * A share: device memory that several processes may hold. From its export on, the memory is counted here and in no
 * word. It counts while the bit of any slot is set whose owner is summed.
 *
 * To hold a share, a process sets its bit, sums, and clears the bit again if the sum is above the limit. A share that
 * no process holds counts nowhere, but stays known, since another process may be about to receive a descriptor of it.
 * Its entry is claimed when a new share needs one.
 *
 * Word: claimed << 63 | slot << 51 | device << 47 | pages. The slot names the process that readers show the share for.
 * In a claimed entry, which look-ups skip, it names the process that is making a share there.
 */
#define HAMI_SHARE_CLAIMED (UINT64_C(1) << 63)
enum { HAMI_SHARE_SLOT_SHIFT = 51, HAMI_SHARE_DEVICE_SHIFT = 47 };

struct hami_share_entry {
    _Atomic uint64_t word;
    _Atomic uint64_t identity;                     /* memory/identity.h; 0: no other process can find it */
    _Atomic uint64_t holders[HAMI_PROCESSES / 64]; /* bit per slot; bits of free and claimed slots mean nothing */
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
    _Atomic uint64_t heartbeat;  /* seconds since 1970 when a process here last ran, give or take 250 ms */
    _Atomic uint32_t reason;     /* enum hami_reason: of the last refusal */
    _Atomic uint32_t reason_device;
    _Atomic uint64_t reason_bytes;
    _Atomic uint64_t reason_time; /* seconds since 1970 */
    char build[HAMI_BUILD_BYTES]; /* build id of the library that last mapped the region */
    _Atomic uint64_t swept;       /* CLOCK_MONOTONIC in ms of the last sweep for dead processes */
    _Atomic uint32_t shares_used; /* entries from here on were never used */
    uint32_t pad;
    _Atomic uint64_t launches; /* by processes that have ended */
    uint8_t spare[3952];
    struct hami_device devices[HAMI_COUNTERS];
    _Atomic uint64_t owners[HAMI_PROCESSES];
    _Atomic uint64_t held[HAMI_COUNTERS][HAMI_PROCESSES]; /* pages; one counter's words lie side by side for the sum */
    struct hami_slot slots[HAMI_PROCESSES];
    struct hami_share_entry shares[HAMI_SHARES];
};

struct hami_region {
    struct hami_v1 v1;
    uint8_t gap[HAMI_BLOCK_OFFSET - HAMI_V1_SIZE];
    struct hami_block block;
};

/* _region_layout.py has the offset of each field; tests compare those of HAMI's part with HAMI's source. */
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
