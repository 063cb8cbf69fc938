/* The shared region: mapping, slots, and who charges through which cell; the charge itself is in cells.c. */
#include "hami/region.h"

#include "hami/cancel.h"
#include "hami/cells.h"
#include "hami/events.h"
#include "hami/fault.h"
#include "hami/hook.h"
#include "hami/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifndef HAMI_BUILD_ID
#define HAMI_BUILD_ID "unknown"
#endif

/* The mark by which hami_interpose.build_id() finds the build in the file. */
#define BUILD_MARK "hami-build-id="
static const char build[] __attribute__((used)) = BUILD_MARK HAMI_BUILD_ID;

/*
 * Threads sit down at the cells of their process, the n-th at cell n modulo SEATS, the same for all devices. One
 * that has a cell to itself takes no lock; when a second sits down there, the first learns of it by membarrier(2),
 * which costs it nothing until then. All of this is private: a killed process takes its locks with it.
 */
enum { UNTOLD, TELLING, TOLD };

struct seat {
    _Alignas(64) _Atomic bool inside; /* the only thread here is between enter and leave */
    _Atomic int shared;               /* TOLD: several threads, which take the lock */
    atomic_flag busy;
};

enum { SEATS = HAMI_CELL_AWAY }; /* a cell each */

static struct seat seats[SEATS];
static _Atomic unsigned seated;
static _Atomic int several; /* TOLD: more than one thread has ever sat down */
static _Thread_local struct seat *my_seat;

