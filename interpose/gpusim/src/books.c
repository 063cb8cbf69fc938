#include "books.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine.h"
#include "shared.h"

static const _Atomic uint32_t nothing_to_watch = 0;

struct sim_books *sim_books = NULL;
const _Atomic uint32_t *sim_watch = &nothing_to_watch;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
/* Record locks exclude processes, not threads: a thread that sweeps must not meet one that claims. */
static pthread_mutex_t slot_lock = PTHREAD_MUTEX_INITIALIZER;
static int alive_fd = -1;
static _Atomic int my_slot = -1;
static struct sim_process self;

enum { FIRST_DESCRIPTOR = 64, DESCRIPTORS_SEARCHED = 1024 };

/*
 * The file's descriptor that the other library of this process holds, or -1. Closing any descriptor of a file drops
 * all record locks that the process has on it, so a second one must not even be opened for a moment.
 */
static int held_descriptor(const char *path) {
    struct stat wanted, found;
    if (stat(path, &wanted) != 0) {
        return -1;
    }
    for (int fd = FIRST_DESCRIPTOR; fd < FIRST_DESCRIPTOR + DESCRIPTORS_SEARCHED; fd++) {
        if (fstat(fd, &found) == 0 && found.st_dev == wanted.st_dev && found.st_ino == wanted.st_ino) {
            return fd;
        }
    }
    return -1;
}

static int open_in_state(const char *path) {
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    /* Out of the low numbers, which programs close and reopen as their standard streams. */
    int high = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
    if (high >= 0) {
        close(fd);
        return high;
    }
    return fd;
}

static bool path_in_state(char path[4096], const char *state, const char *file) {
    int length = snprintf(path, 4096, "%s/%s", state, file);
    return length >= 0 && length < 4096;
}

/* Field 22 of /proc/self/stat; the name before it may hold spaces and parentheses. */
static uint64_t process_start_time(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) {
        return 0;
    }
    text[length] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

static uint64_t process_pid_namespace(void) {
    struct stat info;
    return stat("/proc/self/ns/pid", &info) == 0 ? (uint64_t)info.st_ino : 0;
}

/* The link "self" tells whoever reads it its pid in the pid namespace of that /proc. */
static int32_t process_host_pid(void) {
    const char *proc = getenv("HAMI_SIM_HOST_PROC");
    char path[4096];
    char text[16];
    ssize_t length = proc != NULL && path_in_state(path, proc, "self") ? readlink(path, text, sizeof text - 1) : -1;
    text[length < 0 ? 0 : length] = '\0';
    return (int32_t)strtol(text, NULL, 10);
}

static void learn_self(void) {
    self = (struct sim_process){process_pid_namespace(), process_start_time(), (int32_t)getpid(), process_host_pid()};
}

struct sim_process sim_process_self(void) {
    return self;
}

bool sim_process_is_self(const struct sim_process *process) {
    return process->pid == self.pid && process->start_time == self.start_time &&
           process->pid_namespace == self.pid_namespace;
}

