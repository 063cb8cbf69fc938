/*
 * The helper: one thread of a process that has work under way on a limited device. It sleeps to the moment when the
 * oldest mark should be complete, looks, settles, and wakes whom that lets go on. With nothing under way it sleeps
 * until it is woken.
 */
#include "compute/machine.h"

#include "doors/hook.h"

#include <pthread.h>
#include <signal.h>

enum { STACK = 256 * 1024, IDLE_NS = 1000000000, RELAXED = 2, SOONER = 100000 };

static bool started, owed;     /* under the process's lock */
static _Atomic uint32_t asked; /* futex: moves when there is something to do */
static _Atomic bool idle;
static uint64_t next; /* look, under the process's lock */

/* One look at everything. Returns when the next is due. */
static uint64_t look(void) {
    uint64_t now = compute_now();
    uint64_t due = runners_settle(now);
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct machine *m = machine_at(i);
        if (m != NULL) {
            store_relaxed(&m->own->beat, now);
            due = earlier(due, turn_yield(m));
        }
    }
    return due;
}

static void *help(void *data) {
    /* In the modes of capture that forbid it to all threads, looking at events would spoil somebody's capture. */
    int mode = RELAXED;
    CUresult (*exchange)(int *) = hami_cuda_function("cuThreadExchangeStreamCaptureMode");
    if (exchange != NULL) {
        (void)exchange(&mode);
    }
    for (;;) {
        uint32_t seen = atomic_load(&asked);
        compute_lock();
        uint64_t due = next = look();
        atomic_store(&idle, due == UINT64_MAX);
        compute_unlock();
        uint64_t now = compute_now();
        if (due == UINT64_MAX) {
            compute_wait_here(&asked, seen, IDLE_NS);
        } else if (due > now) {
            compute_wait_here(&asked, seen, due - now);
        }
    }
    return data;
}

/* Without signals, which are the program's; without it, should the machine have no thread left, estimates count. */
static void start(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    started = pthread_create(&thread, &attributes, help, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
}

void helper_wake(void) {
    if (!started) {
        start();
    } else if (atomic_exchange(&idle, false)) {
        (void)atomic_fetch_add(&asked, 1);
        owed = true; /* woken now it would only wait for the lock */
    }
}

void helper_wake_by(uint64_t due) {
    if (started && next != UINT64_MAX && next > due && next - due > SOONER) {
        next = due;
        (void)atomic_fetch_add(&asked, 1);
        owed = true;
    }
}

bool helper_owed(void) {
    bool was = owed;
    owed = false;
    return was;
}

void helper_pay(void) {
    compute_wake_here(&asked);
}

void helper_reset(void) {
    started = owed = false;
    next = 0;
    atomic_store(&idle, false);
}
