/* Where launches wait until they may start. */
#include "compute/machine.h"

#include "fault.h"
#include "ledger/state.h"

enum { SHORTEST = 50000, AFTER_TURN = 100000, LULL = 20000000, LENGTHY = 20000000, MANY = 4 };
/*
 * Launches beyond this are longer than what others are granted at once by so much that it matters, and so few that the
 * device's rests between the others' grants do not.
 */
enum { LONG = QUANTUM / 2 };
enum { LET_BY = 256 };                  /* times, in one wait */
enum { NEXT_PATIENCE = 2000000 };       /* with one behind somebody who is silent */
#define TURNS_MOST UINT64_C(3000000000) /* however many others there are */

/* A wait of one launch. */
struct wait {
    struct machine *machine;
    uint64_t began;
    uint64_t others;                             /* since when nothing was completed */
    uint32_t done;                               /* of shared->done, at that time */
    uint32_t looked;                             /* likewise, before the last look at what is under way */
    uint64_t turn_word, turn_since, turns_began; /* whose turn it is, since when, and since when others have theirs */
    uint32_t ticket;
    uint32_t let_by;     /* how often others were let by, */
    int64_t theirs;      /* until they had so much; */
    int64_t others_had;  /* what they had at the last look, */
    uint64_t let_since;  /* and since when nothing was completed */
    uint32_t let_done;   /* of shared->done, at that time */
    uint64_t kept_since; /* the turn should have been given on */
    bool waiting, ticketed, without_turn;
    bool saved; /* waited for balance, which is more than a batch then */
};

/* Open marks are set first: what is finished must not look as if it was under way. */
static void begin_waiting(struct wait *w, uint64_t now) {
    struct machine *m = w->machine;
    if (!w->waiting) {
        compute_lock();
        runners_close(m);
        helper_wake();
        compute_unlock();
        w->waiting = true;
        w->began = now;
        (void)atomic_fetch_add(&m->own->waiting, 1);
        hami_step();
    }
    if (!w->ticketed) {
        w->ticketed = true;
        w->ticket = atomic_fetch_add(&m->shared->ticket, 1);
        hami_step();
    }
}

/* Moves the line on, unless somebody has; wakes who is to be served now, and whoever was passed over. */
static bool serve(struct machine *m, uint32_t serving, uint32_t next) {
    if (!atomic_compare_exchange_strong(&m->shared->serving, &serving, next)) {
        return false;
    }
    hami_step();
    if (next - serving > 1) {
        compute_wake(&m->shared->serving);
    } else if (atomic_load(&m->shared->ticket) != next) {
        compute_wake_number(&m->shared->serving, next);
    }
    return true;
}

static void leave_line(struct wait *w) {
    struct machine *m = w->machine;
    uint32_t serving = atomic_load(&m->shared->serving);
    while (w->ticketed && (int32_t)(w->ticket + 1 - serving) > 0 && !serve(m, serving, w->ticket + 1)) {
        serving = atomic_load(&m->shared->serving);
    }
    w->ticketed = false;
}

static void end_waiting(struct wait *w) {
    struct machine *m = w->machine;
    leave_line(w);
    if (w->waiting) {
        uint64_t now = compute_now(), took = now - w->began, longest = atomic_load(&m->shared->longest_wait);
        atomic_store(&m->shared->last_wait, now); /* first: between the two nobody may think that there is no demand */
        (void)atomic_fetch_sub(&m->own->waiting, 1);
        add_relaxed(&m->shared->waited, took);
        while (longest < took && !atomic_compare_exchange_weak(&m->shared->longest_wait, &longest, took)) {
        }
    }
}

/* Those who wait are served in order. One whose number is called and who is silent holds the others up for PATIENCE. */
static void stand_in_line(struct wait *w) {
    struct machine *m = w->machine;
    uint64_t since = compute_now();
    for (;;) {
        uint32_t serving = atomic_load(&m->shared->serving);
        uint64_t now = compute_now(), served = atomic_load(&m->shared->served);
        if ((int32_t)(w->ticket - serving) <= 0) {
            atomic_store(&m->shared->served, now);
            hami_step();
            return;
        }
        served = served > now ? 0 : served;
        if (now - served >= PATIENCE && now - since >= PATIENCE) {
            (void)hami_region_sweep(m->view);
            /* Whoever died in line had others of its process beside it: those wait for nobody either. */
            since = serve(m, serving, serving + 1) ? now - PATIENCE + NEXT_PATIENCE : since;
            continue;
        }
        uint64_t waited = now - since, left = waited < PATIENCE ? PATIENCE - waited : 0;
        uint64_t step = left < NEXT_PATIENCE ? NEXT_PATIENCE : left < PATIENCE / 4 ? left : PATIENCE / 4;
        compute_wait_number(&m->shared->serving, serving, w->ticket, step);
    }
}

/*
 * Processes of a container have the same of its time, however long their launches are: who was granted a long one lets
 * others by that had less, until they got nearly as much as it did: launches of like length, which vary, go in turn as
 * they come. True: it went to the end of the line.
 */
