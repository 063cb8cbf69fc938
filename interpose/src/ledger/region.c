/*
 * The shared region as this process uses it: the mapping, the slot of this process, and the slots of dead processes;
 * region.h has the rules, ledger.c the sums.
 *
 * Memory order: stores that other processes take decisions by are sequentially consistent, the default. Relaxed are the
 * figures for readers (peaks, columns, times, reasons), which decide nothing.
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

/* hami_interpose.build_id() finds the build in the library by this mark. */
#define BUILD_MARK "hami-build-id="
static const char build[] __attribute__((used)) = BUILD_MARK HAMI_BUILD_ID;

/* One thread of this process at a time claims or sweeps: record locks do not keep out threads of one process. */
static atomic_flag claiming = ATOMIC_FLAG_INIT;

/* ---- what this process holds ---- */

/* Adds to the columns that HAMi's monitor reads. */
static inline void region_show(struct hami_v1_memory *used, uint64_t bytes, enum hami_column column) {
    (void)atomic_fetch_add_explicit((_Atomic uint64_t *)((char *)used + column), bytes, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&used->total, bytes, memory_order_relaxed);
}

void hami_region_show_less(struct hami_region_view *view, unsigned device, uint64_t pages, enum hami_column column) {
    region_show(&view->shown->used[device % HAMI_DEVICES], 0 - (pages << HAMI_PAGE_SHIFT), column);
}

HAMI_HOT bool hami_region_charge(struct hami_region_view *view, unsigned device, uint64_t pages, uint64_t limit_pages,
                                 enum hami_column column) {
    if (pages == 0) {
        return true; /* even if the limit is exceeded already */
    }
    if (!hami_ledger_reserve(view->region, view->slot, view->self, device, pages, limit_pages)) {
        return false;
    }
    region_show(&view->shown->used[device % HAMI_DEVICES], pages << HAMI_PAGE_SHIFT, column);
    return true;
}

HAMI_HOT void hami_region_release(struct hami_region_view *view, unsigned device, uint64_t pages,
                                  enum hami_column column) {
    if (pages != 0) {
        hami_region_show_less(view, device, pages, column);
        hami_ledger_release(view->region, view->slot, device, pages);
    }
}

uint64_t hami_region_used_now(struct hami_region_view *view, unsigned device) {
    if (hami_ledger_slots(view->region) > 1) {
        (void)hami_region_sweep(view);
    }
    return hami_ledger_sum(view->region, device);
}

uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned device) {
    bool summed = hami_ledger_is_summed(atomic_load(&view->region->block.owners[slot]), device);
    return summed ? hami_ledger_of(view->region, slot, device) : 0;
}

int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot) {
    uint64_t owner = atomic_load(&view->region->block.owners[slot]);
    return hami_ledger_state(owner) == HAMI_SLOT_CLAIMED ? 0 : hami_process_pid(owner);
}

