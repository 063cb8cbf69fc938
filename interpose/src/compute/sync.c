/*
 * Functions of compute.h. Wrappers call them when the program waits for work, destroys a stream or captures one.
 * parts.c calls them when a context ends and after a fork.
 *
 * Grants are closed before the program waits for its work, so that timing events tell when the work ended.
 */
#include "compute/charging.h"
#include "compute/compute.h"
#include "compute/cost.h"
#include "compute/gate.h"
#include "compute/wait.h"
#include "memory/stream_pool.h"
#include "threads.h"

void hami_close_grants(void) {
    launch_count();
    if (load_relaxed(&compute_state) == COMPUTE_ON) {
        HAMI_UNCANCELLED;
        compute_lock();
        launch_return_ahead();
        close_all(NULL);
        helper_wake();
        compute_unlock();
    }
}

uint64_t hami_wait_begin(void) {
    uint64_t frees = hami_pools_waiting();
    hami_close_grants();
    return frees;
}

/* ---- ends ---- */

static void sync_end(CUcontext context, CUstream stream) {
    if (load_relaxed(&compute_state) != COMPUTE_FRESH) {
        HAMI_UNCANCELLED;
        compute_lock();
        close_ended(context, stream);
        compute_unlock();
    }
}

void hami_stream_ending(CUstream stream) {
    sync_end(NULL, stream);
    hami_pools_stream_ending(stream);
}

void hami_compute_context_ending(CUcontext context) {
    if (context != NULL) {
        sync_end(context, NULL);
    }
}

void hami_compute_after_fork(void) {
    compute_wait_after_fork();
    limited_devices_after_fork();
    streams_after_fork();
    events_after_fork();
    cost_after_fork();
}

/* ---- capture: while any stream is captured, each launch asks whether its own stream is ---- */

int32_t hami_capture_began(int32_t status) {
    if (status == CUDA_SUCCESS) {
        (void)atomic_fetch_add(&event_captures, 1);
        limited_device_end_epoch();
    }
    return status;
}

/* A capture is over if it ends without error, was invalidated, or is unjoined. Other errors leave it as it was. */
int32_t hami_capture_ended(int32_t status) {
    bool ended = status == CUDA_SUCCESS || status == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                 status == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    int captures = atomic_load(&event_captures);
    while (ended && captures > 0 && !atomic_compare_exchange_weak(&event_captures, &captures, captures - 1)) {
    }
    return status;
}
