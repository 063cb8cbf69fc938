/* Decides when this container passes its turn on, and waits for the turn (last part of turn.h). */
#include "compute/charging.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"

enum {
    RETRY_NS = 200000,           /* pause before another try if another process is changing the page */
    WATCH_NS = 10000000,         /* how often the holder reads the page while no other container uses it */
    WATCH_END_NS = 1500000,      /* the holder looks at least this often when its turn ends and its work still runs */
    LOOK_EVERY_LONG_NS = 125000, /* after long launches, whose end is hard to foresee, the holder looks this often */
    LOOK_EVERY_LEAST_NS = 20000, /* the holder looks at most this often */
    SHORT_LAUNCH_NS = 700000,    /* a holder with longer launches keeps the turn until its work has ended */
    EARLY_MARGIN_NS = 20000,     /* added to the average time that waking up for a turn takes */
    WAIT_STEP_NS = 20000000,
    FORFEITED_MOST_NS = 500000000 /* a container that lost this much clock time to the cap ignores turns for 5 s */
};

/*
 * How long before its work ends the holder passes the turn on: as long as the next container takes to wake up. If the
 * holder passed it on later, the device would be idle. If earlier, work of both containers would run at once.
 */
static int64_t yield_lead(const struct limited_device *d) {
    uint64_t woke = load_relaxed(&d->shared->turn_wake_ns);
    return woke == 0 ? EARLY_MOST_NS : (int64_t)earlier(woke + EARLY_MARGIN_NS, EARLY_MOST_NS);
}

/* True: this container has had its turn for TURN_NS, and a container further behind its limit waits. */
static bool yield_is_over(const struct limited_device *d, const struct hami_turn_page *seen, const struct snapshot *s) {
    unsigned next = turn_neediest(d, seen, s->now);
    return !turn_is_young(d, s->now) && next != 0 && seen->slots[next - 1].wish.arrears > balance_arrears(d, s);
}

bool yield_is_due(struct limited_device *d, const struct snapshot *s) {
    struct hami_turn_page seen;
    if (turn_is_surely_ours(d, s->now) || !turn_read_page(d, &seen, TURN_PAGE_WHOLE, s->now) ||
        !turn_is_ours_on(d, &seen)) {
        return false;
    }
    bool over = yield_is_over(d, &seen, s);
    (void)turn_show_life(d, &seen, s->now);
    if (!over) {
        store_relaxed(&d->shared->turn_uncontested_at, s->now);
    }
    return over;
}

/* Estimates for how many ns more the work under way will run. */
static int64_t yield_remaining(struct limited_device *d, const struct snapshot *s) {
    uint64_t begun = later(atomic_load(&d->shared->frontier), balance_work_since(d, ALL_WORK, s->now));
    begun = later(begun, turn_frontier(d, s->now));
    int64_t since = s->now > begun ? (int64_t)(s->now - begun) : 0;
    bool nothing = s->events == 0 && s->reserved == 0;
    return nothing || s->expected < since ? 0 : s->expected - since;
}

