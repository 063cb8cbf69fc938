/* Closes grants: records a timing event after the granted work, and gives back the unused time (charging.h). */
#include "compute/charging.h"

#include "compute/cost.h"
#include "compute/tuning.h"
#include "compute/wait.h"
#include "memory/contexts.h"

/* Records a timing event in the stream. False: no event was recorded, so the caller charges the estimate. */
static bool close_record(struct stream_account *a, CUstream stream, struct timing_event event) {
    struct limited_device *d = a->device;
    event.handle = event_take(a->context);
    if (event.handle == NULL) {
        return false;
    }
    CUresult state = event_stream_state(stream);
    event.late = state == CUDA_SUCCESS;
    event.busy = state == CUDA_ERROR_NOT_READY;
    event.recorded = compute_now();
    event.charged_after = balance_charged_after(d, event.recorded);
    if (hami_call_cuEventRecord(event.handle, stream) != CUDA_SUCCESS) {
        event_give_back(a->context, event.handle);
        return false;
    }
    a->events[(a->first + a->count++) % STREAM_EVENTS] = event;
    if (event.busy) {
        stream_publish_under_way(d, NOTHING_UNDER_WAY);
    }
    if (event.late) { /* the stream was idle, so the event should be complete already */
        collect_events();
    }
    if (a->count > 0 && !collect_can_wait(d, event.recorded)) {
        compute_look_by(collect_first_look(a));
    }
    return true;
}

/* Closes a grant. The stream's context must be current. `apart`: one launch of a bursty process used it (ADR 11). */
static void close_grant(struct stream_account *a, bool apart) {
    struct limited_device *d = a->device;
    if (a->granted == 0) {
        return;
    }
    CUstream stream = stream_to_record(a);
    if (stream == NULL && a->count >= STREAM_EVENTS) {
        return; /* the grant stays open until an event completes */
    }
    add_relaxed(&a->closed, 1);
    int64_t left = atomic_exchange(&a->left, 0), estimate = a->granted - left;
    a->granted = 0;
    a->used = estimate;
    stream_reserve(d, -left);
    sub_relaxed(&d->own->granted_total, (uint64_t)balance_counted_grant(d, left));
    struct timing_event event = a->open;
    event.estimate = estimate;
    event.apart = apart;
    if (estimate == 0 || stream == NULL || !close_record(a, stream, event)) {
        stream_charge_estimate(d, estimate);
    }
}

void close_if_due(struct stream_account *a, enum close_when when) {
    int64_t left = load_relaxed(&a->left);
    if (a->granted > 0 && (when != CLOSE_WHEN_FULL || a->granted - left >= EVENT_EVERY_NS)) {
        close_grant(a, when == CLOSE_AFTER_ONE);
    }
}

/* Closes a grant with the stream's context current, since CUDA makes events in the current context. */
static void close_in_context(struct stream_account *a) {
    struct hami_context context;
    CUcontext current = hami_context_current(&context) ? context.handle : NULL;
    bool changed = a->context != current && hami_call_cuCtxSetCurrent(a->context) == CUDA_SUCCESS;
    close_grant(a, false);
    if (changed) {
        (void)hami_call_cuCtxSetCurrent(current);
    }
}

void close_all(struct limited_device *d) {
    for (struct stream_account *a = NULL; (a = stream_next(a, d)) != NULL;) {
        if (a->granted > 0) {
            close_in_context(a);
        }
    }
}

void close_quiet(uint64_t now) {
    for (struct stream_account *a = NULL; (a = stream_next(a, NULL)) != NULL;) {
        if (a->granted == 0) {
            continue;
        }
        int64_t left = load_relaxed(&a->left);
        if (left != a->seen) {
            a->seen = left;
            a->used_at = now;
            store_relaxed(&a->device->shared->last_grant_at, now);
        }
        if (now - a->used_at >= QUIET_AFTER_NS && hami_call_cuCtxSetCurrent(a->context) == CUDA_SUCCESS) {
            close_grant(a, false);
        }
    }
}

void close_hurry(const struct limited_device *d) {
    for (struct stream_account *a = NULL; (a = stream_next(a, d)) != NULL;) {
        if (a->count > 0) {
            compute_look_by(collect_first_look(a));
        }
    }
}

/* ---- ends ---- */

/* Charges all unfinished work of the account by estimate: its context ends, and the timing events end with it. */
static void close_with_context(struct stream_account *a) {
    add_relaxed(&a->closed, 1);
    int64_t left = atomic_exchange(&a->left, 0);
    if (a->granted > 0) {
        int64_t estimate = a->granted - left;
        a->granted = 0;
        stream_reserve(a->device, -left);
        stream_charge_estimate(a->device, estimate);
    }
    while (a->count > 0) {
        stream_charge_estimate(a->device, stream_drop_event(a).estimate);
    }
    a->aside = 0;
    atomic_store(&a->stream, NULL);
}

void close_ended(CUcontext context, CUstream stream) {
    bool named = stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD && stream != NULL;
    for (struct stream_account *a = NULL; (a = stream_next(a, NULL)) != NULL;) {
        if (context != NULL && a->context == context) {
            close_with_context(a);
        } else if (context == NULL && named && atomic_load(&a->stream) == stream) {
            close_in_context(a); /* CUDA keeps the stream's events when the stream ends, so they are collected later */
            atomic_store(&a->stream, NULL);
        }
    }
    if (context != NULL) {
        cost_forget_context(context);
        events_forget_context(context);
    }
    limited_device_end_epoch(); /* threads must forget the stream, even an unlimited one: the driver reuses handles */
}
