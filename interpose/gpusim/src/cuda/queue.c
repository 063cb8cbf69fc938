/*
 * What this process gives its devices to do, and waiting for it. As on a real device, only so many launches can be
 * queued before the launching call waits. Nobody tells a waiter that its work is done: it sleeps until the earliest
 * moment that could be, looks, and sleeps on if others had the device meanwhile.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "driver.h"

#define JITTER_PERCENT 20
#define SHORTEST_WAIT_NS 5000u
#define LONGEST_BATCH_NS 1000000u

static struct device_queue {
    _Atomic(struct sim_queue *) queue;
    _Atomic uint64_t lanes; /* bit per lane that a stream has */
    pthread_mutex_t lock;   /* events */
    uint32_t events;        /* cells never used start here */
    uint32_t free_count;
    uint32_t free_events[SIM_EVENTS];
} devices[SIM_MAX_DEVICES];

static uint64_t launch_us; /* what a launch takes before it is queued, as where code is loaded first */

/* ---- this process's queue ---- */

static bool unused(const struct sim_queue *queue) {
    const struct sim_slot *slot = &sim_books->slots[queue->slot];
    bool same = slot->start_time == queue->start_time && slot->pid == queue->pid;
    return queue->state != 1 || !same || sim_slot_pid(queue->slot) == 0;
}

/* A queue never used, so that the books of dead processes stay readable; when there is none, one of the dead. */
static struct sim_queue *free_queue(void) {
    if (sim_engines->queue_limit < SIM_QUEUES) {
        return &sim_engines->queues[sim_engines->queue_limit++];
    }
    for (unsigned i = 0; i < SIM_QUEUES; i++) {
        if (unused(&sim_engines->queues[i])) {
            return &sim_engines->queues[i];
        }
    }
    abort(); /* more processes than the simulation has room for */
}

