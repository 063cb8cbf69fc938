/*
 * The shared region as this process uses it: maps the file, claims a slot, frees the slots of dead processes. region.h
 * tells how a dead process is recognized; ledger.c has the sums.
 *
 * Memory order: accesses that decide about requests or slots are sequentially consistent, the default. Figures that
 * only monitors read (columns, times, reasons) are relaxed.
 */
#include "ledger/region.h"

#include "fault.h"
#include "ledger/process.h"
#include "parts.h"
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef HAMI_BUILD_ID
#define HAMI_BUILD_ID "unknown"
#endif

/* The build id of the library. hami_interpose.build_id() searches the file for this text. */
#define BUILD_MARK "hami-build-id="
static const char build[] __attribute__((used)) = BUILD_MARK HAMI_BUILD_ID;

/* One thread of this process at a time claims slots. Record locks keep out only other processes. */
static atomic_flag claiming = ATOMIC_FLAG_INIT;

/* Stores a value in the region. A test may kill the process after the store (fault.h). */
#define REGION_STORE(at, value)                                                                                        \
    do {                                                                                                               \
        atomic_store(at, value);                                                                                       \
        hami_step();                                                                                                   \
    } while (0)

/* ---- words of this process ---- */

/* Adds bytes to a column that HAMi's monitor reads, and to the total. */
static inline void region_show(struct hami_v1_memory *used, uint64_t bytes, enum hami_column column) {
    (void)atomic_fetch_add_explicit((_Atomic uint64_t *)((char *)used + column), bytes, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&used->total, bytes, memory_order_relaxed);
}

void hami_region_show_less(struct hami_region_view *view, unsigned counter, uint64_t pages, enum hami_column column) {
    region_show(&view->shown->used[counter % HAMI_DEVICES], 0 - (pages << HAMI_PAGE_SHIFT), column);
}

HAMI_HOT bool hami_region_charge(struct hami_region_view *view, unsigned counter, uint64_t pages, uint64_t limit_pages,
                                 enum hami_column column) {
    if (pages == 0) {
        return true; /* even while more than the limit is in use, as after the agent has lowered the limit */
    }
    if (!hami_ledger_reserve(view->region, view->slot, view->self, counter, pages, limit_pages)) {
        return false;
    }
    region_show(&view->shown->used[counter % HAMI_DEVICES], pages << HAMI_PAGE_SHIFT, column);
    return true;
}

HAMI_HOT void hami_region_release(struct hami_region_view *view, unsigned counter, uint64_t pages,
                                  enum hami_column column) {
    if (pages != 0) {
        hami_region_show_less(view, counter, pages, column);
        hami_ledger_release(view->region, view->slot, counter, pages);
    }
}

uint64_t hami_region_used_now(struct hami_region_view *view, unsigned counter) {
    if (hami_ledger_slots(view->region) > 1) {
        (void)hami_region_sweep(view);
    }
    return hami_ledger_sum(view->region, counter);
}

uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned counter) {
    bool summed = hami_ledger_is_summed(atomic_load(&view->region->block.owners[slot]), counter);
    return summed ? hami_ledger_of(view->region, slot, counter) : 0;
}

int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot) {
    uint64_t owner = atomic_load(&view->region->block.owners[slot]);
    return hami_ledger_state(owner) == HAMI_SLOT_CLAIMED ? 0 : hami_process_pid(owner);
}

void hami_region_refused(struct hami_region_view *view, enum hami_reason reason, unsigned device, uint64_t bytes) {
    struct hami_block *block = &view->region->block;
    if (device < HAMI_DEVICES) {
        (void)atomic_fetch_add_explicit(&block->devices[device].denied, 1, memory_order_relaxed);
    }
    atomic_store_explicit(&block->reason_device, device, memory_order_relaxed);
    atomic_store_explicit(&block->reason_bytes, bytes, memory_order_relaxed);
    atomic_store_explicit(&block->reason_time, (uint64_t)time(NULL), memory_order_relaxed);
    atomic_store_explicit(&block->reason, (uint32_t)reason, memory_order_release);
}

/* ---- record locks ---- */

/*
 * F_SETLK: sets (F_WRLCK) or drops (F_UNLCK) this process's lock on a byte, and returns whether it could. F_GETLK with
 * F_WRLCK: returns whether another process holds a lock on the byte.
 */
