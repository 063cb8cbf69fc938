/*
 * Identifies processes, and tells whether they live, from /proc and the kernel. process.h has the rules.
 *
 * A process reads its own owner word and pid namespace once. Its slot in the region keeps them, so they must stay the
 * same when the program mounts another /proc.
 */
#include "ledger/process.h"

#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* Linux 4.14 */
#endif
#define SKIP_5 " %*s %*s %*s %*s %*s"
enum { PAGE_BYTES = 4096 };
#define START_MASK ((UINT64_C(1) << HAMI_OWNER_START_BITS) - 1)

struct stat_line {
    int32_t pid;
    char state;
    uint64_t threads;
    uint64_t start;
    uint64_t stack; /* start address of the stack; 0: the kernel hides it from us */
};

ssize_t hami_process_read(const char *path, char *text, size_t size) {
    HAMI_UNCANCELLED;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, size - 1);
    int error = errno;
    if (file >= 0) {
        (void)close(file);
    }
    text[length < 0 ? 0 : length] = '\0';
    errno = error;
    return length;
}

/*
 * Reads /proc/PID/stat, "pid (name) state ..." (proc(5)). The name may contain blanks and ")", so fields are counted
 * from the last ")": 3 is the state, 20 the number of threads, 22 the start time, 28 the start of the stack.
 *
 * Returns 1 if it was read, 0 if there is no such process, -1 if /proc does not show it.
 */
static int process_read_stat(const char *path, struct stat_line *line) {
    const char *format = ") %c" SKIP_5 SKIP_5 SKIP_5 " %*s %" SCNu64 " %*s %" SCNu64 SKIP_5 " %" SCNu64;
    char text[1024];
    ssize_t length = hami_process_read(path, text, sizeof text);
    if (length < 0 && (errno == ESRCH || (errno == ENOENT && access("/proc/self/stat", F_OK) == 0))) {
        return 0;
    }
    const char *rest = strrchr(text, ')');
    if (rest == NULL || sscanf(rest, format, &line->state, &line->threads, &line->start, &line->stack) != 4) {
        return -1;
    }
    line->pid = (int32_t)strtol(text, NULL, 10);
    return 1;
}

static _Atomic uint64_t known_self, known_namespace; /* 0: not read yet */

_Atomic(_Atomic uint64_t *) hami_process_mark;

void hami_process_watch(void) {
    _Atomic uint64_t *none = NULL, *mark = NULL;
    if (atomic_load(&hami_process_mark) != NULL) {
        return;
    }
    mark = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mark == MAP_FAILED) {
        return;
    }
    atomic_store(mark, 1);
    if (madvise((void *)mark, PAGE_BYTES, MADV_WIPEONFORK) != 0 ||
        !atomic_compare_exchange_strong(&hami_process_mark, &none, mark)) {
        (void)munmap((void *)mark, PAGE_BYTES);
    }
}

void hami_process_after_fork(void) {
    _Atomic uint64_t *mark = atomic_load(&hami_process_mark);
    atomic_store(&known_self, 0);
    atomic_store(&known_namespace, 0);
    if (mark != NULL) {
        atomic_store(mark, 1);
    }
}

uint64_t hami_process_self(void) {
    struct stat_line line = {.pid = (int32_t)getpid()};
    uint64_t self = atomic_load_explicit(&known_self, memory_order_relaxed);
    if (self == 0) {
        bool read = process_read_stat("/proc/self/stat", &line) == 1;
        self = (line.start & START_MASK) << HAMI_OWNER_PID_BITS | (uint64_t)line.pid;
        atomic_store_explicit(&known_self, read ? self : 0, memory_order_relaxed);
    }
    return self;
}

/* /proc/self/ns/pid is a link that reads "pid:[4026531836]". */
uint64_t hami_process_namespace(void) {
    char text[64];
    uint64_t inode = atomic_load_explicit(&known_namespace, memory_order_relaxed);
    ssize_t length = inode != 0 ? 0 : readlink("/proc/self/ns/pid", text, sizeof text - 1);
    if (length > 0) {
        text[length] = '\0';
        const char *number = strchr(text, '[');
        inode = number == NULL ? 0 : strtoull(number + 1, NULL, 10);
        atomic_store_explicit(&known_namespace, inode, memory_order_relaxed);
    }
    return inode;
}

uint64_t hami_process_image(void) {
    struct stat_line line = {0};
    (void)process_read_stat("/proc/self/stat", &line);
    return line.stack;
}

bool hami_process_lives(uint64_t owner, uint64_t image) {
    struct stat_line line = {0};
    char path[32];
    int32_t pid = hami_process_pid(owner);
    uint64_t start = owner >> HAMI_OWNER_PID_BITS & START_MASK;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (pid <= 0 || process_read_stat(path, &line) <= 0) {
        /* /proc may be mounted with hidepid, which hides processes of other users. kill(2) finds them too. */
        return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
    }
    /* If the main thread alone has ended, the process is shown as a zombie with several threads. */
    bool ended = line.state == 'X' || (line.state == 'Z' && line.threads <= 1);
    bool same = start == 0 || (line.start & START_MASK) == start;
    bool other_program = image != 0 && line.stack != 0 && line.stack != image;
    return same && !ended && !other_program;
}
