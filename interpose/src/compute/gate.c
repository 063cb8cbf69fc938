/* The gate (gate.h): launches wait here until they may start, and are granted device time. */
#include "compute/gate.h"

#include "compute/charging.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"
#include "fault.h"
#include "ledger/region.h"

enum {
    AHEAD_NS = 4000000,      /* so much work may be under way: the device stays busy until the helper wakes up */
    RESUME_NS = 1000000,     /* a launch that found no balance waits for this much of it for each waiting thread */
    RESUME_THREADS_MOST = 4, /* the wait for balance counts no more waiting threads than this */
    SLEEP_LEAST_NS = 50000,
    TURN_KEPT_SLEEP_NS = 100000,
    LULL_NS = 20000000,            /* no thread waits longer than this only to get a larger grant */
    LONG_LAUNCH_NS = 20000000,     /* launches longer than this start one at a time */
    UNEVEN_GRANT_NS = TURN_NS / 2, /* a process may have to step back after a grant longer than this */
    STEP_BACK_MOST = 256,          /* how often one launch may step back */
    NEXT_PATIENCE_NS = 2000000     /* the line passes over one silent thread after another, at this interval */
};
#define TURNS_MOST_NS UINT64_C(3000000000) /* the longest time that one launch waits for the turn */

/* The value of a word of the account, and since when the word has had it. */
struct gate_unchanged {
    uint64_t value;
    uint64_t since; /* 0: not known yet */
};

/* The wait of one launch in the gate. It lives on the stack of the waiting thread. */
struct gate_wait {
    struct limited_device *device;
    uint64_t began;  /* when the launch first had to wait; 0: it has not waited */
    bool has_ticket; /* `ticket` is valid */
    uint32_t ticket;

    /* Waiting for a completion. */
    uint32_t looked;            /* shared->completions, read before the snapshot of work under way was taken */
    struct gate_unchanged idle; /* shared->completions: since when no timing event has completed */

    /* Waiting for the turn. */
    struct gate_unchanged turn; /* shared->turn: since when the same container has the turn */
    uint64_t turns_began; /* since when other containers have had the turn, one after another; 0: no wait for it */
    uint64_t kept_since;  /* since when this container tries in vain to pass its own turn on */

    /* Stepping back, for fairness between processes. */
    uint32_t stepped_back;           /* how often this launch stepped back */
    int64_t peers_due;               /* the process steps back until its peers were granted this much in all, ns */
    int64_t peers_granted;           /* how much its peers had been granted at the last check, ns */
    struct gate_unchanged back_idle; /* like `idle`, but starts anew when this launch first steps back */
};

/* Updates `word` with the present `value`. Returns for how many ns the value has not changed. */
static uint64_t gate_unchanged_ns(struct gate_unchanged *word, uint64_t value, uint64_t now) {
    if (word->since == 0 || word->value != value) {
        *word = (struct gate_unchanged){value, now};
    }
    return now - word->since;
}

/* ---- the line: launches that wait draw tickets and are served in that order ---- */

