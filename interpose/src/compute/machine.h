/* Inside the compute controller: the devices that are limited, and what this process has under way on them. */
#ifndef HAMI_MACHINE_H
#define HAMI_MACHINE_H

#include "compute/compute.h"
#include "ledger/limits.h"
#include "memory/contexts.h"

#include <stdbool.h>
#include <stdint.h>

typedef void *CUevent;

/* For words whose order against others does not matter: figures, and what the next look sees anyhow. */
#define load_relaxed(word) atomic_load_explicit(word, memory_order_relaxed)
#define store_relaxed(word, value) atomic_store_explicit(word, value, memory_order_relaxed)
#define add_relaxed(word, value) ((void)atomic_fetch_add_explicit(word, value, memory_order_relaxed))
#define sub_relaxed(word, value) ((void)atomic_fetch_sub_explicit(word, value, memory_order_relaxed))

static inline uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static inline uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* All in ns. */
enum {
    MARK = 1000000,  /* estimated work between completion marks */
    AHEAD = 4000000, /* granted and unfinished work, or two launches: keeps the device fed while the helper wakes */
    BATCH = 300000,  /* short launches are granted so much at once */
    BATCH_MOST = 2000000,   /* ... or, who waited, RESUME to this */
    UNKNOWN = 1000000,      /* what a launch never seen before reserves */
    BURST = 20000000,       /* allowance that an idle container keeps */
    BACKLOG = 60000000,     /* allowance that a waiting one keeps, or two launches */
    SECOND_MORE = 80000000, /* but of others' launches so much: what any second may have above the limit */
    RESUME = 1000000, /* who has to wait for balance waits for so much: short work is not started from idle each time */
    IDLE = 50000000,  /* a container none of whose launches had to wait for so long has more than it needs */
    BACK = BATCH_MOST,       /* a process that was granted some and uses it should be back for more by then */
    APART = 250000,          /* between marks of a process that lets the device rest beside others */
    SLICE = 1000000,         /* work that begins on an idle device has it for so long before others' gets a slice */
    QUANTUM = 10000000,      /* length of a turn */
    EARLY = 150000,          /* short work: the turn is handed on so long before its end at most */
    SHORT = 700000,          /* launches up to this are short in that sense */
    PAUSE = 300000,          /* no launch for so long: the turn is given back */
    SILENT_AFTER = 20000000, /* a helper with work under way looks more often: its process stands still */
    GONE_AFTER = 2000000000, /* and one without it, more often than this */
    PATIENCE = 100000000     /* no wait for others is longer */
};

/* ---- page.c: the turn page of a device, by system calls only ---- */

/* Nothing of it waits, and nothing changes errno. */
struct page {
    _Atomic int file;       /* 0: not open */
    _Atomic bool forbidden; /* the program may not write files that long; it may have changed its mind */
    _Atomic bool busy;      /* a thread of this process has the lock, or opens the file */
    _Atomic uint64_t device, inode;
    _Atomic(void *) futexes; /* its mapping: futex(2) is told the address, and nobody loads or stores there */
};

void page_open(struct page *p, const char *path); /* again, too */
void page_after_fork(struct page *p);
/* The first `size` bytes. False: it is gone, or cut short, or something else, or may not be written. */
bool page_read(struct page *p, struct hami_turn_page *seen, size_t size);
bool page_write(struct page *p, size_t at, const void *from, size_t size);
/* False: somebody else has it. It is held for as long as it takes to read and write the page. */
bool page_lock(struct page *p);
void page_unlock(struct page *p);
void page_wait(const struct page *p, size_t at, uint32_t value, uint64_t ns);
void page_wake(const struct page *p, size_t at);

/* ---- machine.c: one device under a limit ---- */

