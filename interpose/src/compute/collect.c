/* Collects completed timing events and has them charged; decides when to look for them again (charging.h). */
#include "compute/charging.h"

#include "compute/cost.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"

#include <stdlib.h>

enum {
    COLLECTED_MOST = 64,
    FIRST_LOOK_AFTER_NS = 20000, /* time from an event's expected end to the first look for it */
    LOOK_EVERY_LEAST_NS = 50000, /* shortest time between further looks, while the event is not complete */
    LOOK_EVERY_MOST_NS = 80000   /* longest time between further looks */
};

struct completed {
    struct stream_account *account;
    struct timing_event event;
    uint64_t end; /* when the event completed */
};

/* ---- collecting ---- */

/* Takes complete events out of the accounts, at most COLLECTED_MOST. Returns how many. */
static unsigned collect_completed(struct completed found[COLLECTED_MOST]) {
    unsigned count = 0;
    for (struct stream_account *a = NULL; (a = stream_next(a, NULL)) != NULL;) {
        while (a->count > 0 && count < COLLECTED_MOST) {
            uint64_t asked = compute_now();
            CUresult status = hami_call_cuEventQuery(stream_first_event(a)->handle);
            if (status == CUDA_ERROR_NOT_READY) {
                a->events[a->first].incomplete_at = asked;
                break;
            }
            struct timing_event event = stream_drop_event(a);
            if (status != CUDA_SUCCESS) { /* the device or context is gone */
                stream_charge_estimate(a->device, event.estimate);
                continue;
            }
            uint64_t end = event_time(a->context, event.handle, later(event.incomplete_at, event.recorded));
            found[count++] = (struct completed){a, event, end};
        }
    }
    return count;
}

static int collect_by_end(const void *a, const void *b) {
    const struct completed *first = a, *second = b;
    return (first->end > second->end) - (first->end < second->end);
}

/* The work before those events in `found` that are of device `d`. */
static struct under_way collect_uncharged(const struct limited_device *d, const struct completed *found,
                                          unsigned count) {
    struct under_way work = NOTHING_UNDER_WAY;
    for (unsigned i = 0; i < count; i++) {
        work = found[i].account->device == d ? stream_add_event(work, &found[i].event) : work;
    }
    return work;
}

/* Charges events in the order of their ends. Until an event is charged, its work counts as under way. */
void collect_events(void) {
    struct completed found[COLLECTED_MOST];
    unsigned count = collect_completed(found);
    if (count > 1) {
        qsort(found, count, sizeof found[0], collect_by_end);
    }
    for (unsigned i = 0; i < count; i++) {
        struct limited_device *d = found[i].account->device;
        struct under_way uncharged = collect_uncharged(d, found + i + 1, count - i - 1);
        span_charge(found[i].account, &found[i].event, stream_under_way(d, uncharged), found[i].end);
        stream_publish_under_way(d, uncharged);
    }
    cost_learn_samples();
}

/* ---- when to look ---- */

bool collect_can_wait(const struct limited_device *d, uint64_t now) {
    return atomic_load(&d->shared->waiting_for_event) == 0 && !turn_has_company(d, now) &&
           balance_is_only_process(d, now) && load_relaxed(&event_captures) == 0;
}

/* When the stream's oldest event should be complete, if all work launched before it is complete by then. */
static uint64_t collect_expected_end(const struct stream_account *a) {
    const struct timing_event *event = stream_first_event(a);
    return balance_expected_end(a->device, event->opened, event->charged_after);
}

uint64_t collect_first_look(const struct stream_account *a) {
    return collect_expected_end(a) + FIRST_LOOK_AFTER_NS;
}

void collect_if_due(struct limited_device *d, uint64_t now) {
    bool due = false;
    if (load_relaxed(&d->own->events) == 0 || !collect_can_wait(d, now)) {
        return;
    }
    compute_lock();
    for (struct stream_account *a = NULL; !due && (a = stream_next(a, d)) != NULL;) {
        due = a->count > 0 && now >= collect_expected_end(a);
    }
    if (due) {
        collect_events();
    }
    compute_unlock();
}

/*
 * When the helper should look at a stream's work again. If containers take turns, or a launch waits for a completion,
 * it looks when the oldest event should be complete. Otherwise it looks when all work of the container should be
 * complete. If collect_can_wait is true and no comparison of the clocks is due, it looks after 10 ms, or after 1.5 ms
 * if the stream has an open grant.
 */
static uint64_t collect_next_look_at(const struct stream_account *a, uint64_t now) {
    const struct limited_device *d = a->device;
    if (a->count == 0) {
        return now + QUIET_AFTER_NS;
    }
    bool company = turn_has_company(d, now), can_wait = collect_can_wait(d, now);
    uint64_t most = now + (company || a->granted > 0 ? QUIET_AFTER_NS : SILENT_AFTER_NS / 2);
    uint64_t look = collect_first_look(a);
    if (!company && atomic_load(&d->shared->waiting_for_event) == 0) {
        uint64_t all = balance_expected_end(d, now, balance_charged_after(d, now)) + FIRST_LOOK_AFTER_NS;
        look = later(look, all);
    }
    uint64_t overdue = now > look ? (now - look) / 4 : 0;
    uint64_t soon = now + earlier(later(overdue, LOOK_EVERY_LEAST_NS), LOOK_EVERY_MOST_NS);
    uint64_t step = event_look_step(a->context, now, &look);
    if (step != 0) {
        soon = now + step;
    } else if (can_wait) {
        return most;
    }
    return look < soon ? soon : earlier(look, most);
}

uint64_t collect_next_look(uint64_t now) {
    uint64_t due = UINT64_MAX;
    for (struct stream_account *a = NULL; (a = stream_next(a, NULL)) != NULL;) {
        if (a->count > 0 || a->granted > 0) {
            due = earlier(due, collect_next_look_at(a, now));
        }
    }
    return due;
}
