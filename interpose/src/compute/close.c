/* Implements its part of charging.h. */
#include "compute/charging.h"

#include "compute/cost.h"
#include "compute/tuning.h"
#include "compute/wait.h"
#include "memory/contexts.h"

/* Records the event; false: it could not be recorded. */
static bool close_record(struct stream_account *a, CUstream stream, struct timing_event event) {
    struct limited_device *d = a->device;
    event.handle = event_take(a->context);
    if (event.handle == NULL) {
        return false;
    }
    /* While a stream is captured, asking for another one's state may spoil the capture. */
    bool may_ask = atomic_load(&event_captures) == 0;
    CUresult state = may_ask ? hami_call_cuStreamQuery(stream) : CUDA_ERROR_INVALID_VALUE;
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
    if (event.late) { /* there was nothing before it in the stream, so it should be complete */
        collect_events();
    }
    if (a->count > 0 && !collect_can_wait(d, event.recorded)) {
        compute_look_by(collect_first_look(a));
    }
    return true;
}

static void close_grant(struct stream_account *a, bool apart) {
    struct limited_device *d = a->device;
    if (a->granted == 0) {
        return;
    }
    CUstream stream = atomic_load(&a->stream);
    bool can_record = stream_can_record(a, stream);
    if (!can_record && a->count >= STREAM_EVENTS) {
        return; /* stays open until an event completes */
    }
    add_relaxed(&a->closed, 1);
    int64_t left = atomic_exchange(&a->left, 0), estimate = a->granted - left;
    a->granted = 0;
    a->used = estimate;
    stream_reserve(d, -left);
    sub_relaxed(&d->own->granted_total, (uint64_t)balance_counted_grant(d, left));
    if (estimate <= 0) {
        stream_event_done(d);
        stream_publish_under_way(d, NOTHING_UNDER_WAY);
        return;
    }
    struct timing_event event = a->open;
    event.estimate = estimate;
    event.apart = apart;
    if (!can_record || !close_record(a, stream, event)) {
        stream_charge_estimate(d, estimate);
        stream_publish_under_way(d, NOTHING_UNDER_WAY);
    }
}

void close_if_due(struct stream_account *a, enum close_when when) {
    int64_t left = load_relaxed(&a->left);
    if (a->granted > 0 && (when != CLOSE_WHEN_FULL || a->granted - left >= EVENT_EVERY_NS)) {
        close_grant(a, when == CLOSE_AFTER_ONE);
    }
}

static CUcontext close_current_context(void) {
    struct hami_context context;
    return hami_context_current(&context) ? context.handle : NULL;
}

/* Events are made in the current context, so it is changed meanwhile. */
static void close_in_context(struct stream_account *a, CUcontext current) {
    bool changed = a->context != current && hami_call_cuCtxSetCurrent(a->context) == CUDA_SUCCESS;
    close_grant(a, false);
    if (changed) {
        (void)hami_call_cuCtxSetCurrent(current);
    }
}

void close_all(struct limited_device *d) {
    CUcontext current = close_current_context();
    for (unsigned i = 0; i < stream_count; i++) {
        struct stream_account *a = &stream_accounts[i];
        if (a->device != NULL && a->granted != 0 && (d == NULL || a->device == d)) {
            close_in_context(a, current);
        }
    }
}

void close_quiet(uint64_t now) {
    for (unsigned i = 0; i < stream_count; i++) {
        struct stream_account *a = &stream_accounts[i];
        if (a->device == NULL || a->granted <= 0) {
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
    for (unsigned i = 0; i < stream_count; i++) {
        const struct stream_account *a = &stream_accounts[i];
        if (a->device == d && a->count > 0) {
            compute_look_by(collect_first_look(a));
        }
    }
}

/* ---- ends ---- */

/* The stream's events end with its context: what they would have told is charged by estimate. */
static void close_with_context(struct stream_account *a) {
    struct limited_device *d = a->device;
    add_relaxed(&a->closed, 1);
    int64_t left = atomic_exchange(&a->left, 0);
    if (a->granted > 0) {
        stream_reserve(d, -left);
        stream_charge_estimate(d, a->granted - left);
        a->granted = 0;
    }
    for (; a->count > 0; a->count--, a->first = (a->first + 1) % STREAM_EVENTS) {
        stream_charge_estimate(d, stream_first_event(a)->estimate);
    }
    a->aside = 0;
    atomic_store(&a->stream, NULL);
    stream_publish_under_way(d, NOTHING_UNDER_WAY);
}

void close_ended(CUcontext context, CUstream stream) {
    bool named = stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD && stream != NULL;
    for (unsigned i = 0; i < stream_count; i++) {
        struct stream_account *a = &stream_accounts[i];
        if (a->device == NULL) {
            continue;
        }
        if (context != NULL && a->context == context) {
            close_with_context(a);
        } else if (context == NULL && named && atomic_load(&a->stream) == stream) {
            close_in_context(a, close_current_context()); /* its events outlive it */
            atomic_store(&a->stream, NULL);
        }
    }
    if (context != NULL) {
        cost_forget_context(context);
        events_forget_context(context);
    }
    limited_device_end_epoch(); /* threads remember unlimited streams too, and the driver reuses handles */
}
