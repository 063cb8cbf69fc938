/*
 * Points at which a test can interrupt a process: hami_step() follows each store to shared memory, hami_look() follows
 * loads. A library built with HAMI_FAULT_POINTS kills itself at the step whose number is in the variable HAMI_FAULT_AT.
 * A test program built with HAMI_MODEL switches to another virtual process. In a release both functions are empty.
 */
#ifndef HAMI_FAULT_H
#define HAMI_FAULT_H

#ifdef HAMI_FAULT_POINTS
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Number of steps until the process kills itself; 0: never; negative: HAMI_FAULT_AT has not been read yet. */
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
