/*
 * Virtual time for programs of several processes and threads. It is preloaded in front of everything else.
 *
 * The clock is in a shared file. One thread runs at a time. When it sleeps or waits, the clock jumps to the earliest
 * moment at which another thread is due, and that thread runs. So a result depends on the programs alone and not on how
 * busy the machine is, and fourteen seconds take only as long as the computing in them. Programs and libraries run
 * unchanged: they sleep by nanosleep and clock_nanosleep, wait by futex, and read the monotonic clock.
 *
 * A sleep ends HAMI_VIRTUAL_SLACK_NS late and a futex wakes after HAMI_VIRTUAL_WAKE_NS, as on a real machine. A look at
 * the clock takes LOOK_NS; other computing takes no time. A process that died is noticed within 100 ms of real time,
 * and in no virtual time.
 *
 * The file counts how often each process sleeps, wakes another and accesses a file. These calls cost CPU time on a real
 * machine, and their numbers are the same in each run.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
#define NEVER UINT64_MAX
enum { PARTS = 256, PROCESSES = 64, LOOK_NS = 40, YIELD_NS = 1000 };

enum state { FREE, RUNNING, WAITING };

struct part {
    enum state state;
    int pid;
    uint64_t due, order, frozen;
    uint64_t file, offset; /* of the futex it waits on; file 0: none */
    uint32_t bits;
    bool woken;
    _Atomic uint32_t baton;
};

/* System calls of a process. */
struct counts {
    _Atomic uint64_t waits, wakes, files;
};

/* The shared file. The tests make it: all zeros except `now` and `expected`, the number of processes. */
struct world {
    uint64_t now;
    uint64_t next_due; /* the earliest `due` of a waiting thread */
    uint32_t expected, registered;
    _Atomic int lock;
    uint32_t running; /* index + 1 */
    uint64_t order;
    struct counts counts[PROCESSES];
    struct part parts[PARTS];
};

_Static_assert(offsetof(struct world, counts) == 40, "COUNTS_AT in compute/cells.py");
_Static_assert(sizeof(struct world) <= 1 << 16, "WORLD_BYTES there");

static struct world *world;
static struct counts *counts;
static bool active;
static uint64_t slack_ns = 60000, wake_ns = 50000;
static _Thread_local int me = -1;
static pthread_t threads[PARTS]; /* of this process, by part */
static int (*real_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_join)(pthread_t, void **);

/* A system call; answers -errno, and leaves errno as it is. */
static long raw(long number, long a, long b, long c, long d, long e, long f) {
    static long (*libc_syscall)(long, ...);
    int before = errno;
    if (libc_syscall == NULL)
        *(void **)&libc_syscall = dlsym(RTLD_NEXT, "syscall");
    long result = libc_syscall(number, a, b, c, d, e, f);
    result = result == -1 ? -errno : result;
    errno = before;
    return result;
}

/* ---- the lock of the world, held for a few instructions at a time ---- */

static bool dead(int pid) {
    char path[32], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    text[length > 0 ? length : 0] = '\0';
    const char *end = strrchr(text, ')');
    return end == NULL || end[1] == '\0' || end[2] == 'Z' || end[2] == 'X';
}

static void lock(void) {
    int self = getpid();
    for (unsigned tries = 1;; tries++) {
        int holder = 0;
        if (atomic_compare_exchange_strong(&world->lock, &holder, self))
            return;
        if (tries % 100 == 0) {
            struct timespec moment = {0, 20000};
            raw(SYS_nanosleep, (long)&moment, 0, 0, 0, 0, 0);
        }
        if (tries % 100000 == 0 && dead(holder) && atomic_compare_exchange_strong(&world->lock, &holder, self))
            return;
    }
}

static void unlock(void) {
    atomic_store(&world->lock, 0);
}

/* ---- which thread runs ---- */

static int earliest(void) {
    int best = -1;
    for (int i = 0; i < PARTS; i++) {
        const struct part *p = &world->parts[i];
        if (p->state == WAITING && p->due != NEVER &&
            (best < 0 || p->due < world->parts[best].due ||
             (p->due == world->parts[best].due && p->order < world->parts[best].order)))
            best = i;
    }
    return best;
}

