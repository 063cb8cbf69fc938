/*
 * Points for tests: hami_step stands behind each store to shared memory, hami_look behind loads. With HAMI_FAULT_POINTS
 * a test kills the process at the step HAMI_FAULT_AT. With HAMI_MODEL another virtual process runs on there. In a
 * release both are empty.
 */
#ifndef HAMI_FAULT_H
#define HAMI_FAULT_H

#ifdef HAMI_FAULT_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Steps until the kill, one count for all files; negative: the variable has not been read. */
__attribute__((weak)) _Atomic long hami_steps_left = -1;

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
#elif defined HAMI_MODEL
void hami_step(void);
#define hami_look hami_step
#else
static inline void hami_step(void) {
}
#endif

#ifndef HAMI_MODEL
static inline void hami_look(void) {
}
#endif

#endif
