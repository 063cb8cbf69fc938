/* Implements wait.h on clock_nanosleep(2) and futex(2). */
#include "compute/wait.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    ALL_WAITERS = 1 << 30,
    LOCK_RETRY_NS = 1000000,
    WORTH_A_WAKE_NS = 100000 /* a look that is earlier by less is not worth waking the helper */
};

struct alarm compute_alarm;

static _Atomic uint32_t lock_word; /* 0: free, 1: held, 2: held and waited for */
static bool ring_at_unlock;        /* under the lock */

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

/* Only the BITSET operations read `bits`; they take an absolute time. */
static void wait_futex(const _Atomic uint32_t *word, int operation, uint32_t value, uint64_t ns, uint32_t bits) {
    const struct timespec timeout = wait_timespec(ns);
    int saved = errno;
    (void)syscall(SYS_futex, word, operation, value, &timeout, NULL, bits);
    errno = saved;
}

void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    wait_futex(word, FUTEX_WAIT, value, ns, 0);
}

void compute_wake(const _Atomic uint32_t *word) {
    wait_futex(word, FUTEX_WAKE, ALL_WAITERS, 0, 0);
}

void compute_wait_private(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    wait_futex(word, FUTEX_WAIT_PRIVATE, value, ns, 0);
}

static void wait_wake_private(const _Atomic uint32_t *word) {
    wait_futex(word, FUTEX_WAKE_PRIVATE, ALL_WAITERS, 0, 0);
}

void compute_wait_number(const _Atomic uint32_t *word, uint32_t value, uint32_t number, uint64_t ns) {
    wait_futex(word, FUTEX_WAIT_BITSET, value, compute_now() + ns, 1u << number % 32);
}

void compute_wake_number(const _Atomic uint32_t *word, uint32_t number) {
    wait_futex(word, FUTEX_WAKE_BITSET, ALL_WAITERS, 0, 1u << number % 32);
}

/* Acquire and release are enough: the lock orders only what is read and written under it. */
void compute_lock(void) {
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong_explicit(&lock_word, &seen, 1, memory_order_acquire, memory_order_relaxed)) {
        return;
    }
    while (atomic_exchange_explicit(&lock_word, 2, memory_order_acquire) != 0) {
        compute_wait_private(&lock_word, 2, LOCK_RETRY_NS);
    }
}

/* The helper is woken after the lock is free: before, it would only wait for it. */
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
