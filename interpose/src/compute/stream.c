/* Implements stream.h. */
#include "compute/stream.h"

#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"
#include "fault.h"

#include <string.h>

struct stream_account stream_accounts[STREAMS];
unsigned stream_count;

/* ---- finding an account ---- */

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

static bool stream_is_idle(const struct stream_account *a) {
    return a->count == 0 && a->granted == 0 && a->in_driver == 0;
}

/*
 * An account for another stream, or NULL. CUDA does not tell when a thread ends, and its per-thread stream with it. So
 * if no account is free, the idle one that was used longest ago is taken. Should its stream come back, it gets another.
 */
static struct stream_account *stream_free_account(void) {
    struct stream_account *found = NULL;
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < STREAMS; i++) {
        struct stream_account *a = &stream_accounts[i];
        if (a->device == NULL || (atomic_load(&a->stream) == NULL && stream_is_idle(a))) {
            return a;
        }
        if (stream_is_idle(a) && a->used_at < least) {
            least = a->used_at;
            found = a;
        }
    }
    return found;
}

struct stream_account *stream_account_of(struct limited_device *d, CUcontext context, CUstream stream) {
    for (unsigned i = 0; i < stream_count; i++) {
        if (stream_accounts[i].device != NULL && stream_is(&stream_accounts[i], context, stream)) {
            return &stream_accounts[i];
        }
    }
    struct stream_account *a = stream_free_account();
    if (a != NULL) {
        a->device = d;
        a->context = context;
        a->thread = stream == CU_STREAM_PER_THREAD ? stream_thread_number() : 0;
        atomic_store(&a->left, 0);
        atomic_store(&a->turn, 0);
        a->granted = a->seen = a->used = a->aside = 0;
        a->open.opened = a->ended = 0;
        a->used_at = compute_now();
        a->first = a->count = a->in_driver = 0;
        /* Release: a launch that finds the stream also finds what is above. */
        atomic_store_explicit(&a->stream, stream, memory_order_release);
        limited_device_end_epoch();
        unsigned place = (unsigned)(a - stream_accounts);
        stream_count = place >= stream_count ? place + 1 : stream_count;
    }
    return a;
}

/* ---- grants ---- */

/* Relaxed: a launch that takes from an old grant at the moment it is closed has run before its timing event. */
int64_t stream_take(struct stream_account *a, int64_t least, int64_t most) {
    int64_t left = load_relaxed(&a->left);
    const struct limited_device *d = load_relaxed(&a->device);
    if (load_relaxed(turn_word(d)) != load_relaxed(&a->turn)) {
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
    if (a->granted == 0) {
        add_relaxed(&a->device->own->events, 1);
        hami_step();
        a->open.clean = a->open.known = true;
        a->open.slow = how.arrived > a->open.opened + (uint64_t)a->used / 16 * 17;
        a->open.opened = how.passed;
        a->open.spanned_to = balance_span_line(a->device).to;
        a->granted = granted;
        stream_publish_under_way(a->device, NOTHING_UNDER_WAY);
    } else {
        a->granted += granted;
    }
    a->open.clean = a->open.clean && how.clean;
    a->open.known = a->open.known && how.known;
    a->used_at = compute_now();
    if (!how.aside) {
        store_relaxed(&a->turn, load_relaxed(turn_word(a->device)));
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
    if (most > 0) { /* else the grant was closed meanwhile */
        add_relaxed(&a->left, used < most ? used : most);
    }
}

void stream_event_done(struct limited_device *d) {
    sub_relaxed(&d->own->events, 1);
    hami_step();
    (void)atomic_fetch_add(&d->shared->completions, 1);
    hami_step();
    if (atomic_load(&d->shared->waiting_for_event) != 0) {
        compute_wake(&d->shared->completions);
    }
}

void stream_charge_estimate(struct limited_device *d, int64_t estimate) {
    balance_charge(d, (uint64_t)estimate);
    add_relaxed(&d->shared->estimated, (uint64_t)estimate);
    stream_reserve(d, -estimate);
    stream_event_done(d);
}

bool stream_can_record(const struct stream_account *a, CUstream stream) {
    bool other_thread = stream == CU_STREAM_PER_THREAD && a->thread != stream_thread_number();
    return stream != NULL && !other_thread && a->count < STREAM_EVENTS &&
           !(load_relaxed(&event_captures) > 0 && event_stream_is_captured(stream));
}

void stream_compare_clocks(const struct stream_account *a) {
    CUstream stream = atomic_load(&a->stream);
    /* While another stream is captured, asking for this one's state may spoil the capture. */
    if (stream_can_record(a, stream) && load_relaxed(&event_captures) == 0) {
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

/* All streams of the process together set aside at most one large grant. */
void stream_set_aside(struct stream_account *a, int64_t amount) {
    struct limited_device *d = a->device;
    stream_reserve(d, -amount);
    sub_relaxed(&d->own->granted_total, (uint64_t)balance_counted_grant(d, amount));
    int64_t others = 0;
    uint64_t now = compute_now();
    for (unsigned i = 0; i < stream_count; i++) {
        const struct stream_account *other = &stream_accounts[i];
        others += other != a && other->device == d && now < other->used_at + QUIET_AFTER_NS ? other->aside : 0;
    }
    int64_t most = others < GRANT_MOST_NS ? GRANT_MOST_NS - others : 0;
    a->aside = amount < most ? amount : most;
}

int64_t stream_take_aside(struct stream_account *a, int64_t ns, int64_t part, uint64_t now) {
    bool valid = now < a->used_at + QUIET_AFTER_NS && load_relaxed(turn_word(a->device)) == load_relaxed(&a->turn);
    int64_t amount = a->aside < part ? a->aside : part;
    if (!valid || amount < ns) {
        a->aside = 0; /* the gate grants anew */
        return 0;
    }
    a->aside -= amount;
    return amount;
}

/* ---- what this process has under way ---- */

/* The first event before which the stream had not run dry: since then the device surely works for it. */
static uint64_t stream_busy_since(const struct stream_account *a) {
    for (unsigned i = 0; i < a->count; i++) {
        const struct timing_event *event = &a->events[(a->first + i) % STREAM_EVENTS];
        if (event->busy) {
            return event->recorded;
        }
    }
    return UINT64_MAX;
}

struct under_way stream_under_way(struct limited_device *d, struct under_way more) {
    uint32_t busy_streams = 0;
    for (unsigned i = 0; i < stream_count; i++) {
        const struct stream_account *a = &stream_accounts[i];
        if (a->device != d) {
            continue;
        }
        if (a->granted > 0) {
            more.oldest = earlier(more.oldest, a->open.opened);
        }
        if (a->count > 0) {
            more.oldest = earlier(more.oldest, stream_first_event(a)->opened);
            more.busy = earlier(more.busy, stream_busy_since(a));
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
    memset(stream_accounts, 0, sizeof stream_accounts);
    stream_count = 0;
    limited_device_end_epoch();
}