uint64_t yield_turn(struct limited_device *d) {
    struct hami_turn_page seen;
    struct snapshot s = balance_read(d);
    uint64_t last = atomic_load(&d->shared->last_grant_at);
    uint64_t rested = s.now > last && s.waiting_for_event == 0 ? s.now - last : 0;
    bool paused = rested > PAUSE_NS, finished = s.reserved == 0 && rested >= WATCH_NS;
    if (turn_is_ours(d) && !finished && turn_is_alone(d, s.now)) {
        return s.now + WATCH_NS;
    }
    if (turn_is_ours(d) && s.balance > 0 && !paused && turn_is_young(d, s.now)) {
        return s.now + PAUSE_NS; /* the turn is kept, so the page need not be read */
    }
    if (!turn_read_page(d, &seen, TURN_PAGE_WHOLE, s.now) || !turn_is_ours_on(d, &seen)) {
        return UINT64_MAX;
    }
    bool company = !turn_show_life(d, &seen, s.now);
    if (turn_neediest(d, &seen, s.now) == 0) {
        if (!finished && !(company && paused && s.reserved == 0)) {
            return s.now + (company ? PAUSE_NS : WATCH_NS);
        }
    } else if (s.balance > 0 && !paused && !yield_is_over(d, &seen, &s)) {
        return s.now + PAUSE_NS;
    } else { /* the turn ends, and is passed on shortly before the work under way ends, or right after it */
        close_all(d);
        s = balance_read(d);
        bool brief = atomic_load(&d->shared->longest_launch) <= SHORT_LAUNCH_NS;
        int64_t left = brief ? yield_remaining(d, &s) - yield_lead(d) : LOOK_EVERY_LONG_NS;
        if (s.reserved != 0 && left > 0) {
            return s.now + earlier(later((uint64_t)left, LOOK_EVERY_LEAST_NS), WATCH_END_NS);
        }
    }
    return turn_release(d, s.now) ? UINT64_MAX : s.now + RETRY_NS;
}

/* ---- waiting for the turn ---- */

/*
 * Writes to the page whether a thread of this container waits for the turn. Several threads may write at once. Each
 * checks again after its write whether a thread waits, and writes again if that changed. So the last write is right.
 */
static void yield_write_wish(struct limited_device *d, int64_t arrears) {
    enum { TRIES = 8 };
    struct hami_turn_wish wish = {arrears, balance_waits_for_turn(d)};
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t written = wish.waiting;
        (void)page_write(&d->page, TURN_SLOT_OFFSET(atomic_load(&d->turn_slot), wish), &wish, sizeof wish);
        wish.waiting = balance_waits_for_turn(d);
        if (wish.waiting == written) {
            break;
        }
    }
}

void yield_wait(struct limited_device *d, const struct snapshot *s, enum turn why) {
    struct hami_turn_page seen;
    if (why == TURN_BUSY) {
        compute_sleep_until(s->now + RETRY_NS);
        return;
    }
    if (!turn_read_page(d, &seen, TURN_PAGE_WHOLE, s->now) || !turn_has_slot(d, &seen)) {
        return;
    }
    unsigned slot = atomic_load(&d->turn_slot);
    uint32_t futex = seen.slots[slot].futex;
    (void)atomic_fetch_add(&d->own->waiting_for_turn, 1);
    yield_write_wish(d, balance_arrears(d, s));
    if (turn_read_page(d, &seen, TURN_PAGE_WHOLE, s->now) && !turn_is_ours_on(d, &seen) &&
        turn_holder(seen.turn) != 0) {
        compute_wait(page_futex(&d->page, TURN_SLOT_OFFSET(slot, futex)), futex, EVERY_BIT, WAIT_STEP_NS);
    }
    (void)atomic_fetch_sub(&d->own->waiting_for_turn, 1);
    yield_write_wish(d, balance_arrears(d, s));
}

/*
 * While a container waits for its turn, its balance may reach the cap. What it would gain beyond the cap is lost. The
 * sum of these losses, as clock time, falls by half of the time that passes. So a loss of 10 ms in each 20 ms is
 * accepted for ever. A container that loses all of its time exceeds FORFEITED_MOST_NS after one second.
 */
void yield_forfeited(struct limited_device *d, const struct snapshot *s) {
    uint64_t before = atomic_load(&d->shared->turn_forfeited), at = atomic_load(&d->shared->turn_forfeited_at);
    uint64_t forgiven = s->now > at ? (s->now - at) / 2 : 0;
    uint64_t forfeited = s->forfeited + (before > forgiven ? before - forgiven : 0);
    if (forfeited > FORFEITED_MOST_NS) {
        turn_give_up(d, s->now, forfeited);
        forfeited = 0;
    }
    atomic_store(&d->shared->turn_forfeited, forfeited);
    atomic_store(&d->shared->turn_forfeited_at, s->now);
}
