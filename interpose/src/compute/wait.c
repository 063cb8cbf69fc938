/* The clock, the compute room's lock, futexes and the helper's next look (wait.h). */
#include "compute/wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    WAKE_ALL = INT_MAX,
    LOCK_RETRY_NS = 1000000,
    WORTH_A_WAKE_NS = 100000 /* the helper is not woken if it would look less than this later anyway */
};

struct alarm compute_alarm;

static _Atomic uint32_t lock_word; /* 0: free, 1: held, 2: held, and other threads may wait for it */
static bool ring_at_unlock;        /* the next compute_unlock has to wake the helper; needs the lock */

uint64_t compute_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct timespec wait_timespec(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

void compute_sleep_until(uint64_t due) {
    const struct timespec at = wait_timespec(due);
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* FUTEX_WAIT_BITSET takes an absolute time, FUTEX_WAIT a duration. FUTEX_WAIT and FUTEX_WAKE ignore `bits`. */
static void wait_futex(const _Atomic uint32_t *word, int operation, uint32_t value, uint64_t ns, uint32_t bits) {
    const struct timespec timeout = wait_timespec(ns);
    int saved = errno;
    (void)syscall(SYS_futex, word, operation, value, &timeout, NULL, bits);
    errno = saved;
}

void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint32_t bits, uint64_t ns) {
    wait_futex(word, FUTEX_WAIT_BITSET, value, compute_now() + ns, bits);
}

void compute_wake(const _Atomic uint32_t *word, uint32_t bits) {
    wait_futex(word, FUTEX_WAKE_BITSET, WAKE_ALL, 0, bits);
}

void compute_wait_private(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    wait_futex(word, FUTEX_WAIT_PRIVATE, value, ns, 0);
}

static void wait_wake_private(const _Atomic uint32_t *word) {
    wait_futex(word, FUTEX_WAKE_PRIVATE, WAKE_ALL, 0, 0);
}

/* Acquire order here and release order in compute_unlock suffice: only data that needs the lock has to be ordered. */
void compute_lock(void) {
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong_explicit(&lock_word, &seen, 1, memory_order_acquire, memory_order_relaxed)) {
        return;
    }
    while (atomic_exchange_explicit(&lock_word, 2, memory_order_acquire) != 0) {
        compute_wait_private(&lock_word, 2, LOCK_RETRY_NS);
    }
}

/* Wakes the helper after it frees the lock, because the helper's first act is to take the lock. */
void compute_unlock(void) {
    bool ring = ring_at_unlock;
    ring_at_unlock = false;
    if (atomic_exchange_explicit(&lock_word, 0, memory_order_release) == 2) {
        wait_wake_private(&lock_word);
    }
    if (ring) {
        wait_wake_private(&compute_alarm.asked);
    }
}

void compute_ring(void) {
    (void)atomic_fetch_add(&compute_alarm.asked, 1);
    ring_at_unlock = true;
}

void compute_look_by(uint64_t due) {
    uint64_t next = compute_alarm.next;
    if (compute_alarm.running && next != UINT64_MAX && next > due && next - due > WORTH_A_WAKE_NS) {
        compute_alarm.next = due;
        compute_ring();
    }
}

void compute_wait_after_fork(void) {
    atomic_store(&lock_word, 0);
    ring_at_unlock = compute_alarm.running = false;
    compute_alarm.next = 0;
}
