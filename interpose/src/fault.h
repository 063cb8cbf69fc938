/*
 * Points behind stores to shared memory (hami_step), for the tests that kill a process at each of them, and
 * behind loads (hami_look), where the model test lets other processes go on as well. Nothing in a release.
 */
#ifndef HAMI_FAULT_H
#define HAMI_FAULT_H

#ifdef HAMI_FAULT_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Steps that are left, the same in all files; negative: nobody has asked yet. */
__attribute__((weak)) _Atomic long hami_steps_left = -1;

/* Kills the process the HAMI_FAULT_AT-th time that it comes by, wherever that is. */
static inline void hami_step(void) {
    long now = atomic_load(&hami_steps_left);
    if (now < 0) {
        const char *text = getenv("HAMI_FAULT_AT");
        now = text == NULL ? 0 : strtol(text, NULL, 10);
        atomic_store(&hami_steps_left, now);
    }
    if (now > 0 && atomic_fetch_sub(&hami_steps_left, 1) == 1) {
        (void)kill(getpid(), SIGKILL);
    }
}
static inline void hami_look(void) {
}
#elif defined HAMI_MODEL
void hami_step(void); /* the model's: another process goes on here */
#define hami_look hami_step
#else
static inline void hami_step(void) {
}
static inline void hami_look(void) {
}
#endif

#endif