/* Counts the launch as waiting and gives it a ticket. Closes all grants: their timing events tell when work ends. */
static void gate_begin_wait(struct gate_wait *w, uint64_t now) {
    struct limited_device *d = w->device;
    if (w->began == 0) {
        compute_lock();
        close_all(d);
        helper_wake();
        compute_unlock();
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

/*
 * Moves the line from ticket `serving` to ticket `next`, and wakes the thread with that ticket and all that were passed
 * over. The thread with ticket n waits with futex bit n % 32, so one wake reaches few other threads. False: another
 * thread moved the line first.
 */
static bool gate_serve(struct limited_device *d, uint32_t serving, uint32_t next) {
    if (!atomic_compare_exchange_strong(&d->shared->serving, &serving, next)) {
        return false;
    }
    hami_step();
    if (next - serving > 1) {
        compute_wake(&d->shared->serving, EVERY_BIT);
    } else if (atomic_load(&d->shared->ticket) != next) {
        compute_wake(&d->shared->serving, 1u << next % 32);
    }
    return true;
}

/* If the line is at this launch's ticket or before it, moves the line to the ticket after this launch's. */
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
    if (w->began != 0) {
        uint64_t now = compute_now(), took = now - w->began, longest = atomic_load(&d->shared->longest_wait);
        /* Stored before the count of waiters falls: otherwise the container would look idle for a moment. */
        atomic_store(&d->shared->last_wait_at, now);
        (void)atomic_fetch_sub(&d->own->waiters, 1);
        add_relaxed(&d->shared->waited, took);
        while (longest < took && !atomic_compare_exchange_weak(&d->shared->longest_wait, &longest, took)) {
        }
    }
}

/* Waits until this launch is first in line. Passes over the first thread if it was silent for WAIT_MOST_NS. */
static void gate_stand_in_line(struct gate_wait *w) {
    struct limited_device *d = w->device;
    uint64_t since = compute_now();
    uint32_t serving;
    while ((int32_t)(w->ticket - (serving = atomic_load(&d->shared->serving))) > 0) {
        uint64_t served = atomic_load(&d->shared->served_at), now = compute_now(), waited = now - since;
        if (waited >= WAIT_MOST_NS && (served > now || now - served >= WAIT_MOST_NS)) {
            (void)hami_region_sweep(d->view);
            /* A dead process may have had more threads in the line. Each of these is passed over after 2 ms. */
            since = gate_serve(d, serving, serving + 1) ? now - WAIT_MOST_NS + NEXT_PATIENCE_NS : since;
            continue;
        }
        uint64_t left = waited < WAIT_MOST_NS ? WAIT_MOST_NS - waited : 0;
        uint64_t step = later(earlier(left, WAIT_MOST_NS / 4), NEXT_PATIENCE_NS);
        compute_wait(&d->shared->serving, serving, 1u << w->ticket % 32, step);
    }
}

/* If other launches are before this one, waits in the line. True: it waited, so the caller must check all again. */
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
    w->turn.since = w->turns_began = 0;
    gate_stand_in_line(w);
    return true;
}

/*
 * Fairness between a container's processes. After a long grant, a process steps to the end of the line until its peers
 * have received enough: three quarters of that grant for each peer that asks for more. Example: after a grant of 10 ms
 * it lets two peers get 15 ms in all. They need not get the full 20 ms, so launches of similar length still start first
 * come, first served. A process does not step back if that would leave the device idle. True: this launch stepped back.
 */
static bool gate_step_back(struct gate_wait *w, const struct snapshot *s) {
    const struct limited_device *d = w->device;
    int64_t last_grant = load_relaxed(&d->last_grant);
    if (!w->has_ticket || last_grant <= UNEVEN_GRANT_NS || w->stepped_back >= STEP_BACK_MOST) {
        return false;
    }
    struct peers peers = balance_peers(d, s->now);
    int64_t own = (int64_t)load_relaxed(&d->own->granted_total);
    if (w->stepped_back == 0) { /* peers' grants count from this process's last grant, not from now */
        w->peers_granted = load_relaxed(&d->peers_granted);
        w->peers_due = w->peers_granted + last_grant * peers.asking * 3 / 4;
        w->back_idle.since = 0;
    }
    if (peers.granted < w->peers_granted) { /* a peer ended, so the sum has lost what that peer was granted */
        w->peers_due -= w->peers_granted - peers.granted;
    }
    w->peers_granted = peers.granted;
    uint64_t idle_ns = gate_unchanged_ns(&w->back_idle, atomic_load(&d->shared->completions), s->now);
    bool last = atomic_load(&d->shared->ticket) == w->ticket + 1;
    bool device_rests = (last || own <= peers.least_waiting) && s->steady < EVENT_EVERY_NS;
    if (own <= peers.least || peers.granted >= w->peers_due || device_rests || idle_ns >= WAIT_MOST_NS) {
        return false;
    }
    w->stepped_back++;
    gate_leave_line(w);
    if (last) { /* no peer is in the line now, but those that got a grant a moment ago will come back */
        compute_sleep_until(s->now + GRANT_NS);
    }
    return true;
}

/* ---- balance ---- */

/* How much balance a launch waits for: more if several threads wait, so that the device seldom starts from idle. */
static int64_t gate_balance_wanted(const struct limited_device *d, const struct snapshot *s) {
    int64_t most = LULL_NS * balance_share(d) / 100;
    int64_t wanted = RESUME_NS * (s->waiters < RESUME_THREADS_MOST ? s->waiters : RESUME_THREADS_MOST);
    wanted = wanted > most ? most : wanted;
    return wanted < RESUME_NS ? RESUME_NS : wanted;
}