struct machine {
    _Atomic bool ready;     /* what follows is set up, and stays */
    unsigned index;         /* in the limits */
    _Atomic uint32_t share; /* percent; 0: not limited now */
    struct hami_compute_device *shared;
    struct hami_compute_process *own;
    struct hami_region_view *view;
    struct page page;               /* closed: no turns */
    _Atomic uint32_t turn_slot;     /* ours on it, last known */
    _Atomic uint64_t page_sought;   /* when it was last opened, or was not to be had */
    _Atomic uint64_t others_looked; /* when this was last found: */
    _Atomic uint64_t others_longest;
    double slow;                             /* part of the marks whose launches took longer to come than to run */
    _Atomic uint32_t streams;                /* with work under way */
    _Atomic int64_t last_amount, others_had; /* our last grant, and what others had then */
    double span_ratio;    /* of what is estimated, charged by spans: below 1 where streams run beside each other */
    _Atomic double ratio; /* likewise, of all that is charged */
};

enum { COMPUTE_FRESH, COMPUTE_OFF, COMPUTE_ON };
extern _Atomic int compute_state;

/* Reads limits and policy again. Returns the new state. */
int machines_refresh(void);

/* The machine of a CUDA device, or NULL where it is not limited. */
struct machine *machine_of(CUdevice device);
bool machine_free(CUdevice device);         /* it is known, and not limited now */
struct machine *machine_at(unsigned index); /* i-th in the limits; NULL if this process never used it */

/* The process's one lock. Held for a few stores and driver calls that do not wait. */
void compute_lock(void);
void compute_unlock(void);

uint64_t compute_now(void);
void compute_sleep_until(uint64_t due);
/* Waits until *word is no longer `value`, at most `ns`. */
void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns);
void compute_wake(const _Atomic uint32_t *word);
/* The same for words of this process alone, which the kernel finds sooner. */
void compute_wait_here(const _Atomic uint32_t *word, uint32_t value, uint64_t ns);
void compute_wake_here(const _Atomic uint32_t *word);
/* For those who wait with a number: the second wakes who has this one, and few others. */
void compute_wait_number(const _Atomic uint32_t *word, uint32_t value, uint32_t number, uint64_t ns);
void compute_wake_number(const _Atomic uint32_t *word, uint32_t number);

/* ---- boot.c ---- */

void boot_check(const struct machine *m); /* before anything that the region says of times is believed */

/* ---- balance.c: the container's account ---- */

struct standing {
    uint64_t now;
    int64_t balance;  /* device time; nothing starts while it is not positive */
    int64_t out;      /* granted and not charged yet */
    int64_t expected; /* of that, what will be charged, */
    int64_t steady;   /* and of that, but for other processes' that let the device rest between their launches: */
    uint64_t lost;    /* time that this look found to be more than the balance may keep */
    unsigned marks;   /* of the same */
    unsigned waiting, fed;
};
void balance_read(struct machine *m, struct standing *s); /* and forfeits what is beyond the cap */
void balance_charge(struct machine *m, uint64_t device_time);
int64_t balance_share(const struct machine *m); /* percent */
int64_t balance_arrears(const struct machine *m, const struct standing *s);
bool balance_lets_rest(const struct hami_compute_process *process);            /* the device, between its launches */
bool balance_silent(const struct hami_compute_process *process, uint64_t now); /* it has work and does not look at it */
bool balance_single(const struct machine *m, uint64_t now); /* no other process of the container uses the device */
/* The container's other processes: what they were granted so far; how many want more, and the least that one of those
 * had, and one of those that wait for it now; INT64_MAX if there are none. */
struct others {
    int64_t had, least, least_waiting;
    unsigned asking;
};
struct others balance_others(const struct machine *m, uint64_t now);
/* What counts of a grant between processes: less than all where streams run beside each other. */
int64_t balance_own(const struct machine *m, int64_t amount);
bool balance_in_turn(const struct machine *m); /* does any thread of the container wait for its turn? */
/*
 * balance_oldest: when the oldest work under way was launched, `opened` if that was earlier. balance_at_work: likewise,
 * of processes that do not let the device rest between their launches, and of the others since when it surely works.
 *
 * balance_until: what will have been charged when all that is under way is complete. balance_end: when so much will
 * have been, as far as can be told.
 *
 * balance_span: how much of the time from `start` to `end` no span had yet; all up to there then belongs to one.
 */
