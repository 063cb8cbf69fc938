/*
 * What a CUDA stream was granted, and the timing events recorded in it.
 *
 * A stream_account belongs to one stream of one context. Short launches take from its grant without a lock. Every
 * millisecond of work a timing event is recorded (close.c), and when that completes, its work is charged (collect.c).
 * All functions but stream_take and stream_is need the process's lock.
 */
#ifndef HAMI_COMPUTE_STREAM_H
#define HAMI_COMPUTE_STREAM_H

#include "compute/balance.h"
#include "compute/event.h"

enum { STREAMS = 256, STREAM_EVENTS = 16 };
enum { QUIET_AFTER_NS = 1500000 }; /* a stream's grant that nobody used for so long is closed */

struct timing_event {
    CUevent handle;
    int64_t estimate;       /* ns, of the launches since the event before */
    bool clean;             /* all of these launches were short and of known cost */
    bool known;             /* ... were of known cost */
    bool apart;             /* it is one launch of a bursty process (ADR 11) */
    bool slow;              /* its first launch came later than the work before it should have taken */
    bool late;              /* the stream had run dry before the event could be recorded */
    bool busy;              /* the stream still had work then */
    uint64_t charged_after; /* the event should be complete once the container's `charged` reaches this */
    uint64_t opened;        /* when the first of its launches went through the gate, host time */
    uint64_t spanned_to;    /* the end of the line of spans at that time */
    uint64_t recorded;
    uint64_t incomplete_at; /* when it was last seen not to be complete */
};

struct stream_account {
    /* Launches read these without the lock; the account they find may just have got another stream. */
    _Atomic(struct limited_device *) device; /* NULL: unused */
    _Atomic(CUcontext) context;
    _Atomic(CUstream) stream; /* NULL: ended */
    _Atomic int thread;       /* of a per-thread default stream, else 0 */
    _Atomic int64_t left;     /* granted and not used */
    _Atomic uint64_t turn;    /* the turn word under which it was granted */
    _Atomic uint32_t closed;  /* moves when the grant is closed: what was taken ahead is void then */
    int64_t granted;          /* since the last timing event; 0: the grant is closed */
    int64_t seen;             /* `left` when last looked at */
    uint64_t used_at;         /* when `left` last changed */
    struct timing_event open; /* the next timing event, filled in as launches come */
    uint64_t ended;           /* when the work of the last completed timing event ended */
    int64_t used;             /* of the grant, up to the last timing event */
    int64_t aside;            /* part of the grant of turn `turn` that is kept for later (ADR 11) */
    unsigned in_driver;       /* launches between the gate and the driver's answer */
    unsigned first, count;    /* of `events` */
    struct timing_event events[STREAM_EVENTS];
};

extern struct stream_account stream_accounts[STREAMS];
extern unsigned stream_count; /* accounts from here on were never used */

/* Finds the account of a stream, or makes one. NULL: all are in use. */
struct stream_account *stream_account_of(struct limited_device *d, CUcontext context, CUstream stream);
bool stream_is(const struct stream_account *a, CUcontext context, CUstream stream);
static inline const struct timing_event *stream_first_event(const struct stream_account *a) {
    return &a->events[a->first];
}

/* ---- grants ---- */

/* How a launch got its grant. */
struct grant {
    bool clean, known;        /* as in struct timing_event */
    bool aside;               /* it was set aside before, under the turn of that time */
    uint64_t arrived, passed; /* when the launch came to the gate, and went through */
};

/* Takes up to `most` ns of the grant; 0: less than `least` is left, or the turn is over. */
int64_t stream_take(struct stream_account *a, int64_t least, int64_t most);
void stream_grant(struct stream_account *a, int64_t granted, int64_t used, struct grant how);
void stream_refund(struct stream_account *a, int64_t used); /* the launch failed */
/*
 * A launch has reached the driver. True: its grant was closed before, maybe by an event that came before the launch. It
 * then has a grant of its own, which must be closed now so that the launch is followed by an event.
 */
bool stream_regrant(struct stream_account *a, uint32_t closed, int64_t cost, struct grant how);

/* Changes what this process has reserved. */
void stream_reserve(struct limited_device *d, int64_t change);
/* A timing event is over: its work is charged, or there was none. */
void stream_event_done(struct limited_device *d);
/* Charges the estimate, where no event could be recorded or it told nothing. */
void stream_charge_estimate(struct limited_device *d, int64_t estimate);
/* An event can be recorded in this stream now, by this thread. */
bool stream_can_record(const struct stream_account *a, CUstream stream);
void stream_compare_clocks(const struct stream_account *a); /* if due; before the first launch after a wait */

/* ---- bursty processes (ADR 11) ---- */

/* This process is bursty and others wait: its timing events stand every 250 µs or after each launch. */
bool stream_events_stand_apart(const struct limited_device *d, uint64_t now);
/* How much to grant at once to a launch of `ns` then: what the stream uses in 250 µs. */
int64_t stream_amount_apart(const struct stream_account *a, int64_t ns, uint64_t now);
/* The rest of a grant is free for others, and can be taken again while the stream is used without a pause. */
void stream_set_aside(struct stream_account *a, int64_t amount);
int64_t stream_take_aside(struct stream_account *a, int64_t ns, int64_t part, uint64_t now); /* 0: less than `ns` */

/* ---- what this process has under way ---- */

struct under_way {
    uint64_t oldest; /* when the oldest of it was launched */
    uint64_t busy;   /* since when the device is surely busy with it; UINT64_MAX: not known */
};
#define NOTHING_UNDER_WAY ((struct under_way){UINT64_MAX, UINT64_MAX})

/* `more` is what was collected and is not charged yet. The second also publishes it for the other processes. */
struct under_way stream_under_way(struct limited_device *d, struct under_way more);
void stream_publish_under_way(struct limited_device *d, struct under_way more);

void streams_after_fork(void);

#endif
