/*
 * The clock, the process's one lock, and the ways to wait and to wake. Every file of the compute room uses these.
 *
 * The lock is held for a few stores and for driver calls that do not block. Nothing here changes errno.
 */
#ifndef HAMI_COMPUTE_WAIT_H
#define HAMI_COMPUTE_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* For words whose order against other words does not matter: figures, and values that the next look reads again. */
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

/* Waits until *word is no longer `value`, at most `ns`. */
void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns);
void compute_wake(const _Atomic uint32_t *word);
/* The same for a word that only this process uses; the kernel finds its waiters faster. */
void compute_wait_private(const _Atomic uint32_t *word, uint32_t value, uint64_t ns);
/* The same for waiters that each have a number. Waking one number wakes few other waiters. */
void compute_wait_number(const _Atomic uint32_t *word, uint32_t value, uint32_t number, uint64_t ns);
void compute_wake_number(const _Atomic uint32_t *word, uint32_t number);

/* ---- when the helper thread of this process looks next (helper.c); all under the lock ---- */

extern struct alarm {
    bool running;           /* there is a helper */
    uint64_t next;          /* look; UINT64_MAX: when it is woken, since nothing is under way */
    _Atomic uint32_t asked; /* futex: moves when it should look */
} compute_alarm;

void compute_ring(void);            /* the helper looks at once */
void compute_look_by(uint64_t due); /* the helper looks then, if it would sleep for longer */

void compute_wait_after_fork(void);

#endif