uint64_t balance_oldest(const struct machine *m, uint64_t opened);
uint64_t balance_at_work(const struct machine *m, uint64_t opened);
uint64_t balance_others_at_work(const struct machine *m); /* UINT64_MAX: none is */
uint64_t balance_until(const struct machine *m, uint64_t now);
uint64_t balance_end(const struct machine *m, uint64_t opened, uint64_t until);
uint64_t balance_span(struct machine *m, uint64_t start, uint64_t end);
/* Of a span after so much rest: the time in which other processes may have had theirs. */
uint64_t balance_sliced(uint64_t rest, uint64_t span);
struct spanned {
    uint64_t sum, from, to; /* of that, since when spans follow each other without a rest, and up to when */
};
struct spanned balance_spanned(const struct machine *m);
void balance_complete(struct machine *m, uint64_t end); /* work is, up to there */

/* ---- cost.c: what launches take ---- */

struct cost {
    uint64_t key;
    double mean;   /* ns; 0: unknown */
    double spread; /* mean distance from it */
    uint32_t samples;
    bool from_busy; /* some sample began behind other work */
};
struct cost *cost_of(uint64_t key); /* lock held; never NULL */
uint32_t cost_until_sample(const struct cost *c);
void cost_learn(uint64_t key, double ns, bool idle);
void cost_reset(void);

/* ---- runner.c: streams, and the marks in them ---- */

struct runner;
struct runner *runner_of(struct machine *m, CUcontext context, CUstream stream); /* lock held; NULL: table full */
bool runner_is(const struct runner *r, CUcontext context, CUstream stream);
struct machine *runner_machine(const struct runner *r);
const _Atomic uint32_t *runner_closed(const struct runner *r); /* moves when its grant is closed */

/* Consumes up to `most` ns of what was granted to this stream; 0: there is less than `least`. Needs no lock. */
int64_t runner_take(struct runner *r, int64_t least, int64_t most);

/* The rest with the lock held. */
struct granted {
    bool clean, known;        /* a short launch of known cost; one of known cost */
    bool aside;               /* it is of what was set aside, and of that turn */
    uint64_t arrived, passed; /* when the launch came to the gate, and when it went through */
};
void runner_grant(struct runner *r, int64_t granted, int64_t used, struct granted how);
void runner_passing(struct runner *r, int change); /* it stays that stream's as long as launches pass */
void runner_refund(struct runner *r, int64_t used);
/* When a mark is set: once MARK was used, at once, or at once behind a single launch. */
enum mark_due { DUE_WHEN_FULL, DUE_NOW, DUE_APART };
void runner_close_if_due(struct runner *r, enum mark_due due);

/*
 * Beside other processes one that lets the device rest has marks APART or behind each launch: then they tell when its
 * work ran. So much is to be granted at once for that, to a launch of `ns`.
 */
bool runners_apart(const struct machine *m, uint64_t now);
int64_t runner_worth_apart(const struct runner *r, int64_t ns, uint64_t now);
/* The rest of a grant is free for others meanwhile, and to be had again as long as it is used without a pause. */
void runner_set_aside(struct runner *r, int64_t amount);
int64_t runner_from_aside(struct runner *r, int64_t ns, int64_t part, uint64_t now); /* 0: less than `ns` */
/*
 * A launch has reached the driver. True if what it was granted had been closed before, maybe before the launch was
 * there: it has a grant of its own then, to be closed now, lest it ran without a mark.
 */
