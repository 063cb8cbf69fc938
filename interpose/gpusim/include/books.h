/*
 * The books: one file, mapped by every process, that holds the simulated devices and who uses them.
 *
 * Python reads and writes the same structures: gen/layouts.py writes them for it. The static part of a device is
 * written once by Python, from the profile, before any process maps the file.
 *
 * Truth about memory is one word per (device, slot): a device's use is their sum, so there is no total that could go
 * wrong when a process is killed between two stores. A slot belongs to one process, which holds a POSIX record lock
 * on byte `slot` of the file "alive" beside the books. The kernel drops that lock when the process dies, however it
 * dies; whoever asks next finds it free and zeroes the slot's words. F_GETLK also tells the holder's process id as
 * seen in the asker's own pid namespace, which is what NVML reports; a process that can't be seen there counts, but is
 * not listed. A process knows its own slot by pid namespace, pid and start time: in containers many are pid 1.
 *
 * A device is a card or a GPU instance of one: the instances' rows lie behind those of the cards, eight for each. A row
 * is filled from its card's when the instance is made. So memory and time of an instance are its own.
 *
 * Units are bytes and nanoseconds (CLOCK_MONOTONIC) unless a name says otherwise.
 */
#ifndef SIM_BOOKS_H
#define SIM_BOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SIM_MAGIC 0x3142534953494d48ull /* "HMISISB1" */
#define SIM_VERSION 9u
#define SIM_MAX_CARDS 16u
#define SIM_MAX_SLOTS 512u
#define SIM_MAX_FAULTS 64u
#define SIM_MAX_LINKS 18u
#define SIM_MAX_ATTRIBUTES 192u
#define SIM_MAX_MIG_PROFILES 16u
#define SIM_MAX_MIG_INSTANCES 8u
#define SIM_MAX_COMPUTE_INSTANCES 8u /* of a GPU instance */
#define SIM_MAX_DEVICES (SIM_MAX_CARDS * (1u + SIM_MAX_MIG_INSTANCES))
#define SIM_EVENT_RING 64u
#define SIM_MAX_SHARED 1024u
#define SIM_MAX_LIMITS 1024u
#define SIM_CGROUP_LEVELS 8u

struct sim_link {
    uint32_t remote_kind; /* 0 no link, 1 GPU, 2 NVSwitch */
    uint32_t version;
    uint32_t domain, bus, device; /* remote end */
    uint32_t pci_device_id;
};

struct sim_mig_profile {
    int32_t profile; /* NVML_GPU_INSTANCE_PROFILE_*; -1 unused */
    uint32_t id;     /* the id `nvidia-smi mig -lgip` shows */
    uint32_t slices, instances, sms, copy_engines, decoders, encoders, jpegs, ofas;
    uint64_t memory_mib;
    uint32_t placement_size;
    uint32_t placement_count;
    uint8_t placement_start[16];
    char name[24];
};

enum { SIM_INSTANCE_FREE = 0, SIM_INSTANCE_THERE = 1, SIM_INSTANCE_BEING_MADE = 2 };

struct sim_mig_instance {
    _Atomic uint32_t state; /* SIM_INSTANCE_… */
    uint32_t profile_row;   /* index into mig_profiles */
    uint32_t start, size;
    /* A bit per compute instance; from bit 32 on, 4 bits each for its profile. */
    _Atomic uint64_t compute_instances;
    uint8_t uuid[16];
};

struct sim_event {
    _Atomic uint64_t sequence; /* 1-based; written last */
    uint64_t type;             /* nvmlEventType* bit */
    uint64_t data;             /* Xid number */
    uint32_t gpu_instance, compute_instance;
};

/* A row or page of memory is replaced at the next reset; a row could not be replaced. */
enum { SIM_REPAIR_PENDING = 1, SIM_REPAIR_FAILED = 2 };