static bool let_by(struct wait *w, const struct standing *s) {
    const struct machine *m = w->machine;
    int64_t mine = load_relaxed(&m->last_amount);
    if (!w->ticketed || mine <= LONG || w->let_by >= LET_BY) {
        return false;
    }
    struct others others = balance_others(m, s->now);
    int64_t own = (int64_t)load_relaxed(&m->own->had);
    uint32_t done = atomic_load(&m->shared->done);
    if (w->let_by == 0) { /* other threads of ours will be granted more, which is not for this one to wait for */
        w->others_had = load_relaxed(&m->others_had);
        w->theirs = w->others_had + mine * others.asking * 3 / 4;
        w->let_since = s->now;
        w->let_done = done;
    }
    if (others.had < w->others_had) { /* who ends takes with it what it had */
        w->theirs -= w->others_had - others.had;
    }
    bool idly = w->let_by > 0 && others.had <= w->others_had; /* those let by did not take it either */
    w->others_had = others.had;
    if (w->let_done != done) {
        w->let_done = done;
        w->let_since = s->now;
    }
    bool last = atomic_load(&m->shared->ticket) == w->ticket + 1;
    bool rests = (last || idly || own <= others.least_waiting) && s->steady < MARK; /* the device would, meanwhile */
    if (own <= others.least || others.had >= w->theirs || rests || s->now - w->let_since >= PATIENCE) {
        return false;
    }
    w->let_by++;
    leave_line(w);
    if (last) { /* the others were granted some a moment ago, and will be back */
        compute_sleep_until(s->now + BATCH);
    }
    return true;
}

/* Who was away for long has no claim to what it did not ask for. */
static void note_grant(struct machine *m, int64_t amount, uint64_t now) {
    int64_t ns = balance_own(m, amount);
    int64_t forgotten = 0;
    if (ns > LONG) {
        struct others others = balance_others(m, now);
        int64_t own = (int64_t)load_relaxed(&m->own->had);
        forgotten = others.asking > 0 && others.least > own ? others.least - own : 0;
        store_relaxed(&m->others_had, others.had);
    }
    add_relaxed(&m->own->had, (uint64_t)(ns + forgotten));
    store_relaxed(&m->own->granted, (uint32_t)(now >> 16));
    store_relaxed(&m->last_amount, ns);
}

/* What was waited for was not the turn: whose it was meanwhile does not matter. */
static void not_for_turn(struct wait *w) {
    w->turn_since = w->turns_began = 0;
}

/* True after a wait: everything may have changed. */
static bool queued(struct wait *w, const struct standing *s) {
    struct machine *m = w->machine;
    uint32_t serving = atomic_load(&m->shared->serving);
    if (w->ticketed ? (int32_t)(w->ticket - serving) <= 0 : atomic_load(&m->shared->ticket) == serving) {
        if (w->ticketed && w->ticket == serving) {
            store_relaxed(&m->shared->served, s->now);
        }
        return false;
    }
    begin_waiting(w, s->now);
    not_for_turn(w);
    stand_in_line(w);
    return true;
}

/*
 * Who has to wait for balance waits for so much, for each of those that wait with it: they use it up in turn, and
 * changing from one context to the next takes device time too. That is no reason for a long wait.
 */
static int64_t worth_a_wait(const struct machine *m, const struct standing *s) {
    int64_t most = LULL * balance_share(m) / 100;
    int64_t worth = RESUME * (s->waiting < MANY ? s->waiting : MANY);
    worth = worth > most ? most : worth;
    return worth < RESUME ? RESUME : worth;
}

/* Pays first. */
static void wait_for_balance(struct wait *w, const struct standing *s) {
    struct machine *m = w->machine;
    begin_waiting(w, s->now);
    not_for_turn(w);
    w->saved = true;
    compute_lock();
    runners_close(m);
    helper_wake_by(turn_yield(m));
    helper_wake();
    compute_unlock();
    uint64_t due = (uint64_t)((int64_t)s->now + worth_a_wait(m, s) * 100 / balance_share(m) - balance_arrears(m, s));
    due = due < s->now + SHORTEST ? s->now + SHORTEST : due;
    compute_sleep_until(due > s->now + PATIENCE / 2 ? s->now + PATIENCE / 2 : due);
}

/* Waits for a completion. False: there was none for PATIENCE; what runs may be waiting for this very launch. */
static bool wait_for_completion(struct wait *w, const struct standing *s) {
    struct machine *m = w->machine;
    uint32_t done = w->looked; /* what is completed since then wakes us at once */
    if (w->others == 0 || w->done != done) {
        w->others = s->now;
        w->done = done;
    }
    begin_waiting(w, s->now);
    if (s->now - w->others >= PATIENCE) {
        add_relaxed(&m->shared->timeouts, 1);
        (void)hami_region_sweep(m->view);
        return false;
    }
    (void)atomic_fetch_add(&m->own->fed, 1);
    (void)atomic_fetch_add(&m->shared->expectant, 1);
    hami_step();
    compute_lock();
    runners_close(m);
    runners_hurry(m);
    helper_wake();
    compute_unlock();
    uint64_t left = PATIENCE - (s->now - w->others);
    compute_wait(&m->shared->done, done, left < PATIENCE / 2 ? left : PATIENCE / 2);
    (void)atomic_fetch_sub(&m->shared->expectant, 1);
    (void)atomic_fetch_sub(&m->own->fed, 1);
    return true;
}

