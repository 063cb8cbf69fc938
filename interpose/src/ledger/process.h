/*
 * Which process is which. A process reads its pid and start time from its own /proc/self/stat, whatever pid namespace
 * that /proc is of, and names its pid namespace by inode: two processes that live have never all three in common.
 */
#ifndef HAMI_PROCESS_H
#define HAMI_PROCESS_H

#include "abi.h"
#include "compiler.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a file of the kernel's, and ends the text. Returns its length, or -1 with errno. */
ssize_t hami_process_read(const char *path, char *text, size_t size);

/* Owner word of the calling process, without a state. Without /proc: its pid alone. */
uint64_t hami_process_self(void);

/* Inode of the calling process's pid namespace; 0: not known. */
uint64_t hami_process_namespace(void);

/* Tells the programs apart that one process is in turn (exec); 0 = not known. */
uint64_t hami_process_image(void);

/*
 * Whether the process with this owner word, of our pid namespace, lives: it exists, started then, has not ended
 * (zombies have) and is, as far as can be seen, still that program. `image` 0: any program.
 */
bool hami_process_lives(uint64_t owner, uint64_t image);

static inline int32_t hami_process_pid(uint64_t owner) {
    return (int32_t)(owner & ((1u << HAMI_OWNER_PID_BITS) - 1));
}

/*
 * A page that the kernel gives to every child filled with zeros (MADV_WIPEONFORK, Linux 4.14): so a child is known that
 * was made without fork handlers, by clone(2) or _Fork(3). NULL: nobody has asked yet, or an older kernel.
 */
extern _Atomic(_Atomic uint64_t *) hami_process_mark;

/* Begins to tell children. */
void hami_process_watch(void);

/* Whether this process is a child that has not forgotten its parent's state yet; see parts.h. */
static inline bool hami_process_is_child(void) {
    _Atomic uint64_t *mark = atomic_load_explicit(&hami_process_mark, memory_order_acquire);
    return mark != NULL && !HAMI_LIKELY(atomic_load_explicit(mark, memory_order_relaxed) != 0);
}

void hami_process_after_fork(void);

#endif
