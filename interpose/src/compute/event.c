/* Implements event.h: the stock of events, and the comparison of the device's clock with the host's. */
#include "compute/event.h"

#include "compute/wait.h"

#include <string.h>

enum {
    CONTEXTS = 16,     /* contexts that may have events at the same time */
    SPARE_EVENTS = 64, /* unused events that are kept for one context */
    EVENT_DEFAULT = 0, /* CU_EVENT_DEFAULT */
    COMPARE_EVERY_NS = 50000000,
    RETRY_AFTER_NS = 5000000,     /* pause after a comparison that failed; it doubles with each further failure */
    COMPARED_WITHIN_NS = 60000,   /* a less exact comparison counts as failed */
    UNSURE_AFTER_NS = 1000000000, /* without a comparison for so long, the clocks are assumed to have drifted */
    DRIFT_PART = 5000,            /* an assumed drift is 1/5000 of the time since the base event */
    LOOK_STEP_NS = 30000,         /* time between looks near an event's end (event_look_step) */
    LOOK_STEPS = 10,              /* a comparison by looks near an event's end has failed after so many */
    FIRST_LOOK_LEAD_NS = 50000,   /* looks near an event's end begin so long before a normal first look */
    RENEW_BASE_NS = 100000000     /* a base event older than this is replaced */
};

/* When a way of comparing the clocks was last tried, and how long to wait before the next try. */
struct clock_retry {
    uint64_t last, pause;
};

static struct context_events {
    CUcontext context; /* NULL: unused */
    unsigned count;
    CUevent spare[SPARE_EVENTS];
    CUevent base;                  /* a completed event; cuEventElapsedTime tells how much later others completed */
    uint64_t base_time;            /* when `base` completed, host time */
    uint64_t compared_at;          /* when the clocks were last compared */
    struct clock_retry toward_end; /* comparisons near an event's end (event_look_step) */
    struct clock_retry when_idle;  /* comparisons in an idle stream (event_compare_clocks) */
    unsigned steps;                /* looks near an event's end since the last comparison or failure */
} contexts[CONTEXTS];

_Atomic int event_captures;

bool event_stream_is_captured(CUstream stream) {
    int status = 0;
    return hami_call_cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != 0;
}

CUresult event_stream_state(CUstream stream) {
    /* While any stream is captured, cuStreamQuery may abort the capture (CUDA: cuThreadExchangeStreamCaptureMode). */
    return atomic_load(&event_captures) > 0 ? CUDA_ERROR_INVALID_VALUE : hami_call_cuStreamQuery(stream);
}

/*
 * Finds or makes the entry of a context. NULL: all entries are in use, so the caller's work is charged by estimate.
 * Never NULL for a context that has events, since its entry lasts as long as they do.
 */
static struct context_events *events_of(CUcontext context) {
    struct context_events *unused = NULL;
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            return &contexts[i];
        }
        unused = unused == NULL && contexts[i].context == NULL ? &contexts[i] : unused;
    }
    if (unused != NULL) {
        unused->context = context;
    }
    return unused;
}

CUevent event_take(CUcontext context) {
    struct context_events *events = events_of(context);
    CUevent event = NULL;
    if (events == NULL) {
        return NULL;
    }
    if (events->count > 0) {
        return events->spare[--events->count];
    }
    return hami_call_cuEventCreate(&event, EVENT_DEFAULT) == CUDA_SUCCESS ? event : NULL;
}

void event_give_back(CUcontext context, CUevent event) {
    struct context_events *events = events_of(context);
    if (events->count < SPARE_EVENTS) {
        events->spare[events->count++] = event;
    } else {
        (void)hami_call_cuEventDestroy_v2(event);
    }
}

void events_forget_context(CUcontext context) {
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            memset(&contexts[i], 0, sizeof contexts[i]);
        }
    }
}

void events_after_fork(void) {
    memset(contexts, 0, sizeof contexts);
    atomic_store(&event_captures, 0);
}

/* ---- the device's clock ---- */

/* Makes a completed event the base; `time` is when it completed, host time. */
static void clock_set_base(struct context_events *events, CUevent event, uint64_t time) {
    if (events->base != NULL) {
        event_give_back(events->context, events->base);
    }
    events->base = event;
    events->base_time = time;
}