/* Makes all running threads of this process pass a memory barrier. False: the kernel does not offer it. */
static bool barrier_for_all(void) {
    enum { PRIVATE_EXPEDITED = 8, REGISTER_PRIVATE_EXPEDITED = 16 };
    return syscall(SYS_membarrier, REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 &&
           syscall(SYS_membarrier, PRIVATE_EXPEDITED, 0, 0) == 0;
}

/*
 * Raises a flag that the thread alone at `seat` looks at only between enter and leave: TOLD once it can no longer be at
 * work in ignorance of it.
 */
static void tell(struct seat *seat, _Atomic int *flag) {
    const struct timespec a_while = {0, 10000000};
    int untold = UNTOLD;
    HAMI_UNCANCELLED;
    if (atomic_compare_exchange_strong(flag, &untold, TELLING)) {
        if (!barrier_for_all()) {
            (void)nanosleep(&a_while, NULL); /* no longer offered (seccomp): no store waits that long to be seen */
        }
        while (atomic_load_explicit(&seat->inside, memory_order_acquire)) {
            (void)sched_yield();
        }
        atomic_store_explicit(flag, TOLD, memory_order_release);
    }
    while (atomic_load_explicit(flag, memory_order_acquire) != TOLD) {
        (void)sched_yield();
    }
}

HAMI_COLD static struct seat *sit_down(void) {
    unsigned number = atomic_fetch_add(&seated, 1);
    struct seat *seat = &seats[number % SEATS];
    if (number == 0 && !barrier_for_all()) {
        atomic_store(&several, TOLD); /* nobody could be told later */
        for (unsigned i = 0; i < SEATS; i++) {
            atomic_store(&seats[i].shared, TOLD);
        }
    }
    if (number > 0) {
        tell(&seats[0], &several);
    }
    if (number >= SEATS) {
        tell(seat, &seat->shared);
    }
    my_seat = seat;
    return seat;
}

static bool lock_seat(struct seat *seat) {
    return atomic_load_explicit(&seat->shared, memory_order_acquire) == TOLD &&
           !atomic_flag_test_and_set_explicit(&seat->busy, memory_order_acquire);
}

struct place {
    struct seat *seat;
    bool locked; /* or this thread is the only one here */
};

/* A shared seat that no other thread is using; waits no longer than their few stores. */
HAMI_APART static struct place enter_shared(struct seat *mine) {
    for (unsigned i = (unsigned)(mine - seats), tries = 1;; i = (i + 1) % SEATS, tries++) {
        if (lock_seat(&seats[i])) {
            return (struct place){&seats[i], true};
        }
        if (tries % SEATS == 0) {
            (void)sched_yield();
        }
    }
}

static struct place enter(void) {
    struct seat *seat = my_seat != NULL ? my_seat : sit_down();
    if (atomic_load_explicit(&seat->shared, memory_order_relaxed) != UNTOLD) {
        return enter_shared(seat);
    }
    atomic_store_explicit(&seat->inside, true, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst); /* enough, since whoever sets `shared` has barrier_for_all */
    if (atomic_load_explicit(&seat->shared, memory_order_acquire) == UNTOLD) {
        return (struct place){seat, false};
    }
    atomic_store_explicit(&seat->inside, false, memory_order_release);
    return enter_shared(seat);
}

/* `inside` does not tell: the thread that was alone here may be about to find out that it no longer is. */
static void leave(struct place place) {
    if (place.locked) {
        atomic_flag_clear_explicit(&place.seat->busy, memory_order_release);
    } else {
        atomic_store_explicit(&place.seat->inside, false, memory_order_release);
    }
}

/* Keeps the columns that HAMi's monitor reads in step; between enter and leave. */
static inline void project(struct hami_v1_memory *used, uint64_t bytes, enum hami_column column) {
    _Atomic uint64_t *part = (_Atomic uint64_t *)((char *)used + column);
    if (atomic_load_explicit(&several, memory_order_relaxed) == UNTOLD) {
        uint64_t own = atomic_load_explicit(part, memory_order_relaxed) + bytes;
        uint64_t total = atomic_load_explicit(&used->total, memory_order_relaxed) + bytes;
        atomic_store_explicit(part, own, memory_order_relaxed);
        hami_step();
        atomic_store_explicit(&used->total, total, memory_order_relaxed);
        hami_step();
        return;
    }
    (void)atomic_fetch_add_explicit(part, bytes, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&used->total, bytes, memory_order_relaxed);
}

HAMI_HOT bool hami_region_charge(struct hami_region_view *view, unsigned device, uint64_t pages, uint64_t limit_pages,
                                 enum hami_column column) {
    uint64_t limit = limit_pages < HAMI_PAGES_MAX ? limit_pages : HAMI_PAGES_MAX;
    if (pages == 0 || pages > HAMI_PAGES_MAX) {
        return pages == 0; /* nothing fits however little is left */
    }
    struct hami_block *block = &view->region->block;
    struct place place = enter();
    unsigned index = (unsigned)(place.seat - seats);
    bool done = hami_cells_add(block, &block->devices[device], &view->own->cells[device][index],
                               hami_cells_tag(view->slot, index), pages, limit);
    if (done) {
        project(&view->shown->used[device % HAMI_DEVICES], pages << HAMI_PAGE_SHIFT, column);
    }
    leave(place);
    return done;
}

HAMI_HOT void hami_region_release(struct hami_region_view *view, unsigned device, uint64_t pages,
                                  enum hami_column column) {
    if (pages == 0 || pages > HAMI_PAGES_MAX) {
        return;
    }
    struct hami_block *block = &view->region->block;
    struct place place = enter();
    unsigned index = (unsigned)(place.seat - seats);
    /* First: atomic operations wait for all stores before them, and those to a cell that others look at take long. */
    project(&view->shown->used[device % HAMI_DEVICES], 0 - (pages << HAMI_PAGE_SHIFT), column);
    hami_cells_give_back(block, &block->devices[device], &view->own->cells[device][index],
                         hami_cells_tag(view->slot, index), pages);
    leave(place);
}

/* ---- what is in use ---- */

static uint64_t sum_up(uint64_t used, uint64_t orphaned) {
    return orphaned < HAMI_PAGES_MAX - used ? used + orphaned : HAMI_PAGES_MAX;
}

uint64_t hami_region_used(const struct hami_region_view *view, unsigned device) {
    const struct hami_device *counted = &view->region->block.devices[device];
    uint64_t word = atomic_load_explicit(&counted->used, memory_order_acquire);
    return sum_up(word >> HAMI_TAG_BITS, atomic_load_explicit(&counted->orphaned, memory_order_relaxed));
}

uint64_t hami_region_slot_used(const struct hami_region_view *view, unsigned slot, unsigned device) {
    int64_t held = 0;
    for (unsigned i = 0; i < HAMI_CELLS; i++) {
        held = hami_cells_sum(held, hami_cells_total(&view->region->block.slots[slot].cells[device][i]));
    }
    return held > 0 ? (uint64_t)held : 0;
}

int32_t hami_region_slot_pid(const struct hami_region_view *view, unsigned slot) {
    return hami_process_pid(atomic_load_explicit(&view->region->block.slots[slot].owner, memory_order_acquire));
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

/* ---- slots and their dead owners ---- */

/* Puts this process into a word that names who is at something; takes over from one who died. */
static bool take_office(_Atomic uint64_t *office, uint64_t self) {
    uint64_t holder = atomic_load(office);
    if (holder != 0 && (holder == self || hami_process_lives(holder, 0))) {
        return false;
    }
    bool taken = atomic_compare_exchange_strong(office, &holder, self);
    hami_step();
    return taken;
}

bool hami_region_keep(struct hami_region *region, unsigned slot) {
    if (!take_office(&region->block.slots[slot].keeper, hami_process_self())) {
        return false;
    }
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        hami_cells_finish(&region->block, slot, device, HAMI_CELL_AWAY);
    }
    return true;
}

void hami_region_keep_no_more(struct hami_region *region, unsigned slot) {
    atomic_store(&region->block.slots[slot].keeper, 0);
    hami_step();
}

static void clear_v1(struct hami_v1_process *process) {
    atomic_store(&process->status, 0);
    hami_step();
    atomic_store(&process->pid, 0);
    hami_step();
    atomic_store(&process->host_pid, 0);
    hami_step();
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        atomic_store(&process->used[device].context, 0);
        atomic_store(&process->used[device].module, 0);
        atomic_store(&process->used[device].data, 0);
        atomic_store(&process->used[device].total, 0);
        hami_step();
    }
}

