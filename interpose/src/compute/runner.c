/*
 * Streams that were given work, the marks in them, and what completed marks cost.
 *
 * A runner holds what was granted to one stream of one context and not used yet; short launches take from it without a
 * lock. Every MARK of work an event is recorded: the mark. When it completes, the span from the frontier to its time
 * is charged and what was reserved for it is free again.
 */
#include "compute/machine.h"

#include "doors/hook.h"
#include "fault.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { RUNNERS = 256, MARKS = 16, PAIRS = 32, CONTEXTS = 16, SPARE_EVENTS = 64, COMPLETED = 64 };
enum { EVENT_DEFAULT = 0 };

/* When the first look comes after a mark should be complete, the next ones, and how old open work may get. */
enum { AFTER = 20000, SOON = 50000, LATEST = 80000, STALE = 1500000, LENGTHY_MARK = QUANTUM / 2 };

/*
 * The two clocks are compared so often, tried so often at first and half as often after each failure, and known from an
 * event whose completion is known so well; for that the helper looks so often from so long before its expected end.
 */
enum { COMPARE = 50000000, TRY = 5000000, CLOSE = 60000, STEP = 30000, STEPS = 10, UNSURE = 1000000000 };

/* What a pair of events means that tell the same time: half a step of their clock. */
enum { LEAST = 250 };

static CUstream const legacy = (CUstream)1;
static CUstream const per_thread = (CUstream)2;

struct mark {
    CUevent event;
    int64_t estimate;
    bool clean;            /* the estimate is a sum of known, short launches */
    bool known;            /* ... of known launches */
    bool apart;            /* it is one launch */
    bool slow;             /* it came later than what was launched before it should have taken */
    bool late;             /* the stream had run dry before the mark could be recorded */
    bool busy;             /* it had not */
    uint64_t until;        /* it should be complete once the container is charged for so much */
    uint64_t opened;       /* when the first of it was launched, in host time */
    struct spanned before; /* at that time */
    uint64_t recorded;     /* likewise */
    uint64_t unready;      /* when it was last seen not to be complete */
};

struct runner {
    /* Launches look at these without the lock; what they find may just have become another's. */
    _Atomic(struct machine *) machine; /* NULL: unused */
    _Atomic(CUcontext) context;
    _Atomic(CUstream) stream; /* NULL: ended */
    _Atomic int thread;       /* of a per-thread default stream, else 0 */
    _Atomic int64_t left;     /* granted and not used */
    _Atomic uint64_t turn;    /* in which it was granted */
    _Atomic uint32_t closed;  /* moves when what was granted is over: nobody may use it after the mark */
    int64_t granted;          /* since the last mark */
    int64_t seen;             /* `left` at the last look */
    uint64_t looked;          /* when it last changed */
    struct mark open;         /* the next mark, so far as launches since the last one make it */
    uint64_t ended;           /* the work of the last mark that completed */
    int64_t used;             /* until the last mark, of what was granted */
    int64_t aside;            /* of what was granted in turn `turn`, kept for the next marks */
    unsigned passing;         /* launches that are between gate and driver */
    unsigned first, count;    /* of marks */
    struct mark marks[MARKS];
};

/* A sampled launch. */
struct pair {
    CUcontext context;
    CUevent before, after; /* NULL: unused; not yet launched */
    uint64_t key;
    bool idle; /* the stream had nothing to do before */
};

/* Events of one context to use again, and the completed one that times are told from. */
struct context_events {
    CUcontext context;
    CUevent base;
    uint64_t base_time; /* of `base`, on the host's clock */
    uint64_t compared;  /* when that was last known for sure */
    struct tries {
        uint64_t last, pause;
    } towards, idle; /* by steps towards a mark, and on an idle device */
    unsigned steps;  /* since then */
    unsigned count;
    CUevent spare[SPARE_EVENTS];
};

struct completed {
    struct runner *runner;
    struct mark mark;
    uint64_t end;
};

static struct runner runners[RUNNERS];
static unsigned runner_count;
static struct pair pairs[PAIRS];
static struct context_events contexts[CONTEXTS];
_Atomic int runner_captures;
_Atomic uint32_t runner_epoch = 1;

static struct {
    CUresult (*create)(CUevent *, unsigned);
    CUresult (*destroy)(CUevent);
    CUresult (*record)(CUevent, CUstream);
    CUresult (*query)(CUevent);
    CUresult (*elapsed)(float *, CUevent, CUevent);
    CUresult (*stream_query)(CUstream);
    CUresult (*set_context)(CUcontext);
    bool ready, known;
} driver;