static void give_up_turn(struct wait *w, uint64_t now, uint64_t since) {
    w->without_turn = true;
    turn_given_up(w->machine, now, now - since);
}

/* True once there is nothing to wait for: the turn is ours, or does not come, or there are none. */
static bool have_turn(struct wait *w, struct standing *s) {
    struct machine *m = w->machine;
    if (w->without_turn) {
        return true;
    }
    if (w->turns_began != 0) {
        turn_lost(m, s);
    }
    if (turn_expired(m, s)) {
        begin_waiting(w, s->now);
        compute_lock();
        uint64_t due = turn_yield(m);
        bool kept = due != UINT64_MAX;
        helper_wake_by(due);
        helper_wake();
        compute_unlock();
        if (kept) {
            w->kept_since = s->out > 0 || w->kept_since == 0 ? s->now : w->kept_since;
            if (s->now - w->kept_since >= PATIENCE) {
                give_up_turn(w, s->now, w->kept_since); /* somebody keeps us from handing it on */
                return true;
            }
            if (s->out == 0 || !wait_for_completion(w, s)) {
                compute_sleep_until(s->now + AFTER_TURN);
            }
            return false;
        }
    }
    enum turn turn = turn_take(m, s->now);
    if (turn == TURN_OURS) {
        return true;
    }
    begin_waiting(w, s->now);
    uint64_t word = atomic_load(turn_word(m));
    if (w->turn_since == 0 || w->turn_word != word) {
        w->turn_word = word;
        w->turn_since = s->now;
        w->turns_began = w->turns_began == 0 ? s->now : w->turns_began;
    }
    if (s->now - w->turn_since >= turn_patience(m) || s->now - w->turns_began >= TURNS_MOST) {
        give_up_turn(w, s->now, w->turns_began);
        return true;
    }
    turn_wait(m, s, turn);
    return false;
}

void gate_reserve(struct machine *m, int64_t ns, int64_t launch, uint64_t now) {
    (void)atomic_fetch_add(&m->own->out, ns);
    hami_step();
    note_grant(m, ns, now);
    store_relaxed(&m->shared->last_grant, now);
    add_relaxed(&m->shared->grants, 1);
    int64_t longest = (int64_t)load_relaxed(&m->shared->longest);
    longest = launch > longest ? launch : longest - (longest - launch) / 64;
    store_relaxed(&m->shared->longest, (uint64_t)longest);
}

/*
 * As much as was waited for at once: each of several that take turns at it is woken as seldom as can be. More than
 * RESUME only where all the others then get theirs within LULL, and no other container waits for the end of a turn.
 */
static int64_t batch(const struct wait *w, const struct standing *s, int64_t ns) {
    if (!(w->saved || w->ticketed) || ns != BATCH || s->balance < BATCH) {
        return ns;
    }
    const struct machine *m = w->machine;
    int64_t most = turn_company(m, s->now) ? RESUME : LULL * balance_share(m) / 100 / (s->waiting + 1);
    most = most > BATCH_MOST ? BATCH_MOST : most < RESUME ? RESUME : most;
    return s->balance < most ? s->balance : most;
}

/*
 * Whether enough is under way to keep the device fed: two launches, where they are long. Of those that are longer than
 * two turns one: others would wait for both, and the device rests only for a moment in between.
 */
static bool far_ahead(const struct machine *m, const struct standing *s, int64_t ns) {
    double launch = (double)ns * m->ratio;
    return (double)s->steady + launch > AHEAD && s->marks > (launch > LENGTHY ? 0 : 1);
}

bool gate_pass(struct machine *m, int64_t *amount, bool unknown, int64_t longest) {
    struct wait w = {.machine = m};
    int64_t ns = *amount;
    bool patient = true;
    for (;;) {
        struct standing s;
        w.looked = atomic_load(&m->shared->done);
        runners_look(m, compute_now());
        balance_read(m, &s);
        if (load_relaxed(&m->share) == 0) {
            gate_reserve(m, ns, longest, s.now);
            break; /* the limit is gone */
        }
        if (queued(&w, &s)) {
            continue;
        }
        if (s.balance <= 0) {
            wait_for_balance(&w, &s);
            (void)machines_refresh();
        } else if (patient && s.out > 0 && (unknown || far_ahead(m, &s, ns))) {
            patient = wait_for_completion(&w, &s);
        } else if (let_by(&w, &s)) {
            continue;
        } else if (have_turn(&w, &s)) {
            *amount = batch(&w, &s, ns);
            gate_reserve(m, *amount, longest, s.now);
            break;
        }
    }
    end_waiting(&w);
    return w.waiting;
}
