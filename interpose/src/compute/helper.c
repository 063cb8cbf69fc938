/*
 * The helper: a thread of this process that looks at timing events when they should be complete, closes grants that no
 * launch uses, and gives turns on (charging.h).
 */
#include "compute/charging.h"

#include "compute/turn.h"
#include "compute/wait.h"
#include "doors/calls.h"

#include <pthread.h>
#include <signal.h>

enum { STACK_BYTES = 256 * 1024, IDLE_WAIT_NS = 1000000000, CAPTURE_MODE_RELAXED = 2 };

/* Collects events, closes unused grants and gives turns on. Returns when to do so again. */
static uint64_t helper_look(void) {
    uint64_t now = compute_now();
    collect_events();
    close_quiet(now);
    uint64_t due = collect_next_look(now);
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct limited_device *d = limited_device_at(i);
        if (d != NULL) {
            store_relaxed(&d->own->beat, now);
            due = earlier(due, yield_turn(d));
        }
    }
    return due;
}

static void *helper_run(void *data) {
    /* In other modes cuEventQuery aborts other threads' captures (CUDA: cuThreadExchangeStreamCaptureMode). */
    int mode = CAPTURE_MODE_RELAXED;
    (void)hami_call_cuThreadExchangeStreamCaptureMode(&mode);
    for (;;) {
        uint32_t asked = atomic_load(&compute_alarm.asked);
        compute_lock();
        uint64_t due = compute_alarm.next = helper_look();
        compute_unlock();
        uint64_t now = compute_now();
        if (due > now) {
            compute_wait_private(&compute_alarm.asked, asked, earlier(due - now, IDLE_WAIT_NS));
        }
    }
    return data;
}

/* Starts the helper, with all signals blocked: they are for the program. If that fails, helper_wake tries again. */
static void helper_start(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (pthread_attr_init(&attributes) != 0) {
        return;
    }
    (void)pthread_attr_setstacksize(&attributes, STACK_BYTES);
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    compute_alarm.running = pthread_create(&thread, &attributes, helper_run, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
}

void helper_wake(void) {
    if (!compute_alarm.running) {
        helper_start();
    } else if (compute_alarm.next == UINT64_MAX) {
        compute_alarm.next = 0;
        compute_ring();
    }
}