/* The library stays without marks, and so charges estimates, where a driver lacks any of these. */
static bool driver_ready(void) {
    if (!driver.ready) {
        driver.known = (driver.create = hami_cuda_function("cuEventCreate")) != NULL &&
                       (driver.destroy = hami_cuda_function("cuEventDestroy_v2")) != NULL &&
                       (driver.record = hami_cuda_function("cuEventRecord")) != NULL &&
                       (driver.query = hami_cuda_function("cuEventQuery")) != NULL &&
                       (driver.elapsed = hami_cuda_function("cuEventElapsedTime")) != NULL &&
                       (driver.stream_query = hami_cuda_function("cuStreamQuery")) != NULL &&
                       (driver.set_context = hami_cuda_function("cuCtxSetCurrent")) != NULL;
        driver.ready = true;
    }
    return driver.known;
}

bool runners_capturing(CUstream stream) {
    CUresult (*capturing)(CUstream, int *) = hami_cuda_function("cuStreamIsCapturing");
    int status = 0;
    /* An error: the stream is one that may not be used now, because others are captured. */
    return capturing != NULL && (capturing(stream, &status) != CUDA_SUCCESS || status != 0);
}

/* ---- events ---- */

static struct context_events *events_of(CUcontext context) {
    struct context_events *free_place = NULL;
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            return &contexts[i];
        }
        if (contexts[i].context == NULL && free_place == NULL) {
            free_place = &contexts[i];
        }
    }
    if (free_place != NULL) {
        free_place->context = context;
    }
    return free_place;
}

static CUevent event_take(CUcontext context) {
    struct context_events *events = driver_ready() ? events_of(context) : NULL;
    CUevent event = NULL;
    if (events == NULL) {
        return NULL;
    }
    if (events->count > 0) {
        return events->spare[--events->count];
    }
    return driver.create(&event, EVENT_DEFAULT) == CUDA_SUCCESS ? event : NULL;
}

static void event_give_back(CUcontext context, CUevent event) {
    struct context_events *events = events_of(context);
    if (events != NULL && events->count < SPARE_EVENTS) {
        events->spare[events->count++] = event;
    } else {
        (void)driver.destroy(event);
    }
}

/* ---- finding a runner ---- */

static int thread_number(void) {
    static _Atomic int threads;
    static _Thread_local int mine;
    if (mine == 0) {
        mine = atomic_fetch_add(&threads, 1) + 1;
    }
    return mine;
}

bool runner_is(const struct runner *r, CUcontext context, CUstream stream) {
    return load_relaxed(&r->stream) == stream && load_relaxed(&r->context) == context &&
           (stream != per_thread || load_relaxed(&r->thread) == thread_number());
}

struct machine *runner_machine(const struct runner *r) {
    return r->machine;
}

const _Atomic uint32_t *runner_closed(const struct runner *r) {
    return &r->closed;
}

/* Nothing is under way there, nor about to be. */
static bool idle(const struct runner *r) {
    return r->count == 0 && r->granted == 0 && r->passing == 0;
}

static bool reusable(const struct runner *r) {
    return r->machine == NULL || (atomic_load(&r->stream) == NULL && idle(r));
}

/*
 * The one to be made another stream's, or NULL. Nobody says when a thread ends and its stream with it: where there is
 * no other the one that was used least lately is. Its stream gets a new one should it come back.
 */
static struct runner *place_for_one(void) {
    struct runner *found = NULL;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < RUNNERS; i++) {
        struct runner *r = &runners[i];
        if (reusable(r)) {
            return r;
        }
        if (idle(r) && r->looked < least) {
            least = r->looked;
            found = r;
        }
    }
    return found;
}

void runners_changed(void) {
    if (atomic_fetch_add(&runner_epoch, 1) == UINT32_MAX) {
        atomic_store(&runner_epoch, 1);
    }
}

struct runner *runner_of(struct machine *m, CUcontext context, CUstream stream) {
    for (unsigned i = 0; i < runner_count; i++) {
        if (runners[i].machine != NULL && runner_is(&runners[i], context, stream)) {
            return &runners[i];
        }
    }
    struct runner *r = place_for_one();
    if (r != NULL) {
        r->machine = m;
        r->context = context;
        r->thread = stream == per_thread ? thread_number() : 0;
        atomic_store(&r->left, 0);
        atomic_store(&r->turn, 0);
        r->granted = r->seen = r->used = r->aside = 0;
        r->open.opened = r->ended = 0;
        r->looked = compute_now();
        r->first = r->count = r->passing = 0;
        atomic_store_explicit(&r->stream, stream, memory_order_release);
        runners_changed();
        unsigned place = (unsigned)(r - runners);
        runner_count = place >= runner_count ? place + 1 : runner_count;
    }
    return r;
}

/* ---- grants ---- */