static uint64_t number_from(const char *variable) {
    const char *text = getenv(variable);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static struct sim_queue *open_queue(unsigned device) {
    int slot = sim_slot_claim();
    struct sim_process self = sim_process_self();
    sim_engine_lock(&sim_engines->queue_lock);
    struct sim_queue *queue = atomic_load(&devices[device].queue);
    if (queue == NULL) {
        queue = free_queue();
        sim_engine_lock(&sim_engines->devices[device].lock);
        memset(queue, 0, sizeof *queue);
        queue->device = device;
        queue->slot = slot < 0 ? 0 : (uint32_t)slot;
        queue->pid = self.pid;
        queue->start_time = self.start_time;
        queue->pid_namespace = self.pid_namespace;
        queue->slice_ns = number_from("HAMI_SIM_SLICE_NS");
        launch_us = number_from("HAMI_SIM_LAUNCH_US");
        queue->next_timed = UINT64_MAX;
        queue->state = 1;
        sim_engine_unlock(&sim_engines->devices[device].lock);
        pthread_mutex_init(&devices[device].lock, NULL);
        atomic_store_explicit(&devices[device].queue, queue, memory_order_release);
    }
    sim_engine_unlock(&sim_engines->queue_lock);
    return queue;
}

static struct sim_queue *queue_of(unsigned device) {
    struct sim_queue *queue = atomic_load_explicit(&devices[device].queue, memory_order_acquire);
    return __builtin_expect(queue != NULL, 1) ? queue : open_queue(device);
}

/* Locks the device and brings it up to now. */
static struct sim_engine *take(unsigned device) {
    struct sim_engine *engine = &sim_engines->devices[device];
    sim_engine_lock(&engine->lock);
    sim_engine_advance(device, sim_now());
    return engine;
}

static void drop(struct sim_engine *engine) {
    sim_engine_unlock(&engine->lock);
}

unsigned sim_lane_take(unsigned device) {
    _Atomic uint64_t *used = &devices[device].lanes;
    uint64_t before = atomic_load(used);
    while ((before | 1) != UINT64_MAX) {
        unsigned lane = (unsigned)__builtin_ctzll(~(before | 1));
        if (atomic_compare_exchange_weak(used, &before, before | 1ull << lane)) {
            return lane;
        }
    }
    static _Atomic unsigned next; /* more streams than lanes: they share */
    return 1 + atomic_fetch_add(&next, 1) % (SIM_LANES - 1);
}

void sim_lane_give_back(unsigned device, unsigned lane) {
    atomic_fetch_and(&devices[device].lanes, ~(1ull << lane));
}

/* ---- how long things take ---- */

static uint64_t random_word(void) {
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t state;
    if (state == 0) {
        uint64_t seed = number_from("HAMI_SIM_SEED"), thread = atomic_fetch_add(&threads, 1) + 1;
        state = seed != 0 ? seed * 0x9e3779b97f4a7c15ull + thread * 0xbf58476d1ce4e5b9ull
                          : sim_now() ^ (uint64_t)(uintptr_t)&state ^ sim_books->seed;
        state += state == 0;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x2545f4914f6cdd1dull;
}

static double uniform(void) {
    return ((double)(random_word() >> 11) + 0.5) / 9007199254740992.0;
}

uint64_t sim_jittered(uint64_t duration, unsigned sigma_percent) {
    if (sigma_percent == 0) {
        return duration * (100 - JITTER_PERCENT + random_word() % (2 * JITTER_PERCENT + 1)) / 100;
    }
    double sigma = sigma_percent / 100.0;
    double normal = sqrt(-2 * log(uniform())) * cos(2 * 3.14159265358979 * uniform());
    return (uint64_t)((double)duration * exp(sigma * normal - sigma * sigma / 2));
}

/* ---- queueing ---- */

static bool lane_idle(const struct sim_queue *queue, unsigned lane) {
    return queue->lanes[lane].head == 0;
}

static void note_queued(unsigned device, const struct sim_queue *queue, uint64_t duration) {
    struct sim_engine_page *page = &sim_books->engines[device][queue->slot];
    atomic_fetch_add_explicit(&page->busy_total, duration, memory_order_relaxed);
    atomic_fetch_add_explicit(&page->launches, 1, memory_order_relaxed);
}

/* When the device has taken something off a full queue: a batch of short work, or one long piece. */
static uint64_t when_room(const struct sim_engine *engine, const struct sim_queue *queue) {
    uint64_t least = UINT64_MAX;
    for (uint64_t lanes = queue->lanes_running; lanes != 0; lanes &= lanes - 1) {
        const struct sim_op *head = &queue->ops[queue->lanes[__builtin_ctzll(lanes)].head - 1];
        least = head->left < least ? head->left : least;
    }
    uint64_t due = engine->time + (least > LONGEST_BATCH_NS && least != UINT64_MAX ? least : LONGEST_BATCH_NS);
    bool other = engine->current != 0 && &sim_engines->queues[engine->current - 1] != queue;
    return other && engine->slice_end > engine->time ? due + engine->slice_end - engine->time : due;
}

/* Puts an operation when there is room; the lock is held before and after. */
static void put(struct sim_engine *engine, struct sim_queue *queue, unsigned lane, const struct sim_op *op) {
    bool work = op->kind == SIM_OP_KERNEL || op->kind == SIM_OP_COPY;
    while ((work && queue->kernels >= SIM_QUEUE_DEPTH) || !sim_engine_put(queue, lane, op)) {
        uint64_t due = when_room(engine, queue);
        drop(engine);
        sim_wait_until(due);
        (void)take(queue->device);
    }
}

void sim_submit(struct sim_stream *stream, enum sim_op_kind kind, uint64_t duration, unsigned weight) {
    unsigned device = stream->context->device;
    struct sim_queue *queue = queue_of(device);
    if (duration == 0 && lane_idle(queue, stream->lane)) { /* done at once; for measuring what calls cost */
        note_queued(device, queue, 0);
        return;
    }
    if (launch_us != 0 && kind == SIM_OP_KERNEL) {
        nanosleep(&(struct timespec){0, (long)(launch_us % 1000000 * 1000)}, NULL);
    }
    struct sim_engine *engine = take(device);
    struct sim_op op = {.kind = kind, .left = duration, .weight = weight != 0 ? weight : SIM_WHOLE};
    put(engine, queue, stream->lane, &op);
    queue->launches++;
    note_queued(device, queue, duration);
    drop(engine);
}

/* ---- waiting ---- */

/* The earliest moment at which `work` of a lane can be done. */
static uint64_t earliest(const struct sim_engine *engine, const struct sim_queue *queue, unsigned lane, uint64_t work) {
    uint64_t done = queue->lanes[lane].work_done, left = work > done ? work - done : 0;
    bool other = engine->current != 0 && &sim_engines->queues[engine->current - 1] != queue;
    if (other && sim_engines->queues[engine->current - 1].lanes_running != 0 && engine->slice_end > engine->time) {
        left += engine->slice_end - engine->time;
    }
    return engine->time + (left > SHORTEST_WAIT_NS ? left : SHORTEST_WAIT_NS);
}

bool sim_stream_idle(const struct sim_stream *stream) {
    unsigned device = stream->context->device;
    struct sim_queue *queue = queue_of(device);
    struct sim_engine *engine = take(device);
    bool idle = lane_idle(queue, stream->lane);
    drop(engine);
    return idle;
}

/* How far a stream has been filled; once its lane has come that far, what was put there before has ended. */
uint64_t sim_stream_filled(const struct sim_stream *stream) {
    unsigned device = stream->context->device;
    const struct sim_queue *queue = queue_of(device);
    struct sim_engine *engine = take(device);
    uint64_t filled = queue->lanes[stream->lane].put_in;
    drop(engine);
    return filled;
}

bool sim_lanes_reached(unsigned device, const uint64_t *filled) {
    const struct sim_queue *queue = atomic_load(&devices[device].queue);
    bool reached = true;
    if (queue == NULL) {
        return true; /* nothing was ever queued */
    }
    struct sim_engine *engine = take(device);
    for (unsigned lane = 0; lane < SIM_LANES; lane++) {
        reached = reached && queue->lanes[lane].put_out >= filled[lane];
    }
    drop(engine);
    return reached;
}

/* Waits for what the lane holds now. */
static void wait_lane(unsigned device, unsigned lane) {
    struct sim_queue *queue = queue_of(device);
    struct sim_engine *engine = take(device);
    uint64_t put_in = queue->lanes[lane].put_in, work = queue->lanes[lane].work_in;
    while (queue->lanes[lane].put_out < put_in) {
        uint64_t due = earliest(engine, queue, lane, work);
        drop(engine);
        sim_wait_until(due);
        (void)take(device);
    }
    drop(engine);
}

void sim_stream_wait(const struct sim_stream *stream) {
    wait_lane(stream->context->device, stream->lane);
}

void sim_context_wait(const struct sim_context *context) {
    if (atomic_load(&devices[context->device].queue) == NULL) {
        return; /* nothing was ever queued */
    }
    for (unsigned lane = 0; lane < SIM_LANES; lane++) {
        wait_lane(context->device, lane);
    }
}

/* ---- events ---- */

bool sim_event_take(struct sim_event_object *event) {
    unsigned device = event->context->device;
    (void)queue_of(device);
    struct device_queue *mine = &devices[device];
    pthread_mutex_lock(&mine->lock);
    bool room = mine->free_count > 0 || mine->events < SIM_EVENTS;
    if (room) {
        event->cell = (mine->free_count > 0 ? mine->free_events[--mine->free_count] : mine->events++) + 1;
    }
    pthread_mutex_unlock(&mine->lock);
    return room;
}

void sim_event_give_back(struct sim_event_object *event) {
    struct device_queue *mine = &devices[event->context->device];
    pthread_mutex_lock(&mine->lock);
    mine->free_events[mine->free_count++] = event->cell - 1;
    pthread_mutex_unlock(&mine->lock);
}

void sim_event_record(struct sim_event_object *event, const struct sim_stream *stream) {
    unsigned device = event->context->device;
    struct sim_queue *queue = queue_of(device);
    struct sim_engine *engine = take(device);
    struct sim_event_cell *cell = &queue->events[event->cell - 1];
    cell->generation++;
    cell->lane = stream->lane;
    cell->work = queue->lanes[stream->lane].work_in;
    struct sim_op op = {.kind = SIM_OP_EVENT, .event = event->cell - 1, .generation = cell->generation};
    put(engine, queue, stream->lane, &op);
    atomic_store(&event->generation, cell->generation);
    drop(engine);
}

bool sim_event_reached(const struct sim_event_object *event, uint64_t *time) {
    unsigned device = event->context->device;
    uint64_t generation = atomic_load(&event->generation);
    struct sim_queue *queue = queue_of(device);
    const struct sim_event_cell *cell = &queue->events[event->cell - 1];
    struct sim_engine *engine = take(device);
    bool reached = generation == 0 || cell->done >= generation;
    if (time != NULL) {
        *time = cell->time;
    }
    drop(engine);
    return reached;
}

void sim_event_wait(const struct sim_event_object *event) {
    unsigned device = event->context->device;
    uint64_t generation = atomic_load(&event->generation);
    struct sim_queue *queue = queue_of(device);
    const struct sim_event_cell *cell = &queue->events[event->cell - 1];
    struct sim_engine *engine = take(device);
    while (generation != 0 && cell->done < generation) {
        uint64_t due = earliest(engine, queue, cell->lane, cell->work);
        drop(engine);
        sim_wait_until(due);
        (void)take(device);
    }
    drop(engine);
}

void sim_event_join(const struct sim_event_object *event, const struct sim_stream *stream) {
    uint64_t generation = atomic_load(&event->generation);
    unsigned device = stream->context->device;
    if (generation == 0) {
        return;
    }
    if (event->context->device != device) { /* of another device: this thread waits instead of the stream */
        sim_event_wait(event);
        return;
    }
    struct sim_queue *queue = queue_of(device);
    struct sim_engine *engine = take(device);
    if (queue->events[event->cell - 1].done < generation) {
        struct sim_op op = {.kind = SIM_OP_WAIT, .event = event->cell - 1, .generation = generation};
        put(engine, queue, stream->lane, &op);
    }
    drop(engine);
}
