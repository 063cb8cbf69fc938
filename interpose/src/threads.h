/* Locks between threads of one process, and protection from pthread_cancel(3) while a thread holds one. */
#ifndef HAMI_THREADS_H
#define HAMI_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

/*
 * A lock for short and rare work. A waiting thread yields the processor and does not sleep in the kernel. So the child
 * of a fork can free a lock that another thread of its parent held: it clears the flag.
 */
static inline void hami_spin_lock(atomic_flag *busy) {
    while (atomic_flag_test_and_set_explicit(busy, memory_order_acquire)) {
        (void)sched_yield();
    }
}

static inline void hami_spin_unlock(atomic_flag *busy) {
    atomic_flag_clear_explicit(busy, memory_order_release);
}

static inline void hami_spin_let_go(atomic_flag *const *busy) {
    hami_spin_unlock(*busy);
}

/* Takes a lock and holds it until the end of the enclosing block. */
#define HAMI_HOLD(busy)                                                                                                \
    __attribute__((cleanup(hami_spin_let_go), unused)) atomic_flag *const hami_held = (hami_spin_lock(busy), busy)

/* Takes a lock that is held during calls of the driver, which may last 100 ms: a waiting thread sleeps. */
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
 * Makes this thread ignore pthread_cancel(3) until the end of the enclosing block. open, read, close and nanosleep are
 * cancellation points: a thread that ended in one of them would leave its lock taken.
 */
#define HAMI_UNCANCELLED                                                                                               \
    __attribute__((cleanup(hami_cancel_restore), unused)) const int hami_cancel_before = hami_cancel_disable()

#endif
