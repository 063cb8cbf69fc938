/*
 * Charges the work before a completed timing event (charging.h).
 *
 * The normal charge is a span. It begins at the end of the line of spans, or when the oldest work under way was
 * launched if that is later, and ends at the event's time. If the device may have been idle in that time, the estimate
 * is charged instead, less the part of it that ran while spans of other work were charged (ADR 10, ADR 11).
 */
#include "compute/charging.h"

#include "compute/turn.h"
#include "compute/wait.h"

enum { SLICE_NS = 1000000 }; /* the shortest time slice that devices are assumed to give a context */

/*
 * How much of a busy period of `span` ns other processes could have used, if the device was idle for `rest` ns before
 * it. After idle time, the first process to launch work has the device alone for one time slice.
 */
static uint64_t span_shared_part(uint64_t rest, uint64_t span) {
    return rest == 0 ? span : span > SLICE_NS ? span - SLICE_NS : 0;
}

/*
 * ADR 10: the event's work ran between `from` and `end`. Returns how many ns of that time are charged by spans of other
 * work. These are the spans put on the line since the event's first launch, back to the line's newest gap, and the
 * spans still to come of work that has kept the device busy since `peers_busy`.
 */
static double span_of_others(const struct limited_device *d, const struct timing_event *event, uint64_t peers_busy,
                             uint64_t from, uint64_t end) {
    struct span_line now = balance_span_line(d);
    uint64_t before = event->spanned_to, busy = later(later(peers_busy, now.to), from);
    uint64_t begun = earlier(later(now.from, before), now.to); /* from here to its end the line has no gap */
    uint64_t newest = span_shared_part(begun - before, now.to - begun);
    uint64_t first = later(now.to - newest, from), last = earlier(now.to, end);
    uint64_t past = last > first ? last - first : 0;
    return (double)(past + (busy < end ? span_shared_part(busy - now.to, end - busy) : 0));
}

/*
 * ADR 10 and 11: the charge of an event if the device may have been idle between `from` and `end`. If the stream was
 * busy when the event was recorded, the time from `recorded` to `end` is charged as a span. For the time before, the
 * estimate is charged, less the part of it that ran while spans of other work were charged.
 */
static uint64_t span_charge_in_part(struct limited_device *d, const struct timing_event *event, struct under_way rest,
                                    uint64_t turn_start, uint64_t from, uint64_t end) {
    uint64_t busy = earlier(balance_work_since(d, PEERS_SURE_WORK, UINT64_MAX),
                            balance_is_bursty(d->own) ? rest.busy : rest.oldest);
    uint64_t until = event->busy ? earlier(later(event->recorded, from), end) : end;
    double time = (double)(until - from), sure = (double)(end - until);
    double estimate = (double)event->estimate * d->charge_ratio;
    double others = time > 0 ? span_of_others(d, event, busy, from, until) / time : 1;
    others = others < 1 ? others : 1;
    uint64_t span = until < end ? balance_take_span(d, later(earlier(busy, until), turn_start), end) : 0;
    double before = estimate > sure ? estimate - sure : 0; /* the part of the estimate that ran before `until` */
    /* An estimate may be far too long. If the event is late, the work ran within `time` and took no longer. */
    double charge = (!event->late || before < time ? before : time) * (1 - others);
    add_relaxed(&d->shared->estimated, (uint64_t)charge);
    return span + (uint64_t)charge;
}

/*
 * True: the device may have been idle before the event was recorded. Launches that come more slowly than they run leave
 * it idle. The function looks for that only if all launches of the event were short, and then also learns whether the
 * process is bursty.
 */
static bool span_may_contain_rest(struct limited_device *d, const struct timing_event *event, uint64_t span) {
    uint64_t estimate = (uint64_t)event->estimate;
    if (!event->clean) {
        return event->late && event->known && span > estimate; /* the process may have paused before the event */
    }
    bool slow = event->recorded - event->opened > estimate + estimate / 16;
    d->slow_part += ((event->apart ? event->slow : slow) - d->slow_part) * 0.1;
    return slow || event->late;
}

/* Learns which part of estimates is charged, and publishes the rest as `overlap` (compute_abi.h). */
static void span_learn_ratio(struct limited_device *d, const struct timing_event *event, uint64_t charge) {
    uint64_t estimate = (uint64_t)event->estimate;
    if (event->known && !event->late) {
        double ratio = charge < estimate ? (double)charge / (double)estimate : 1;
        double before = d->charge_ratio; /* only this function writes it, under the lock */
        d->charge_ratio = before + (ratio - before) * 0.05;
    }
    uint32_t overlap = (uint32_t)((1 - d->charge_ratio) * UINT16_MAX) | (d->slow_part > 0.5 ? HAMI_BURSTY : 0);
    store_relaxed(&d->own->overlap, overlap);
}

void span_charge(struct stream_account *a, const struct timing_event *event, struct under_way rest, uint64_t end) {
    struct limited_device *d = a->device;
    uint64_t from = later(event->opened, a->ended);
    uint64_t turn_start = turn_frontier(d, end); /* read before turn_move_frontier changes it */
    uint64_t start = later(balance_work_since(d, SURE_WORK, from), turn_start);
    uint64_t to = later(balance_span_line(d).to, start), span = end > to ? end - to : 0;
    a->ended = end;
    balance_move_frontier(d, end);
    turn_move_frontier(d, end);
    bool in_part = span_may_contain_rest(d, event, span) && end > from;
    uint64_t charge =
        in_part ? span_charge_in_part(d, event, rest, turn_start, from, end) : balance_take_span(d, start, end);
    span_learn_ratio(d, event, charge);
    /* Other processes leave a silent process out of their spans. So a silent process pays at least its estimate. */
    if (balance_is_silent(d->own, compute_now())) {
        uint64_t least = (uint64_t)((double)event->estimate * d->charge_ratio);
        add_relaxed(&d->shared->estimated, least > charge ? least - charge : 0);
        charge = later(charge, least);
    }
    balance_charge(d, charge);
    stream_reserve(d, -event->estimate);
    stream_event_done(d);
}