bool runner_regrant(struct runner *r, uint32_t closed, int64_t cost, struct granted how);
void runner_compare_clocks(struct runner *r); /* device's and host's, if due; before the first launch after a wait */
/* Events around a launch tell what it takes. Returns the one before it; NULL: this launch is no sample. */
CUevent runner_sample_begin(struct runner *r, uint64_t key);
void runner_sample_end(struct runner *r, CUevent before);
void runner_sample_drop(struct runner *r, CUevent before);
void runners_close(struct machine *m);              /* NULL: all */
void runners_hurry(const struct machine *m);        /* somebody waits for a completion now */
void runners_look(struct machine *m, uint64_t now); /* settles what should be complete, where nobody else will soon */
void runners_drop(CUcontext context, CUstream stream); /* a context with its streams, or, of NULL, a stream */
void runners_reset(void);

/* Settles what is complete, by the helper. Returns when to look again; UINT64_MAX: nothing is under way. */
uint64_t runners_settle(uint64_t now);

bool runners_capturing(CUstream stream);
extern _Atomic int runner_captures; /* streams that are being captured, as far as known */

/* Moved when a runner becomes another stream's, and when a capture begins; never 0. */
extern _Atomic uint32_t runner_epoch;
void runners_changed(void);

/* ---- helper.c ---- */

void helper_wake(void);            /* starts it if need be; lock held, and it wakes when that is given up: */
void helper_wake_by(uint64_t due); /* if it would sleep for longer; lock held, and likewise */
bool helper_owed(void);
void helper_pay(void);
void helper_reset(void);

/* ---- turn.c ---- */

enum turn {
    TURN_OURS,   /* or there are none: without a page, or one that can be used, launches go */
    TURN_OTHERS, /* somebody else has it */
    TURN_BUSY    /* somebody else is changing it */
};

void turn_open(struct machine *m, const char *uuid);
bool turn_alone(const struct machine *m, uint64_t now);   /* nobody else was there a moment ago */
bool turn_company(const struct machine *m, uint64_t now); /* others take turns with us now, or may */
/* Moves when the turn goes elsewhere, as soon as any process of the container knows. */
const _Atomic uint64_t *turn_word(const struct machine *m);
enum turn turn_take(struct machine *m, uint64_t now);
bool turn_expired(struct machine *m, const struct standing *s);
void turn_wait(struct machine *m, const struct standing *s, enum turn why); /* a step of 20 ms at most */
uint64_t turn_patience(struct machine *m);
uint64_t turn_longest(struct machine *m, uint64_t now);      /* launch of any container that takes turns */
void turn_lost(struct machine *m, const struct standing *s); /* ... in a wait for the turn */
void turn_given_up(struct machine *m, uint64_t now, uint64_t waited);
/*
 * If the turn is ours: shows life, and gives it on if there is reason to; lock held. Returns when to look again,
 * UINT64_MAX: it is not ours.
 */
uint64_t turn_yield(struct machine *m);
uint64_t turn_frontier(struct machine *m, uint64_t end);
void turn_move_frontier(struct machine *m, uint64_t end); /* the turn may have gone on; who has it says so at its end */

/* ---- gate.c ---- */

/*
 * Waits until `amount` ns of device time may start, and reserves it: launches of up to `longest`. Of a batch it may
 * reserve more. True if it had to wait.
 */
bool gate_pass(struct machine *m, int64_t *amount, bool unknown, int64_t longest);
/* Reserves what has passed before. */
void gate_reserve(struct machine *m, int64_t amount, int64_t longest, uint64_t now);

/* ---- suspend.c: HAMi's priorities ---- */

/* Notes that this container is active, and waits while a container of higher priority keeps it suspended. */
void suspend_check(void);
bool suspend_agent_gone(const struct hami_region_view *view); /* there was an agent, and it looks no more */
extern _Atomic(_Atomic int32_t *) suspend_word;               /* the region's recent_kernel; never NULL */

#endif