static enum sim_open open_locked(void) {
    const char *state = getenv("HAMI_SIM_STATE");
    if (state == NULL || *state == '\0') {
        return SIM_OPEN_NO_STATE;
    }
    char path[4096];
    int fd = path_in_state(path, state, "books") ? open_in_state(path) : -1;
    if (fd < 0) {
        return SIM_OPEN_NO_STATE;
    }
    struct stat info;
    void *map = MAP_FAILED;
    if (fstat(fd, &info) == 0 && (uint64_t)info.st_size == sizeof(struct sim_books)) {
        map = mmap(NULL, sizeof(struct sim_books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    close(fd);
    if (map == MAP_FAILED) {
        return SIM_OPEN_BAD;
    }
    struct sim_books *books = map;
    if (path_in_state(path, state, "alive")) {
        int held = held_descriptor(path);
        alive_fd = held >= 0 ? held : open_in_state(path);
    }
    bool engine = path_in_state(path, state, "engine") && sim_engine_open(path);
    if (alive_fd < 0 || !engine || books->magic != SIM_MAGIC || books->version != SIM_VERSION ||
        books->size != sizeof(struct sim_books) || books->device_count > SIM_MAX_CARDS) {
        munmap(map, sizeof(struct sim_books));
        return SIM_OPEN_BAD;
    }
    learn_self();
    sim_watch = &books->watch;
    sim_books = books;
    pthread_atfork(NULL, NULL, sim_books_after_fork);
    return SIM_OPEN_OK;
}

static void become_self(void) {
    atomic_store(&my_slot, -1);
    sim_share_after_fork();
    pthread_mutex_init(&slot_lock, NULL);
    learn_self();
}

enum sim_open sim_books_open(void) {
    pthread_mutex_lock(&open_lock);
    enum sim_open result = sim_books != NULL ? SIM_OPEN_OK : open_locked();
    if (result == SIM_OPEN_OK && self.pid != (int32_t)getpid()) {
        become_self(); /* the child of a clone(2), made without fork handlers */
    }
    pthread_mutex_unlock(&open_lock);
    return result;
}

unsigned sim_visible_cards(unsigned visible[SIM_MAX_CARDS]) {
    const char *folder = getenv("HAMI_SIM_DEV");
    unsigned count = 0;
    for (unsigned i = 0; i < sim_books->device_count; i++) {
        if (folder != NULL && *folder != '\0') {
            char path[4096];
            int length = snprintf(path, sizeof path, "%s/nvidia%u", folder, sim_books->devices[i].minor_number);
            if (length < 0 || (size_t)length >= sizeof path || access(path, F_OK) != 0) {
                continue;
            }
        }
        visible[count++] = i;
    }
    return count;
}

/* Whether a node of nvidia-caps is there, or none is asked for. */
static bool has_capability(unsigned minor) {
    const char *folder = getenv("HAMI_SIM_DEV");
    char caps[4096], node[4096];
    if (folder == NULL || *folder == '\0' || !path_in_state(caps, folder, "nvidia-caps") || access(caps, F_OK) != 0) {
        return true;
    }
    int length = snprintf(node, sizeof node, "%s/nvidia-caps/nvidia-cap%u", folder, minor);
    return length > 0 && (size_t)length < sizeof node && access(node, F_OK) == 0;
}

/* The driver numbers its capabilities: 1 and 2 for MIG as a whole, then for each card 15 GPU instances of 9 each. */
enum { MONITOR = 2, FIRST_CARD = 3, OF_INSTANCE = 1 + SIM_MAX_COMPUTE_INSTANCES, OF_CARD = 15 * OF_INSTANCE };

bool sim_mig_visible(unsigned card, unsigned instance, unsigned compute) {
    unsigned minor = FIRST_CARD + sim_books->devices[card].minor_number * OF_CARD + (instance + 1) * OF_INSTANCE;
    return sim_mig_exists(card, instance, compute) && has_capability(minor) && has_capability(minor + 1 + compute);
}

bool sim_mig_monitor(void) {
    return has_capability(MONITOR);
}

static bool lock_byte(int command, off_t byte, struct flock *lock) {
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    int result = 0;
    do {
        result = fcntl(alive_fd, command, lock);
    } while (result < 0 && errno == EINTR);
    return result == 0;
}

static bool is_mine(unsigned slot) {
    const struct sim_slot *record = &sim_books->slots[slot];
    const struct sim_process holder = {record->pid_namespace, record->start_time, record->pid, record->host_pid};
    return sim_process_is_self(&holder);
}

int sim_slot_pid(unsigned slot) {
    if (slot >= SIM_MAX_SLOTS || atomic_load(&sim_books->slots[slot].state) != SIM_SLOT_LIVE) {
        return 0;
    }
    if (is_mine(slot)) {
        return (int)self.pid;
    }
    struct flock lock;
    if (!lock_byte(F_GETLK, (off_t)slot, &lock)) {
        return -1; /* cannot tell: count it as live */
    }
    if (lock.l_type == F_UNLCK) {
        return 0;
    }
    return lock.l_pid > 0 ? (int)lock.l_pid : -1;
}

static unsigned devices_ever(void) {
    return atomic_load_explicit(&sim_books->device_limit, memory_order_acquire);
}

/* Repeating any part of this is harmless, so a sweeper may die half way. */
static void release_slot(unsigned slot) {
    struct sim_suspension *suspension = &sim_books->suspensions[slot];
    sim_share_forget(slot);
    unsigned limit = devices_ever();
    for (unsigned device = 0; device < limit; device++) {
        atomic_store(&sim_books->used[device][slot], 0);
        atomic_store(&sim_books->engines[device][slot].busy_until, 0);
    }
    memset(suspension->away, 0, sizeof suspension->away);
    atomic_store(&suspension->spoiled, 0);
    atomic_store(&suspension->managed, 0);
    atomic_store(&suspension->inside, 0);
    atomic_store(&suspension->state, SIM_RUNNING);
    atomic_store(&sim_books->slots[slot].state, SIM_SLOT_FREE);
}

/*
 * Byte `slot` is taken while the slot is cleared. A newcomer claims a slot by the same lock, so a slot that was freed
 * and claimed again in between is not touched: its byte is held.
 */
static void sweep_slot(unsigned slot) {
    struct flock lock;
    if (!lock_byte(F_SETLK, (off_t)slot, &lock)) {
        return;
    }
    if (atomic_load(&sim_books->slots[slot].state) == SIM_SLOT_LIVE) {
        release_slot(slot);
    }
    lock.l_type = F_UNLCK;
    (void)fcntl(alive_fd, F_SETLK, &lock);
}

void sim_sweep(void) {
    unsigned limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    int mine = atomic_load(&my_slot);
    for (unsigned slot = 0; slot < limit; slot++) {
        if ((int)slot == mine || atomic_load_explicit(&sim_books->slots[slot].state, memory_order_relaxed) == 0) {
            continue;
        }
        if (sim_slot_pid(slot) == 0) {
            pthread_mutex_lock(&slot_lock);
            if (!is_mine(slot)) {
                sweep_slot(slot);
            }
            pthread_mutex_unlock(&slot_lock);
        }
    }
    sim_share_sweep();
}

static void raise_slot_limit(unsigned limit) {
    uint32_t seen = atomic_load(&sim_books->slot_limit);
    while (seen < limit && !atomic_compare_exchange_weak(&sim_books->slot_limit, &seen, limit)) {
    }
}

static void write_name(struct sim_slot *record) {
    memset(record->name, 0, sizeof record->name);
    ssize_t length = readlink("/proc/self/exe", record->name, sizeof record->name - 1);
    if (length < 0) {
        record->name[0] = '\0';
    }
}

void sim_cgroup_levels(const char *folder, uint64_t levels[SIM_CGROUP_LEVELS]) {
    char path[4096];
    struct stat status;
    memset(levels, 0, SIM_CGROUP_LEVELS * sizeof *levels);
    if (snprintf(path, sizeof path, "%s", folder) >= (int)sizeof path) {
        return;
    }
    for (unsigned level = 0; level < SIM_CGROUP_LEVELS && stat(path, &status) == 0; level++) {
        levels[level] = (uint64_t)status.st_ino;
        char *last = strrchr(path, '/');
        if (last == NULL || last == path) {
            return;
        }
        *last = '\0';
    }
}

/*
 * This process's cgroup and those above it. The inodes are the same from inside a cgroup namespace and from outside.
 * HAMI_SIM_CGROUP names another folder, for programs on a machine without cgroups.
 */
static void own_cgroup(uint64_t levels[SIM_CGROUP_LEVELS]) {
    char line[512], path[600] = "";
    const char *told = getenv("HAMI_SIM_CGROUP");
    FILE *file = told == NULL ? fopen("/proc/self/cgroup", "re") : NULL;
    while (file != NULL && path[0] == '\0' && fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            (void)snprintf(path, sizeof path, "/sys/fs/cgroup%s", line + 3);
        }
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    sim_cgroup_levels(told == NULL ? path : told, levels);
}

struct sim_limit *sim_limit_of(unsigned card, uint64_t cgroup) {
    unsigned count = atomic_load_explicit(&sim_books->limit_count, memory_order_acquire);
    for (unsigned i = 0; cgroup > 1 && i < count; i++) {
        struct sim_limit *limit = &sim_books->limits[i];
        if (atomic_load(&limit->cgroup) == cgroup && atomic_load(&limit->device) == card) {
            return limit;
        }
    }
    return NULL;
}

struct sim_limit *sim_limit_for(unsigned card, uint64_t cgroup, bool nests) {
    struct sim_limit *limit = sim_limit_of(card, cgroup);
    for (unsigned i = 0; limit == NULL && i < SIM_MAX_LIMITS; i++) {
        uint64_t none = 0;
        if (atomic_compare_exchange_strong(&sim_books->limits[i].cgroup, &none, 1)) {
            limit = &sim_books->limits[i];
            atomic_store(&limit->device, card);
            atomic_store(&limit->hard, UINT64_MAX);
            atomic_store(&limit->soft, 0);
            atomic_store(&limit->uncounted, 0);
            atomic_store(&limit->nests, nests);
            atomic_store(&limit->cgroup, cgroup);
            uint32_t count = atomic_load(&sim_books->limit_count);
            while (count <= i && !atomic_compare_exchange_weak(&sim_books->limit_count, &count, i + 1)) {
            }
            if (!nests) {
                atomic_store(&limit->uncounted, sim_limit_used(limit));
            }
        }
    }
    return limit;
}

/* The first limited cgroup of a process from a level on, which becomes the level above it; NULL if there is none. */
static struct sim_limit *limit_from(unsigned card, unsigned slot, unsigned *level) {
    struct sim_limit *found = NULL;
    while (found == NULL && *level < SIM_CGROUP_LEVELS) {
        found = sim_limit_of(card, atomic_load(&sim_books->cgroups[slot][(*level)++]));
    }
    return found;
}

static bool limit_counts(const struct sim_limit *limit, unsigned card, unsigned slot) {
    unsigned level = 0;
    const struct sim_limit *found = limit_from(card, slot, &level);
    while (found != NULL && found != limit && atomic_load(&found->nests) != 0) {
        found = limit_from(card, slot, &level);
    }
    return found == limit;
}

uint64_t sim_limit_used(const struct sim_limit *limit) {
    unsigned count = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    unsigned card = (unsigned)atomic_load(&limit->device);
    uint64_t sum = 0, uncounted = atomic_load(&limit->uncounted);
    for (unsigned slot = 0; slot < count; slot++) {
        if (limit_counts(limit, card, slot)) {
            sum += atomic_load(&sim_books->used[card][slot]);
        }
    }
    return sum > uncounted ? sum - uncounted : 0;
}

uint64_t sim_cgroup_used(unsigned card, uint64_t cgroup) {
    unsigned count = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    uint64_t sum = 0;
    for (unsigned slot = 0; slot < count; slot++) {
        for (unsigned level = 0; level < SIM_CGROUP_LEVELS; level++) {
            if (atomic_load(&sim_books->cgroups[slot][level]) == cgroup) {
                sum += atomic_load(&sim_books->used[card][slot]);
            }
        }
    }
    return sum;
}

/* Whether a process's cgroups are within their limits on a device. */
static bool within_limits(unsigned device, int slot) {
    unsigned level = 0;
    if (sim_is_mig(device) || atomic_load_explicit(&sim_books->limit_count, memory_order_acquire) == 0) {
        return true;
    }
    const struct sim_limit *limit = limit_from(device, (unsigned)slot, &level);
    while (limit != NULL) {
        if (sim_limit_used(limit) > atomic_load(&limit->hard)) {
            return false;
        }
        limit = atomic_load(&limit->nests) != 0 ? limit_from(device, (unsigned)slot, &level) : NULL;
    }
    return true;
}

/* The byte's lock is the claim; it is kept until the process ends. */
static int claim_locked(void) {
    for (unsigned slot = 0; slot < SIM_MAX_SLOTS; slot++) {
        struct flock lock;
        if (!lock_byte(F_SETLK, (off_t)slot, &lock)) {
            continue;
        }
        struct sim_slot *record = &sim_books->slots[slot];
        release_slot(slot);
        raise_slot_limit(slot + 1);
        record->pid = self.pid;
        record->start_time = self.start_time;
        record->pid_namespace = (uint32_t)self.pid_namespace;
        record->host_pid = self.host_pid;
        write_name(record);
        uint64_t levels[SIM_CGROUP_LEVELS];
        own_cgroup(levels);
        for (unsigned level = 0; level < SIM_CGROUP_LEVELS; level++) {
            atomic_store(&sim_books->cgroups[slot][level], levels[level]);
        }
        unsigned limit = devices_ever();
        for (unsigned device = 0; device < limit; device++) {
            struct sim_engine_page *page = &sim_books->engines[device][slot];
            atomic_store(&page->busy_total, 0);
            atomic_store(&page->launches, 0);
            atomic_store(&page->window_start, 0);
            atomic_store(&page->window_busy, 0);
            atomic_store(&page->window_previous, 0);
            atomic_store(&page->compute_instance, 0);
        }
        atomic_store(&record->state, SIM_SLOT_LIVE);
        return (int)slot;
    }
    return -1;
}

int sim_slot_claim(void) {
    int slot = atomic_load_explicit(&my_slot, memory_order_acquire);
    if (slot >= 0) {
        return slot;
    }
    pthread_mutex_lock(&slot_lock);
    slot = atomic_load(&my_slot);
    if (slot < 0) {
        slot = claim_locked();
        atomic_store_explicit(&my_slot, slot, memory_order_release);
    }
    pthread_mutex_unlock(&slot_lock);
    return slot;
}

int sim_slot_mine(void) {
    return atomic_load_explicit(&my_slot, memory_order_acquire);
}

static uint64_t sum_used(unsigned device) {
    unsigned limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    uint64_t sum = sim_share_used(device);
    for (unsigned slot = 0; slot < limit; slot++) {
        sum += atomic_load(&sim_books->used[device][slot]);
    }
    return sum;
}

static bool try_charge(unsigned device, int slot, uint64_t bytes, uint64_t capacity) {
    atomic_fetch_add(&sim_books->used[device][slot], bytes);
    if (sum_used(device) <= capacity && within_limits(device, slot)) {
        return true;
    }
    atomic_fetch_sub(&sim_books->used[device][slot], bytes);
    return false;
}

/*
 * Add first, then look at the sum: two racing processes can never both pass a check that only one may. They could
 * both fail, each seeing the other's attempt, so a failure counts only when it repeats with the turn lock held and
 * the dead swept.
 */
static bool charge_slowly(unsigned device, int slot, uint64_t bytes, uint64_t capacity) {
    static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
    const off_t turn = (off_t)(SIM_MAX_SLOTS + device);
    struct flock lock;
    bool fits = false;
    sim_sweep();
    pthread_mutex_lock(&threads);
    bool held = lock_byte(F_SETLKW, turn, &lock);
    for (int attempt = 0; attempt < 8 && !fits; attempt++) {
        fits = try_charge(device, slot, bytes, capacity);
        if (!fits && sum_used(device) > capacity - bytes) {
            usleep(20); /* another's failing attempt lasts nanoseconds unless it is preempted */
        }
    }
    if (held) {
        lock.l_type = F_UNLCK;
        (void)fcntl(alive_fd, F_SETLK, &lock);
    }
    pthread_mutex_unlock(&threads);
    return fits;
}

bool sim_charge(unsigned device, uint64_t bytes) {
    return sim_charge_slot(device, sim_slot_claim(), bytes);
}

bool sim_charge_slot(unsigned device, int slot, uint64_t bytes) {
    uint64_t capacity = sim_device_capacity(&sim_books->devices[device]);
    if (slot < 0 || bytes > capacity) {
        return false;
    }
    return try_charge(device, slot, bytes, capacity) || charge_slowly(device, slot, bytes, capacity);
}

void sim_discharge(unsigned device, uint64_t bytes) {
    int slot = sim_slot_mine();
    if (slot >= 0) {
        atomic_fetch_sub(&sim_books->used[device][slot], bytes);
    }
}

uint64_t sim_device_used(unsigned device) {
    unsigned limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    uint64_t used = sim_share_living(device);
    for (unsigned slot = 0; slot < limit; slot++) {
        uint64_t taken = atomic_load_explicit(&sim_books->used[device][slot], memory_order_relaxed);
        if (taken != 0 && sim_slot_pid(slot) != 0) {
            used += taken;
        }
    }
    uint64_t capacity = sim_device_capacity(&sim_books->devices[device]);
    return used < capacity ? used : capacity; /* an attempt that will fail may be in the sum */
}

void sim_books_after_fork(void) {
    pthread_mutex_init(&open_lock, NULL);
    become_self();
}

static bool take_fault(struct sim_fault *fault) {
    int32_t skip = atomic_load(&fault->skip);
    while (skip > 0) {
        if (atomic_compare_exchange_weak(&fault->skip, &skip, skip - 1)) {
            return false;
        }
    }
    int32_t left = atomic_load(&fault->left);
    while (left >= 0) {
        if (left == 0) {
            return false;
        }
        if (atomic_compare_exchange_weak(&fault->left, &left, left - 1)) {
            break;
        }
    }
    atomic_fetch_add(&fault->hits, 1);
    return true;
}

int sim_fault_for(uint64_t symbol, uint64_t base, int device, bool *lost) {
    *lost = false;
    if (sim_books == NULL) {
        return 0;
    }
    device = device < 0 ? device : (int)sim_card_of((unsigned)device);
    *lost = device >= 0 && atomic_load(&sim_books->devices[device].lost) != 0;
    for (unsigned i = 0; i < SIM_MAX_FAULTS; i++) {
        struct sim_fault *fault = &sim_books->faults[i];
        if (atomic_load(&fault->active) == 0 || (fault->symbol_hash != symbol && fault->symbol_hash != base)) {
            continue;
        }
        if ((fault->device < 0 || fault->device == device) && take_fault(fault)) {
            return fault->error;
        }
    }
    return 0;
}
