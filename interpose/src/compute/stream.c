/* Implements stream.h: the table of accounts, their grants, and what they have under way. */
#include "compute/stream.h"

#include "compute/tuning.h"
#include "compute/wait.h"
#include "fault.h"

#include <string.h>

enum { STREAMS = 256 };

static struct stream_account accounts[STREAMS];
static unsigned account_count; /* accounts from this index on were never used */

/* ---- finding an account ---- */

struct stream_account *stream_next(struct stream_account *a, const struct limited_device *d) {
    for (a = a == NULL ? accounts : a + 1; a < accounts + account_count; a++) {
        if (d == NULL || a->device == d) {
            return a;
        }
    }
    return NULL;
}

/* This thread's number, from 1. A thread id of the kernel would not do: new threads get the ids of ended ones. */
static int stream_thread_number(void) {
    static _Atomic int threads;
    static _Thread_local int number;
    if (number == 0) {
        number = atomic_fetch_add(&threads, 1) + 1;
    }
    return number;
}

bool stream_is(const struct stream_account *a, CUcontext context, CUstream stream) {
    return load_relaxed(&a->stream) == stream && load_relaxed(&a->context) == context &&
           (stream != CU_STREAM_PER_THREAD || load_relaxed(&a->thread) == stream_thread_number());
}

/*
 * Finds an account for a new stream: one whose stream has ended, or the idle one that was used longest ago. Such an
 * idle stream may be gone, since CUDA does not tell when a thread and its per-thread default stream end. If it is used
 * again, it gets another account. NULL: no account is idle.
 */
static struct stream_account *stream_free_account(void) {
    struct stream_account *found = NULL;
    uint64_t least = UINT64_MAX;
    for (struct stream_account *a = accounts; a < accounts + STREAMS; a++) {
        bool idle = a->count == 0 && a->granted == 0 && a->in_driver == 0;
        uint64_t used_at = atomic_load(&a->stream) == NULL ? 0 : a->used_at;
        if (idle && used_at < least) {
            least = used_at;
            found = a;
        }
    }
    return found;
}

struct stream_account *stream_account_of(struct limited_device *d, CUcontext context, CUstream stream) {
    struct stream_account *a = NULL;
    while ((a = stream_next(a, NULL)) != NULL) {
        if (stream_is(a, context, stream)) {
            return a;
        }
    }
    a = stream_free_account();
    if (a != NULL) {
        a->device = d;
        a->context = context;
        a->thread = stream == CU_STREAM_PER_THREAD ? stream_thread_number() : 0;
        atomic_store(&a->turn, 0);
        a->seen = a->used = a->aside = 0;
        a->open.opened = a->ended = 0;
        a->used_at = compute_now();
        /* Release: a thread that sees the new stream also sees the fields set above. */
        atomic_store_explicit(&a->stream, stream, memory_order_release);
        limited_device_end_epoch();
        unsigned place = (unsigned)(a - accounts);
        account_count = place >= account_count ? place + 1 : account_count;
    }
    return a;
}

/* ---- grants ---- */