static bool region_fcntl(const struct hami_region_view *view, int command, int64_t byte, short how) {
    struct flock lock = {.l_type = how, .l_start = (off_t)byte, .l_len = 1};
    int file = atomic_load(&view->file);
    return file >= 0 && fcntl(file, command, &lock) == 0 && (command == F_SETLK || lock.l_type != F_UNLCK);
}

bool hami_region_lock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte, unsigned patience_ms) {
    enum { NAP_US = 100 };
    const struct timespec nap = {0, NAP_US * 1000};
    HAMI_UNCANCELLED;
    for (uint64_t waited_us = 0;; waited_us += NAP_US) {
        if (!atomic_flag_test_and_set(threads)) {
            bool alone = atomic_load(&view->file) < 0 || region_fcntl(view, F_SETLK, byte, F_WRLCK);
            if (alone || (errno != EAGAIN && errno != EACCES)) {
                return true; /* locked; or the file system has no record locks, and we go on without */
            }
            atomic_flag_clear(threads);
        }
        if (waited_us >= patience_ms * UINT64_C(1000)) {
            return false;
        }
        (void)nanosleep(&nap, NULL);
    }
}

void hami_region_unlock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte) {
    (void)region_fcntl(view, F_SETLK, byte, F_UNLCK);
    atomic_flag_clear(threads);
}

