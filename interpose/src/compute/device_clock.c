/* Implements device_clock.h. */
#include "compute/device_clock.h"

#include "compute/wait.h"

enum {
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
void clock_compare_when_idle(CUcontext context, CUstream stream) {
    struct context_events *events = events_of(context);
    if (events == NULL || !clock_is_due(events, &events->when_idle, compute_now()) ||
        event_driver.stream_query(stream) != CUDA_SUCCESS) {
        return;
    }
    CUevent event = event_take(context);
    uint64_t began = compute_now(), now = began;
    if (event == NULL) {
        return;
    }
    bool recorded = event_driver.record(event, stream) == CUDA_SUCCESS;
    CUresult status = CUDA_ERROR_NOT_READY;
    while (recorded && status == CUDA_ERROR_NOT_READY && now - began <= COMPARED_WITHIN_NS) {
        status = event_driver.query(event);
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
uint64_t clock_time_of(CUcontext context, CUevent event, uint64_t earliest) {
    struct context_events *events = events_of(context);
    uint64_t now = compute_now();
    float ms = 0;
    if (events == NULL) {
        (void)event_driver.destroy(event);
        return now;
    }
    if (clock_is_due(events, &events->toward_end, now) && clock_set(events, event, earliest, now)) {
        return events->base_time;
    }
    if (events->base == NULL || event_driver.elapsed(&ms, events->base, event) != CUDA_SUCCESS) {
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

uint64_t clock_look_step(CUcontext context, uint64_t now, uint64_t *end) {
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
