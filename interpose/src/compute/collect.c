/* Implements its part of charging.h. */
#include "compute/charging.h"

#include "compute/cost.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"

#include <stdlib.h>

enum {
    COLLECTED_MOST = 64,
    FIRST_LOOK_AFTER_NS = 20000, /* after an event should be complete */
    LOOK_EVERY_LEAST_NS = 50000, /* then, if it is not */
    LOOK_EVERY_MOST_NS = 80000
};

struct completed {
    struct stream_account *account;
    struct timing_event event;
    uint64_t end;
};

/* ---- collecting ---- */

static unsigned collect_completed(struct completed found[COLLECTED_MOST], bool *failed) {
    unsigned count = 0;
    for (unsigned i = 0; i < stream_count; i++) {
        struct stream_account *a = &stream_accounts[i];
        while (a->device != NULL && a->count > 0 && count < COLLECTED_MOST) {
            struct timing_event event = a->events[a->first];
            uint64_t asked = compute_now();
            CUresult status = hami_call_cuEventQuery(event.handle);
            if (status == CUDA_ERROR_NOT_READY) {
                a->events[a->first].incomplete_at = asked;
                break;
            }
            a->first = (a->first + 1) % STREAM_EVENTS;
            a->count--;
            if (status != CUDA_SUCCESS) { /* the device or context is gone */
                stream_charge_estimate(a->device, event.estimate);
                *failed = true;
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

/* The completed timing events of one device that are not charged yet. */
static struct under_way collect_uncharged(const struct limited_device *d, const struct completed *found,
                                          unsigned count) {
    struct under_way first = NOTHING_UNDER_WAY;
    for (unsigned i = 0; i < count; i++) {
        const struct timing_event *event = &found[i].event;
        if (found[i].account->device == d) {
            first.oldest = earlier(first.oldest, event->opened);
            first.busy = event->busy ? earlier(first.busy, event->recorded) : first.busy;
        }
    }
    return first;
}

/* Events are charged in the order of their ends. Until an event is charged, its work counts as under way. */
void collect_events(void) {
    struct completed found[COLLECTED_MOST];
    bool failed = false;
    unsigned count = collect_completed(found, &failed);
    if (count > 1) {
        qsort(found, count, sizeof found[0], collect_by_end);
    }
    for (unsigned i = 0; i < count; i++) {
        struct limited_device *d = found[i].account->device;
        struct under_way rest = stream_under_way(d, collect_uncharged(d, found + i + 1, count - i - 1));
        stream_publish_under_way(d, collect_uncharged(d, found + i, count - i));
        span_charge(found[i].account, &found[i].event, rest, found[i].end);
    }
    for (unsigned i = 0; i < count; i++) {
        stream_publish_under_way(found[i].account->device, NOTHING_UNDER_WAY);
    }
    for (unsigned i = 0; i < stream_count && failed; i++) {
        if (stream_accounts[i].device != NULL) {
            stream_publish_under_way(stream_accounts[i].device, NOTHING_UNDER_WAY);
        }
    }
    cost_learn_samples();
}

/* ---- when to look ---- */

bool collect_can_wait(const struct limited_device *d, uint64_t now) {
    return atomic_load(&d->shared->waiting_for_event) == 0 && !turn_has_company(d, now) &&
           balance_is_only_process(d, now) && load_relaxed(&event_captures) == 0;
}

/* Other work that was launched before the event is assumed to end no later than it. */
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
    for (unsigned i = 0; i < stream_count && !due; i++) {
        const struct stream_account *a = &stream_accounts[i];
        due = a->device == d && a->count > 0 && now >= collect_expected_end(a);
    }
    if (due) {
        collect_events();
    }
    compute_unlock();
}

/*
 * When to look at a stream's work again. Containers with which we take turns, and launches that wait for a completion,
 * should know soon. Without them a look is useless before all that the container has under way should be complete.
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
    for (unsigned i = 0; i < stream_count; i++) {
        const struct stream_account *a = &stream_accounts[i];
        if (a->device != NULL && (a->count > 0 || a->granted > 0)) {
            due = earlier(due, collect_next_look_at(a, now));
        }
    }
    return due;
}