/* Relaxed loads are enough: a launch that takes time while the grant is being closed counts as one before the close. */
int64_t stream_take(struct stream_account *a, int64_t least, int64_t most) {
    int64_t left = load_relaxed(&a->left);
    const struct limited_device *d = load_relaxed(&a->device);
    if (load_relaxed(&d->shared->turn) != load_relaxed(&a->turn)) {
        return 0;
    }
    while (left >= least) {
        int64_t taken = left < most ? left : most;
        if (atomic_compare_exchange_weak_explicit(&a->left, &left, left - taken, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            return taken;
        }
    }
    return 0;
}

void stream_reserve(struct limited_device *d, int64_t change) {
    add_relaxed(&d->own->reserved, change);
    hami_step();
}

void stream_grant(struct stream_account *a, int64_t granted, int64_t used, struct grant how) {
    a->granted += granted;
    if (a->granted == granted) { /* no grant was open before */
        add_relaxed(&a->device->own->events, 1);
        hami_step();
        a->open.clean = a->open.known = true;
        a->open.slow = how.arrived > a->open.opened + (uint64_t)a->used / 16 * 17;
        a->open.opened = how.passed;
        a->open.spanned_to = balance_span_line(a->device).to;
        stream_publish_under_way(a->device, NOTHING_UNDER_WAY);
    }
    a->open.clean = a->open.clean && how.clean;
    a->open.known = a->open.known && how.known;
    a->used_at = compute_now();
    if (!how.aside) {
        store_relaxed(&a->turn, load_relaxed(&a->device->shared->turn));
    }
    add_relaxed(&a->left, granted - used);
}

bool stream_regrant(struct stream_account *a, uint32_t closed, int64_t cost, struct grant how) {
    if (load_relaxed(&a->closed) == closed || atomic_load(&a->stream) == NULL) {
        return false;
    }
    stream_reserve(a->device, cost);
    stream_grant(a, cost, cost, how);
    return true;
}

void stream_refund(struct stream_account *a, int64_t used) {
    int64_t most = a->granted - load_relaxed(&a->left);
    if (most > 0) { /* 0: the grant has been closed */
        add_relaxed(&a->left, used < most ? used : most);
    }
}

void stream_event_done(struct limited_device *d) {
    sub_relaxed(&d->own->events, 1);
    hami_step();
    (void)atomic_fetch_add(&d->shared->completions, 1);
    hami_step();
    if (atomic_load(&d->shared->waiting_for_event) != 0) {
        compute_wake(&d->shared->completions, EVERY_BIT);
    }
}

void stream_charge_estimate(struct limited_device *d, int64_t estimate) {
    balance_charge(d, (uint64_t)estimate);
    add_relaxed(&d->shared->estimated, (uint64_t)estimate);
    stream_reserve(d, -estimate);
    stream_event_done(d);
    stream_publish_under_way(d, NOTHING_UNDER_WAY);
}

struct timing_event stream_drop_event(struct stream_account *a) {
    struct timing_event event = *stream_first_event(a);
    a->first = (a->first + 1) % STREAM_EVENTS;
    a->count--;
    return event;
}

CUstream stream_to_record(const struct stream_account *a) {
    CUstream stream = atomic_load(&a->stream);
    bool other_thread = stream == CU_STREAM_PER_THREAD && a->thread != stream_thread_number();
    if (stream == NULL || other_thread || a->count >= STREAM_EVENTS) {
        return NULL;
    }
    return load_relaxed(&event_captures) > 0 && event_stream_is_captured(stream) ? NULL : stream;
}

void stream_compare_clocks(const struct stream_account *a) {
    CUstream stream = stream_to_record(a);
    if (stream != NULL) {
        event_compare_clocks(a->context, stream);
    }
}

/* ---- bursty processes (ADR 11) ---- */

bool stream_events_stand_apart(const struct limited_device *d, uint64_t now) {
    return balance_is_bursty(d->own) && now < load_relaxed(&d->shared->last_wait_at) + IDLE_AFTER_NS &&
           !balance_is_only_process(d, now);
}

int64_t stream_amount_apart(const struct stream_account *a, int64_t ns, uint64_t now) {
    double density = now > a->open.opened ? (double)a->used / (double)(now - a->open.opened) : 1;
    int64_t amount = (int64_t)(density * BURSTY_EVENT_EVERY_NS);
    amount = amount > GRANT_NS ? GRANT_NS : amount;
    return amount < ns ? ns : amount;
}

/* All streams of the process together have at most GRANT_MOST_NS set aside. */
void stream_set_aside(struct stream_account *a, int64_t amount) {
    struct limited_device *d = a->device;
    stream_reserve(d, -amount);
    sub_relaxed(&d->own->granted_total, (uint64_t)balance_counted_grant(d, amount));
    int64_t others = 0;
    uint64_t now = compute_now();
    for (struct stream_account *other = NULL; (other = stream_next(other, d)) != NULL;) {
        others += other != a && now < other->used_at + QUIET_AFTER_NS ? other->aside : 0;
    }
    int64_t most = others < GRANT_MOST_NS ? GRANT_MOST_NS - others : 0;
    a->aside = amount < most ? amount : most;
}

int64_t stream_take_aside(struct stream_account *a, int64_t ns, int64_t part, uint64_t now) {
    bool valid = now < a->used_at + QUIET_AFTER_NS && load_relaxed(&a->device->shared->turn) == load_relaxed(&a->turn);
    int64_t amount = a->aside < part ? a->aside : part;
    if (!valid || amount < ns) {
        a->aside = 0; /* the launch then asks the gate for a new grant */
        return 0;
    }
    a->aside -= amount;
    return amount;
}

/* ---- what this process has under way ---- */

struct under_way stream_add_event(struct under_way more, const struct timing_event *event) {
    more.oldest = earlier(more.oldest, event->opened);
    more.busy = event->busy ? earlier(more.busy, event->recorded) : more.busy;
    return more;
}

struct under_way stream_under_way(struct limited_device *d, struct under_way more) {
    uint32_t busy_streams = 0;
    for (struct stream_account *a = NULL; (a = stream_next(a, d)) != NULL;) {
        if (a->granted > 0) {
            more.oldest = earlier(more.oldest, a->open.opened);
        }
        for (unsigned i = 0; i < a->count; i++) {
            more = stream_add_event(more, &a->events[(a->first + i) % STREAM_EVENTS]);
        }
        busy_streams += a->granted > 0 || a->count > 0;
    }
    store_relaxed(&d->busy_streams, busy_streams);
    return more;
}

void stream_publish_under_way(struct limited_device *d, struct under_way more) {
    struct under_way now = stream_under_way(d, more);
    store_relaxed(&d->own->busy_since, now.busy == UINT64_MAX ? 0 : now.busy);
    store_relaxed(&d->own->oldest_at, now.oldest == UINT64_MAX ? 0 : now.oldest);
    hami_step();
}

void streams_after_fork(void) {
    memset(accounts, 0, sizeof accounts);
    account_count = 0;
    limited_device_end_epoch();
}
