/* Implements its part of turn.h. */
#include "compute/charging.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"

enum {
    RETRY_NS = 200000,           /* another process is changing the page */
    WATCH_NS = 10000000,         /* the holder looks at the page this often while no container waits */
    WATCH_END_NS = 1500000,      /* while work is under way and another container waits: at most so long until a look */
    LOOK_EVERY_LONG_NS = 125000, /* ... if its launches are long, so that their end is not known well */
    LOOK_EVERY_LEAST_NS = 20000,
    SHORT_LAUNCH_NS = 700000, /* longer launches end too late or early for a hand-over before their end */
    EARLY_MARGIN_NS = 20000,
    WAIT_STEP_NS = 20000000,
    FORFEITED_MOST_NS = 500000000
};

/*
 * So long before its work ends a turn is handed on, since the next container needs that long to wake up. Later, the
 * device would be idle; earlier, time slices of both would mix.
 */
static int64_t yield_lead(const struct limited_device *d) {
    uint64_t woke = load_relaxed(&d->shared->turn_wake_ns);
    return woke == 0 ? EARLY_MOST_NS : (int64_t)earlier(woke + EARLY_MARGIN_NS, EARLY_MOST_NS);
}

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

/* Estimated time until what was granted is finished. */
static int64_t yield_remaining(struct limited_device *d, const struct snapshot *s) {
    uint64_t begun = later(atomic_load(&d->shared->frontier), balance_oldest(d, s->now));
    begun = later(begun, turn_frontier(d, s->now));
    int64_t since = s->now > begun ? (int64_t)(s->now - begun) : 0;
    bool nothing = s->events == 0 && s->reserved == 0;
    return nothing || s->expected < since ? 0 : s->expected - since;
}

static uint64_t yield_release(struct limited_device *d, uint64_t now) {
    return turn_release(d, now) ? UINT64_MAX : now + RETRY_NS;
}

uint64_t yield_turn(struct limited_device *d) {
    struct hami_turn_page seen;
    struct snapshot s;
    balance_read(d, &s);
    uint64_t last = atomic_load(&d->shared->last_grant_at);
    uint64_t rested = s.now > last && s.waiting_for_event == 0 ? s.now - last : 0;
    bool paused = rested > PAUSE_NS, finished = s.reserved == 0 && rested >= WATCH_NS;
    if (turn_is_ours(d) && !finished && turn_is_alone(d, s.now)) {
        return s.now + WATCH_NS;
    }
    if (turn_is_ours(d) && s.balance > 0 && !paused && turn_is_young(d, s.now)) {
        return s.now + PAUSE_NS; /* whatever the page says */
    }
    if (!turn_read_page(d, &seen, TURN_PAGE_WHOLE, s.now) || !turn_is_ours_on(d, &seen)) {
        return UINT64_MAX;
    }
    bool company = !turn_show_life(d, &seen, s.now);
    if (turn_neediest(d, &seen, s.now) == 0) {
        if (finished || (company && paused && s.reserved == 0)) {
            return yield_release(d, s.now);
        }
        return s.now + (company ? PAUSE_NS : WATCH_NS);
    }
    if (s.balance > 0 && !paused && !yield_is_over(d, &seen, &s)) {
        return s.now + PAUSE_NS;
    }
    /* Nothing more is started. The turn goes on when, or shortly before, what is under way ends. */
    close_all(d);
    balance_read(d, &s);
    bool brief = atomic_load(&d->shared->longest_launch) <= SHORT_LAUNCH_NS;
    int64_t left = yield_remaining(d, &s) - yield_lead(d);
    if (s.reserved == 0 || (brief && left <= 0)) {
        return yield_release(d, s.now);
    }
    left = brief ? left : LOOK_EVERY_LONG_NS;
    return s.now + earlier(later((uint64_t)left, LOOK_EVERY_LEAST_NS), WATCH_END_NS);
}

/* ---- waiting for it ---- */

/*
 * Says on the page whether a thread of the container waits. Several threads may say so at once: the last one to write
 * has looked after all of them changed the count, so what stays is right.
 */
static void yield_write_wish(struct limited_device *d, int64_t arrears) {
    enum { TRIES = 8 };
    unsigned slot = atomic_load(&d->turn_slot);
    struct hami_turn_wish wish = {arrears, balance_waits_for_turn(d)};
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t written = wish.waiting;
        (void)page_write(&d->page, TURN_SLOT_OFFSET(slot, wish), &wish, sizeof wish);
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
        page_wait(&d->page, TURN_SLOT_OFFSET(slot, futex), futex, WAIT_STEP_NS);
    }
    (void)atomic_fetch_sub(&d->own->waiting_for_turn, 1);
    yield_write_wish(d, balance_arrears(d, s));
}

/* Others' turns may take more than the balance can keep, but not for most of the time: half of it is forgiven. */
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
