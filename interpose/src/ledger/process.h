/*
 * Which process is which. A process takes its pid and start time from its own /proc/self/stat, whatever pid namespace
 * that /proc belongs to, and the inode of its pid namespace. No two live processes have all three in common.
 * Called by this room, and by memory/ to identify processes and files.
 */
#ifndef HAMI_PROCESS_H
#define HAMI_PROCESS_H

#include "abi.h"
#include "compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file of /proc as a string. Returns its length, or -1 with errno. */
ssize_t hami_process_read(const char *path, char *text, size_t size);

/* Owner word of the calling process, without a state. Without /proc: its pid alone. */
uint64_t hami_process_self(void);

/* Inode of the calling process's pid namespace; 0: not known. */
uint64_t hami_process_namespace(void);

/* The address of the program's stack, which tells a process before exec(2) from the same after it; 0: not known. */
uint64_t hami_process_image(void);

/*
 * Whether a process of our pid namespace lives: its pid exists with its start time, is no zombie and, as far as /proc
 * shows, still runs the program `image` (0: any).
 */
bool hami_process_lives(uint64_t owner, uint64_t image);

static inline int32_t hami_process_pid(uint64_t owner) {
    return (int32_t)(owner & ((1u << HAMI_OWNER_PID_BITS) - 1));
}

/*
 * A page that the kernel fills with zeros in every child (MADV_WIPEONFORK, Linux 4.14). It shows children made without
 * fork handlers, by clone(2) or _Fork(3). NULL before hami_process_watch, or on an older kernel.
 */
extern _Atomic(_Atomic uint64_t *) hami_process_mark;
void hami_process_watch(void);

/* Whether this process is such a child and still has its parent's state. */
static inline bool hami_process_is_child(void) {
    _Atomic uint64_t *mark = atomic_load_explicit(&hami_process_mark, memory_order_acquire);
    return mark != NULL && !HAMI_LIKELY(atomic_load_explicit(mark, memory_order_relaxed) != 0);
}

void hami_process_after_fork(void);

#endif
