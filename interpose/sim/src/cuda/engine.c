/*
 * When queued work is done. A device works on one thing of a process at a time; beside other busy processes it gives
 * each an equal share, which stretches the work by their number. What a process has queued is published in its engine
 * page, where NVML takes utilization from.
 *
 * As on a real device, a process can queue only so many launches (QUEUE) before the launching call waits.
 */
#include <stdlib.h>

#include "clock.h"
#include "driver.h"

#define QUEUE 1024u
#define WINDOW_NS 250000000ull
#define JITTER_PERCENT 20

static struct engine {
    _Atomic uint32_t lock;
    uint32_t head;
    uint64_t busy_until;
    uint64_t ends[QUEUE]; /* of the last QUEUE pieces of work */
} engines[SIM_MAX_DEVICES];

static void take(struct engine *engine) {
    for (unsigned spins = 0; atomic_exchange_explicit(&engine->lock, 1, memory_order_acquire) != 0; spins++) {
        if (spins > 100) {
            struct timespec moment = {.tv_nsec = 1000};
            nanosleep(&moment, NULL); /* the holder may have been preempted */
        }
    }
}

static void drop(struct engine *engine) {
    atomic_store_explicit(&engine->lock, 0, memory_order_release);
}

uint64_t sim_jittered(uint64_t duration) {
    static _Thread_local uint64_t state;
    if (state == 0) {
        state = sim_now() ^ (uint64_t)(uintptr_t)&state ^ sim_books->seed;
        state += state == 0;
    }
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    uint64_t percent = 100 - JITTER_PERCENT + state % (2 * JITTER_PERCENT + 1);
    return duration * percent / 100;
}

static unsigned busy_processes(unsigned device, int mine, uint64_t now) {
    unsigned limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_relaxed);
    unsigned busy = 1;
    for (unsigned slot = 0; slot < limit; slot++) {
        if ((int)slot != mine) {
            busy += atomic_load_explicit(&sim_books->engines[device][slot].busy_until, memory_order_relaxed) > now;
        }
    }
    return busy;
}

/* Device time spent in the running window and in the one before: what utilization is computed from. */
static void account(struct sim_engine_page *page, uint64_t start, uint64_t duration) {
    uint64_t window = atomic_load_explicit(&page->window_start, memory_order_relaxed);
    uint64_t busy = atomic_load_explicit(&page->window_busy, memory_order_relaxed);
    if (start - window >= WINDOW_NS) {
        bool next = start - window < 2 * WINDOW_NS;
        atomic_store_explicit(&page->window_previous, next ? busy : 0, memory_order_relaxed);
        atomic_store_explicit(&page->window_start, start - start % WINDOW_NS, memory_order_relaxed);
        busy = 0;
    }
    atomic_store_explicit(&page->window_busy, busy + duration, memory_order_relaxed);
}

uint64_t sim_engine_submit(struct sim_stream *stream, uint64_t duration) {
    unsigned device = stream->context->device;
    struct engine *engine = &engines[device];
    int slot = sim_slot_mine();
    uint64_t now = sim_now();
    take(engine);
    uint64_t oldest = engine->ends[engine->head % QUEUE];
    if (oldest > now) { /* the queue is full */
        drop(engine);
        sim_wait_until(oldest);
        now = sim_now();
        take(engine);
    }
    uint64_t start = engine->busy_until > now ? engine->busy_until : now;
    uint64_t ready = atomic_load_explicit(&stream->ready_at, memory_order_relaxed);
    start = ready > start ? ready : start; /* the stream may wait for an event */
    uint64_t end = start;
    if (slot >= 0) {
        struct sim_engine_page *page = &sim_books->engines[device][slot];
        end += duration * busy_processes(device, slot, now);
        account(page, start, duration);
        atomic_store_explicit(&page->busy_until, end, memory_order_relaxed);
        atomic_fetch_add_explicit(&page->busy_total, duration, memory_order_relaxed);
        atomic_fetch_add_explicit(&page->launches, 1, memory_order_relaxed);
    }
    engine->busy_until = end;
    engine->ends[engine->head++ % QUEUE] = end;
    atomic_store_explicit(&stream->ready_at, end, memory_order_relaxed);
    drop(engine);
    return end;
}

uint64_t sim_engine_ready(struct sim_context *context) {
    struct engine *engine = &engines[context->device];
    take(engine);
    uint64_t until = engine->busy_until;
    drop(engine);
    return until;
}

void sim_engine_wait_context(struct sim_context *context) {
    sim_wait_until(sim_engine_ready(context));
}
