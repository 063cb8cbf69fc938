/*
 * What a CUDA stream was granted, and the timing events recorded in it.
 *
 * A stream_account belongs to one stream of one context. Short launches take from its grant without a lock. After each
 * millisecond of granted work a timing event is recorded (close.c). When the event completes, its work is charged
 * (collect.c). All functions except stream_take and stream_is need the process's lock (compute_lock).
 */
#ifndef HAMI_COMPUTE_STREAM_H
#define HAMI_COMPUTE_STREAM_H

#include "compute/balance.h"
#include "compute/event.h"

enum { STREAM_EVENTS = 16 };       /* timing events of one stream that may be under way */
enum { QUIET_AFTER_NS = 1500000 }; /* a grant that no launch used for so long is closed */

/* Times are of compute_now. An event's launches are those since the timing event before it in the stream. */
struct timing_event {
    CUevent handle;
    int64_t estimate;       /* ns that the event's launches should take */
    bool known;             /* each of the event's launches had a known cost (cost.h) */
    bool clean;             /* each of the event's launches had a known cost and was short */
    bool apart;             /* the event follows a single launch of a bursty process (ADR 11) */
    bool slow;              /* the event's first launch came after the work before it should have ended */
    bool late;              /* the stream had no work left when the event was recorded */
    bool busy;              /* the stream still had work when the event was recorded */
    uint64_t charged_after; /* the event should be complete once the figure `charged` reaches this (compute_abi.h) */
    uint64_t opened;        /* when the event's first launch passed the gate */
    uint64_t spanned_to;    /* end of the line of spans at the time `opened` */
    uint64_t recorded;      /* when the event was recorded */
    uint64_t incomplete_at; /* when the event was last seen not to be complete */
};

struct stream_account {
    /* Launches read the fields down to `closed` without the lock, even while another stream takes the account over. */
    _Atomic(struct limited_device *) device; /* NULL: the account was never used */
    _Atomic(CUcontext) context;
    _Atomic(CUstream) stream; /* NULL: the stream has ended */
    _Atomic int thread;       /* number of the owning thread if `stream` is CU_STREAM_PER_THREAD, else 0 */
    _Atomic int64_t left;     /* ns of the grant that no launch has taken */
    _Atomic uint64_t turn;    /* `shared->turn` when the grant was made; if that has changed, the grant is void */
    _Atomic uint32_t closed;  /* changes when a grant is closed; time that threads took ahead (launch.c) is void then */

    int64_t granted;          /* ns granted since the last timing event; 0: the grant is closed */
    int64_t seen;             /* `left` when close_quiet last looked */
    uint64_t used_at;         /* when `left` last changed, as far as known */
    struct timing_event open; /* the next timing event, filled in as launches come */
    uint64_t ended;           /* when the work of the last completed timing event ended */
    int64_t used;             /* ns that launches took of the last closed grant */
    int64_t aside;            /* ns that are set aside for later launches of the same turn (ADR 11) */
    unsigned in_driver;       /* launches between the gate and the driver's answer */
    unsigned first, count;    /* `events` is a ring: index of the oldest event under way, and their number */
    struct timing_event events[STREAM_EVENTS];
};

/* Finds the account of a stream, or makes one. NULL: all accounts are in use. */
struct stream_account *stream_account_of(struct limited_device *d, CUcontext context, CUstream stream);
bool stream_is(const struct stream_account *a, CUcontext context, CUstream stream);
/* For loops: the account after `a`, or the first if `a` is NULL. If `d` is not NULL, skips other devices' accounts. */
struct stream_account *stream_next(struct stream_account *a, const struct limited_device *d);
static inline const struct timing_event *stream_first_event(const struct stream_account *a) {
    return &a->events[a->first];
}
struct timing_event stream_drop_event(struct stream_account *a); /* takes the oldest event out of the ring */

/* ---- grants ---- */

/* How a launch got its grant. */
struct grant {
    bool known;       /* the launch's cost is known (cost.h) */
    bool clean;       /* the launch's cost is known and short */
    bool aside;       /* the time had been set aside, so the grant is void if the turn has changed since then */
    uint64_t arrived; /* when the launch came to the gate */
    uint64_t passed;  /* when the launch passed the gate */
};

/* Takes up to `most` ns of the grant and returns how many. 0: less than `least` is left, or the turn has changed. */
int64_t stream_take(struct stream_account *a, int64_t least, int64_t most);
/* Grants the stream `granted` ns, of which a launch takes `used` at once. */
void stream_grant(struct stream_account *a, int64_t granted, int64_t used, struct grant how);
/* Gives back `used` ns to the grant, for a launch that failed or time that was taken ahead. */
void stream_refund(struct stream_account *a, int64_t used);
/*
 * Called after the driver's answer to a launch. `closed` is `a->closed` as it was when the launch passed the gate. If
 * `a->closed` has changed, the grant was closed during the call, and its event may precede the launch in the stream.
 * The launch then gets a grant of its own. True: the caller must close that grant now, so that an event follows the
 * launch.
 */
bool stream_regrant(struct stream_account *a, uint32_t closed, int64_t cost, struct grant how);

/* Adds `change`, which may be negative, to the device time that this process has reserved. */
void stream_reserve(struct limited_device *d, int64_t change);
/* Counts a timing event as over, since its work is charged. Wakes launches that wait for a completion. */
void stream_event_done(struct limited_device *d);
/* Charges an event's estimate, because the event could not be recorded or its time is not known. */
void stream_charge_estimate(struct limited_device *d, int64_t estimate);
/* The account's stream, if this thread can record a timing event in it now, else NULL. */
CUstream stream_to_record(const struct stream_account *a);
/* Called when a launch has waited in the gate. Compares the host's and device's clocks (event.h) if that is due. */
void stream_compare_clocks(const struct stream_account *a);

/* ---- bursty processes (ADR 11) ---- */

/*
 * True: this process is bursty, peers use the device, and a launch of the container waited in the last 50 ms. Streams
 * of this process then get a timing event every 250 µs or after each launch.
 */
bool stream_events_stand_apart(const struct limited_device *d, uint64_t now);
/* If events stand apart: the grant for a launch of `ns`. It is what the stream uses in 250 µs, but at least `ns`. */
int64_t stream_amount_apart(const struct stream_account *a, int64_t ns, uint64_t now);
/* Sets `amount` of a grant aside: peers may use it, and this stream may take it later if it makes no pause. */
void stream_set_aside(struct stream_account *a, int64_t amount);
/*
 * Takes up to `part` ns of what is set aside and returns how many. 0: less than `ns` is there, the stream paused, or
 * the turn has changed.
 */
int64_t stream_take_aside(struct stream_account *a, int64_t ns, int64_t part, uint64_t now);

/* ---- what this process has under way ---- */

struct under_way {
    uint64_t oldest; /* when the oldest work under way was launched; UINT64_MAX: none is under way */
    uint64_t busy;   /* since when the device is surely busy with this process; UINT64_MAX: not known */
};
#define NOTHING_UNDER_WAY ((struct under_way){UINT64_MAX, UINT64_MAX})

/* Returns `more` with the work before an event added to it. */
struct under_way stream_add_event(struct under_way more, const struct timing_event *event);

/*
 * What the process has under way on the device. `more` is added: the work before collected events that are not charged
 * yet. Also updates `d->busy_streams`.
 */
struct under_way stream_under_way(struct limited_device *d, struct under_way more);
/* Writes what stream_under_way returns into this process's record, for the container's other processes. */
void stream_publish_under_way(struct limited_device *d, struct under_way more);

void streams_after_fork(void);

#endif