int64_t runner_take(struct runner *r, int64_t least, int64_t most) {
    int64_t left = load_relaxed(&r->left);
    const struct machine *m = load_relaxed(&r->machine);
    if (load_relaxed(turn_word(m)) != load_relaxed(&r->turn)) {
        return 0;
    }
    while (left >= least) {
        int64_t taken = left < most ? left : most;
        if (atomic_compare_exchange_weak_explicit(&r->left, &left, left - taken, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return taken;
        }
    }
    return 0;
}

static void own_out(struct machine *m, int64_t change) {
    add_relaxed(&m->own->out, change);
    hami_step();
}

/* Since when the device surely works on what a runner was given; UINT64_MAX: that may have run dry. */
static uint64_t busy_since(const struct runner *r) {
    for (unsigned i = 0; i < r->count; i++) {
        const struct mark *mark = &r->marks[(r->first + i) % MARKS];
        if (mark->busy) {
            return mark->recorded;
        }
    }
    return UINT64_MAX;
}

/* When the oldest work of some was launched, and since when the device has surely been busy with it. */
struct under_way {
    uint64_t oldest, busy;
};
static const struct under_way nothing = {UINT64_MAX, UINT64_MAX};

/* What this process has under way, with `more` that was collected. */
static struct under_way under_way(struct machine *m, struct under_way more) {
    uint32_t streams = 0;
    for (unsigned i = 0; i < runner_count; i++) {
        const struct runner *r = &runners[i];
        if (r->machine == m && r->granted > 0) {
            more.oldest = earlier(more.oldest, r->open.opened);
        }
        if (r->machine == m && r->count > 0) {
            more.oldest = earlier(more.oldest, r->marks[r->first].opened);
            more.busy = earlier(more.busy, busy_since(r));
        }
        streams += r->machine == m && (r->granted > 0 || r->count > 0);
    }
    store_relaxed(&m->streams, streams);
    return more;
}

/* Publishes that. */
static void note_oldest(struct machine *m, struct under_way more) {
    struct under_way now = under_way(m, more);
    store_relaxed(&m->own->busy, now.busy == UINT64_MAX ? 0 : now.busy);
    store_relaxed(&m->own->since, now.oldest == UINT64_MAX ? 0 : now.oldest);
    hami_step();
}

void runner_grant(struct runner *r, int64_t granted, int64_t used, struct granted how) {
    if (r->granted == 0) {
        add_relaxed(&r->machine->own->marks, 1);
        hami_step();
        r->open.clean = r->open.known = true;
        r->open.slow = how.arrived > r->open.opened + (uint64_t)r->used / 16 * 17;
        r->open.opened = how.passed;
        r->open.before = balance_spanned(r->machine);
        r->granted = granted;
        note_oldest(r->machine, nothing);
    } else {
        r->granted += granted;
    }
    r->open.clean = r->open.clean && how.clean;
    r->open.known = r->open.known && how.known;
    r->looked = compute_now();
    if (!how.aside) {
        store_relaxed(&r->turn, load_relaxed(turn_word(r->machine)));
    }
    add_relaxed(&r->left, granted - used);
}

void runner_passing(struct runner *r, int change) {
    r->passing += (unsigned)change;
}

bool runner_regrant(struct runner *r, uint32_t closed, int64_t cost, struct granted how) {
    if (load_relaxed(&r->closed) == closed || atomic_load(&r->stream) == NULL) {
        return false;
    }
    own_out(r->machine, cost);
    runner_grant(r, cost, cost, how);
    return true;
}

void runner_refund(struct runner *r, int64_t used) {
    int64_t most = r->granted - load_relaxed(&r->left);
    if (most > 0) { /* not where it was closed meanwhile */
        add_relaxed(&r->left, used < most ? used : most);
    }
}

/* ---- marks ---- */

static void completed_mark(struct machine *m) {
    sub_relaxed(&m->own->marks, 1);
    hami_step();
    (void)atomic_fetch_add(&m->shared->done, 1);
    hami_step();
    if (atomic_load(&m->shared->expectant) != 0) {
        compute_wake(&m->shared->done);
    }
}

/* No mark could be set, or it told nothing: the estimate is the charge. */
static void charge_estimate(struct machine *m, int64_t estimate) {
    balance_charge(m, (uint64_t)estimate);
    add_relaxed(&m->shared->estimated, (uint64_t)estimate);
    own_out(m, -estimate);
    completed_mark(m);
}

static bool recordable(const struct runner *r, CUstream stream) {
    bool others = stream == per_thread && r->thread != thread_number();
    return stream != NULL && !others && r->count < MARKS && driver_ready() &&
           !(load_relaxed(&runner_captures) > 0 && runners_capturing(stream));
}

/* What the container has under way beside and before it is finished first, or with it. */
static uint64_t expected_end(const struct runner *r, const struct mark *mark) {
    return balance_end(r->machine, mark->opened, mark->until) + AFTER;
}

/*
 * Whether nobody has to know when a mark is complete but the next launch, which looks itself. In another process's span
 * the device's rest after a mark that nobody has looked at would count as work.
 */
static bool unhurried(const struct machine *m, uint64_t now) {
    return atomic_load(&m->shared->expectant) == 0 && !turn_company(m, now) && balance_single(m, now) &&
           load_relaxed(&runner_captures) == 0;
}

static void settle(void);

/* Sets the mark of what was used since the last and gives the rest of the grant back. */
static void close_runner(struct runner *r, bool apart) {
    if (r->granted == 0) {
        return;
    }
    CUstream stream = atomic_load(&r->stream);
    bool can = recordable(r, stream);
    if (!can && r->count >= MARKS) {
        return; /* stays open until a mark completes */
    }
    add_relaxed(&r->closed, 1);
    int64_t left = atomic_exchange(&r->left, 0), estimate = r->granted - left;
    r->granted = 0;
    own_out(r->machine, -left);
    uint64_t unused = (uint64_t)balance_own(r->machine, left);
    sub_relaxed(&r->machine->own->had, unused);
    r->used = estimate;
    if (estimate <= 0) {
        completed_mark(r->machine);
        note_oldest(r->machine, nothing);
        return;
    }
    struct mark mark = r->open;
    mark.estimate = estimate;
    mark.apart = apart;
    mark.event = can ? event_take(r->context) : NULL;
    if (mark.event != NULL) {
        bool asked = atomic_load(&runner_captures) == 0;
        CUresult dry = asked ? driver.stream_query(stream) : CUDA_ERROR_INVALID_VALUE;
        mark.late = dry == CUDA_SUCCESS;
        mark.busy = dry == CUDA_ERROR_NOT_READY;
        mark.recorded = compute_now();
        mark.until = balance_until(r->machine, mark.recorded);
        if (driver.record(mark.event, stream) == CUDA_SUCCESS) {
            r->marks[(r->first + r->count++) % MARKS] = mark;
            if (mark.busy) {
                note_oldest(r->machine, nothing);
            }
            if (mark.late) { /* there was nothing before it, so it should be complete */
                settle();
            }
            /* Whoever is next should not wait for us to look. */
            if (r->count > 0 && !unhurried(r->machine, mark.recorded)) {
                helper_wake_by(expected_end(r, &r->marks[r->first]));
            }
            return;
        }
        event_give_back(r->context, mark.event);
    }
    charge_estimate(r->machine, estimate);
    note_oldest(r->machine, nothing);
}

void runner_close_if_due(struct runner *r, enum mark_due due) {
    int64_t left = load_relaxed(&r->left);
    if (r->granted > 0 && (due != DUE_WHEN_FULL || r->granted - left >= MARK)) {
        close_runner(r, due == DUE_APART);
    }
}

bool runners_apart(const struct machine *m, uint64_t now) {
    return balance_lets_rest(m->own) && now < load_relaxed(&m->shared->last_wait) + IDLE && !balance_single(m, now);
}

int64_t runner_worth_apart(const struct runner *r, int64_t ns, uint64_t now) {
    double dense = now > r->open.opened ? (double)r->used / (double)(now - r->open.opened) : 1;
    int64_t amount = (int64_t)(dense * APART);
    amount = amount > BATCH ? BATCH : amount;
    return amount < ns ? ns : amount;
}

void runner_set_aside(struct runner *r, int64_t amount) {
    struct machine *m = r->machine;
    own_out(m, -amount);
    sub_relaxed(&m->own->had, (uint64_t)balance_own(m, amount));
    int64_t others = 0;
    uint64_t now = compute_now();
    for (unsigned i = 0; i < runner_count; i++) {
        const struct runner *other = &runners[i];
        others += other != r && other->machine == m && now < other->looked + STALE ? other->aside : 0;
    }
    int64_t most = others < BATCH_MOST ? BATCH_MOST - others : 0;
    r->aside = amount < most ? amount : most;
}

int64_t runner_from_aside(struct runner *r, int64_t ns, int64_t part, uint64_t now) {
    bool valid = now < r->looked + STALE && load_relaxed(turn_word(r->machine)) == load_relaxed(&r->turn);
    int64_t amount = r->aside < part ? r->aside : part;
    if (!valid || amount < ns) {
        r->aside = 0; /* the gate grants anew */
        return 0;
    }
    r->aside -= amount;
    return amount;
}

/* Events are made in the current context. */
static void close_in_context(struct runner *r, CUcontext current) {
    bool changed = r->context != current && driver_ready() && driver.set_context(r->context) == CUDA_SUCCESS;
    close_runner(r, false);
    if (changed) {
        (void)driver.set_context(current);
    }
}

static CUcontext current_context(void) {
    struct hami_context context;
    return hami_context_current(&context) ? context.handle : NULL;
}

void runners_close(struct machine *m) {
    CUcontext current = current_context();
    for (unsigned i = 0; i < runner_count; i++) {
        struct runner *r = &runners[i];
        if (r->machine != NULL && r->granted != 0 && (m == NULL || r->machine == m)) {
            close_in_context(r, current);
        }
    }
}

void runners_hurry(const struct machine *m) {
    for (unsigned i = 0; i < runner_count; i++) {
        const struct runner *r = &runners[i];
        if (r->machine == m && r->count > 0) {
            helper_wake_by(expected_end(r, &r->marks[r->first]));
        }
    }
}

/* ---- the device's clock and the host's ---- */

/* Times are told from this completed event from now on. */
static void tell_from(struct context_events *events, CUevent event, uint64_t time) {
    if (events->base != NULL) {
        event_give_back(events->context, events->base);
    }
    events->base = event;
    events->base_time = time;
}

/* The event was complete after `earliest` and before `latest`, which is now. True if that says enough; it is kept then.
 */
static bool set_clock(struct context_events *events, CUevent event, uint64_t earliest, uint64_t latest) {
    if (latest - earliest > CLOSE) {
        return false;
    }
    tell_from(events, event, earliest + (latest - earliest) / 2);
    events->compared = latest;
    events->towards = events->idle = (struct tries){latest, TRY};
    events->steps = 0;
    return true;
}

static bool clock_is_due(const struct context_events *events, const struct tries *tries, uint64_t now) {
    return now - events->compared >= COMPARE && now - tries->last >= tries->pause;
}

static void clock_not_told(struct tries *tries, uint64_t now) {
    tries->last = now;
    tries->pause = tries->pause < TRY ? TRY : tries->pause >= COMPARE / 2 ? COMPARE : 2 * tries->pause;
}

/*
 * An event in a stream with nothing to do, on a device with nothing to do, completes at once. If that is seen at once,
 * both clocks are known at one moment; where others keep the device busy it is not.
 */
void runner_compare_clocks(struct runner *r) {
    struct context_events *events = events_of(r->context);
    CUstream stream = atomic_load(&r->stream);
    uint64_t began = compute_now();
    if (events == NULL || !clock_is_due(events, &events->idle, began) || !recordable(r, stream) ||
        load_relaxed(&runner_captures) > 0 || /* of others: asking may spoil them */
        driver.stream_query(stream) != CUDA_SUCCESS) {
        return;
    }
    CUevent event = event_take(r->context);
    uint64_t now = began = compute_now();
    if (event == NULL) {
        return;
    }
    bool recorded = driver.record(event, stream) == CUDA_SUCCESS;
    CUresult status = CUDA_ERROR_NOT_READY;
    while (recorded && status == CUDA_ERROR_NOT_READY && now - began <= CLOSE) {
        status = driver.query(event);
        now = compute_now();
    }
    if (status != CUDA_SUCCESS || !set_clock(events, event, began, now)) {
        clock_not_told(&events->idle, now);
        event_give_back(r->context, event);
    }
}

/* ---- samples ---- */

/* The pair of a sample; of NULL, an unused one. */
static struct pair *pair_of(CUevent before) {
    for (unsigned i = 0; i < PAIRS; i++) {
        if (pairs[i].before == before) {
            return &pairs[i];
        }
    }
    return NULL;
}

CUevent runner_sample_begin(struct runner *r, uint64_t key) {
    CUstream stream = atomic_load(&r->stream);
    CUevent event = atomic_load(&runner_captures) > 0 ? NULL : event_take(r->context);
    if (event == NULL) {
        return NULL;
    }
    bool idle = driver.stream_query(stream) == CUDA_SUCCESS;
    struct pair *p = driver.record(event, stream) == CUDA_SUCCESS ? pair_of(NULL) : NULL;
    if (p == NULL) {
        event_give_back(r->context, event);
        return NULL;
    }
    *p = (struct pair){r->context, event, NULL, key, idle};
    return event;
}

void runner_sample_end(struct runner *r, CUevent before) {
    struct pair *p = before == NULL ? NULL : pair_of(before);
    CUevent after = p == NULL ? NULL : event_take(r->context);
    if (after == NULL || driver.record(after, atomic_load(&r->stream)) != CUDA_SUCCESS) {
        runner_sample_drop(r, before);
    } else {
        p->after = after;
    }
}

void runner_sample_drop(struct runner *r, CUevent before) {
    struct pair *p = before == NULL ? NULL : pair_of(before);
    if (p != NULL) {
        event_give_back(r->context, before);
        *p = (struct pair){0};
    }
}

static void learn_pairs(void) {
    for (unsigned i = 0; i < PAIRS; i++) {
        struct pair *p = &pairs[i];
        float ms = 0;
        if (p->after == NULL || driver.query(p->after) == CUDA_ERROR_NOT_READY) {
            continue;
        }
        if (driver.elapsed(&ms, p->before, p->after) == CUDA_SUCCESS) {
            cost_learn(p->key, ms > 0 ? (double)ms * 1e6 : LEAST, p->idle);
        }
        event_give_back(p->context, p->before);
        event_give_back(p->context, p->after);
        *p = (struct pair){0};
    }
}

/* ---- completion ---- */

/*
 * The host time of a completed event, told from an earlier one of the same context. What is seen complete ended before
 * now, and after it was recorded and last seen under way: that keeps the two clocks together. Where they could not be
 * compared for long, a little is added whenever a newer event becomes the one that times are told from, so that the
 * first of these bounds is always at work, also where the device's clock is slow or its times are cut off.
 */
static uint64_t time_of(struct runner *r, const struct mark *mark) {
    enum { RENEW = 100000000, ADDED = 5000 };
    struct context_events *events = events_of(r->context);
    uint64_t now = compute_now();
    float ms = 0;
    if (events == NULL) {
        (void)driver.destroy(mark->event);
        return now;
    }
    uint64_t earliest = mark->unready > mark->recorded ? mark->unready : mark->recorded;
    if (clock_is_due(events, &events->towards, now) && set_clock(events, mark->event, earliest, now)) {
        return events->base_time;
    }
    if (events->base == NULL || driver.elapsed(&ms, events->base, mark->event) != CUDA_SUCCESS) {
        tell_from(events, mark->event, now);
        return now;
    }
    int64_t elapsed = (int64_t)((double)ms * 1e6);
    int64_t end = (int64_t)events->base_time + elapsed;
    int64_t held = end > (int64_t)now ? (int64_t)now : end < (int64_t)earliest ? (int64_t)earliest : end;
    events->base_time = (uint64_t)((int64_t)events->base_time + held - end);
    if (elapsed > RENEW) {
        tell_from(events, mark->event, (uint64_t)(now - events->compared > UNSURE ? held + elapsed / ADDED : held));
    } else {
        event_give_back(r->context, mark->event);
    }
    return (uint64_t)held;
}

static double overlap(uint64_t from, uint64_t to, uint64_t other_from, uint64_t other_to) {
    uint64_t first = later(from, other_from), last = earlier(to, other_to);
    return last > first ? (double)(last - first) : 0;
}

/*
 * How much of the time from `from` to `end`, in which the mark's work ran, is charged by spans, or surely will be,
 * since other work has the device.
 */
static double spanned_since(const struct machine *m, const struct mark *mark, uint64_t others, uint64_t from,
                            uint64_t end) {
    struct spanned now = balance_spanned(m);
    uint64_t before = mark->before.to, busy = later(others, now.to);
    uint64_t begun = earlier(later(now.from, before), now.to), /* the spans up to now follow each other since then */
        latest = balance_sliced(begun - before, now.to - begun), sum = now.sum - mark->before.sum;
    double past = overlap(now.to - latest, now.to, from, end);
    if (begun > before && sum > latest) { /* those before, as if they were spread evenly */
        double dense = (double)(sum - latest) / (double)(begun - before);
        past += overlap(before, begun, from, end) * (dense < 1 ? dense : 1);
    }
    busy = later(busy, from);
    return past + (busy < end ? (double)balance_sliced(busy - now.to, end - busy) : 0);
}

/*
 * What is charged where work ended at some moment before the mark, or with rests in between: what it was estimated to
 * take, less what of it ran in time that is charged by spans, which are others'. From when the mark was recorded on the
 * device was at work, if it was not late: that is a span.
 */
static uint64_t charge_in_part(struct machine *m, const struct mark *mark, struct under_way rest, uint64_t turns,
                               uint64_t from, uint64_t end) {
    uint64_t at_work = earlier(balance_others_at_work(m), balance_lets_rest(m->own) ? rest.busy : rest.oldest);
    uint64_t until = mark->busy ? earlier(later(mark->recorded, from), end) : end;
    double time = (double)(until - from), sure = (double)(end - until),
           estimate = (double)mark->estimate * m->span_ratio;
    double others = time > 0 ? spanned_since(m, mark, at_work, from, until) / time : 1;
    others = others < 1 ? others : 1;
    uint64_t span = until < end ? balance_span(m, later(earlier(at_work, until), turns), end) : 0;
    /* Of the estimate, what was over by then: all but what took the time after it, unless others had that too. */
    double alone = estimate > sure ? estimate - sure : 0, beside = estimate * time / (time + sure);
    double charge = (alone + (beside - alone) * others) * (1 - others);
    charge = mark->late && charge > time * (1 - others) ? time * (1 - others) : charge;
    add_relaxed(&m->shared->estimated, (uint64_t)charge);
    return span + (uint64_t)charge;
}

/* Whether the device may have rested before the mark was set: what comes more slowly than it runs leaves it idle. */
static bool rested(struct machine *m, const struct mark *mark, uint64_t span) {
    uint64_t estimate = (uint64_t)mark->estimate;
    if (!mark->clean) {
        m->slow -= mark->busy ? m->slow * 0.1 : 0;           /* rests between long launches are not looked for */
        return mark->late && mark->known && span > estimate; /* the process stood still meanwhile */
    }
    bool slow = mark->recorded - mark->opened > estimate + estimate / 16;
    m->slow += ((mark->apart ? mark->slow : slow) - m->slow) * 0.1;
    return slow || mark->late;
}

/* `rest`: what else of this process is under way. */
static void settle_mark(struct runner *r, const struct mark *mark, struct under_way rest, uint64_t end) {
    struct machine *m = r->machine;
    uint64_t estimate = (uint64_t)mark->estimate, from = later(mark->opened, r->ended);
    uint64_t turns = turn_frontier(m, end); /* before it moves to this end */
    uint64_t start = later(balance_at_work(m, from), turns);
    uint64_t to = later(balance_spanned(m).to, start), span = end > to ? end - to : 0;
    r->ended = end;
    balance_complete(m, end);
    turn_move_frontier(m, end);
    bool in_part = rested(m, mark, span) && end > from;
    span = in_part ? charge_in_part(m, mark, rest, turns, from, end) : balance_span(m, start, end);
    if (mark->known && !mark->late) {
        double ratio = span < estimate ? (double)span / (double)estimate : 1;
        double before = m->ratio; /* changes only here, with the lock */
        m->ratio = before + (ratio - before) * 0.05;
        m->span_ratio += in_part ? 0 : (ratio - m->span_ratio) * 0.05;
    }
    uint32_t hidden = (uint32_t)((1 - m->ratio) * UINT16_MAX) | (m->slow > 0.5 ? HAMI_RESTS : 0);
    store_relaxed(&m->own->hidden, hidden);
    if (balance_silent(m->own, compute_now())) { /* nobody counted on it, so others' spans may have left it out */
        uint64_t least = (uint64_t)((double)estimate * m->ratio);
        add_relaxed(&m->shared->estimated, least > span ? least - span : 0);
        span = least > span ? least : span;
    }
    balance_charge(m, span);
    own_out(m, -mark->estimate);
    completed_mark(m);
}

static unsigned collect(struct completed found[COMPLETED], bool *failed) {
    unsigned count = 0;
    for (unsigned i = 0; i < runner_count; i++) {
        struct runner *r = &runners[i];
        while (r->machine != NULL && r->count > 0 && count < COMPLETED) {
            struct mark mark = r->marks[r->first];
            uint64_t asked = compute_now();
            CUresult status = driver.query(mark.event);
            if (status == CUDA_ERROR_NOT_READY) {
                r->marks[r->first].unready = asked;
                break;
            }
            r->first = (r->first + 1) % MARKS;
            r->count--;
            if (status != CUDA_SUCCESS) { /* the device or context is gone */
                charge_estimate(r->machine, mark.estimate);
                *failed = true;
                continue;
            }
            found[count++] = (struct completed){r, mark, time_of(r, &mark)};
        }
    }
    return count;
}

static int by_end(const void *a, const void *b) {
    const struct completed *first = a, *second = b;
    return (first->end > second->end) - (first->end < second->end);
}

/* A stream that was given work and then left alone gets its mark here. */
static bool quiet(struct runner *r, uint64_t now) {
    int64_t left = load_relaxed(&r->left);
    if (left != r->seen) {
        r->seen = left;
        r->looked = now;
        store_relaxed(&r->machine->shared->last_grant, now); /* and still being used */
    }
    return now - r->looked >= STALE;
}

/* Looks that come close to a mark's end on both sides tell the clocks; true while they are wanted. */
static bool step_towards(const struct runner *r, uint64_t now, uint64_t *end) {
    struct context_events *events = events_of(r->context);
    if (events == NULL || !clock_is_due(events, &events->towards, now)) {
        return false;
    }
    *end -= AFTER + STEP;
    if (now >= *end && ++events->steps > STEPS) {
        clock_not_told(&events->towards, now);
        events->steps = 0;
    }
    return true;
}

/*
 * A long launch may end long before it should; until that is seen, other processes of the container take the device to
 * be at work.
 */
static uint64_t long_look_at(const struct runner *r, uint64_t now) {
    const struct mark *mark = &r->marks[r->first];
    uint64_t estimate = (uint64_t)mark->estimate, soonest = mark->opened + estimate / 4 * 3;
    if (estimate < LENGTHY_MARK || balance_single(r->machine, now)) {
        return UINT64_MAX;
    }
    return later(soonest, now + estimate / 16);
}

/*
 * When to look at a runner's work again. Those with whom we take turns, and launches that wait for a completion, should
 * know soon; where there are none, a look before all that the container has under way should be complete tells nothing
 * that would change anything.
 */
static uint64_t next_look_at(const struct runner *r, uint64_t now) {
    const struct machine *m = r->machine;
    if (r->count == 0) {
        return now + STALE;
    }
    bool company = turn_company(m, now), idly = unhurried(m, now);
    uint64_t most = now + (company || r->granted > 0 ? STALE : SILENT_AFTER / 2);
    uint64_t end = expected_end(r, &r->marks[r->first]);
    if (!company && atomic_load(&m->shared->expectant) == 0) {
        end = later(end, balance_end(m, now, balance_until(m, now)) + AFTER);
        end = earlier(end, long_look_at(r, now));
    }
    uint64_t over = now > end ? (now - end) / 4 : 0;
    uint64_t soon = now + (over < SOON ? SOON : over > LATEST ? LATEST : over);
    if (step_towards(r, now, &end)) {
        soon = now + STEP;
    } else if (idly) {
        return most;
    }
    return end < soon ? soon : end > most ? most : end;
}

static uint64_t next_look(uint64_t now) {
    uint64_t due = UINT64_MAX;
    for (unsigned i = 0; i < runner_count; i++) {
        const struct runner *r = &runners[i];
        if (r->machine != NULL && (r->count > 0 || r->granted > 0)) {
            due = earlier(due, next_look_at(r, now));
        }
    }
    return due;
}

static struct under_way oldest_of(const struct machine *m, const struct completed *found, unsigned count) {
    struct under_way first = nothing;
    for (unsigned i = 0; i < count; i++) {
        if (found[i].runner->machine == m) {
            first.oldest = earlier(first.oldest, found[i].mark.opened);
            first.busy = found[i].mark.busy ? earlier(first.busy, found[i].mark.recorded) : first.busy;
        }
    }
    return first;
}

static void settle(void) {
    struct completed found[COMPLETED];
    bool failed = false;
    unsigned count = collect(found, &failed);
    if (count > 1) {
        qsort(found, count, sizeof found[0], by_end);
    }
    for (unsigned i = 0; i < count; i++) {
        struct machine *m = found[i].runner->machine;
        struct under_way rest = under_way(m, oldest_of(m, found + i + 1, count - i - 1));
        /* What is settled began before the device may have rested. */
        note_oldest(m, oldest_of(m, found + i, count - i));
        settle_mark(found[i].runner, &found[i].mark, rest, found[i].end);
    }
    for (unsigned i = 0; i < count; i++) {
        note_oldest(found[i].runner->machine, nothing);
    }
    for (unsigned i = 0; i < runner_count && failed; i++) {
        if (runners[i].machine != NULL) {
            note_oldest(runners[i].machine, nothing);
        }
    }
    learn_pairs();
}

void runners_look(struct machine *m, uint64_t now) {
    bool due = false;
    if (load_relaxed(&m->own->marks) == 0 || !unhurried(m, now)) {
        return;
    }
    compute_lock();
    for (unsigned i = 0; i < runner_count && !due; i++) {
        const struct runner *r = &runners[i];
        due = r->machine == m && r->count > 0 && now >= expected_end(r, &r->marks[r->first]) - AFTER;
    }
    if (due && driver_ready()) {
        settle();
    }
    compute_unlock();
}

uint64_t runners_settle(uint64_t now) {
    if (!driver_ready()) {
        return UINT64_MAX;
    }
    settle();
    for (unsigned i = 0; i < runner_count; i++) {
        struct runner *r = &runners[i];
        if (r->machine != NULL && r->granted > 0 && quiet(r, now) && driver.set_context(r->context) == CUDA_SUCCESS) {
            close_runner(r, false);
        }
    }
    return next_look(now);
}

/* ---- ends ---- */

static void drop_runner(struct runner *r) {
    struct machine *m = r->machine;
    add_relaxed(&r->closed, 1);
    int64_t left = atomic_exchange(&r->left, 0);
    if (r->granted > 0) {
        own_out(m, -left);
        charge_estimate(m, r->granted - left);
        r->granted = 0;
    }
    for (; r->count > 0; r->count--, r->first = (r->first + 1) % MARKS) {
        charge_estimate(m, r->marks[r->first].estimate);
    }
    r->aside = 0;
    atomic_store(&r->stream, NULL);
    note_oldest(m, nothing);
}

static void drop_events(CUcontext context) {
    for (unsigned i = 0; i < PAIRS; i++) {
        if (pairs[i].context == context) {
            pairs[i] = (struct pair){0};
        }
    }
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            memset(&contexts[i], 0, sizeof contexts[i]);
        }
    }
}

void runners_drop(CUcontext context, CUstream stream) {
    for (unsigned i = 0; i < runner_count; i++) {
        struct runner *r = &runners[i];
        if (r->machine == NULL) {
            continue;
        }
        if (context != NULL && r->context == context) {
            drop_runner(r);
        } else if (context == NULL && stream != legacy && stream != per_thread && stream != NULL &&
                   atomic_load(&r->stream) == stream) {
            close_in_context(r, current_context()); /* its events live on */
            atomic_store(&r->stream, NULL);
        }
    }
    if (context != NULL) {
        drop_events(context);
    }
    runners_changed(); /* streams without a limit are remembered too, and their handles come again */
}

void runners_reset(void) {
    memset(runners, 0, sizeof runners);
    memset(pairs, 0, sizeof pairs);
    memset(contexts, 0, sizeof contexts);
    runner_count = 0;
    atomic_store(&runner_captures, 0);
    runners_changed();
}
