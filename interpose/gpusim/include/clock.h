/* The simulated clock: the machine's monotonic clock, shared by all processes. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t sim_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Returns when the clock has reached `due`. Short waits spin: a kernel of 5 us must not take 60. */
static inline void sim_wait_until(uint64_t due) {
    const uint64_t spin_ns = 20000;
    uint64_t now = sim_now();
    while (now < due) {
        if (due - now > spin_ns) {
            uint64_t wake = due - spin_ns / 2;
            struct timespec at = {.tv_sec = (time_t)(wake / 1000000000ull), .tv_nsec = (long)(wake % 1000000000ull)};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        }
        now = sim_now();
    }
}

#endif
