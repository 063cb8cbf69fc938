/* Locks between threads of one process, and protection from pthread_cancel(3) while one is held. */
#ifndef HAMI_THREADS_H
#define HAMI_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/*
 * For short and rare work. A thread that waits yields the processor and does not sleep in the kernel, so the child of a
 * fork has only to clear the flag.
 */
static inline void hami_spin_lock(atomic_flag *busy) {
    while (atomic_flag_test_and_set_explicit(busy, memory_order_acquire)) {
        (void)sched_yield();
    }
}

static inline void hami_spin_unlock(atomic_flag *busy) {
    atomic_flag_clear_explicit(busy, memory_order_release);
}

static inline atomic_flag *hami_spin_hold(atomic_flag *busy) {
    hami_spin_lock(busy);
    return busy;
}

static inline void hami_spin_let_go(atomic_flag *const *busy) {
    hami_spin_unlock(*busy);
}

/* Holds a lock from here to the end of the block. */
#define HAMI_HOLD(busy)                                                                                                \
    __attribute__((cleanup(hami_spin_let_go), unused)) atomic_flag *const hami_held = hami_spin_hold(busy)

/* For a lock that is held while the driver works, perhaps for 100 ms: a thread that waits sleeps. */
static inline void hami_spin_lock_asleep(atomic_flag *busy) {
    const struct timespec pause = {0, 100000};
    while (atomic_flag_test_and_set_explicit(busy, memory_order_acquire)) {
        (void)nanosleep(&pause, NULL);
    }
}

static inline int hami_cancel_disable(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void hami_cancel_restore(const int *before) {
    (void)pthread_setcancelstate(*before, NULL);
}

/*
 * From here to the end of the block this thread cannot be cancelled. Opening, reading and closing files and sleeping
 * are cancellation points: a thread that ended there would leave its lock taken.
 */
#define HAMI_UNCANCELLED                                                                                               \
    __attribute__((cleanup(hami_cancel_restore), unused)) const int hami_cancel_before = hami_cancel_disable()

#endif