/* Lets the thread run that is due first. */
static void pass(void) {
    int next = world->registered < world->expected ? -1 : earliest();
    world->running = 0;
    if (next >= 0) {
        struct part *p = &world->parts[next];
        p->state = RUNNING;
        world->running = (uint32_t)next + 1;
        world->now = p->due > world->now ? p->due : world->now;
        int after = earliest();
        world->next_due = after < 0 ? NEVER : world->parts[after].due;
        atomic_store(&p->baton, 1);
        if (next != me || p->pid != getpid())
            raw(SYS_futex, (long)&p->baton, FUTEX_WAKE, 1, 0, 0, 0);
    }
}

static void forget(int pid) {
    bool had = world->running != 0 && world->parts[world->running - 1].pid == pid;
    for (int i = 0; i < PARTS; i++)
        if (world->parts[i].state != FREE && world->parts[i].pid == pid)
            world->parts[i].state = FREE;
    if (had || world->running == 0)
        pass();
}

static void wait_for_baton(void) {
    struct part *p = &world->parts[me];
    while (atomic_exchange(&p->baton, 0) == 0) {
        struct timespec timeout = {0, 100000000};
        raw(SYS_futex, (long)&p->baton, FUTEX_WAIT, 0, (long)&timeout, 0, 0);
        if (atomic_load(&p->baton) == 0) {
            lock();
            int holder = world->running != 0 ? world->parts[world->running - 1].pid : 0;
            if (holder != 0 && dead(holder))
                forget(holder);
            unlock();
        }
    }
}

/* Sleeps to `due`, or until woken if a futex is named. True if woken. */
static bool sleep_to(uint64_t due, uint64_t file, uint64_t offset, uint32_t bits) {
    struct part *p = &world->parts[me];
    lock();
    p->due = due > p->frozen ? due : p->frozen;
    p->order = ++world->order;
    p->file = file;
    p->offset = offset;
    p->bits = bits;
    p->woken = false;
    p->state = WAITING;
    pass();
    unlock();
    wait_for_baton();
    p->file = 0;
    return p->woken;
}

static int enter(uint64_t due) {
    for (int i = 0; i < PARTS; i++) {
        struct part *p = &world->parts[i];
        if (p->state == FREE) {
            memset(p, 0, sizeof *p);
            p->pid = getpid();
            p->due = due;
            p->order = ++world->order;
            p->state = WAITING;
            return i;
        }
    }
    abort();
}

static bool virtual(void) {
    return active && me >= 0;
}

/* ---- what programs call ---- */

static uint64_t look(void) {
    world->now += LOOK_NS;
    if (world->now >= world->next_due)
        sleep_to(world->now, 0, 0, 0);
    return world->now;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *at) {
    bool ours = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW;
    if (ours && virtual()) {
        uint64_t now = look();
        *at = (struct timespec){(time_t)(now / 1000000000u), (long)(now % 1000000000u)};
        return 0;
    }
    long result = raw(SYS_clock_gettime, clock, (long)at, 0, 0, 0, 0);
    errno = result < 0 ? (int)-result : errno;
    return result < 0 ? -1 : 0;
}

static uint64_t nanoseconds(const struct timespec *t) {
    return (uint64_t)t->tv_sec * 1000000000u + (uint64_t)t->tv_nsec;
}

EXPORT int clock_nanosleep(clockid_t clock, int flags, const struct timespec *request, struct timespec *left) {
    if (virtual()) {
        uint64_t due = nanoseconds(request) + ((flags & TIMER_ABSTIME) != 0 ? 0 : world->now);
        counts->waits++;
        sleep_to((due > world->now ? due : world->now) + slack_ns, 0, 0, 0);
        return 0;
    }
    return (int)-raw(SYS_clock_nanosleep, clock, flags, (long)request, (long)left, 0, 0);
}

EXPORT int nanosleep(const struct timespec *request, struct timespec *left) {
    return clock_nanosleep(CLOCK_MONOTONIC, 0, request, left);
}

EXPORT int usleep(useconds_t microseconds) {
    struct timespec t = {(time_t)(microseconds / 1000000u), (long)(microseconds % 1000000u) * 1000};
    return nanosleep(&t, NULL);
}

