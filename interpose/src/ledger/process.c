/* See process.h. The second field of /proc/PID/stat may hold any character, blanks and ")" included. */
#include "ledger/process.h"

#include "cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum { FIELD_THREADS = 20, FIELD_START = 22, FIELD_STACK = 28, WIPE_ON_FORK = 18, PAGE_BYTES = 4096 };
#define START_MASK ((UINT64_C(1) << HAMI_OWNER_START_BITS) - 1)

struct stat_line {
    int32_t pid;
    char state;
    uint64_t threads;
    uint64_t start;
    uint64_t stack; /* where the program's stack starts; 0 where the kernel does not tell us */
};

/* Parses the fields that follow the last ")": state is field 3. */
static bool parse_stat(const char *text, struct stat_line *line) {
    const char *at = strrchr(text, ')');
    if (at == NULL || at[1] != ' ' || at[2] == '\0') {
        return false;
    }
    at += 2;
    line->pid = (int32_t)strtol(text, NULL, 10);
    line->state = *at;
    for (int field = 3; field <= FIELD_STACK; field++) {
        uint64_t value = 0;
        for (const char *digit = at; *digit >= '0' && *digit <= '9'; digit++) {
            value = value * 10 + (uint64_t)(*digit - '0');
        }
        if (field == FIELD_THREADS) {
            line->threads = value;
        }
        if (field == FIELD_START) {
            line->start = value;
        }
        if (field == FIELD_STACK) {
            line->stack = value;
            return true;
        }
        at = strchr(at, ' ');
        if (at == NULL) {
            return false;
        }
        at++;
    }
    return false;
}

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

/* Returns 1 when read, 0 when there is no such process, -1 when /proc does not tell. */
static int read_stat(const char *path, struct stat_line *line) {
    char text[1024];
    ssize_t length = hami_process_read(path, text, sizeof text);
    bool none = length < 0 && (errno == ESRCH || (errno == ENOENT && access("/proc/self/stat", F_OK) == 0));
    return none ? 0 : length > 0 && parse_stat(text, line) ? 1 : -1;
}

/* Read once: the slot of this process is known by it, whatever /proc says later, and to whichever thread. */
static _Atomic uint64_t known_self, known_namespace;

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
    if (madvise((void *)mark, PAGE_BYTES, WIPE_ON_FORK) != 0 ||
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
    if (self != 0) {
        return self;
    }
    bool read = read_stat("/proc/self/stat", &line) == 1;
    self = (line.start & START_MASK) << HAMI_OWNER_PID_BITS | (uint64_t)line.pid;
    if (read) {
        atomic_store_explicit(&known_self, self, memory_order_relaxed);
    }
    return self;
}

/* The link reads "pid:[4026531836]". */
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
    (void)read_stat("/proc/self/stat", &line);
    return line.stack;
}

bool hami_process_lives(uint64_t owner, uint64_t image) {
    struct stat_line line = {0};
    char path[32];
    int32_t pid = hami_process_pid(owner);
    uint64_t start = owner >> HAMI_OWNER_PID_BITS & START_MASK;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int known = pid > 0 ? read_stat(path, &line) : 0;
    if (known <= 0) {
        /* hidepid hides processes of other users: ask the kernel another way before calling it dead. */
        return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
    }
    bool ended = line.state == 'X' || (line.state == 'Z' && line.threads <= 1);
    bool same = start == 0 || (line.start & START_MASK) == start;
    bool other_program = image != 0 && line.stack != 0 && line.stack != image;
    return same && !ended && !other_program;
}
