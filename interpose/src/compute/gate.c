/* Implements gate.h. */
#include "compute/gate.h"

#include "compute/charging.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"
#include "fault.h"
#include "ledger/region.h"

enum {
    AHEAD_NS = 4000000,      /* so much work may be under way: it keeps the device busy while the helper wakes up */
    RESUME_NS = 1000000,     /* who waits for balance waits for so much, so that the device starts seldom from idle */
    RESUME_THREADS_MOST = 4, /* ... for each waiting thread, up to so many */
    SLEEP_LEAST_NS = 50000,
    TURN_KEPT_SLEEP_NS = 100000,
    LULL_NS = 20000000,            /* nobody waits longer than this only to get a larger grant */
    LONG_LAUNCH_NS = 20000000,     /* of launches this long only one is under way */
    UNEVEN_GRANT_NS = TURN_NS / 2, /* a process steps back after a grant this long */
    STEP_BACK_MOST = 256,          /* times in one wait */
    NEXT_PATIENCE_NS = 2000000     /* with the number behind a silent one */
};
#define TURNS_MOST_NS UINT64_C(3000000000) /* of waiting for a turn, however many other containers there are */

/* The wait of one launch. */
struct gate_wait {
    struct limited_device *device;
    bool waiting, has_ticket, without_turn;
    bool waited_for_balance; /* so the balance may now pay for more than one grant */
    uint64_t began;
    uint32_t ticket;

    /* For a completion. */
    uint32_t looked;     /* shared->completions before the last look at what is under way */
    uint32_t seen;       /* shared->completions when `idle_since` was set */
    uint64_t idle_since; /* since when nothing was completed */

    /* For the turn: its word, since when it is that word, and since when other containers have had the turn. */
    uint64_t turn_word, turn_since, turns_began;
    uint64_t kept_since; /* the turn should have been given on since then */

    /* Stepping back (fairness between processes). */
    uint32_t stepped_back;    /* times */
    int64_t peers_due;        /* until peers were granted so much in all */
    int64_t peers_granted;    /* at the last look */
    uint64_t back_idle_since; /* since when nothing was completed */
    uint32_t back_seen;       /* shared->completions at that time */
};

/* ---- the line ---- */

/* Grants are closed first, so that finished work does not look as if it was under way. */
static void gate_begin_wait(struct gate_wait *w, uint64_t now) {
    struct limited_device *d = w->device;
    if (!w->waiting) {
        compute_lock();
        close_all(d);
        helper_wake();
        compute_unlock();
        w->waiting = true;
        w->began = now;
        (void)atomic_fetch_add(&d->own->waiters, 1);
        hami_step();
    }
    if (!w->has_ticket) {
        w->has_ticket = true;
        w->ticket = atomic_fetch_add(&d->shared->ticket, 1);
        hami_step();
    }
}

/* Moves the line from `serving` to `next`. Wakes the next thread, and those that were passed over. False: it moved. */
static bool gate_serve(struct limited_device *d, uint32_t serving, uint32_t next) {
    if (!atomic_compare_exchange_strong(&d->shared->serving, &serving, next)) {
        return false;
    }
    hami_step();
    if (next - serving > 1) {
        compute_wake(&d->shared->serving);
    } else if (atomic_load(&d->shared->ticket) != next) {
        compute_wake_number(&d->shared->serving, next);
    }
    return true;
}

static void gate_leave_line(struct gate_wait *w) {
    struct limited_device *d = w->device;
    uint32_t serving = atomic_load(&d->shared->serving);
    while (w->has_ticket && (int32_t)(w->ticket + 1 - serving) > 0 && !gate_serve(d, serving, w->ticket + 1)) {
        serving = atomic_load(&d->shared->serving);
    }
    w->has_ticket = false;
}

static void gate_end_wait(struct gate_wait *w) {
    struct limited_device *d = w->device;
    gate_leave_line(w);
    if (w->waiting) {
        uint64_t now = compute_now(), took = now - w->began, longest = atomic_load(&d->shared->longest_wait);
        /* Stored before the count falls: else the container would look idle for a moment. */
        atomic_store(&d->shared->last_wait_at, now);
        (void)atomic_fetch_sub(&d->own->waiters, 1);
        add_relaxed(&d->shared->waited, took);
        while (longest < took && !atomic_compare_exchange_weak(&d->shared->longest_wait, &longest, took)) {
        }
    }
}

