/*
 * The clock, the compute room's lock, futexes, and the time of the helper thread's next look. Every file of the compute
 * room uses these.
 *
 * Each process has one lock. Comments that say "needs the lock" mean this one. A thread holds it for a few stores and
 * for driver calls that do not block. No function here changes errno.
 */
#ifndef HAMI_COMPUTE_WAIT_H
#define HAMI_COMPUTE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Relaxed order is enough for figures, and for words that are read again at the next look. */
#define load_relaxed(word) atomic_load_explicit(word, memory_order_relaxed)
#define store_relaxed(word, value) atomic_store_explicit(word, value, memory_order_relaxed)
#define add_relaxed(word, value) ((void)atomic_fetch_add_explicit(word, value, memory_order_relaxed))
#define sub_relaxed(word, value) ((void)atomic_fetch_sub_explicit(word, value, memory_order_relaxed))

static inline uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

void compute_lock(void);
void compute_unlock(void);

uint64_t compute_now(void); /* ns of CLOCK_MONOTONIC */
void compute_sleep_until(uint64_t due);

/*
 * compute_wait sleeps for at most `ns`, until compute_wake is called for the same word with at least one of `bits`. If
 * *word is not `value`, it returns at once. compute_wake reaches waiters in all processes that map the word.
 */
void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint32_t bits, uint64_t ns);
void compute_wake(const _Atomic uint32_t *word, uint32_t bits);
#define EVERY_BIT UINT32_MAX

/* Like compute_wait, for a word that only this process uses: the kernel finds its waiters faster. */
void compute_wait_private(const _Atomic uint32_t *word, uint32_t value, uint64_t ns);

/* ---- when the helper thread of this process (helper.c) looks at timing events next; needs the lock ---- */

extern struct alarm {
    bool running;  /* the helper thread exists */
    uint64_t next; /* when the helper looks next; UINT64_MAX: nothing is under way, so it waits for compute_ring */
    _Atomic uint32_t asked; /* futex: counts calls of compute_ring */
} compute_alarm;

void compute_ring(void);            /* makes the helper look once the lock is free */
void compute_look_by(uint64_t due); /* makes the helper look at `due` if it would look later */

void compute_wait_after_fork(void);

#endif
