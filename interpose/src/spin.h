/*
 * Locks inside one process, for what is rare and short. Whoever waits gives the processor away; nobody sleeps in the
 * kernel, so a fork leaves nothing there, and the child clears the flag.
 */
#ifndef HAMI_SPIN_H
#define HAMI_SPIN_H

#include <sched.h>
#include <stdatomic.h>

static inline void hami_spin_lock(atomic_flag *busy) {
    while (atomic_flag_test_and_set_explicit(busy, memory_order_acquire)) {
        (void)sched_yield();
    }
}

static inline void hami_spin_unlock(atomic_flag *busy) {
    atomic_flag_clear_explicit(busy, memory_order_release);
}

#endif