struct sim_device {
    char name[96];
    uint8_t uuid[16];
    char serial[32];
    char board_part[32];
    char vbios[32];
    uint64_t memory_total, memory_reserved, context_reserve, bar1_total;
    uint32_t minor_number, numa_node;
    uint32_t pci_domain, pci_bus, pci_device, pci_device_id, pci_subsystem_id;
    uint32_t brand, architecture;
    uint32_t sm_clock_mhz, memory_clock_mhz, bus_width_bits, pcie_generation, pcie_width;
    uint32_t power_limit_mw, power_idle_mw, temperature_idle_c;
    uint32_t ecc, mig_capable, mig_max_devices, mig_profile_count, link_count;
    uint32_t host_bridge;                   /* devices with the same number share a host bridge */
    uint32_t pcie_switch;                   /* devices with the same number share a switch */
    uint64_t cpu_mask[16];                  /* CPUs near the device, bit n = CPU n */
    int32_t attributes[SIM_MAX_ATTRIBUTES]; /* by CUdevice_attribute */
    struct sim_link links[SIM_MAX_LINKS];
    struct sim_mig_profile mig_profiles[SIM_MAX_MIG_PROFILES];

    /* What changes at run time. */
    _Alignas(64) _Atomic uint32_t lost;
    _Atomic uint32_t mig_mode, mig_pending, persistence, compute_mode;
    _Atomic uint32_t ecc_uncorrected;
    _Atomic uint32_t mig_slices;  /* bit per memory slice that an instance takes */
    _Atomic uint32_t accounting;  /* NVML's accounting mode */
    _Atomic uint64_t event_count; /* events ever written */
    struct sim_event events[SIM_EVENT_RING];
    struct sim_mig_instance mig_instances[SIM_MAX_MIG_INSTANCES];
    _Atomic uint32_t link_kb[2]; /* a second over PCIe: sent, received */
    _Atomic uint32_t repair;     /* of the memory: SIM_REPAIR_… */
};

/* One injected fault. `skip` calls pass first; then `left` calls fail (negative: all). */
struct sim_fault {
    _Atomic uint32_t active;
    int32_t device; /* -1: any */
    int32_t error;
    _Atomic int32_t skip, left;
    uint32_t reserved;
    uint64_t symbol_hash; /* FNV-1a of the exported or base name */
    _Atomic uint64_t hits;
    char symbol[88];
};

/* What one process queued on one device; the first three by that process, the window by the engine (engine.h). */
struct sim_engine_page {
    _Atomic uint64_t busy_until; /* end of the last queued work */
    _Atomic uint64_t busy_total; /* device time ever queued */
    _Atomic uint64_t launches;
    _Atomic uint64_t window_start, window_busy, window_previous;
    _Atomic uint64_t compute_instance; /* that the process runs on, if the device is a GPU instance */
    uint64_t reserved;
};

enum { SIM_SLOT_FREE = 0, SIM_SLOT_LIVE = 1 };

struct sim_slot {
    _Atomic uint32_t state;
    int32_t pid; /* in the process's own namespace */
    uint64_t start_time;
    uint32_t pid_namespace; /* inode of /proc/self/ns/pid */
    int32_t host_pid;       /* as HAMI_SIM_HOST_PROC tells it; 0 without */
    char name[40];
};

/*
 * A process that another may suspend (src/cuda/checkpoint.c). The states are CUprocessState's, but for LOCKING: calls
 * that have begun are waited for.
 */
enum { SIM_RUNNING = 0, SIM_LOCKED = 1, SIM_CHECKPOINTED = 2, SIM_FAILED = 3, SIM_LOCKING = 100 };

struct sim_suspension {
    _Atomic uint32_t state;
    _Atomic uint32_t lock;    /* of whoever changes the state: slot + 1 */
    _Atomic uint32_t inside;  /* calls under way, of those that wait while the process is suspended */
    _Atomic uint32_t managed; /* managed allocations */
    _Atomic uint32_t spoiled; /* by a restore that found too little room */
    uint32_t reserved[11];
    uint64_t away[SIM_MAX_DEVICES]; /* what it had of each device when it was checkpointed */
};