EXPORT int sched_yield(void) {
    if (virtual())
        sleep_to(world->now + YIELD_NS, 0, 0, 0);
    else
        raw(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
    return 0;
}

/* Where a futex lies: file and offset if the memory is shared, else process and address. */
static void locate(const void *address, uint64_t *file, uint64_t *offset) {
    static _Thread_local struct {
        uintptr_t from, to;
        uint64_t file, offset;
    } known[8];
    static _Thread_local unsigned next;
    uintptr_t at = (uintptr_t)address;
    for (unsigned i = 0; i < 8; i++) {
        if (at >= known[i].from && at < known[i].to) {
            *file = known[i].file;
            *offset = known[i].offset + (at - known[i].from);
            return;
        }
    }
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[1024];
    while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
        unsigned long from = 0, to = 0, place = 0, inode = 0;
        char mode[8] = "";
        if (sscanf(line, "%lx-%lx %7s %lx %*s %lu", &from, &to, mode, &place, &inode) == 5 && at >= from && at < to) {
            bool shared = mode[3] == 's' && inode != 0;
            *file = shared ? inode : (uint64_t)getpid() << 40;
            known[next % 8].from = from;
            known[next % 8].to = to;
            known[next % 8].file = *file;
            known[next++ % 8].offset = shared ? place : from;
            *offset = (shared ? place : from) + (at - from);
            break;
        }
    }
    if (maps != NULL)
        fclose(maps);
}

/* As futex(2) finds it: it answers EFAULT where a load would be a SIGBUS, behind the end of a file that was cut off. */
static long value_of(const uint32_t *word, uint32_t *value) {
    struct iovec ours = {value, sizeof *value}, there = {(void *)word, sizeof *word};
    long got = raw(SYS_process_vm_readv, getpid(), (long)&ours, 1, (long)&there, 1, 0);
    return got == sizeof *value ? 0 : got < 0 ? got : -EFAULT;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *timeout, uint32_t bits) {
    uint64_t file = (uint64_t)getpid() << 40, offset = (uintptr_t)word;
    int command = operation & FUTEX_CMD_MASK;
    if ((operation & FUTEX_PRIVATE_FLAG) == 0)
        locate(word, &file, &offset);
    bits = command == FUTEX_WAKE_BITSET || command == FUTEX_WAIT_BITSET ? bits : FUTEX_BITSET_MATCH_ANY;
    if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
        uint32_t woken = 0;
        counts->wakes++;
        lock();
        for (; woken < value; woken++) {
            struct part *first = NULL;
            for (int i = 0; i < PARTS; i++) {
                struct part *p = &world->parts[i];
                bool match = p->state == WAITING && p->file == file && p->offset == offset && !p->woken;
                match = match && (p->bits & bits) != 0;
                if (match && (first == NULL || p->order < first->order))
                    first = p;
            }
            if (first == NULL)
                break;
            uint64_t due = world->now + wake_ns;
            due = due > first->frozen ? due : first->frozen;
            first->woken = true;
            first->due = due < first->due ? due : first->due;
            world->next_due = first->due < world->next_due ? first->due : world->next_due;
        }
        unlock();
        return woken;
    }
    uint32_t found = 0;
    counts->waits++;
    long failed = (operation & FUTEX_PRIVATE_FLAG) == 0 ? value_of(word, &found) : 0;
    if ((operation & FUTEX_PRIVATE_FLAG) != 0)
        found = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    if (failed != 0)
        return failed;
    if (found != value)
        return -EAGAIN;
    uint64_t due = NEVER;
    if (timeout != NULL)
        due = nanoseconds(timeout) + (command == FUTEX_WAIT ? world->now : 0) + slack_ns;
    return sleep_to(due, file, offset, bits) ? 0 : -ETIMEDOUT;
}

