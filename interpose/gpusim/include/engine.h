/*
 * The engine: what runs on the simulated devices, in a second file ("engine") that every process maps.
 *
 * A device gives contexts (here: processes) with work slices in turn, as a real one does: kernels are pre-empted at the
 * end of a slice, streams of one process share the device as far as their kernels leave room. Nothing is known in
 * advance: an event's time is when its stream got there, so a pair of events counts the slices of others in between.
 * There is no thread behind it: whoever asks first brings the device's time up to now (sim_engine_advance).
 *
 * The true device time of each process lies here too, with its history in steps of 50 ms. No driver call tells it.
 *
 * The file is sparse; a queue's pages exist once they are used. Python reads it: gen/layouts.py writes the structures.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "books.h"

#define SIM_ENGINE_MAGIC 0x31474e454d495348ull /* "HSIMENG1" */
#define SIM_ENGINE_VERSION 2u
#define SIM_QUEUES 256u /* processes × devices that can have work at once */
#define SIM_LANES 64u   /* streams of one queue that run beside each other */
#define SIM_OPS 4096u
#define SIM_EVENTS 8192u
#define SIM_HISTORY 2048u
#define SIM_HISTORY_NS 50000000ull
#define SIM_QUEUE_DEPTH 1024u /* launches in a queue before launching waits */
#define SIM_WHOLE 1000u       /* weight of a kernel that fills the device */

enum sim_op_kind { SIM_OP_KERNEL = 1, SIM_OP_COPY, SIM_OP_EVENT, SIM_OP_WAIT };

struct sim_op {
    uint64_t left;     /* kernels: ns of the device alone; copies: ns, then the end's time */
    uint64_t earliest; /* kernels in an idle stream start this late; copies: 0 until begun */
    uint64_t generation;
    uint32_t kind, weight, event, next; /* next: index + 1 */
};

struct sim_lane {
    uint32_t head, tail;      /* index + 1; 0 = empty */
    uint64_t work_in;         /* ns of kernels and copies ever queued */
    uint64_t work_done;       /* of them done */
    uint64_t put_in, put_out; /* operations, likewise */
};

struct sim_event_cell {
    uint64_t generation, done; /* last recorded; last that the device got to */
    uint64_t time;             /* of `done` */
    uint64_t work;             /* the lane's work_in when it was recorded */
    uint32_t lane, pad;
};

struct sim_history {
    uint32_t bucket; /* number of the step, truncated */
    uint32_t busy;   /* ns */
};

/* What one process queued on one device. */
struct sim_queue {
    uint32_t state; /* 0 never used, 1 in use, 2 its process is gone */
    uint32_t device, slot;
    int32_t pid; /* in its own namespace */
    uint64_t start_time, pid_namespace;
    uint64_t slice_ns; /* 0: the device's */
    uint64_t busy_ns;  /* true device time */
    uint64_t launches;
    uint64_t checked;       /* when its process was last seen alive */
    uint64_t lanes_used;    /* bit per lane: not empty */
    uint64_t lanes_running; /* bit per lane: a kernel is at its head and may run */
    uint64_t next_timed;    /* when something happens by itself; UINT64_MAX: never */
    uint32_t weight;        /* of what may run */
    uint32_t kernels;       /* queued */
    uint32_t free;          /* first free operation, index + 1 */
    uint32_t fresh;         /* operations never used start here */
    uint32_t waits;         /* queued operations that wait for events */
    uint32_t pad;
    struct sim_history history[SIM_HISTORY];
    struct sim_lane lanes[SIM_LANES];
    struct sim_event_cell events[SIM_EVENTS];
    struct sim_op ops[SIM_OPS];
};

struct sim_engine {
    _Alignas(64) _Atomic uint32_t lock; /* slot of the holder + 1 */
    uint32_t current;                   /* queue that has the device, + 1 */
    uint64_t time;                      /* the device has got here */
    uint64_t slice_end, switching;
    uint64_t idle_ns;
    uint64_t queues[SIM_QUEUES / 64]; /* bit per queue: has operations */
    uint64_t slice_ns, switch_ns, latency_ns;
    struct sim_history idle[SIM_HISTORY];
};

struct sim_engines {
    uint64_t magic;
    uint32_t version, pad;
    uint64_t size;
    _Atomic uint32_t queue_lock;
    uint32_t queue_limit; /* queues at and above were never used */
    struct sim_engine devices[SIM_MAX_DEVICES];
    _Alignas(4096) struct sim_queue queues[SIM_QUEUES];
};

extern struct sim_engines *sim_engines; /* NULL until opened */

bool sim_engine_open(const char *path); /* the file; false if it is not one of ours */

void sim_engine_lock(_Atomic uint32_t *lock);
void sim_engine_unlock(_Atomic uint32_t *lock);

/* Brings a device up to `now`; its lock is held. */
void sim_engine_advance(unsigned device, uint64_t now);

/* The same, with the lock taken and the clock read. */
void sim_engine_refresh(unsigned device);

/* Whether nothing is left of what a process queued on any device. */
bool sim_engine_idle(unsigned slot);

/* Puts an operation at the end of a lane; the lock is held and the device up to date. False: no room. */
bool sim_engine_put(struct sim_queue *queue, unsigned lane, const struct sim_op *op);

#endif
