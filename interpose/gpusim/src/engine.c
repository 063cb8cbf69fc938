#include "engine.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"

#define NEVER UINT64_MAX
#define WINDOW_NS 250000000ull
#define NO_SLOT 0xffffu /* holder of a lock: a process that uses NVML alone */
#define FOR_LONG 1000000u
#define ALIVE_NS 5000000ull /* how old the news may be that a process lives */

struct sim_engines *sim_engines = NULL;

bool sim_engine_open(const char *path) {
    struct stat info;
    void *map = MAP_FAILED;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    if (fstat(fd, &info) == 0 && (uint64_t)info.st_size == sizeof(struct sim_engines)) {
        map = mmap(NULL, sizeof(struct sim_engines), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    }
    close(fd);
    if (map == MAP_FAILED) {
        return false;
    }
    struct sim_engines *engines = map;
    if (engines->magic != SIM_ENGINE_MAGIC || engines->version != SIM_ENGINE_VERSION ||
        engines->size != sizeof(struct sim_engines)) {
        munmap(map, sizeof(struct sim_engines));
        return false;
    }
    sim_engines = engines;
    return true;
}

/* ---- the lock: dies with its holder ---- */

void sim_engine_lock(_Atomic uint32_t *lock) {
    int slot = sim_slot_mine();
    uint32_t mine = slot < 0 ? NO_SLOT : (uint32_t)slot + 1;
    for (unsigned tries = 1;; tries++) {
        uint32_t holder = 0;
        if (atomic_compare_exchange_weak_explicit(lock, &holder, mine, memory_order_acquire, memory_order_relaxed)) {
            return;
        }
        if (tries % 64 == 0) {
            struct timespec moment = {.tv_nsec = 2000}; /* the holder may have been preempted */
            nanosleep(&moment, NULL);
        }
        bool dead = holder == NO_SLOT
                        ? tries % FOR_LONG == 0
                        : holder != 0 && holder != mine && tries % 4096 == 0 && sim_slot_pid(holder - 1) == 0;
        if (dead && atomic_compare_exchange_strong(lock, &holder, mine)) {
            return;
        }
    }
}

void sim_engine_unlock(_Atomic uint32_t *lock) {
    atomic_store_explicit(lock, 0, memory_order_release);
}

/* ---- operations ---- */

static struct sim_op *take_op(struct sim_queue *queue, uint32_t *index) {
    if (queue->free != 0) {
        *index = queue->free - 1;
        queue->free = queue->ops[*index % SIM_OPS].next;
    } else if (queue->fresh < SIM_OPS) {
        *index = queue->fresh++;
    } else {
        return NULL;
    }
    return &queue->ops[*index % SIM_OPS];
}

static void settle(struct sim_engine *engine, struct sim_queue *queue);

bool sim_engine_put(struct sim_queue *queue, unsigned lane_index, const struct sim_op *op) {
    struct sim_engine *engine = &sim_engines->devices[queue->device];
    struct sim_lane *lane = &queue->lanes[lane_index];
    uint32_t index = 0;
    struct sim_op *at = take_op(queue, &index);
    if (at == NULL) {
        return false;
    }
    *at = *op;
    at->next = 0;
    bool first = lane->head == 0;
    if (first) {
        lane->head = index + 1;
    } else {
        queue->ops[(lane->tail - 1) % SIM_OPS].next = index + 1;
    }
    lane->tail = index + 1;
    lane->put_in++;
    queue->waits += op->kind == SIM_OP_WAIT;
    if (op->kind == SIM_OP_KERNEL || op->kind == SIM_OP_COPY) {
        lane->work_in += op->left;
        queue->kernels++;
    }
    if (op->kind == SIM_OP_KERNEL && first) {
        at->earliest = engine->time + engine->latency_ns;
    }
    queue->lanes_used |= 1ull << lane_index;
    unsigned number = (unsigned)(queue - sim_engines->queues);
    engine->queues[number / 64] |= 1ull << number % 64;
    if (first) {
        settle(engine, queue);
    }
    return true;
}

/* ---- one queue at one moment ---- */

static void pop(struct sim_queue *queue, unsigned index) {
    struct sim_lane *lane = &queue->lanes[index];
    uint32_t at = (lane->head - 1) % SIM_OPS;
    struct sim_op *op = &queue->ops[at];
    lane->head = op->next;
    lane->put_out++;
    queue->kernels -= op->kind == SIM_OP_KERNEL || op->kind == SIM_OP_COPY;
    queue->waits -= op->kind == SIM_OP_WAIT;
    op->next = queue->free;
    queue->free = at + 1;
    if (lane->head == 0) {
        lane->tail = 0;
        queue->lanes_used &= ~(1ull << index);
    }
}

/* Another context has the device and something to run. */
static bool elsewhere(const struct sim_engine *engine, const struct sim_queue *queue) {
    const struct sim_queue *current = engine->current != 0 ? &sim_engines->queues[engine->current - 1] : queue;
    return current != queue && current->device == queue->device && current->lanes_running != 0;
}

/*
 * Whether the operation at the head of a lane is over now; notes when a timed one will be. Even an event takes its
 * context's turn on the device.
 */
static bool over(const struct sim_engine *engine, struct sim_queue *queue, unsigned index, struct sim_op *op) {
    uint64_t time = engine->time;
    struct sim_lane *lane = &queue->lanes[index];
    struct sim_event_cell *event = &queue->events[op->event % SIM_EVENTS];
    uint64_t due = NEVER;
    switch (op->kind) {
    case SIM_OP_KERNEL:
        if (op->left == 0) {
            return true;
        }
        if (op->earliest <= time) {
            queue->lanes_running |= 1ull << index;
            queue->weight += op->weight;
            return false;
        }
        due = op->earliest;
        break;
    case SIM_OP_COPY:
        if (op->earliest == 0) {
            op->earliest = time + op->left;
        }
        due = op->earliest;
        if (due <= time) {
            lane->work_done += op->left;
            return true;
        }
        break;
    case SIM_OP_EVENT:
        if (elsewhere(engine, queue)) {
            queue->lanes_running |= 1ull << index;
            return false;
        }
        if (event->done < op->generation) {
            event->done = op->generation;
            event->time = time;
        }
        return true;
    default:
        return event->done >= op->generation;
    }
    queue->next_timed = due < queue->next_timed ? due : queue->next_timed;
    return false;
}

/* Takes off what is over and finds what may run. */
static void settle(struct sim_engine *engine, struct sim_queue *queue) {
    bool again = true;
    while (again) {
        uint64_t lanes = queue->lanes_used;
        again = false;
        queue->lanes_running = 0;
        queue->weight = 0;
        queue->next_timed = NEVER;
        while (lanes != 0) {
            unsigned index = (unsigned)__builtin_ctzll(lanes);
            lanes &= lanes - 1;
            struct sim_lane *lane = &queue->lanes[index];
            while (lane->head != 0) {
                struct sim_op *op = &queue->ops[(lane->head - 1) % SIM_OPS];
                if (!over(engine, queue, index, op)) {
                    break;
                }
                again |= op->kind == SIM_OP_EVENT && queue->waits != 0;
                pop(queue, index);
            }
        }
    }
    if (queue->lanes_used == 0) {
        unsigned number = (unsigned)(queue - sim_engines->queues);
        engine->queues[number / 64] &= ~(1ull << number % 64);
    }
}

/* ---- the books of time ---- */

static void note(struct sim_history *history, uint64_t from, uint64_t length) {
    const uint64_t kept = SIM_HISTORY * SIM_HISTORY_NS;
    if (length > kept) {
        from += length - kept;
        length = kept;
    }
    while (length > 0) {
        uint64_t bucket = from / SIM_HISTORY_NS, room = (bucket + 1) * SIM_HISTORY_NS - from;
        uint64_t part = length < room ? length : room;
        struct sim_history *at = &history[bucket % SIM_HISTORY];
        if (at->bucket != (uint32_t)bucket) {
            at->bucket = (uint32_t)bucket;
            at->busy = 0;
        }
        at->busy += (uint32_t)part;
        from += part;
        length -= part;
    }
}

/* Device time in the running window and in the one before: what NVML computes utilization from. */
static void note_window(struct sim_engine_page *page, uint64_t start, uint64_t length) {
    uint64_t window = atomic_load_explicit(&page->window_start, memory_order_relaxed);
    uint64_t busy = atomic_load_explicit(&page->window_busy, memory_order_relaxed);
    if (start - window >= WINDOW_NS) {
        bool next = start - window < 2 * WINDOW_NS;
        atomic_store_explicit(&page->window_previous, next ? busy : 0, memory_order_relaxed);
        atomic_store_explicit(&page->window_start, start - start % WINDOW_NS, memory_order_relaxed);
        busy = 0;
    }
    atomic_store_explicit(&page->window_busy, busy + length, memory_order_relaxed);
}

static void ran(struct sim_queue *queue, uint64_t from, uint64_t length) {
    struct sim_engine_page *page = &sim_books->engines[queue->device][queue->slot];
    queue->busy_ns += length;
    note(queue->history, from, length);
    while (length > 0) { /* a window holds no more than its own length */
        uint64_t part = WINDOW_NS - from % WINDOW_NS < length ? WINDOW_NS - from % WINDOW_NS : length;
        note_window(page, from, part);
        from += part;
        length -= part;
    }
}

/* ---- the device ---- */

/* The work of a dead process goes with it. */
static bool alive(struct sim_engine *engine, struct sim_queue *queue) {
    if (engine->time - queue->checked < ALIVE_NS) {
        return true;
    }
    queue->checked = engine->time;
    const struct sim_slot *slot = &sim_books->slots[queue->slot];
    if (slot->start_time == queue->start_time && slot->pid == queue->pid && sim_slot_pid(queue->slot) != 0) {
        return true;
    }
    unsigned number = (unsigned)(queue - sim_engines->queues);
    queue->state = 2;
    queue->lanes_used = queue->lanes_running = 0;
    queue->next_timed = NEVER;
    engine->queues[number / 64] &= ~(1ull << number % 64);
    return false;
}

/* The next queue, round the circle, that has something to run; the present one last. */
static struct sim_queue *pick(struct sim_engine *engine) {
    unsigned limit = sim_engines->queue_limit, start = engine->current;
    for (unsigned step = 0; step < limit; step++) {
        unsigned number = (start + step) % limit;
        if ((engine->queues[number / 64] >> number % 64 & 1) == 0) {
            continue;
        }
        struct sim_queue *queue = &sim_engines->queues[number];
        if (queue->lanes_running != 0 && alive(engine, queue)) {
            if (engine->current != 0 && engine->current != number + 1) {
                engine->switching = engine->switch_ns;
            }
            engine->current = number + 1;
            engine->slice_end = engine->time + (queue->slice_ns != 0 ? queue->slice_ns : engine->slice_ns);
            settle(engine, queue); /* events that have waited for this */
            if (queue->lanes_running != 0) {
                return queue;
            }
        }
    }
    return NULL;
}

static uint64_t next_timed(const struct sim_engine *engine) {
    uint64_t due = NEVER;
    for (unsigned word = 0; word < SIM_QUEUES / 64; word++) {
        for (uint64_t set = engine->queues[word]; set != 0; set &= set - 1) {
            const struct sim_queue *queue = &sim_engines->queues[word * 64 + (unsigned)__builtin_ctzll(set)];
            due = queue->next_timed < due ? queue->next_timed : due;
        }
    }
    return due;
}

static void settle_timed(struct sim_engine *engine) {
    for (unsigned word = 0; word < SIM_QUEUES / 64; word++) {
        for (uint64_t set = engine->queues[word]; set != 0; set &= set - 1) {
            struct sim_queue *queue = &sim_engines->queues[word * 64 + (unsigned)__builtin_ctzll(set)];
            if (queue->next_timed <= engine->time) {
                settle(engine, queue);
            }
        }
    }
}

/* Runs the heads of a queue's streams, at most up to `limit`. Kernels that do not fit beside each other slow down. */
static void run(struct sim_engine *engine, struct sim_queue *queue, uint64_t limit) {
    uint64_t weight = queue->weight > SIM_WHOLE ? queue->weight : SIM_WHOLE, step = limit - engine->time;
    for (uint64_t lanes = queue->lanes_running; lanes != 0; lanes &= lanes - 1) {
        const struct sim_op *op = &queue->ops[(queue->lanes[__builtin_ctzll(lanes)].head - 1) % SIM_OPS];
        uint64_t needs = (op->left * weight + SIM_WHOLE - 1) / SIM_WHOLE;
        step = needs < step ? needs : step;
    }
    uint64_t done = step * SIM_WHOLE / weight;
    bool ended = false;
    for (uint64_t lanes = queue->lanes_running; lanes != 0; lanes &= lanes - 1) {
        struct sim_lane *lane = &queue->lanes[__builtin_ctzll(lanes)];
        struct sim_op *op = &queue->ops[(lane->head - 1) % SIM_OPS];
        uint64_t part = done < op->left ? done : op->left;
        op->left -= part;
        lane->work_done += part;
        ended |= op->left == 0;
    }
    ran(queue, engine->time, step);
    engine->time += step;
    if (ended) {
        settle(engine, queue);
    }
}

void sim_engine_advance(unsigned device, uint64_t now) {
    struct sim_engine *engine = &sim_engines->devices[device];
    engine->time = engine->time != 0 ? engine->time : now;
    while (engine->time < now) {
        uint64_t limit = next_timed(engine);
        limit = limit < now ? limit : now;
        struct sim_queue *queue = engine->current != 0 ? &sim_engines->queues[engine->current - 1] : NULL;
        if (queue == NULL || queue->lanes_running == 0 || queue->device != device ||
            engine->time >= engine->slice_end) {
            queue = pick(engine);
        }
        if (limit <= engine->time) {
            settle_timed(engine);
            continue;
        }
        if (queue == NULL) {
            note(engine->idle, engine->time, limit - engine->time);
            engine->idle_ns += limit - engine->time;
            engine->time = limit;
        } else if (engine->switching > 0) {
            uint64_t step = engine->switching < limit - engine->time ? engine->switching : limit - engine->time;
            engine->switching -= step;
            engine->time += step;
            engine->slice_end += step;
        } else {
            run(engine, queue, limit < engine->slice_end ? limit : engine->slice_end);
        }
        if (next_timed(engine) <= engine->time) {
            settle_timed(engine);
        }
    }
}

void sim_engine_refresh(unsigned device) {
    struct sim_engine *engine = &sim_engines->devices[device];
    sim_engine_lock(&engine->lock);
    sim_engine_advance(device, sim_now());
    sim_engine_unlock(&engine->lock);
}

bool sim_engine_idle(unsigned slot) {
    const struct sim_slot *process = &sim_books->slots[slot];
    for (uint32_t i = 0; i < sim_engines->queue_limit && i < SIM_QUEUES; i++) {
        const struct sim_queue *queue = &sim_engines->queues[i];
        bool of_process = queue->state == 1 && queue->slot == slot && queue->pid == process->pid &&
                          queue->start_time == process->start_time;
        if (of_process) {
            sim_engine_refresh(queue->device);
        }
        if (of_process && queue->lanes_used != 0) {
            return false;
        }
    }
    return true;
}