/* Waits for our number. A thread that is served and silent holds the others up for WAIT_MOST_NS. */
static void gate_stand_in_line(struct gate_wait *w) {
    struct limited_device *d = w->device;
    uint64_t since = compute_now();
    for (;;) {
        uint32_t serving = atomic_load(&d->shared->serving);
        uint64_t now = compute_now(), served = atomic_load(&d->shared->served_at);
        if ((int32_t)(w->ticket - serving) <= 0) {
            atomic_store(&d->shared->served_at, now);
            hami_step();
            return;
        }
        served = served > now ? 0 : served;
        if (now - served >= WAIT_MOST_NS && now - since >= WAIT_MOST_NS) {
            (void)hami_region_sweep(d->view);
            /* If a process died, more of its threads may stand behind: the next numbers get less patience. */
            since = gate_serve(d, serving, serving + 1) ? now - WAIT_MOST_NS + NEXT_PATIENCE_NS : since;
            continue;
        }
        uint64_t waited = now - since, left = waited < WAIT_MOST_NS ? WAIT_MOST_NS - waited : 0;
        uint64_t step = later(earlier(left, WAIT_MOST_NS / 4), NEXT_PATIENCE_NS);
        compute_wait_number(&d->shared->serving, serving, w->ticket, step);
    }
}

/* This wait is not for the turn, so it does not matter whose turn it is meanwhile. */
static void gate_not_for_turn(struct gate_wait *w) {
    w->turn_since = w->turns_began = 0;
}

/* True after a wait in line: everything may have changed. */
static bool gate_queue(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    uint32_t serving = atomic_load(&d->shared->serving);
    if (w->has_ticket ? (int32_t)(w->ticket - serving) <= 0 : atomic_load(&d->shared->ticket) == serving) {
        if (w->has_ticket && w->ticket == serving) {
            store_relaxed(&d->shared->served_at, s->now);
        }
        return false;
    }
    gate_begin_wait(w, s->now);
    gate_not_for_turn(w);
    gate_stand_in_line(w);
    return true;
}

/*
 * Fairness between a container's processes: after a long grant, a process steps to the end of the line until the others
 * have received three quarters of that time, each of those that want more. Launches of similar length stay first come,
 * first served. It does not step back if that would leave the device idle. True: it stepped back.
 */
static bool gate_step_back(struct gate_wait *w, const struct snapshot *s) {
    const struct limited_device *d = w->device;
    int64_t last_grant = load_relaxed(&d->last_grant);
    if (!w->has_ticket || last_grant <= UNEVEN_GRANT_NS || w->stepped_back >= STEP_BACK_MOST) {
        return false;
    }
    struct peers peers = balance_peers(d, s->now);
    int64_t own = (int64_t)load_relaxed(&d->own->granted_total);
    uint32_t completions = atomic_load(&d->shared->completions);
    if (w->stepped_back == 0) { /* counted from our last grant: later grants to our other threads do not matter */
        w->peers_granted = load_relaxed(&d->peers_granted);
        w->peers_due = w->peers_granted + last_grant * peers.asking * 3 / 4;
        w->back_idle_since = s->now;
        w->back_seen = completions;
    }
    if (peers.granted < w->peers_granted) { /* a process ended, and what it was granted is not counted any more */
        w->peers_due -= w->peers_granted - peers.granted;
    }
    w->peers_granted = peers.granted;
    if (w->back_seen != completions) {
        w->back_seen = completions;
        w->back_idle_since = s->now;
    }
    bool last = atomic_load(&d->shared->ticket) == w->ticket + 1;
    bool device_rests = (last || own <= peers.least_waiting) && s->steady < EVENT_EVERY_NS;
    if (own <= peers.least || peers.granted >= w->peers_due || device_rests ||
        s->now - w->back_idle_since >= WAIT_MOST_NS) {
        return false;
    }
    w->stepped_back++;
    gate_leave_line(w);
    if (last) { /* the peers were granted some a moment ago and will come back */
        compute_sleep_until(s->now + GRANT_NS);
    }
    return true;
}

/* ---- balance ---- */