/* An allocation that several processes hold: shared.h. */
struct sim_shared {
    _Atomic uint32_t state;      /* 0 free, 1 there, 2 about to be either */
    _Atomic uint32_t generation; /* of the entry: one more each time that it is freed */
    _Atomic uint64_t bytes;
    uint32_t device, reserved[11];
    _Atomic uint64_t holders[SIM_MAX_SLOTS / 64]; /* bit per slot */
};

/* The driver's own limit of a cgroup's memory on a card. */
struct sim_limit {
    _Atomic uint64_t cgroup; /* inode of its folder; 0 free, 1 about to be taken */
    _Atomic uint64_t soft, hard;
    _Atomic uint64_t device;
    _Atomic uint64_t uncounted; /* bytes taken before the limit was set, which "misc" never counts */
    _Atomic uint64_t nests;     /* 1: limits of cgroups above hold as well ("dmem"); 0: only the nearest ("misc") */
};

struct sim_books {
    uint64_t magic;
    uint32_t version, size;
    uint32_t device_count; /* cards */
    int32_t cuda_version;  /* 13000 = 13.0 */
    char driver_version[32];
    char nvml_version[32];
    uint64_t launch_ns; /* how long a kernel takes when nothing else says */
    uint64_t seed;
    _Alignas(64) _Atomic uint32_t watch;      /* active faults + lost devices: 0 = nothing to look for */
    _Alignas(64) _Atomic uint32_t slot_limit; /* slots at and above were never used */
    _Atomic uint32_t device_limit;            /* devices at and above never existed */
    _Alignas(64) struct sim_fault faults[SIM_MAX_FAULTS];
    struct sim_device devices[SIM_MAX_DEVICES];
    struct sim_slot slots[SIM_MAX_SLOTS];
    _Alignas(4096) _Atomic uint64_t used[SIM_MAX_DEVICES][SIM_MAX_SLOTS];
    _Alignas(4096) struct sim_engine_page engines[SIM_MAX_DEVICES][SIM_MAX_SLOTS];
    _Alignas(4096) struct sim_shared shared[SIM_MAX_SHARED];
    _Alignas(4096) _Atomic uint32_t shared_limit; /* entries at and above were never used */
    _Alignas(4096) struct sim_suspension suspensions[SIM_MAX_SLOTS];
    /* Each process's cgroup and those above it, as in sim_limit; 0 unknown. */
    _Alignas(4096) _Atomic uint64_t cgroups[SIM_MAX_SLOTS][SIM_CGROUP_LEVELS];
    struct sim_limit limits[SIM_MAX_LIMITS];
    _Atomic uint32_t limit_count; /* entries at and above were never used */
};

_Static_assert(sizeof(struct sim_slot) == 64, "one cache line");
_Static_assert(sizeof(struct sim_engine_page) == 64, "one cache line");
_Static_assert(sizeof(struct sim_fault) == 128, "two cache lines");
_Static_assert(sizeof(struct sim_shared) == 128, "two cache lines");
_Static_assert(sizeof(struct sim_suspension) % 64 == 0, "whole cache lines");

/* Everything below is per process. */

extern struct sim_books *sim_books;       /* NULL until opened */
extern const _Atomic uint32_t *sim_watch; /* never NULL */

enum sim_open { SIM_OPEN_OK, SIM_OPEN_NO_STATE, SIM_OPEN_BAD };

/* Maps the books named by HAMI_SIM_STATE. Repeated calls are cheap. Thread-safe. */
enum sim_open sim_books_open(void);

/* Indices of the cards whose nodes exist under HAMI_SIM_DEV (all without it); returns how many. */
unsigned sim_visible_cards(unsigned visible[SIM_MAX_CARDS]);

/*
 * Whether there is such a MIG device, and its nodes exist under HAMI_SIM_DEV; where that has no folder nvidia-caps, as
 * with all of the host's devices, every MIG device of a visible card is visible.
 */
bool sim_mig_visible(unsigned card, unsigned instance, unsigned compute);

/* Whether this process may see what all MIG devices of a card use: the node for that is there, as above. */
bool sim_mig_monitor(void);

/* The calling process's slot, claimed at first use; -1 if all are taken. */
int sim_slot_claim(void);
int sim_slot_mine(void); /* -1 if none was claimed */