EXPORT long syscall(long number, ...) {
    va_list list;
    va_start(list, number);
    long a[6];
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    long result = number == SYS_futex && virtual() ? futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2],
                                                           (const struct timespec *)a[3], (uint32_t)a[5])
                                                   : raw(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

/* ---- files, as they are ---- */

static long counted(long result) {
    if (virtual())
        counts->files++;
    errno = result < 0 ? (int)-result : errno;
    return result < 0 ? -1 : result;
}

EXPORT ssize_t pread(int fd, void *to, size_t size, off_t at) {
    return counted(raw(SYS_pread64, fd, (long)to, (long)size, at, 0, 0));
}

EXPORT ssize_t pwrite(int fd, const void *from, size_t size, off_t at) {
    return counted(raw(SYS_pwrite64, fd, (long)from, (long)size, at, 0, 0));
}

EXPORT int fstat(int fd, struct stat *found) {
    return (int)counted(raw(SYS_fstat, fd, (long)found, 0, 0, 0, 0));
}

/* ---- threads ---- */

struct start {
    void *(*function)(void *);
    void *data;
    int part;
};

static void *trampoline(void *data) {
    struct start start = *(struct start *)data;
    free(data);
    me = start.part;
    wait_for_baton();
    void *result = start.function(start.data);
    lock();
    world->parts[me].state = FREE;
    pass();
    unlock();
    me = -1;
    return result;
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *), void *data) {
    struct start *start = virtual() ? malloc(sizeof *start) : NULL;
    if (start == NULL)
        return real_create(thread, attributes, function, data);
    lock();
    *start = (struct start){function, data, enter(world->now + wake_ns)};
    world->next_due = world->now + wake_ns < world->next_due ? world->now + wake_ns : world->next_due;
    int part = start->part;
    unlock();
    int error = real_create(thread, attributes, trampoline, start);
    threads[part] = *thread;
    if (error != 0) {
        lock();
        world->parts[part].state = FREE;
        unlock();
        free(start);
    }
    return error;
}

static bool has_not_ended(pthread_t thread) {
    bool found = false;
    lock();
    for (int i = 0; i < PARTS; i++) {
        const struct part *p = &world->parts[i];
        found = found || (p->state != FREE && p->pid == getpid() && threads[i] == thread);
    }
    unlock();
    return found;
}

/* The thread's last steps, after it has left the world, take real time and no virtual time. */
EXPORT int pthread_join(pthread_t thread, void **result) {
    while (virtual() && has_not_ended(thread))
        sleep_to(world->now + 100000, 0, 0, 0);
    return real_join(thread, result);
}

/* ---- for the test programs ---- */

EXPORT void virtual_spend(uint64_t ns);
EXPORT void virtual_freeze(uint64_t ns);

/* Computing takes this long. */
void virtual_spend(uint64_t ns) {
    if (!virtual())
        return;
    uint64_t due = world->now + ns;
    if (due < world->next_due)
        world->now = due;
    else
        sleep_to(due, 0, 0, 0);
}

/* The whole process stands still this long, as if it was stopped. */
void virtual_freeze(uint64_t ns) {
    if (!virtual())
        return;
    uint64_t until = world->now + ns;
    lock();
    for (int i = 0; i < PARTS; i++) {
        struct part *p = &world->parts[i];
        if (p->state != FREE && p->pid == getpid()) {
            p->frozen = until;
            p->due = p->due < until ? until : p->due;
        }
    }
    unlock();
    sleep_to(until, 0, 0, 0);
}

/* ---- begin and end ---- */

static uint64_t number_from(const char *name, uint64_t otherwise) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("HAMI_VIRTUAL");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    *(void **)&real_create = dlsym(RTLD_NEXT, "pthread_create");
    *(void **)&real_join = dlsym(RTLD_NEXT, "pthread_join");
    if (fd < 0)
        return;
    void *map = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        abort();
    world = map;
    counts = &world->counts[number_from("HAMI_VIRTUAL_INDEX", 0) % PROCESSES];
    slack_ns = number_from("HAMI_VIRTUAL_SLACK_NS", slack_ns);
    wake_ns = number_from("HAMI_VIRTUAL_WAKE_NS", wake_ns);
    lock();
    me = enter(world->now);
    world->parts[me].order = number_from("HAMI_VIRTUAL_INDEX", 0);
    world->registered++;
    world->order = world->order > 1000 ? world->order : 1000;
    active = true;
    if (world->running == 0)
        pass();
    unlock();
    wait_for_baton();
}

__attribute__((destructor)) static void end(void) {
    if (!active)
        return;
    active = false;
    lock();
    forget(getpid());
    unlock();
}
