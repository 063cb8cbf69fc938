/*
 * Charges the work before a completed timing event (charging.h).
 *
 * The normal charge is the span from the end of the line of spans, or from the launch of the oldest work under way if
 * that is later, to the event's time. If the device may have been idle meanwhile, the estimate is charged instead, less
 * what of it ran in time that other spans charge: ADR 10, ADR 11.
 */
#include "compute/charging.h"

#include "compute/turn.h"
#include "compute/wait.h"

static double span_overlap(uint64_t from, uint64_t to, uint64_t other_from, uint64_t other_to) {
    uint64_t first = later(from, other_from), last = earlier(to, other_to);
    return last > first ? (double)(last - first) : 0;
}

/*
 * ADR 10: how much of the time from `from` to `end`, in which the event's work ran, spans have charged or will charge.
 * They will charge the time since `peers_busy`, when other work got the device. Spans before a gap in the line do not
 * count.
 */
static double span_of_others(const struct limited_device *d, const struct timing_event *event, uint64_t peers_busy,
                             uint64_t from, uint64_t end) {
    struct span_line now = balance_span_line(d);
    uint64_t before = event->spanned_to, busy = later(later(peers_busy, now.to), from);
    uint64_t begun = earlier(later(now.from, before), now.to); /* since then the line has no gap */
    uint64_t newest = balance_shared_part(begun - before, now.to - begun);
    double past = span_overlap(now.to - newest, now.to, from, end);
    return past + (busy < end ? (double)balance_shared_part(busy - now.to, end - busy) : 0);
}

/*
 * ADR 10 and 11: the charge where the device may have been idle between `from` and `end`. If the stream was busy when
 * the event was recorded, the time from there to `end` is a span. For the time before, the estimate is charged, less
 * the part of it that ran while spans of other work were charged.
 */
static uint64_t span_charge_in_part(struct limited_device *d, const struct timing_event *event, struct under_way rest,
                                    uint64_t turn_start, uint64_t from, uint64_t end) {
    uint64_t busy = earlier(balance_peers_busy_since(d), balance_is_bursty(d->own) ? rest.busy : rest.oldest);
    uint64_t until = event->busy ? earlier(later(event->recorded, from), end) : end;
    double time = (double)(until - from), sure = (double)(end - until);
    double estimate = (double)event->estimate * d->charge_ratio;
    double others = time > 0 ? span_of_others(d, event, busy, from, until) / time : 1;
    others = others < 1 ? others : 1;
    uint64_t span = until < end ? balance_take_span(d, later(earlier(busy, until), turn_start), end) : 0;
    double before = estimate > sure ? estimate - sure : 0; /* the part that ran before `until` */
    /* An estimate may be far too long. If the event is late, the work took at most `time`. */
    double charge = (!event->late || before < time ? before : time) * (1 - others);
    add_relaxed(&d->shared->estimated, (uint64_t)charge);
    return span + (uint64_t)charge;
}

/*
 * Whether the device may have been idle before the event was recorded: launches that come more slowly than they run
 * leave it idle. Idle time between long launches is not looked for. Also learns whether this process is bursty.
 */
static bool span_may_contain_rest(struct limited_device *d, const struct timing_event *event, uint64_t span) {
    uint64_t estimate = (uint64_t)event->estimate;
    if (!event->clean) {
        return event->late && event->known && span > estimate; /* the process stood still before the event */
    }
    bool slow = event->recorded - event->opened > estimate + estimate / 16;
    d->slow_part += ((event->apart ? event->slow : slow) - d->slow_part) * 0.1;
    return slow || event->late;
}

/* Learns which part of estimates is charged, and publishes the rest as overlap. */
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
    uint64_t turn_start = turn_frontier(d, end); /* before it moves to `end` below */
    uint64_t start = later(balance_busy_since(d, from), turn_start);
    uint64_t to = later(balance_span_line(d).to, start), span = end > to ? end - to : 0;
    a->ended = end;
    balance_move_frontier(d, end);
    turn_move_frontier(d, end);
    bool in_part = span_may_contain_rest(d, event, span) && end > from;
    uint64_t charge =
        in_part ? span_charge_in_part(d, event, rest, turn_start, from, end) : balance_take_span(d, start, end);
    span_learn_ratio(d, event, charge);
    if (balance_is_silent(d->own, compute_now())) { /* others' spans left our work out: charge the estimate at least */
        uint64_t least = (uint64_t)((double)event->estimate * d->charge_ratio);
        add_relaxed(&d->shared->estimated, least > charge ? least - charge : 0);
        charge = later(charge, least);
    }
    balance_charge(d, charge);
    stream_reserve(d, -event->estimate);
    stream_event_done(d);
}
