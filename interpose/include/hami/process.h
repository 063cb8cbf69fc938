/* Which process is which: pid and start time, and whether it still lives. */
#ifndef HAMI_PROCESS_H
#define HAMI_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

/* Identity of the calling process: start time in clock ticks << 22 | pid (a pid has at most 22 bits). */
uint64_t hami_process_self(void);

/* A child may have its parent's pid, in a namespace of its own. */
void hami_process_after_fork(void);

/* Tells the programs apart that one process is in turn (exec); 0 = not known. */
uint64_t hami_process_image(void);

/*
 * Whether the process with this identity lives: it exists, started then, has not ended (zombies have) and is, as far
 * as can be seen, still that program. 0 for any program.
 */
bool hami_process_lives(uint64_t identity, uint64_t image);

static inline int32_t hami_process_pid(uint64_t identity) {
    return (int32_t)(identity & 0x3fffff);
}

#endif