static int region_open(const char *path) {
    enum { FIRST_DESCRIPTOR = 64 }; /* programs may expect the lowest numbers for their own files */
    int low = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    int file = low < 0 ? -1 : fcntl(low, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (low >= 0) {
        (void)close(low);
    }
    return file;
}

/* Whether `file` still is a descriptor of the region. The program may have closed it and reused its number. */
static bool region_is_file(const struct hami_region_view *view, int file) {
    struct stat found;
    return file >= 0 && fstat(file, &found) == 0 && found.st_dev == view->device && found.st_ino == view->inode;
}

void hami_region_relock(struct hami_region_view *view) {
    if (*view->path == '\0') {
        return;
    }
    HAMI_UNCANCELLED;
    if (!region_is_file(view, atomic_load(&view->file))) {
        int file = region_open(view->path);
        if (file >= 0 && !region_is_file(view, file)) {
            (void)close(file);
            file = -1;
        }
        atomic_store(&view->file, file);
    }
    atomic_store(&view->region->block.slots[view->slot].locked,
                 region_fcntl(view, F_SETLK, HAMI_LOCK_BASE + view->slot, F_WRLCK));
}

/* ---- slots ---- */

/*
 * A second slot with the owner word of this process counts as dead. This process owned it before exec(2), and exec(2)
 * freed the memory.
 */
bool hami_region_owner_lives(const struct hami_region_view *view, unsigned slot, uint64_t owner) {
    const struct hami_slot *found = &view->region->block.slots[slot];
    if (region_fcntl(view, F_GETLK, HAMI_LOCK_BASE + slot, F_WRLCK)) {
        return true;
    }
    if (atomic_load(&found->pid_namespace) != hami_process_namespace()) {
        return atomic_load(&found->locked) == 0; /* an owner that never got the lock may still live without it */
    }
    return hami_ledger_who(owner) != hami_process_self() && hami_process_lives(owner, atomic_load(&found->image));
}

/* Clears what the last owner left in a slot that this process has claimed. */
static void region_clear_slot(struct hami_region *region, unsigned index) {
    struct hami_v1_process *shown = &region->v1.processes[index];
    struct hami_slot *slot = &region->block.slots[index];
    hami_ledger_clear(region, index);
    REGION_STORE(&shown->status, 0);
    REGION_STORE(&shown->pid, 0);
    REGION_STORE(&shown->host_pid, 0);
    memset(shown->used, 0, sizeof shown->used);
    hami_step();
    /* Adds the launches before it clears them. A process that dies in between leaves them counted twice, not lost. */
    (void)atomic_fetch_add(&region->block.launches, atomic_load(&slot->launches));
    hami_step();
    REGION_STORE(&slot->launches, 0);
    HAMI_TELL(process_gone, region, index);
}

/*
 * Claims a slot and clears it. `expected` is the owner word of a dead process, or 0 for a free slot. Returns false if
 * another process was faster.
 */
static bool region_claim_slot(struct hami_region_view *view, unsigned index, uint64_t expected) {
    struct hami_slot *slot = &view->region->block.slots[index];
    bool locked = region_fcntl(view, F_SETLK, HAMI_LOCK_BASE + index, F_WRLCK);
    if (!locked && atomic_load(&view->file) >= 0 && (errno == EAGAIN || errno == EACCES)) {
        return false;
    }
    if (!hami_ledger_claim(view->region, index, expected, hami_process_self())) {
        (void)region_fcntl(view, F_SETLK, HAMI_LOCK_BASE + index, F_UNLCK);
        return false;
    }
    atomic_store(&slot->image, hami_process_image());
    atomic_store(&slot->pid_namespace, hami_process_namespace());
    REGION_STORE(&slot->locked, locked);
    region_clear_slot(view->region, index);
    return true;
}

/* Also returns true if another process claimed a dead owner's slot first: the memory no longer counts either way. */
bool hami_region_sweep(struct hami_region_view *view) {
    HAMI_UNCANCELLED;
    bool found = false;
    unsigned count = hami_ledger_slots(view->region);
    hami_spin_lock(&claiming);
    for (unsigned i = 0; i < count; i++) {
        uint64_t owner = atomic_load(&view->region->block.owners[i]);
        if (owner == 0 || (view->has_slot && i == view->slot) || hami_region_owner_lives(view, i, owner)) {
            continue;
        }
        if (region_claim_slot(view, i, owner)) {
            hami_ledger_free(view->region, i);
            (void)region_fcntl(view, F_SETLK, HAMI_LOCK_BASE + i, F_UNLCK);
        }
        found = true;
    }
    hami_spin_unlock(&claiming);
    HAMI_TELL(swept, view);
    return found;
}

/* One process sweeps for all: if each of 100 processes looked at 99 others, they would read /proc 9,900 times. */
void hami_region_sweep_in_turn(struct hami_region_view *view, uint64_t now_ms) {
    enum { SWEEP_EVERY_MS = 250 };
    struct hami_block *block = &view->region->block;
    uint64_t swept_ms = atomic_load_explicit(&block->swept, memory_order_relaxed);
    bool recent = now_ms - swept_ms < SWEEP_EVERY_MS || swept_ms - now_ms < SWEEP_EVERY_MS;
    /* If the time of the last sweep is far in the future, it is from before a restart of the machine: sweep now. */
    if (!recent && atomic_compare_exchange_strong(&block->swept, &swept_ms, now_ms)) {
        atomic_store_explicit(&block->heartbeat, (uint64_t)time(NULL), memory_order_relaxed);
        (void)hami_region_sweep(view);
    }
}

/*
 * The sweep lets a program that asks at its start for the free memory get the right figure. It also frees the slot that
 * this process owned before exec(2).
 */
bool hami_region_claim(struct hami_region_view *view) {
    (void)hami_region_sweep(view);
    HAMI_HOLD(&claiming);
    unsigned slot = 0;
    while (atomic_load(&view->region->block.owners[slot]) != 0 || !region_claim_slot(view, slot, 0)) {
        if (++slot == HAMI_PROCESSES) {
            return false;
        }
    }
    view->slot = slot;
    view->self = hami_process_self();
    view->shown = &view->region->v1.processes[slot];
    REGION_STORE(&view->shown->pid, hami_process_pid(view->self));
    REGION_STORE(&view->shown->status, 1);
    (void)hami_ledger_turn(view->region, slot, view->self, HAMI_SLOT_CLAIMED, HAMI_SLOT_COUNTED);
    atomic_store(&view->region->block.heartbeat, (uint64_t)time(NULL));
    view->has_slot = true;
    return true;
}

void hami_region_after_fork(struct hami_region_view *view) {
    hami_spin_unlock(&claiming);
    view->has_slot = false;
}

/* ---- mapping ---- */

/* First fields of struct hami_block and of struct hami_compute. They differ if the region has another layout. */
struct region_head {
    uint64_t magic;
    uint32_t version, size, header_size, device_size, part_size;
};
enum { HEAD_BYTES = offsetof(struct region_head, part_size) + sizeof(uint32_t) };
_Static_assert(HEAD_BYTES == offsetof(struct hami_block, device_count), "head of the block");
_Static_assert(HEAD_BYTES == offsetof(struct hami_compute, pad), "head of the compute block");

static const struct region_head block_head = {HAMI_BLOCK_MAGIC,           HAMI_BLOCK_VERSION,
                                              sizeof(struct hami_block),  offsetof(struct hami_block, devices),
                                              sizeof(struct hami_device), sizeof(struct hami_slot)};
static const struct region_head compute_head = {HAMI_COMPUTE_MAGIC,
                                                HAMI_COMPUTE_VERSION,
                                                sizeof(struct hami_compute),
                                                offsetof(struct hami_compute, devices),
                                                sizeof(struct hami_compute_device),
                                                sizeof(struct hami_compute_process)};

void hami_region_show_limits(struct hami_region *region, const struct hami_limits *limits) {
    for (unsigned i = 0; i < limits->device_count; i++) {
        region->v1.limit[i] = limits->devices[i].memory_bytes;
        atomic_store(&region->block.devices[i].limit_bytes, limits->devices[i].memory_bytes);
        atomic_store(&region->block.devices[HAMI_DEVICES + i].limit_bytes, limits->devices[i].host_bytes);
        atomic_store(&region->block.devices[i].cores, limits->devices[i].cores);
    }
    atomic_store(&region->block.generation, limits->generation);
}

/* Fills a new region. Stores `initialized` last, so that a process that finds it set finds all other fields set too. */
static void region_format(struct hami_region *region, const struct hami_limits *limits) {
    region->v1.major = 1;
    region->v1.minor = 2;
    region->v1.sem[0] = 1;
    region->v1.sem_postinit[0] = 1;
    region->v1.utilization_switch = 1;
    region->v1.recent_kernel = 2;
    region->v1.priority = (int32_t)limits->priority;
    region->v1.device_num = limits->device_count;
    for (unsigned i = 0; i < limits->device_count; i++) {
        memcpy(region->v1.uuids[i], limits->devices[i].uuid, HAMI_UUID_BYTES);
        region->v1.sm_limit[i] = limits->devices[i].cores == 0 ? 100 : limits->devices[i].cores;
    }
    memcpy(&region->block, &block_head, HEAD_BYTES);
    region->block.device_count = limits->device_count;
    memcpy(hami_compute_of(region), &compute_head, HEAD_BYTES);
    atomic_thread_fence(memory_order_release);
    region->v1.initialized = HAMI_V1_MAGIC;
}

static bool region_is_ours(struct hami_region *region) {
    return region->v1.initialized == HAMI_V1_MAGIC && region->v1.major == 1 &&
           memcmp(&region->block, &block_head, HEAD_BYTES) == 0 &&
           memcmp(hami_compute_of(region), &compute_head, HEAD_BYTES) == 0;
}

static struct hami_region *region_map(int fd, int flags) {
    void *at = mmap(NULL, HAMI_REGION_SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Makes a complete file under a temporary name, then links it to `path`. If two processes do so, the first wins. */
static void region_create_file(const char *path, const struct hami_limits *limits) {
    char name[4096 + 32];
    (void)snprintf(name, sizeof name, "%s.%016llx", path, (unsigned long long)hami_process_self());
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        return;
    }
    /* fchmod overrides the umask: processes of other users in the container write the file too. */
    if (fchmod(fd, 0666) == 0 && ftruncate(fd, (off_t)HAMI_REGION_SIZE) == 0) {
        struct hami_region *region = region_map(fd, MAP_SHARED);
        if (region != NULL) {
            region_format(region, limits);
            (void)munmap(region, HAMI_REGION_SIZE);
            (void)link(name, path);
        }
    }
    (void)unlink(name);
    (void)close(fd);
}

/* Maps the region's file. Refuses files of another layout, such as HAMi-core's, which end after struct hami_v1. */
static void region_map_file(struct hami_region_view *view) {
    struct stat found;
    int file = region_open(view->path);
    if (file >= 0 && fstat(file, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == (off_t)HAMI_REGION_SIZE) {
        view->region = region_map(file, MAP_SHARED);
        view->device = found.st_dev;
        view->inode = found.st_ino;
    }
    if (view->region != NULL && !region_is_ours(view->region)) {
        (void)munmap(view->region, HAMI_REGION_SIZE);
        view->region = NULL;
    }
    if (view->region == NULL && file >= 0) {
        (void)close(file);
        file = -1;
    }
    atomic_store(&view->file, file);
}

bool hami_region_attach(struct hami_region_view *view, const char *path, bool create,
                        const struct hami_limits *limits) {
    view->path = path;
    view->file = -1;
    if (*path == '\0') {
        view->region = region_map(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
        if (view->region != NULL) {
            region_format(view->region, limits);
        }
    } else {
        if (create && access(path, F_OK) != 0) {
            region_create_file(path, limits);
        }
        region_map_file(view);
    }
    if (view->region != NULL) {
        (void)strncpy(view->region->block.build, build + sizeof BUILD_MARK - 1, HAMI_BUILD_BYTES - 1);
    }
    return view->region != NULL;
}