/* Who wants the memory of the dead finds it free when somebody else has begun to sweep, unless that one was stopped. */
static void await_sweeper(struct hami_slot *slot, uint64_t dead) {
    enum { PATIENCE = 1000 };
    for (unsigned tries = 0; tries < PATIENCE && atomic_load(&slot->owner) == dead; tries++) {
        (void)sched_yield();
    }
}

/* Frees the slot of a dead process. Every step may be repeated by another sweeper. */
static void sweep_slot(struct hami_region *region, unsigned index, uint64_t dead, uint64_t self) {
    struct hami_slot *slot = &region->block.slots[index];
    if (!take_office(&slot->sweeper, self)) {
        await_sweeper(slot, dead);
        return;
    }
    /* Not while somebody suspends or resumes it, who will find that it is dead. */
    if (atomic_load(&slot->owner) == dead && take_office(&slot->keeper, self)) {
        hami_event_process_dead(region, index);
        for (unsigned device = 0; device < HAMI_COUNTERS && atomic_load(&slot->settled) != dead; device++) {
            hami_cells_settle(&region->block, index, device);
        }
        atomic_store(&slot->settled, dead);
        hami_step();
        hami_cells_clear(slot);
        clear_v1(&region->v1.processes[index]);
        hami_event_process_gone(region, index);
        atomic_store(&slot->image, 0); /* or the next owner would look dead */
        hami_step();
        atomic_store(&slot->settled, 0);
        hami_step();
        atomic_store(&slot->suspension, HAMI_SUSPENSION_HOME);
        hami_step();
        hami_region_keep_no_more(region, index);
        atomic_store(&slot->owner, 0);
        hami_step();
    }
    atomic_store(&slot->sweeper, 0);
    hami_step();
}

