/* Points between stores to shared memory, for the tests that kill a process at each of them. Nothing in a release. */
#ifndef HAMI_FAULT_H
#define HAMI_FAULT_H

#ifdef HAMI_FAULT_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Kills the process the HAMI_FAULT_AT-th time that it comes by. */
static inline void hami_step(void) {
    static _Atomic long left = -1;
    long now = atomic_load(&left);
    if (now < 0) {
        const char *text = getenv("HAMI_FAULT_AT");
        now = text == NULL ? 0 : strtol(text, NULL, 10);
        atomic_store(&left, now);
    }
    if (now > 0 && atomic_fetch_sub(&left, 1) == 1) {
        (void)kill(getpid(), SIGKILL);
    }
}
#else
static inline void hami_step(void) {
}
#endif

#endif