/* How much balance to wait for: RESUME_NS for each waiting thread, within limits. Each switch of context costs time. */
static int64_t gate_balance_wanted(const struct limited_device *d, const struct snapshot *s) {
    int64_t most = LULL_NS * balance_share(d) / 100;
    int64_t wanted = RESUME_NS * (s->waiters < RESUME_THREADS_MOST ? s->waiters : RESUME_THREADS_MOST);
    wanted = wanted > most ? most : wanted;
    return wanted < RESUME_NS ? RESUME_NS : wanted;
}

static void gate_wait_for_balance(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    gate_begin_wait(w, s->now);
    gate_not_for_turn(w);
    w->waited_for_balance = true;
    compute_lock();
    close_all(d);
    compute_look_by(yield_turn(d));
    helper_wake();
    compute_unlock();
    int64_t missing = gate_balance_wanted(d, s) * 100 / balance_share(d) - balance_arrears(d, s);
    uint64_t due = later((uint64_t)((int64_t)s->now + missing), s->now + SLEEP_LEAST_NS);
    compute_sleep_until(earlier(due, s->now + WAIT_MOST_NS / 2));
}

/* ---- work under way ---- */

/*
 * Whether enough work is under way to keep the device busy: AHEAD_NS, or two launches if they are long. Of launches
 * longer than two turns one is enough: the device rests for a moment between them, but others would wait for both.
 */
static bool gate_is_far_ahead(const struct limited_device *d, const struct snapshot *s, int64_t ns) {
    double launch = (double)ns * d->charge_ratio;
    return (double)s->steady + launch > AHEAD_NS && s->events > (launch > LONG_LAUNCH_NS ? 0 : 1);
}

/* Waits for a completion. False: there was none for WAIT_MOST_NS; the running kernel may wait for this very launch. */
static bool gate_wait_for_completion(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    uint32_t completions = w->looked; /* a completion since that look wakes us at once */
    if (w->idle_since == 0 || w->seen != completions) {
        w->idle_since = s->now;
        w->seen = completions;
    }
    gate_begin_wait(w, s->now);
    if (s->now - w->idle_since >= WAIT_MOST_NS) {
        add_relaxed(&d->shared->timeouts, 1);
        (void)hami_region_sweep(d->view);
        return false;
    }
    (void)atomic_fetch_add(&d->own->waiting_for_event, 1);
    (void)atomic_fetch_add(&d->shared->waiting_for_event, 1);
    hami_step();
    compute_lock();
    close_all(d);
    close_hurry(d);
    helper_wake();
    compute_unlock();
    uint64_t left = WAIT_MOST_NS - (s->now - w->idle_since);
    compute_wait(&d->shared->completions, completions, earlier(left, WAIT_MOST_NS / 2));
    (void)atomic_fetch_sub(&d->shared->waiting_for_event, 1);
    (void)atomic_fetch_sub(&d->own->waiting_for_event, 1);
    return true;
}

/* ---- the turn ---- */

static void gate_give_up_turn(struct gate_wait *w, uint64_t now, uint64_t since) {
    w->without_turn = true;
    turn_give_up(w->device, now, now - since);
}

/* Our turn is over. True: it was given on. False: it is still ours; waits until it may be given on. */
static bool gate_give_turn_on(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    gate_begin_wait(w, s->now);
    compute_lock();
    uint64_t due = yield_turn(d);
    compute_look_by(due);
    helper_wake();
    compute_unlock();
    if (due == UINT64_MAX) {
        return true;
    }
    w->kept_since = s->reserved > 0 || w->kept_since == 0 ? s->now : w->kept_since;
    if (s->now - w->kept_since >= WAIT_MOST_NS) {
        gate_give_up_turn(w, s->now, w->kept_since); /* another process keeps us from giving it on */
    } else if (s->reserved == 0 || !gate_wait_for_completion(w, s)) {
        compute_sleep_until(s->now + TURN_KEPT_SLEEP_NS);
    }
    return false;
}