unsigned hami_region_slots(const struct hami_region *region) {
    int32_t number = atomic_load(&region->v1.process_num);
    return number < 0 || number > HAMI_PROCESSES ? HAMI_PROCESSES : (unsigned)number;
}

static struct flock lock_of(unsigned slot, short how) {
    return (struct flock){.l_type = how, .l_whence = SEEK_SET, .l_start = (off_t)(HAMI_LOCK_BASE + slot), .l_len = 1};
}

/* The kernel keeps a slot's lock as long as its program lives: one question in place of a file of /proc. */
static bool is_held(const struct hami_region_view *view, unsigned index) {
    struct flock lock = lock_of(index, F_WRLCK);
    bool asked = atomic_load(&view->region->block.slots[index].locked) != 0 && view->file >= 0;
    return asked && fcntl(view->file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

bool hami_region_sweep(struct hami_region_view *view) {
    bool found = false;
    uint64_t self = hami_process_self();
    unsigned count = hami_region_slots(view->region);
    for (unsigned i = 0; i < count; i++) {
        struct hami_slot *slot = &view->region->block.slots[i];
        uint64_t owner = atomic_load(&slot->owner);
        bool lives = owner == 0 || owner == self || is_held(view, i);
        if (!lives && !hami_process_lives(owner, atomic_load(&slot->image))) {
            sweep_slot(view->region, i, owner, self);
            found = true;
        }
    }
    hami_event_swept(view->region);
    return found;
}

/* With many processes each would look at all the others: one of them does so for all. */
void hami_region_sweep_in_turn(struct hami_region_view *view) {
    enum { TURN_MS = 250 };
    struct hami_block *block = &view->region->block;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    uint64_t swept = atomic_load_explicit(&block->swept, memory_order_relaxed);
    /* A time that is to come was written before the machine started anew. */
    if ((swept <= ms && ms - swept < TURN_MS) || !atomic_compare_exchange_strong(&block->swept, &swept, ms)) {
        return;
    }
    atomic_store_explicit(&block->heartbeat, (uint64_t)time(NULL), memory_order_relaxed);
    (void)hami_region_sweep(view);
}

/* Whether nobody is cleaning up in a free slot; one who died just before it was done is overruled. */
static bool unswept(struct hami_slot *slot) {
    uint64_t sweeper = atomic_load(&slot->sweeper);
    return sweeper == 0 ||
           (!hami_process_lives(sweeper, 0) && atomic_compare_exchange_strong(&slot->sweeper, &sweeper, 0));
}

static bool lock_slot(const struct hami_region_view *view, unsigned index, short how) {
    struct flock lock = lock_of(index, how);
    return view->file >= 0 && fcntl(view->file, F_SETLK, &lock) == 0;
}

/* Takes a free slot. By the lock others see from outside the container when this program has gone. */
static bool take_slot(struct hami_region_view *view, unsigned index, uint64_t self) {
    struct hami_slot *slot = &view->region->block.slots[index];
    uint64_t none = 0;
    bool locked = lock_slot(view, index, F_WRLCK);
    if (!locked && view->file >= 0 && (errno == EAGAIN || errno == EACCES)) {
        return false; /* another is taking it */
    }
    atomic_store(&slot->locked, locked);
    hami_step();
    if (!atomic_compare_exchange_strong(&slot->owner, &none, self)) {
        (void)lock_slot(view, index, F_UNLCK);
        return false;
    }
    hami_step();
    atomic_store(&slot->image, hami_process_image());
    hami_step();
    struct hami_v1_process *shown = &view->region->v1.processes[index];
    atomic_store(&shown->pid, hami_process_pid(self));
    hami_step();
    atomic_store(&shown->status, 1);
    hami_step();
    atomic_store(&view->region->block.heartbeat, (uint64_t)time(NULL));
    view->slot = index;
    view->own = &view->region->block.slots[index];
    view->shown = &view->region->v1.processes[index];
    view->has_slot = true;
    return true;
}

static bool claim_free(struct hami_region_view *view, uint64_t self) {
    struct hami_region *region = view->region;
    for (unsigned i = 0; i < HAMI_PROCESSES; i++) {
        uint64_t owner = atomic_load(&region->block.slots[i].owner);
        /* The number of slots is raised first: a slot beyond it would never be swept. */
        int32_t number = atomic_load(&region->v1.process_num);
        while (owner == 0 && number < (int32_t)i + 1 &&
               !atomic_compare_exchange_weak(&region->v1.process_num, &number, (int32_t)i + 1)) {
        }
        if (owner == 0 && unswept(&region->block.slots[i]) && take_slot(view, i, self)) {
            return true;
        }
    }
    return false;
}

static void resign(_Atomic uint64_t *office, uint64_t self) {
    if (atomic_load(office) == self) {
        (void)atomic_compare_exchange_strong(office, &self, 0);
    }
}

/*
 * Slots of ours from before an exec: the driver gave everything back with the old program. Before a slot is taken,
 * since nobody takes its own for that of somebody dead.
 */
static void sweep_own(struct hami_region *region, uint64_t self) {
    unsigned count = hami_region_slots(region);
    for (unsigned i = 0; i < count; i++) {
        struct hami_slot *slot = &region->block.slots[i];
        resign(&slot->sweeper, self); /* the old program's, in vain */
        resign(&slot->keeper, self);
        if (atomic_load(&slot->owner) == self) {
            sweep_slot(region, i, self, self);
        }
    }
}

bool hami_region_claim(struct hami_region_view *view) {
    uint64_t self = hami_process_self();
    sweep_own(view->region, self);
    hami_region_sweep_in_turn(view);
    return claim_free(view, self) || (hami_region_sweep(view) && claim_free(view, self));
}

void hami_region_after_fork(struct hami_region_view *view) {
    for (unsigned i = 0; i < SEATS; i++) {
        atomic_store(&seats[i].inside, false);
        atomic_store(&seats[i].shared, UNTOLD);
        atomic_flag_clear(&seats[i].busy);
    }
    atomic_store(&seated, 0);
    atomic_store(&several, UNTOLD);
    my_seat = NULL;
    view->has_slot = false;
}

/* ---- mapping ---- */

void hami_region_format(struct hami_region *region, const struct hami_limits *limits) {
    struct hami_block *block = &region->block;
    region->v1.major = 1;
    region->v1.minor = 2;
    region->v1.sem[0] = 1;
    region->v1.sem_postinit[0] = 1;
    region->v1.utilization_switch = 1;
    region->v1.recent_kernel = 2;
    region->v1.priority = (int32_t)limits->priority;
    region->v1.device_num = limits->device_count;
    for (unsigned i = 0; i < HAMI_COUNTERS; i++) {
        atomic_store(&block->devices[i].used, HAMI_NOBODY);
    }
    for (unsigned i = 0; i < limits->device_count; i++) {
        const struct hami_device_limit *device = &limits->devices[i];
        memcpy(region->v1.uuids[i], device->uuid, HAMI_UUID_BYTES);
        region->v1.limit[i] = device->memory_bytes;
        region->v1.sm_limit[i] = device->cores == 0 ? 100 : device->cores;
        atomic_store(&block->devices[i].limit_bytes, device->memory_bytes);
        atomic_store(&block->devices[HAMI_DEVICES + i].limit_bytes, device->host_bytes);
        atomic_store(&block->devices[i].cores, device->cores);
    }
    block->version = HAMI_BLOCK_VERSION;
    block->size = sizeof *block;
    block->header_size = offsetof(struct hami_block, devices);
    block->device_size = sizeof block->devices[0];
    block->slot_size = sizeof block->slots[0];
    block->device_count = limits->device_count;
    atomic_store(&block->generation, limits->generation);
    block->magic = HAMI_BLOCK_MAGIC;
    struct hami_compute *compute = hami_compute_of(region);
    compute->magic = HAMI_COMPUTE_MAGIC;
    compute->version = HAMI_COMPUTE_VERSION;
    compute->size = sizeof *compute;
    compute->header_size = offsetof(struct hami_compute, devices);
    compute->device_size = sizeof compute->devices[0];
    compute->process_size = sizeof compute->processes[0][0];
    atomic_thread_fence(memory_order_release);
    region->v1.initialized = HAMI_V1_MAGIC;
}

static bool genuine(struct hami_region *region) {
    const struct hami_block *block = &region->block;
    const struct hami_compute *compute = hami_compute_of(region);
    return compute->magic == HAMI_COMPUTE_MAGIC && compute->version == HAMI_COMPUTE_VERSION &&
           compute->size == sizeof *compute && compute->header_size == offsetof(struct hami_compute, devices) &&
           compute->device_size == sizeof compute->devices[0] &&
           compute->process_size == sizeof compute->processes[0][0] && region->v1.initialized == HAMI_V1_MAGIC &&
           region->v1.major == 1 && block->magic == HAMI_BLOCK_MAGIC && block->version == HAMI_BLOCK_VERSION &&
           block->size == sizeof *block && block->header_size == offsetof(struct hami_block, devices) &&
           block->device_size == sizeof block->devices[0] && block->slot_size == sizeof block->slots[0];
}

static struct hami_region *map(int fd, int flags) {
    void *at = mmap(NULL, HAMI_REGION_SIZE, PROT_READ | PROT_WRITE, flags, fd, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* Makes the file under a name of its own, complete, and links it in place; whoever is first wins. */
static void create_file(const char *path, const struct hami_limits *limits) {
    char name[4200];
    size_t length = strlen(path);
    uint64_t self = hami_process_self();
    if (length > 4096) {
        return;
    }
    memcpy(name, path, length);
    name[length++] = '.';
    for (unsigned i = 0; i < 16; i++) {
        name[length++] = (char)('a' + (self >> (4 * i) & 15));
    }
    name[length] = '\0';
    int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0) {
        return;
    }
    /* Whatever the umask: other users of the container work there too. */
    if (fchmod(fd, 0666) == 0 && ftruncate(fd, (off_t)HAMI_REGION_SIZE) == 0) {
        struct hami_region *region = map(fd, MAP_SHARED);
        if (region != NULL) {
            hami_region_format(region, limits);
            (void)munmap(region, HAMI_REGION_SIZE);
            (void)link(name, path);
        }
    }
    (void)unlink(name);
    (void)close(fd);
}

/* A v1 file of HAMi-core's own has no block of ours; it is not ours to extend. */
static struct hami_region *open_file(const char *path, int *file) {
    enum { FIRST_DESCRIPTOR = 64 }; /* out of the way of programs that count on the lowest numbers */
    struct stat found;
    struct hami_region *region = NULL;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return NULL;
    }
    if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == (off_t)HAMI_REGION_SIZE) {
        region = map(fd, MAP_SHARED);
    }
    if (region != NULL && !genuine(region)) {
        (void)munmap(region, HAMI_REGION_SIZE);
        region = NULL;
    }
    *file = region == NULL ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    (void)close(fd);
    return region;
}

enum hami_reason hami_region_attach(struct hami_region_view *view, const char *path, bool create,
                                    const struct hami_limits *limits) {
    view->file = -1;
    if (*path == '\0') {
        view->region = map(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE);
        if (view->region != NULL) {
            hami_region_format(view->region, limits);
        }
    } else {
        if (create && access(path, F_OK) != 0) {
            create_file(path, limits);
        }
        view->region = open_file(path, &view->file);
    }
    if (view->region == NULL) {
        return HAMI_REASON_BAD_REGION;
    }
    (void)strncpy(view->region->block.build, build + sizeof BUILD_MARK - 1, HAMI_BUILD_BYTES - 1);
    return HAMI_REASON_NONE;
}