void hami_region_refused(struct hami_region_view *view, enum hami_reason reason, unsigned device, uint64_t bytes) {
    if (view->region == NULL) {
        return;
    }
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

static bool region_fcntl(const struct hami_region_view *view, int64_t byte, int command, struct flock *lock) {
    int file = atomic_load(&view->file);
    lock->l_start = (off_t)byte;
    lock->l_len = 1;
    return file >= 0 && fcntl(file, command, lock) == 0;
}

static bool region_set_lock(const struct hami_region_view *view, int64_t byte, short how) {
    return region_fcntl(view, byte, F_SETLK, &(struct flock){.l_type = how});
}

static bool region_is_locked_by_other(const struct hami_region_view *view, unsigned slot) {
    struct flock lock = {.l_type = F_WRLCK};
    return region_fcntl(view, HAMI_LOCK_BASE + slot, F_GETLK, &lock) && lock.l_type != F_UNLCK;
}

bool hami_region_lock(const struct hami_region_view *view, atomic_flag *threads, int64_t byte, unsigned patience_ms) {
    enum { NAP_US = 100 };
    const struct timespec nap = {0, NAP_US * 1000};
    HAMI_UNCANCELLED;
    for (uint64_t waited_us = 0;; waited_us += NAP_US) {
        if (!atomic_flag_test_and_set(threads)) {
            bool alone = atomic_load(&view->file) < 0 || region_set_lock(view, byte, F_WRLCK);
            if (alone || (errno != EAGAIN && errno != EACCES)) {
                return true; /* a file system without locks: go on without */
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
    (void)region_set_lock(view, byte, F_UNLCK);
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

/* Whether a descriptor is still the region's: the program may have closed it, and its number be another file's. */
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
    atomic_store(&view->own->locked, region_set_lock(view, HAMI_LOCK_BASE + view->slot, F_WRLCK));
}

/* ---- slots ---- */

/*
 * Another slot than ours with our owner word is dead: this process had it before exec(2), which made the driver free
 * the memory.
 */
bool hami_region_owner_lives(const struct hami_region_view *view, unsigned slot, uint64_t owner) {
    const struct hami_slot *found = &view->region->block.slots[slot];
    if (region_is_locked_by_other(view, slot)) {
        return true;
    }
    if (atomic_load(&found->pid_namespace) != hami_process_namespace()) {
        return atomic_load(&found->locked) == 0; /* never locked, so the lock says nothing */
    }
    return hami_ledger_who(owner) != hami_process_self() && hami_process_lives(owner, atomic_load(&found->image));
}

static void region_clear_v1(struct hami_v1_process *process) {
    atomic_store(&process->status, 0);
    hami_step();
    atomic_store(&process->pid, 0);
    hami_step();
    atomic_store(&process->host_pid, 0);
    hami_step();
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        struct hami_v1_memory *used = &process->used[device];
        _Atomic uint64_t *const columns[] = {&used->context, &used->module, &used->data, &used->total};
        for (unsigned i = 0; i < sizeof columns / sizeof columns[0]; i++) {
            atomic_store(columns[i], 0);
        }
    }
    hami_step();
}

/* Adds before it clears: a sweeper that dies in between leaves the launches counted twice, not lost. */
static void region_keep_launches(struct hami_region *region, unsigned slot) {
    uint64_t launches = atomic_load(&region->block.slots[slot].launches);
    (void)atomic_fetch_add(&region->block.launches, launches);
    hami_step();
    atomic_store(&region->block.slots[slot].launches, 0);
    hami_step();
}

/*
 * Claims a slot with the owner word `expected`, of a dead process or 0, and clears what the last owner left. False:
 * another process was first.
 */
static bool region_claim_slot(struct hami_region_view *view, unsigned index, uint64_t expected) {
    struct hami_slot *slot = &view->region->block.slots[index];
    bool locked = region_set_lock(view, HAMI_LOCK_BASE + index, F_WRLCK);
    if (!locked && atomic_load(&view->file) >= 0 && (errno == EAGAIN || errno == EACCES)) {
        return false;
    }
    if (!hami_ledger_claim(view->region, index, expected, hami_process_self())) {
        (void)region_set_lock(view, HAMI_LOCK_BASE + index, F_UNLCK);
        return false;
    }
    atomic_store(&slot->image, hami_process_image());
    atomic_store(&slot->pid_namespace, hami_process_namespace());
    atomic_store(&slot->locked, locked);
    hami_step();
    hami_ledger_clear(view->region, index);
    region_clear_v1(&view->region->v1.processes[index]);
    region_keep_launches(view->region, index);
    HAMI_TELL(process_gone, view->region, index);
    return true;
}

/*
 * Frees the slots of dead processes. The caller holds `claiming`. True if there was one; also if another process was
 * first to claim its slot, since the slot then counts no longer.
 */
static bool region_sweep(struct hami_region_view *view) {
    bool found = false;
    unsigned count = hami_ledger_slots(view->region);
    for (unsigned i = 0; i < count; i++) {
        uint64_t owner = atomic_load(&view->region->block.owners[i]);
        if (owner == 0 || (view->has_slot && i == view->slot) || hami_region_owner_lives(view, i, owner)) {
            continue;
        }
        if (region_claim_slot(view, i, owner)) {
            hami_ledger_free(view->region, i);
            (void)region_set_lock(view, HAMI_LOCK_BASE + i, F_UNLCK);
        }
        found = true;
    }
    return found;
}

bool hami_region_sweep(struct hami_region_view *view) {
    HAMI_UNCANCELLED;
    hami_spin_lock(&claiming);
    bool found = region_sweep(view);
    hami_spin_unlock(&claiming);
    HAMI_TELL(swept, view);
    return found;
}

/* One process sweeps for all: 100 processes that each look at 99 others would read /proc 9,900 times. */
void hami_region_sweep_in_turn(struct hami_region_view *view) {
    enum { SWEEP_EVERY_MS = 250 };
    struct hami_block *block = &view->region->block;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    uint64_t swept = atomic_load_explicit(&block->swept, memory_order_relaxed);
    /* A time in the future was written before the machine restarted. */
    if ((swept <= ms && ms - swept < SWEEP_EVERY_MS) || !atomic_compare_exchange_strong(&block->swept, &swept, ms)) {
        return;
    }
    atomic_store_explicit(&block->heartbeat, (uint64_t)time(NULL), memory_order_relaxed);
    (void)hami_region_sweep(view);
}

static void region_take_slot(struct hami_region_view *view, unsigned index) {
    view->slot = index;
    view->self = hami_process_self();
    view->own = &view->region->block.slots[index];
    view->shown = &view->region->v1.processes[index];
    atomic_store(&view->shown->pid, hami_process_pid(view->self));
    hami_step();
    atomic_store(&view->shown->status, 1);
    hami_step();
    hami_ledger_count(view->region, index, view->self);
    atomic_store(&view->region->block.heartbeat, (uint64_t)time(NULL));
    view->has_slot = true;
}

/*
 * Sweeps first, so that a program that asks at its start how much memory is free gets the right figure, and so that
 * slots of this process from before an exec are freed.
 */
bool hami_region_claim(struct hami_region_view *view) {
    hami_spin_lock(&claiming);
    (void)region_sweep(view);
    for (unsigned i = 0; i < HAMI_PROCESSES && !view->has_slot; i++) {
        if (atomic_load(&view->region->block.owners[i]) == 0 && region_claim_slot(view, i, 0)) {
            region_take_slot(view, i);
        }
    }
    hami_spin_unlock(&claiming);
    HAMI_TELL(swept, view);
    return view->has_slot;
}

void hami_region_after_fork(struct hami_region_view *view) {
    hami_spin_unlock(&claiming);
    view->has_slot = false;
}

/* ---- mapping ---- */

/* Both blocks of the region begin with this head. It differs in a library of another layout. */
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

void hami_region_show_limit(struct hami_region *region, unsigned index, const struct hami_device_limit *limit) {
    region->v1.limit[index] = limit->memory_bytes;
    atomic_store(&region->block.devices[index].limit_bytes, limit->memory_bytes);
    atomic_store(&region->block.devices[HAMI_DEVICES + index].limit_bytes, limit->host_bytes);
    atomic_store(&region->block.devices[index].cores, limit->cores);
}

/* Stores `initialized` last, so that a reader that finds it set finds all other fields set too. */
void hami_region_format(struct hami_region *region, const struct hami_limits *limits) {
    region->v1.major = 1;
    region->v1.minor = 2;
    region->v1.sem[0] = 1;
    region->v1.sem_postinit[0] = 1;
    region->v1.utilization_switch = 1;
    region->v1.recent_kernel = 2;
    region->v1.priority = (int32_t)limits->priority;
    region->v1.device_num = limits->device_count;
    for (unsigned i = 0; i < limits->device_count; i++) {
        const struct hami_device_limit *limit = &limits->devices[i];
        memcpy(region->v1.uuids[i], limit->uuid, HAMI_UUID_BYTES);
        region->v1.sm_limit[i] = limit->cores == 0 ? 100 : limit->cores;
        hami_region_show_limit(region, i, limit);
    }
    memcpy(&region->block, &block_head, HEAD_BYTES);
    region->block.device_count = limits->device_count;
    atomic_store(&region->block.generation, limits->generation);
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
    int length = snprintf(name, sizeof name, "%s.%016llx", path, (unsigned long long)hami_process_self());
    int fd = length < 0 || (size_t)length >= sizeof name
                 ? -1
                 : open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        return;
    }
    /* Against the umask: other users of the container use the file too. */
    if (fchmod(fd, 0666) == 0 && ftruncate(fd, (off_t)HAMI_REGION_SIZE) == 0) {
        struct hami_region *region = region_map(fd, MAP_SHARED);
        if (region != NULL) {
            hami_region_format(region, limits);
            (void)munmap(region, HAMI_REGION_SIZE);
            (void)link(name, path);
        }
    }
    (void)unlink(name);
    (void)close(fd);
}

/* Refuses a file of HAMi-core itself, which has our v1 part and no block. */
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
            hami_region_format(view->region, limits);
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