/* True: nothing to wait for, since the turn is ours, or does not come, or there are no turns. */
static bool gate_has_turn(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    if (w->without_turn) {
        return true;
    }
    if (w->turns_began != 0) {
        yield_forfeited(d, s);
    }
    if (yield_is_due(d, s) && !gate_give_turn_on(w, s)) {
        return w->without_turn;
    }
    enum turn turn = turn_take(d, s->now);
    if (turn == TURN_OURS) {
        return true;
    }
    gate_begin_wait(w, s->now);
    uint64_t word = atomic_load(turn_word(d));
    if (w->turn_since == 0 || w->turn_word != word) {
        w->turn_word = word;
        w->turn_since = s->now;
        w->turns_began = w->turns_began == 0 ? s->now : w->turns_began;
    }
    if (s->now - w->turn_since >= turn_patience(d) || s->now - w->turns_began >= TURNS_MOST_NS) {
        gate_give_up_turn(w, s->now, w->turns_began);
        return true;
    }
    yield_wait(d, s, turn);
    return false;
}

/* ---- passing ---- */

/* A process that was away has no claim to what it did not ask for: it is counted as granted, up to the least peer. */
static void gate_count_grant(struct limited_device *d, int64_t amount, uint64_t now) {
    int64_t ns = balance_counted_grant(d, amount), unclaimed = 0;
    if (ns > UNEVEN_GRANT_NS) {
        struct peers peers = balance_peers(d, now);
        int64_t own = (int64_t)load_relaxed(&d->own->granted_total);
        unclaimed = peers.asking > 0 && peers.least > own ? peers.least - own : 0;
        store_relaxed(&d->peers_granted, peers.granted);
    }
    add_relaxed(&d->own->granted_total, (uint64_t)(ns + unclaimed));
    store_relaxed(&d->own->granted_at, (uint32_t)(now >> 16));
    store_relaxed(&d->last_grant, ns);
}

void gate_reserve(struct limited_device *d, int64_t amount, int64_t longest, uint64_t now) {
    (void)atomic_fetch_add(&d->own->reserved, amount);
    hami_step();
    gate_count_grant(d, amount, now);
    store_relaxed(&d->shared->last_grant_at, now);
    add_relaxed(&d->shared->grants, 1);
    int64_t known = (int64_t)load_relaxed(&d->shared->longest_launch);
    known = longest > known ? longest : known - (known - longest) / 64;
    store_relaxed(&d->shared->longest_launch, (uint64_t)known);
}

/*
 * After a wait a larger grant, so that several threads which take turns are each woken seldom: up to GRANT_MOST_NS if
 * all the others then get theirs within LULL_NS, or RESUME_NS beside other containers, which wait for the turn's end.
 */
static int64_t gate_amount(const struct gate_wait *w, const struct snapshot *s, int64_t ns) {
    if (!(w->waited_for_balance || w->has_ticket) || ns != GRANT_NS || s->balance < GRANT_NS) {
        return ns;
    }
    const struct limited_device *d = w->device;
    bool company = turn_has_company(d, s->now);
    int64_t most = company ? RESUME_NS : LULL_NS * balance_share(d) / 100 / (s->waiters + 1);
    most = most > GRANT_MOST_NS ? GRANT_MOST_NS : most < RESUME_NS ? RESUME_NS : most;
    return s->balance < most ? s->balance : most;
}

bool gate_pass(struct limited_device *d, int64_t *amount, bool unknown, int64_t longest) {
    struct gate_wait w = {.device = d};
    int64_t ns = *amount;
    bool patient = true;
    for (;;) {
        struct snapshot s;
        w.looked = atomic_load(&d->shared->completions);
        collect_if_due(d, compute_now());
        balance_read(d, &s);
        if (load_relaxed(&d->share) == 0) { /* the limit is gone */
            gate_reserve(d, ns, longest, s.now);
            break;
        }
        if (gate_queue(&w, &s)) {
            continue;
        }
        if (s.balance <= 0) {
            gate_wait_for_balance(&w, &s);
            (void)limited_devices_refresh();
        } else if (patient && s.reserved > 0 && (unknown || gate_is_far_ahead(d, &s, ns))) {
            patient = gate_wait_for_completion(&w, &s);
        } else if (gate_step_back(&w, &s)) {
            continue;
        } else if (gate_has_turn(&w, &s)) {
            *amount = gate_amount(&w, &s, ns);
            gate_reserve(d, *amount, longest, s.now);
            break;
        }
    }
    gate_end_wait(&w);
    return w.waiting;
}
