/*
 * Identifies processes and tells whether they live. A process is known by the pid and start time in its own
 * /proc/self/stat, and by the inode of its pid namespace. No two live processes of a machine have all three in common.
 * ledger/, memory/ and compute/ call these functions.
 */
#ifndef HAMI_PROCESS_H
#define HAMI_PROCESS_H

#include "abi.h"
#include "compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file of /proc as a string, at most size - 1 bytes. Returns its length, or -1 with errno set. */
ssize_t hami_process_read(const char *path, char *text, size_t size);

/* Owner word (abi.h) of the calling process, with state bits 0. If /proc is not mounted, the word has the pid alone. */
uint64_t hami_process_self(void);

/* Inode of the calling process's pid namespace; 0: /proc does not show it. */
uint64_t hami_process_namespace(void);

/* Start address of the process's stack; 0: not known. It differs after exec(2), while pid and start time stay. */
uint64_t hami_process_image(void);

/*
 * Whether the process with this owner word lives. It must be of our pid namespace. It lives if its pid exists with its
 * start time, is no zombie, and has the stack address `image`. 0 for `image` matches any address.
 */
bool hami_process_lives(uint64_t owner, uint64_t image);

static inline int32_t hami_process_pid(uint64_t owner) {
    return (int32_t)(owner & ((1u << HAMI_OWNER_PID_BITS) - 1));
}

/*
 * Points to a word that is 1, which the kernel sets to 0 in every child (MADV_WIPEONFORK in madvise(2), Linux 4.14). So
 * a child made by clone(2) or _Fork(3), which run no fork handlers, can tell that it is one. NULL on an older kernel.
 */
extern _Atomic(_Atomic uint64_t *) hami_process_mark;

/* Maps the page of hami_process_mark, unless it is mapped. */
void hami_process_watch(void);

/* Whether this process is a child made without fork handlers, whose variables still describe its parent. */
static inline bool hami_process_is_child(void) {
    _Atomic uint64_t *mark = atomic_load_explicit(&hami_process_mark, memory_order_acquire);
    return mark != NULL && !HAMI_LIKELY(atomic_load_explicit(mark, memory_order_relaxed) != 0);
}

void hami_process_after_fork(void);

#endif