/*
 * The event completed between `earliest` and `latest`, which is now. If they are close enough, makes the event the base
 * and returns true.
 */
static bool clock_set(struct context_events *events, CUevent event, uint64_t earliest, uint64_t latest) {
    if (latest - earliest > COMPARED_WITHIN_NS) {
        return false;
    }
    clock_set_base(events, event, earliest + (latest - earliest) / 2);
    events->compared_at = latest;
    events->toward_end = events->when_idle = (struct clock_retry){latest, RETRY_AFTER_NS};
    events->steps = 0;
    return true;
}

static bool clock_is_due(const struct context_events *events, const struct clock_retry *retry, uint64_t now) {
    return now - events->compared_at >= COMPARE_EVERY_NS && now - retry->last >= retry->pause;
}

static void clock_retry_later(struct clock_retry *retry, uint64_t now) {
    retry->last = now;
    retry->pause = earlier(later(2 * retry->pause, RETRY_AFTER_NS), COMPARE_EVERY_NS);
}

/*
 * An event in an idle stream of an idle device completes at once, so its time is known on both clocks. If other
 * processes keep the device busy, the event completes later, and the comparison fails.
 */
void event_compare_clocks(CUcontext context, CUstream stream) {
    struct context_events *events = events_of(context);
    if (events == NULL || !clock_is_due(events, &events->when_idle, compute_now()) ||
        event_stream_state(stream) != CUDA_SUCCESS) {
        return;
    }
    CUevent event = event_take(context);
    uint64_t began = compute_now(), now = began;
    if (event == NULL) {
        return;
    }
    bool recorded = hami_call_cuEventRecord(event, stream) == CUDA_SUCCESS;
    CUresult status = CUDA_ERROR_NOT_READY;
    while (recorded && status == CUDA_ERROR_NOT_READY && now - began <= COMPARED_WITHIN_NS) {
        status = hami_call_cuEventQuery(event);
        now = compute_now();
    }
    if (status != CUDA_SUCCESS || !clock_set(events, event, began, now)) {
        clock_retry_later(&events->when_idle, now);
        event_give_back(context, event);
    }
}

/*
 * The event completed between `earliest` and now. If the computed time is outside these bounds, it is moved to the
 * nearer one, and `base_time` by as much, which corrects later times. If the clocks were not compared for a second, a
 * new base's time is set later by 1/5000 of the time since the base before it. Computed times are then too late, and
 * the bound `now` corrects them. Times that are too early would stay wrong: `earliest` is often long before the end.
 */
uint64_t event_time(CUcontext context, CUevent event, uint64_t earliest) {
    struct context_events *events = events_of(context);
    uint64_t now = compute_now();
    float ms = 0;
    if (clock_is_due(events, &events->toward_end, now) && clock_set(events, event, earliest, now)) {
        return events->base_time;
    }
    if (events->base == NULL || hami_call_cuEventElapsedTime(&ms, events->base, event) != CUDA_SUCCESS) {
        clock_set_base(events, event, now);
        return now;
    }
    int64_t elapsed = (int64_t)((double)ms * 1e6);
    uint64_t end = events->base_time + (uint64_t)elapsed;
    uint64_t held = earlier(later(end, earliest), now);
    events->base_time += held - end;
    if (elapsed > RENEW_BASE_NS) {
        bool unsure = now - events->compared_at > UNSURE_AFTER_NS;
        clock_set_base(events, event, unsure ? held + (uint64_t)elapsed / DRIFT_PART : held);
    } else {
        event_give_back(context, event);
    }
    return held;
}

uint64_t event_look_step(CUcontext context, uint64_t now, uint64_t *end) {
    struct context_events *events = events_of(context);
    if (!clock_is_due(events, &events->toward_end, now)) {
        return 0;
    }
    *end -= FIRST_LOOK_LEAD_NS;
    if (now >= *end && ++events->steps > LOOK_STEPS) {
        clock_retry_later(&events->toward_end, now);
        events->steps = 0;
    }
    return LOOK_STEP_NS;
}
