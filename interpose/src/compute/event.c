/* Implements event.h. */
#include "compute/event.h"

#include "compute/wait.h"

#include <string.h>

enum {
    CONTEXTS = 16,
    SPARE_EVENTS = 64,
    EVENT_DEFAULT = 0,
    COMPARE_EVERY_NS = 50000000,
    RETRY_AFTER_NS = 5000000, /* after a failure; doubled after each further one */
    COMPARED_WITHIN_NS = 60000,
    UNSURE_AFTER_NS = 1000000000, /* without a comparison for so long, drift is assumed */
    LOOK_STEP_NS = 30000,
    LOOK_STEPS = 10,
    FIRST_LOOK_LEAD_NS = 50000, /* the looks begin so long before the expected first look */
    RENEW_BASE_NS = 100000000,  /* a base event older than this is replaced */
    DRIFT_PART = 5000           /* 1/5000: drift that is assumed of a device's clock */
};

/* When a way to compare the clocks was last tried in vain, and how long to wait before the next try. */
struct clock_retry {
    uint64_t last, pause;
};

static struct context_events {
    CUcontext context; /* NULL: the place is free */
    unsigned count;
    CUevent spare[SPARE_EVENTS];
    CUevent base; /* a completed event: times of other events are told from it */
    uint64_t base_time;
    uint64_t compared_at; /* when the two clocks were last compared */
    struct clock_retry toward_end, when_idle;
    unsigned steps; /* looks close to an event's end since then */
} contexts[CONTEXTS];

_Atomic int event_captures;

bool event_stream_is_captured(CUstream stream) {
    int status = 0;
    /* An error means that the stream may not be used now, because another stream is being captured. */
    return hami_call_cuStreamIsCapturing(stream, &status) != CUDA_SUCCESS || status != 0;
}

/* NULL: more contexts are in use than can be followed. */
static struct context_events *events_of(CUcontext context) {
    struct context_events *free_place = NULL;
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            return &contexts[i];
        }
        if (contexts[i].context == NULL && free_place == NULL) {
            free_place = &contexts[i];
        }
    }
    if (free_place != NULL) {
        free_place->context = context;
    }
    return free_place;
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
    if (events != NULL && events->count < SPARE_EVENTS) {
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

/* From now on times are told from this completed event. */
static void clock_set_base(struct context_events *events, CUevent event, uint64_t time) {
    if (events->base != NULL) {
        event_give_back(events->context, events->base);
    }
    events->base = event;
    events->base_time = time;
}

/* The event completed after `earliest` and before `latest`, which is now. If that is close enough: takes the event. */
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
    retry->pause = retry->pause < RETRY_AFTER_NS          ? RETRY_AFTER_NS
                   : retry->pause >= COMPARE_EVERY_NS / 2 ? COMPARE_EVERY_NS
                                                          : 2 * retry->pause;
}

/*
 * An event in an idle stream of an idle device completes at once. If that is seen at once, one moment is known on both
 * clocks. Where other processes keep the device busy the event completes later, and the comparison fails.
 */
void event_compare_clocks(CUcontext context, CUstream stream) {
    struct context_events *events = events_of(context);
    if (events == NULL || !clock_is_due(events, &events->when_idle, compute_now()) ||
        hami_call_cuStreamQuery(stream) != CUDA_SUCCESS) {
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
 * The event completed between `earliest` and now, so its time is moved between the two, and the base with it. That
 * keeps the clocks together. If they were not compared for a second, a drift of 1/5000 is added whenever the base is
 * replaced. Times then come out too late, which the bound `now` corrects. Times that come out too early would go
 * unnoticed.
 */
uint64_t event_time(CUcontext context, CUevent event, uint64_t earliest) {
    struct context_events *events = events_of(context);
    uint64_t now = compute_now();
    float ms = 0;
    if (events == NULL) {
        (void)hami_call_cuEventDestroy_v2(event);
        return now;
    }
    if (clock_is_due(events, &events->toward_end, now) && clock_set(events, event, earliest, now)) {
        return events->base_time;
    }
    if (events->base == NULL || hami_call_cuEventElapsedTime(&ms, events->base, event) != CUDA_SUCCESS) {
        clock_set_base(events, event, now);
        return now;
    }
    int64_t elapsed = (int64_t)((double)ms * 1e6);
    int64_t end = (int64_t)events->base_time + elapsed;
    int64_t held = end > (int64_t)now ? (int64_t)now : end < (int64_t)earliest ? (int64_t)earliest : end;
    events->base_time = (uint64_t)((int64_t)events->base_time + held - end);
    if (elapsed > RENEW_BASE_NS) {
        bool unsure = now - events->compared_at > UNSURE_AFTER_NS;
        clock_set_base(events, event, (uint64_t)(unsure ? held + elapsed / DRIFT_PART : held));
    } else {
        event_give_back(context, event);
    }
    return (uint64_t)held;
}

uint64_t event_look_step(CUcontext context, uint64_t now, uint64_t *end) {
    struct context_events *events = events_of(context);
    if (events == NULL || !clock_is_due(events, &events->toward_end, now)) {
        return 0;
    }
    *end -= FIRST_LOOK_LEAD_NS;
    if (now >= *end && ++events->steps > LOOK_STEPS) {
        clock_retry_later(&events->toward_end, now);
        events->steps = 0;
    }
    return LOOK_STEP_NS;
}