static void gate_wait_for_balance(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    gate_begin_wait(w, s->now);
    w->turn.since = w->turns_began = 0;
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
 * True: with a launch of `ns`, more than AHEAD_NS of work would be under way, and the work that is under way already
 * keeps the device busy. Two timing events under way are enough for that. If the launch is longer than LONG_LAUNCH_NS,
 * one is: the device is idle for a moment between launches, but other containers need not wait for two long launches.
 */
static bool gate_is_far_ahead(const struct limited_device *d, const struct snapshot *s, int64_t ns) {
    double launch = (double)ns * d->charge_ratio;
    return (double)s->steady + launch > AHEAD_NS && s->events > (launch > LONG_LAUNCH_NS ? 0 : 1);
}

/*
 * Waits until a timing event completes. False: none completed for WAIT_MOST_NS. Then the launch must wait no longer for
 * work under way, because the running kernel may itself wait for this launch.
 */
static bool gate_wait_for_completion(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    uint64_t idle_ns = gate_unchanged_ns(&w->idle, w->looked, s->now);
    gate_begin_wait(w, s->now);
    if (idle_ns >= WAIT_MOST_NS) {
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
    /* The futex is compared with `looked`, so an event that completed since then ends this wait at once. */
    uint64_t left = WAIT_MOST_NS - idle_ns;
    compute_wait(&d->shared->completions, w->looked, EVERY_BIT, earlier(left, WAIT_MOST_NS / 2));
    (void)atomic_fetch_sub(&d->shared->waiting_for_event, 1);
    (void)atomic_fetch_sub(&d->own->waiting_for_event, 1);
    return true;
}

/* ---- the turn ---- */

/* Passes the turn on. False, after a short wait: work is still under way, or the page could not be changed. */
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
        turn_give_up(d, s->now, s->now - w->kept_since); /* another process keeps the page locked */
    } else if (s->reserved == 0 || !gate_wait_for_completion(w, s)) {
        compute_sleep_until(s->now + TURN_KEPT_SLEEP_NS);
    }
    return false;
}

/* True: this container has the turn, waited for it in vain, or there are no turns. False: check again, it waited. */
static bool gate_has_turn(struct gate_wait *w, const struct snapshot *s) {
    struct limited_device *d = w->device;
    if (w->turns_began != 0) {
        yield_forfeited(d, s);
    }
    if (yield_is_due(d, s) && !gate_give_turn_on(w, s)) {
        return false;
    }
    uint64_t patience = 0;
    enum turn turn = turn_take(d, s->now, &patience);
    if (turn == TURN_OURS) {
        return true;
    }
    gate_begin_wait(w, s->now);
    uint64_t turn_ns = gate_unchanged_ns(&w->turn, atomic_load(&d->shared->turn), s->now);
    w->turns_began = w->turns_began == 0 ? s->now : w->turns_began;
    if (turn_ns >= patience || s->now - w->turns_began >= TURNS_MOST_NS) {
        turn_give_up(d, s->now, s->now - w->turns_began);
        return true;
    }
    yield_wait(d, s, turn);
    return false;
}

/* ---- passing ---- */

/*
 * Adds a grant to the process's `granted_total`. A process that launched nothing for a while has no claim to the time
 * that its peers used meanwhile. So a long grant first raises its total to that of the asking peer with the least.
 */
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
 * How much to grant to a launch that asks for `ns`. After a wait, short launches get more than GRANT_NS, so that
 * waiting threads are woken less often. The grant is at most GRANT_MOST_NS, and small enough that all waiting threads
 * get grants within LULL_NS. Beside other containers it is at most RESUME_NS, because they wait for the turn's end.
 */
static int64_t gate_amount(const struct gate_wait *w, const struct snapshot *s, int64_t ns) {
    if (w->began == 0 || ns != GRANT_NS || s->balance < GRANT_NS) {
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
    bool patient = true;
    struct snapshot s;
    for (;;) {
        w.looked = atomic_load(&d->shared->completions);
        collect_if_due(d, compute_now());
        s = balance_read(d);
        if (load_relaxed(&d->share) == 0) { /* the limit was lifted meanwhile */
            break;
        }
        if (gate_queue(&w, &s)) {
            continue;
        }
        if (s.balance <= 0) {
            gate_wait_for_balance(&w, &s);
            (void)limited_devices_refresh();
        } else if (patient && s.reserved > 0 && (unknown || gate_is_far_ahead(d, &s, *amount))) {
            patient = gate_wait_for_completion(&w, &s);
        } else if (!gate_step_back(&w, &s) && gate_has_turn(&w, &s)) {
            *amount = gate_amount(&w, &s, *amount);
            break;
        }
    }
    gate_reserve(d, *amount, longest, s.now);
    gate_end_wait(&w);
    return w.began != 0;
}
