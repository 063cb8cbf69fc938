/*
 * The functions that wait for work, end streams, or capture them, and what other rooms tell this one (compute.h).
 *
 * Grants are closed before the program waits for its work, so that timing events tell when the work ended.
 */
#include "compute/alarm.h"
#include "compute/close.h"
#include "compute/compute.h"
#include "compute/cost.h"
#include "compute/helper.h"
#include "compute/launch.h"
#include "compute/wait.h"
#include "doors/hook.h"
#include "memory/stream_pool.h"
#include "policies.h"
#include "threads.h"

static void sync_close_grants(void) {
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

/* ---- waits ---- */

int32_t hami_stream_sync(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    bool unnamed = stream == NULL && hook == HAMI_cuStreamSynchronize;
    uint64_t frees = hami_pools_waiting();
    sync_close_grants();
    return hami_pools_waited(driver(stream), unnamed ? STREAM_LEGACY : stream, frees);
}

int32_t hami_ctx_sync(enum hami_hook hook) {
    CUresult (*driver)(void) = hami_driver_function(hook);
    uint64_t frees = hami_pools_waiting();
    sync_close_grants();
    return hami_pools_waited(driver(), HAMI_ALL_STREAMS, frees);
}

int32_t hami_ctx_sync_v2(enum hami_hook hook, CUcontext context) {
    CUresult (*driver)(CUcontext) = hami_driver_function(hook);
    uint64_t frees = hami_pools_waiting();
    sync_close_grants();
    return hami_pools_waited(driver(context), HAMI_ALL_STREAMS, frees);
}

int32_t hami_event_sync(enum hami_hook hook, void *event) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    uint64_t frees = hami_pools_waiting();
    sync_close_grants();
    return hami_pools_waited(driver(event), HAMI_NO_STREAM, frees);
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

int32_t hami_stream_destroy(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    sync_end(NULL, stream);
    hami_pools_stream_ending(stream);
    return driver(stream);
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
    alarm_after_fork();
}

/* ---- capture: while any stream is captured, launches ask whether theirs is ---- */

static int32_t sync_capture_began(int32_t status) {
    if (status == CUDA_SUCCESS) {
        (void)atomic_fetch_add(&event_captures, 1);
        limited_device_end_epoch();
    }
    return status;
}

/* After any other error the capture goes on, or there was none. */
static int32_t sync_capture_ended(int32_t status) {
    bool ended = status == CUDA_SUCCESS || status == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                 status == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    int captures = atomic_load(&event_captures);
    while (ended && captures > 0 && !atomic_compare_exchange_weak(&event_captures, &captures, captures - 1)) {
    }
    return status;
}

int32_t hami_capture_begin_v1(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    sync_close_grants();
    return sync_capture_began(driver(stream));
}

int32_t hami_capture_begin(enum hami_hook hook, CUstream stream, int32_t mode) {
    CUresult (*driver)(CUstream, int32_t) = hami_driver_function(hook);
    sync_close_grants();
    return sync_capture_began(driver(stream, mode));
}

int32_t hami_capture_begin_graph(enum hami_hook hook, CUstream stream, void *graph, const void *dependencies,
                                 const void *data, uint64_t count, int32_t mode) {
    CUresult (*driver)(CUstream, void *, const void *, const void *, uint64_t, int32_t) = hami_driver_function(hook);
    sync_close_grants();
    return sync_capture_began(driver(stream, graph, dependencies, data, count, mode));
}

int32_t hami_capture_begin_cig(enum hami_hook hook, CUstream stream, void *params) {
    CUresult (*driver)(CUstream, void *) = hami_driver_function(hook);
    sync_close_grants();
    return sync_capture_began(driver(stream, params));
}

int32_t hami_capture_end(enum hami_hook hook, CUstream stream, void **graph) {
    CUresult (*driver)(CUstream, void **) = hami_driver_function(hook);
    return sync_capture_ended(driver(stream, graph));
}

int32_t hami_capture_end_cig(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    return sync_capture_ended(driver(stream));
}