/* Takes bytes on a device for this process; false when the device is full. */
bool sim_charge(unsigned device, uint64_t bytes);
void sim_discharge(unsigned device, uint64_t bytes);
bool sim_charge_slot(unsigned device, int slot, uint64_t bytes); /* the same for a process that is suspended */

/* A cgroup and those above it, by its folder. Levels that are not there are 0. */
void sim_cgroup_levels(const char *folder, uint64_t levels[SIM_CGROUP_LEVELS]);
/* The limit of a cgroup on a card; NULL if it has none. */
struct sim_limit *sim_limit_of(unsigned card, uint64_t cgroup);
/* The same, made if there is room; without a limit yet. */
struct sim_limit *sim_limit_for(unsigned card, uint64_t cgroup, bool nests);
/* Bytes that count against a limit. */
uint64_t sim_limit_used(const struct sim_limit *limit);
/* Bytes that processes in a cgroup, and in those below it, have taken on a card themselves. */
uint64_t sim_cgroup_used(unsigned card, uint64_t cgroup);

/* Gives back the slots of dead processes. Only libcuda does: it owns this process's slot and so cannot sweep it. */
void sim_sweep(void);

/* Bytes taken on a device by all live processes; of a card's, those on its GPU instances apart. */
uint64_t sim_device_used(unsigned device);

/* Live process of a slot in the caller's pid namespace; 0 if the slot is free, negative if it can't be seen there. */
int sim_slot_pid(unsigned slot);

/* Whether a process is the calling one; pids alone may be equal in two containers. */
struct sim_process {
    uint64_t pid_namespace, start_time;
    int32_t pid;
    int32_t host_pid; /* see README.md on HAMI_SIM_HOST_PROC */
};
struct sim_process sim_process_self(void);
bool sim_process_is_self(const struct sim_process *process);

/* Runs in a forked child: forgets the parent's slot. */
void sim_books_after_fork(void);

/* An injected error for this call, or 0. `device` -1: unknown. `lost` gets whether the device is lost. */
int sim_fault_for(uint64_t symbol, uint64_t base, int device, bool *lost);

/* Which GPU instance a device is, and of which card. */
static inline bool sim_is_mig(unsigned device) {
    return device >= SIM_MAX_CARDS;
}
static inline unsigned sim_card_of(unsigned device) {
    return sim_is_mig(device) ? (device - SIM_MAX_CARDS) / SIM_MAX_MIG_INSTANCES : device;
}
static inline unsigned sim_instance_of(unsigned device) {
    return (device - SIM_MAX_CARDS) % SIM_MAX_MIG_INSTANCES;
}
static inline unsigned sim_mig_device(unsigned card, unsigned instance) {
    return SIM_MAX_CARDS + card * SIM_MAX_MIG_INSTANCES + instance;
}
static inline bool sim_mig_exists(unsigned card, unsigned instance, unsigned compute) {
    const struct sim_mig_instance *record = &sim_books->devices[card].mig_instances[instance];
    return atomic_load(&record->state) == SIM_INSTANCE_THERE &&
           (atomic_load(&record->compute_instances) >> compute & 1u) != 0;
}
static inline bool sim_device_exists(unsigned device) {
    return device < SIM_MAX_DEVICES && sim_card_of(device) < sim_books->device_count &&
           (!sim_is_mig(device) ||
            atomic_load(&sim_books->devices[sim_card_of(device)].mig_instances[sim_instance_of(device)].state) ==
                SIM_INSTANCE_THERE);
}

/* A MIG device's own UUID: one for each compute instance. */
static inline void sim_mig_uuid(unsigned card, unsigned instance, unsigned compute, uint8_t uuid[16]) {
    memcpy(uuid, sim_books->devices[card].mig_instances[instance].uuid, 16);
    uuid[15] = (uint8_t)(uuid[15] + compute);
}

/* Bytes a device can give to processes. */
static inline uint64_t sim_device_capacity(const struct sim_device *device) {
    return device->memory_total - device->memory_reserved;
}

#endif
