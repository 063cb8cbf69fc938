/* Process identity from /proc/PID/stat, whose second field may hold any character, blanks and ")" included. */
#include "hami/process.h"

#include "hami/cancel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { PID_BITS = 22, FIELD_THREADS = 20, FIELD_START = 22, FIELD_STACK = 28 };

struct stat_line {
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

/* Returns 1 when read, 0 when there is no such process, -1 when /proc does not tell. */
static int read_stat(int32_t pid, struct stat_line *line) {
    char path[32];
    char text[1024];
    HAMI_UNCANCELLED;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT && access("/proc/self/stat", F_OK) == 0 ? 0 : -1;
    }
    ssize_t length = read(fd, text, sizeof text - 1);
    int error = errno;
    (void)close(fd);
    if (length <= 0) {
        return length < 0 && error == ESRCH ? 0 : -1;
    }
    text[length] = '\0';
    return parse_stat(text, line) ? 1 : -1;
}

/* Read once: the slot of this process is known by it, whatever /proc says later, and to whichever thread. */
static _Atomic uint64_t known_self;

uint64_t hami_process_self(void) {
    struct stat_line line = {0, 0, 0, 0};
    int32_t pid = (int32_t)getpid();
    uint64_t self = atomic_load_explicit(&known_self, memory_order_relaxed);
    if (self != 0 && hami_process_pid(self) == pid) {
        return self;
    }
    bool read = read_stat(pid, &line) == 1;
    self = line.start << PID_BITS | (uint64_t)pid;
    if (read) {
        atomic_store_explicit(&known_self, self, memory_order_relaxed);
    }
    return self;
}

void hami_process_after_fork(void) {
    atomic_store(&known_self, 0);
}

uint64_t hami_process_image(void) {
    struct stat_line line = {0, 0, 0, 0};
    (void)read_stat((int32_t)getpid(), &line);
    return line.stack;
}

bool hami_process_lives(uint64_t identity, uint64_t image) {
    struct stat_line line = {0, 0, 0, 0};
    int32_t pid = hami_process_pid(identity);
    uint64_t start = identity >> PID_BITS;
    int known = pid > 0 ? read_stat(pid, &line) : 0;
    if (known <= 0) {
        /* hidepid hides processes of other users: ask the kernel another way before calling it dead. */
        return pid > 0 && (kill(pid, 0) == 0 || errno == EPERM);
    }
    bool ended = line.state == 'X' || (line.state == 'Z' && line.threads <= 1);
    bool same = start == 0 || (line.start & (UINT64_MAX >> PID_BITS)) == start;
    bool other_program = image != 0 && line.stack != 0 && line.stack != image;
    return same && !ended && !other_program;
}
