/*
 * The functions that give a device work. Without a limit they cost a look at one word; with one, a short launch takes
 * from what its stream was granted, and only every so many reach the gate.
 */
#include "compute/machine.h"

#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/graph.h"
#include "memory/stream_pool.h"
#include "policies.h"
#include "threads.h"

#include <time.h>

enum { COSTS_KNOWN = 64, STREAMS_KNOWN = 4, LOOK_EVERY = 64, LOOK_NS = 100000000 };
enum { TAKEN_AHEAD = 32, MOST_AHEAD = 50000 }; /* launches, ns */

static CUstream const legacy = (CUstream)1;
static CUstream const per_thread = (CUstream)2;

/* What a launch is to the controller. */
struct launch {
    uint64_t key; /* function and shape */
    CUstream stream;
};

/* What one that went through the gate leaves to be done after the driver's call. */
struct pass {
    struct runner *runner; /* NULL: nothing */
    int64_t cost;
    CUevent sample;
    enum mark_due due;
    uint32_t closed; /* of the runner */
    struct granted how;
};

struct known_cost {
    uint64_t key;
    uint32_t ns;
    uint32_t until_sample;
};

/* With a little of the stream's grant that this thread has taken ahead: most launches then change nothing shared. */
struct known_stream {
    _Alignas(64) CUcontext context;
    CUstream stream;
    struct runner *runner; /* NULL: its device has no limit */
    const _Atomic uint64_t *turn_word;
    const _Atomic uint32_t *closed_word;
    uint64_t turn;
    uint32_t epoch;  /* of runner_epoch; otherwise nothing is known */
    uint32_t closed; /* of the runner: what was taken before its grant was closed is void */
    uint64_t ahead;  /* ns */
};

static _Thread_local struct known_cost costs[COSTS_KNOWN];
static _Thread_local struct known_stream streams[STREAMS_KNOWN];
static _Thread_local uint32_t until_look;
static _Thread_local uint32_t look_every;
static _Thread_local uint32_t counted_at; /* `until_look` when launches were last added to the region's figure */
static _Thread_local int64_t last_look;

static uint64_t mix(uint64_t a, uint64_t b) {
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t key_of(const void *function, uint64_t grid, uint64_t block) {
    uint64_t key = mix((uint64_t)(uintptr_t)function, mix(grid, block << 1));
    key ^= key >> 32;
    return key | 1;
}

static struct launch launch_of(const void *function, uint64_t grid, uint64_t block, CUstream stream, bool threaded) {
    CUstream real = stream != NULL ? stream : threaded ? per_thread : legacy;
    return (struct launch){key_of(function, grid, block), real};
}

/* ---- without a limit ---- */

/* Adds this thread's launches since it last did to its process's. */
static void count_launches(void) {
    struct hami_region_view *view = atomic_load_explicit(&hami_state_region_now, memory_order_acquire);
    uint32_t launches = counted_at - until_look;
    if (view != NULL && launches != 0) {
        _Atomic uint64_t *figure = &view->region->block.slots[view->slot].launches;
        add_relaxed(figure, launches);
    }
    counted_at = until_look;
}

/* Every LOOK_EVERY launches, or more often where those take long: are there other limits now? */
HAMI_APART static void look(void) {
    struct timespec coarse;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
    int64_t now = (int64_t)coarse.tv_sec * 1000000000 + coarse.tv_nsec, took = now - last_look;
    last_look = now;
    if (took > LOOK_NS) {
        look_every = look_every / 8 + 1;
    } else if (look_every < LOOK_EVERY) {
        look_every *= 2;
    }
    count_launches();
    counted_at = until_look = look_every;
    HAMI_UNCANCELLED;
    suspend_check();
    (void)machines_refresh();
}

static inline bool unlimited(void) {
    if (__builtin_expect(until_look == 0, 0)) {
        look();
    }
    until_look--;
    const _Atomic int32_t *active = load_relaxed(&suspend_word);
    if (__builtin_expect(load_relaxed(active) != 2, 0)) {
        suspend_check();
    }
    return load_relaxed(&compute_state) != COMPUTE_ON;
}

/* ---- with one ---- */

/* The compiler computes addresses of a thread's own anew at each use, unless it cannot know what they are. */
#define SETTLED(pointer) __asm__("" : "+r"(pointer))

static inline struct known_cost *cost_place(uint64_t key) {
    struct known_cost *place = &costs[(key >> 1) % COSTS_KNOWN];
    SETTLED(place);
    return place;
}

static inline struct known_stream *stream_place(CUstream stream) {
    struct known_stream *place = &streams[((uintptr_t)stream >> 6 ^ (uintptr_t)stream) % STREAMS_KNOWN];
    SETTLED(place);
    return place;
}

/* Takes more of the grant ahead, for as many launches as are worth it. False: there is not even enough for one. */
static bool take_ahead(struct known_stream *stream, uint32_t ns, uint64_t turn) {
    uint32_t launches = ns < MOST_AHEAD / TAKEN_AHEAD ? TAKEN_AHEAD : ns < MOST_AHEAD ? MOST_AHEAD / ns : 1;
    uint32_t closed = load_relaxed(runner_closed(stream->runner));
    int64_t taken = runner_take(stream->runner, ns, (int64_t)ns * launches);
    if (stream->turn != turn || stream->closed != closed) {
        stream->turn = turn;
        stream->closed = closed;
        stream->ahead = 0;
    }
    stream->ahead += (uint64_t)taken;
    return taken > 0;
}

/* What this thread has ahead goes back to the grants it is from, if they are still open; lock held. */
static void return_ahead(void) {
    for (unsigned i = 0; i < STREAMS_KNOWN; i++) {
        struct known_stream *stream = &streams[i];
        if (stream->ahead != 0 && stream->epoch == atomic_load(&runner_epoch) &&
            stream->turn == atomic_load(stream->turn_word) && stream->closed == atomic_load(stream->closed_word)) {
            runner_refund(stream->runner, (int64_t)stream->ahead);
            stream->ahead = 0;
        }
    }
}

/* Takes from what this thread has ahead. */
static inline __attribute__((always_inline)) bool spend(const struct launch *l) {
    struct known_cost *cost = cost_place(l->key);
    struct known_stream *stream = stream_place(l->stream);
    uint32_t ns = cost->ns;
    if (stream->stream != l->stream || stream->epoch != load_relaxed(&runner_epoch)) {
        return false;
    }
    if (cost->key != l->key || cost->until_sample == 0 || __builtin_expect(stream->runner == NULL, 0)) {
        return stream->runner == NULL;
    }
    uint64_t turn = load_relaxed(stream->turn_word);
    uint32_t closed = load_relaxed(stream->closed_word);
    bool void_now = stream->turn != turn || stream->closed != closed;
    if (__builtin_expect(stream->ahead < ns || void_now, 0) && !take_ahead(stream, ns, turn)) {
        return false;
    }
    stream->ahead -= ns;
    cost->until_sample--;
    return true;
}

/* Each context has its own of these; other streams have one. */
static inline bool of_each_context(CUstream stream) {
    return (stream == legacy || stream == per_thread) && !hami_context_only_one();
}

/* A short launch on a stream that still has some of its grant. */
static bool granted_before(const struct launch *l) {
    struct hami_context context;
    if (of_each_context(l->stream) &&
        (!hami_context_current(&context) || stream_place(l->stream)->context != context.handle)) {
        return false;
    }
    return spend(l);
}

/* Until limits change, launches on this stream need not ask. */
static void remember_unlimited(const struct launch *l, const struct hami_context *context, uint32_t epoch) {
    bool capturing = atomic_load(&runner_captures) > 0;
    *stream_place(l->stream) =
        (struct known_stream){.context = context->handle, .stream = l->stream, .epoch = capturing ? 0 : epoch};
}

static void remember(const struct launch *l, const struct hami_context *context, struct runner *runner,
                     struct cost *cost) {
    struct known_cost *known = cost_place(l->key);
    struct known_stream *place = stream_place(l->stream);
    uint32_t epoch = atomic_load(&runner_epoch); /* before the captures: their beginning changes it */
    if (place->epoch != epoch || place->stream != l->stream || place->context != context->handle) {
        *place = (struct known_stream){.context = context->handle,
                                       .stream = l->stream,
                                       .runner = runner,
                                       .turn_word = turn_word(runner_machine(runner)),
                                       .closed_word = runner_closed(runner),
                                       .epoch = atomic_load(&runner_captures) > 0 ? 0 : epoch};
    }
    uint32_t ns = cost->mean > UINT32_MAX ? UINT32_MAX : (uint32_t)(cost->mean + 0.5);
    if (known->key == l->key) {
        known->ns = ns;
        return;
    }
    *known = (struct known_cost){l->key, ns, cost->mean > 0 ? cost_until_sample(cost) : 0};
}

/* Whether this launch is to be sampled; the thread then counts down to its next. */
static bool sample_due(const struct launch *l, struct cost *cost) {
    struct known_cost *known = cost_place(l->key);
    if (cost->mean <= 0) {
        return true;
    }
    if (known->key == l->key && known->until_sample > 0) {
        known->until_sample--;
        return false;
    }
    if (known->key == l->key) {
        known->until_sample = cost_until_sample(cost);
        return true;
    }
    return cost_until_sample(cost) == 0;
}

static void through_gate(const struct launch *l, const struct hami_context *context, struct machine *m,
                         struct pass *p) {
    uint64_t now = compute_now();
    bool apart = runners_apart(m, now);
    compute_lock();
    struct runner *runner = runner_of(m, context->handle, l->stream);
    if (runner != NULL) {
        runner_close_if_due(runner, apart ? DUE_NOW : DUE_WHEN_FULL); /* may learn what launches cost */
    }
    struct cost *cost = cost_of(l->key);
    int64_t ns = (int64_t)cost->mean;
    bool unknown = ns <= 0, clean = !unknown && cost->samples >= 5 && ns <= BATCH * 5 / 2;
    bool sampled = sample_due(l, cost);
    ns = unknown ? UNKNOWN : ns;
    int64_t longest = ns + 3 * (int64_t)cost->spread; /* what it will hardly exceed */
    if (runner != NULL) {
        remember(l, context, runner, cost);
    }
    bool granted = runner != NULL && !unknown && runner_take(runner, ns, ns) > 0;
    int64_t part = apart && runner != NULL && !unknown ? runner_worth_apart(runner, ns, now) : 0;
    int64_t amount = part > 0 && !granted ? runner_from_aside(runner, ns, part, now) : 0;
    compute_unlock();
    bool aside = amount > 0, waited = false;
    if (aside) {
        gate_reserve(m, amount, longest, compute_now());
    } else if (!granted) {
        amount = ns > BATCH || unknown ? ns : BATCH;
        waited = gate_pass(m, &amount, unknown, longest);
    }
    compute_lock();
    if (runner == NULL || runner_machine(runner) != m || !runner_is(runner, context->handle, l->stream)) {
        if (!granted) {                      /* else it was charged as the stream ended */
            balance_charge(m, (uint64_t)ns); /* more streams than can be followed */
            (void)atomic_fetch_sub(&m->own->out, amount);
        }
    } else {
        struct granted how = {
            .clean = clean, .known = !unknown, .aside = aside, .arrived = now, .passed = compute_now()};
        if (part > 0 && amount > part) {
            runner_set_aside(runner, amount - part);
            amount = part;
        }
        bool alone = part > 0 && amount == ns;
        if (!granted) {
            runner_grant(runner, amount, ns, how);
        }
        runner_passing(runner, 1);
        *p = (struct pass){.runner = runner,
                           .cost = ns,
                           .due = unknown ? DUE_NOW
                                  : alone ? DUE_APART
                                          : DUE_WHEN_FULL,
                           .closed = atomic_load(runner_closed(runner)),
                           .how = how};
        if (waited) {
            runner_compare_clocks(runner);
        }
        if (sampled) {
            p->sample = runner_sample_begin(runner, l->key);
        }
    }
    helper_wake();
    compute_unlock();
}

/* Where there is a limit. */
static void begin_limited(const struct launch *l, struct pass *p) {
    struct hami_context context;
    if (granted_before(l) || !hami_context_current(&context)) {
        return;
    }
    HAMI_UNCANCELLED;                            /* the others of the container count on who waits */
    uint32_t epoch = atomic_load(&runner_epoch); /* before the limits: their change changes it */
    struct machine *m = machines_refresh() == COMPUTE_ON ? machine_of(context.device) : NULL;
    if (m == NULL) {
        if (machine_free(context.device)) {
            remember_unlimited(l, &context, epoch);
        }
        return;
    }
    bool captured = load_relaxed(&runner_captures) > 0 && runners_capturing(l->stream);
    if (!captured) { /* what is captured is charged when its graph is launched */
        through_gate(l, &context, m, p);
    }
}

/* Before the driver's call. */
static struct pass begin(const void *function, uint64_t grid, uint64_t block, CUstream stream, bool threaded) {
    struct launch l = launch_of(function, grid, block, stream, threaded);
    struct pass p;
    p.runner = NULL;
    if (!unlimited()) {
        begin_limited(&l, &p);
    }
    return p;
}

/* After it. */
static int32_t end(struct pass *p, int32_t status) {
    if (__builtin_expect(p->runner == NULL, 1)) {
        return status;
    }
    HAMI_UNCANCELLED;
    compute_lock();
    if (status != CUDA_SUCCESS) {
        runner_refund(p->runner, p->cost);
        runner_sample_drop(p->runner, p->sample);
    } else {
        runner_sample_end(p->runner, p->sample);
        p->due = runner_regrant(p->runner, p->closed, p->cost, p->how) ? DUE_NOW : p->due;
    }
    runner_passing(p->runner, -1);
    runner_close_if_due(p->runner, p->due);
    helper_wake();
    compute_unlock();
    return status;
}

/* ---- policies ---- */

typedef CUresult launch_kernel(void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, CUstream,
                               void **, void **);

/* The most frequent call of all has its driver functions here. */
static _Atomic(launch_kernel *) driver_launch[2];

/*
 * One that there is nothing to ask about goes to the driver at once, and one that has been granted nearly so. Each step
 * has the driver's own arguments, which then stay where they are.
 */
#define LAUNCH                                                                                                         \
    void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared,     \
        CUstream stream, void **params, void **extra
#define LAUNCHED function, gx, gy, gz, bx, by, bz, shared, stream, params, extra

static inline int32_t launch_gated(enum hami_hook hook, LAUNCH) {
    bool threaded = hook == HAMI_cuLaunchKernel_ptsz;
    launch_kernel *driver = hami_driver_function(hook);
    store_relaxed(&driver_launch[threaded], driver);
    struct pass p = begin(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream, threaded);
    return end(&p, driver(LAUNCHED));
}

HAMI_APART static int32_t gated(LAUNCH) {
    return launch_gated(HAMI_cuLaunchKernel, LAUNCHED);
}

HAMI_APART static int32_t gated_ptsz(LAUNCH) {
    return launch_gated(HAMI_cuLaunchKernel_ptsz, LAUNCHED);
}

static inline int32_t launch_granted(bool threaded, LAUNCH) {
    struct launch l = launch_of(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream, threaded);
    if (of_each_context(l.stream) || !spend(&l)) {
        return threaded ? gated_ptsz(LAUNCHED) : gated(LAUNCHED);
    }
    until_look--;
    launch_kernel *driver = load_relaxed(&driver_launch[threaded]);
    return driver(LAUNCHED);
}

HAMI_APART static int32_t granted(LAUNCH) {
    return launch_granted(false, LAUNCHED);
}

HAMI_APART static int32_t granted_ptsz(LAUNCH) {
    return launch_granted(true, LAUNCHED);
}

int32_t hami_launch_kernel(enum hami_hook hook, LAUNCH) {
    bool threaded = hook == HAMI_cuLaunchKernel_ptsz;
    launch_kernel *driver = load_relaxed(&driver_launch[threaded]);
    const _Atomic int32_t *active = load_relaxed(&suspend_word);
    if (driver == NULL || until_look == 0 || load_relaxed(active) != 2) {
        return threaded ? gated_ptsz(LAUNCHED) : gated(LAUNCHED);
    }
    if (load_relaxed(&compute_state) == COMPUTE_ON) {
        return threaded ? granted_ptsz(LAUNCHED) : granted(LAUNCHED);
    }
    until_look--;
    return driver(LAUNCHED);
}

int32_t hami_launch_kernel_ex(enum hami_hook hook, const struct hami_launch_config *config, void *function,
                              void **params, void **extra) {
    CUresult (*driver)(const struct hami_launch_config *, void *, void **, void **) = hami_driver_function(hook);
    struct pass p = {.runner = NULL};
    if (config != NULL && !unlimited()) {
        const uint32_t *g = config->grid, *b = config->block;
        struct launch l = launch_of(function, (uint64_t)g[0] * g[1] * g[2], (uint64_t)b[0] * b[1] * b[2],
                                    config->stream, hook == HAMI_cuLaunchKernelEx_ptsz);
        begin_limited(&l, &p);
    }
    return end(&p, driver(config, function, params, extra));
}

int32_t hami_launch_cooperative(enum hami_hook hook, void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
                                uint32_t by, uint32_t bz, uint32_t shared, CUstream stream, void **params) {
    CUresult (*driver)(void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, CUstream,
                       void **) = hami_driver_function(hook);
    bool threaded = hook == HAMI_cuLaunchCooperativeKernel_ptsz;
    struct pass p = begin(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream, threaded);
    return end(&p, driver(function, gx, gy, gz, bx, by, bz, shared, stream, params));
}

/* Each part on its own device; parts beyond those that can be followed are let through. */
int32_t hami_launch_multi_device(enum hami_hook hook, struct hami_launch_params *list, uint32_t count, uint32_t flags) {
    enum { FOLLOWED = 16 };
    CUresult (*driver)(struct hami_launch_params *, uint32_t, uint32_t) = hami_driver_function(hook);
    CUresult (*context_of)(CUstream, CUcontext *) = hami_cuda_function("cuStreamGetCtx");
    CUresult (*push)(CUcontext) = hami_cuda_function("cuCtxPushCurrent_v2");
    CUresult (*pop)(CUcontext *) = hami_cuda_function("cuCtxPopCurrent_v2");
    struct pass passes[FOLLOWED] = {{.runner = NULL}};
    CUcontext contexts[FOLLOWED], popped = NULL;
    uint32_t followed = list == NULL || context_of == NULL || push == NULL || pop == NULL ? 0
                        : count < FOLLOWED                                                ? count
                                                                                          : FOLLOWED;
    for (uint32_t i = 0; i < followed && !unlimited(); i++) {
        const struct hami_launch_params *at = &list[i];
        if (context_of(at->stream, &contexts[i]) == CUDA_SUCCESS && push(contexts[i]) == CUDA_SUCCESS) {
            struct launch l = launch_of(at->function, (uint64_t)at->grid[0] * at->grid[1] * at->grid[2],
                                        (uint64_t)at->block[0] * at->block[1] * at->block[2], at->stream, false);
            begin_limited(&l, &passes[i]);
            (void)pop(&popped);
        }
    }
    CUresult status = driver(list, count, flags);
    for (uint32_t i = 0; i < followed; i++) {
        if (passes[i].runner != NULL) {
            bool pushed = push(contexts[i]) == CUDA_SUCCESS;
            (void)end(&passes[i], status);
            if (pushed) {
                (void)pop(&popped);
            }
        }
    }
    return status;
}

int32_t hami_launch_legacy(enum hami_hook hook, void *function) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    struct pass p = begin(function, 1, 1, NULL, false);
    return end(&p, driver(function));
}

int32_t hami_launch_grid(enum hami_hook hook, void *function, int32_t width, int32_t height) {
    CUresult (*driver)(void *, int32_t, int32_t) = hami_driver_function(hook);
    struct pass p = begin(function, (uint64_t)(uint32_t)width * (uint32_t)height, 1, NULL, false);
    return end(&p, driver(function, width, height));
}

int32_t hami_launch_grid_async(enum hami_hook hook, void *function, int32_t width, int32_t height, CUstream stream) {
    CUresult (*driver)(void *, int32_t, int32_t, CUstream) = hami_driver_function(hook);
    struct pass p = begin(function, (uint64_t)(uint32_t)width * (uint32_t)height, 1, stream, false);
    return end(&p, driver(function, width, height, stream));
}

int32_t hami_graph_start(enum hami_hook hook, void *graph, CUstream stream) {
    CUresult (*driver)(void *, CUstream) = hami_driver_function(hook);
    struct hami_graph_memory *memory = NULL;
    /* May wait, and so comes before the graph's memory is held. */
    struct pass p = begin(graph, 0, 0, stream, hook == HAMI_cuGraphLaunch_ptsz);
    if (!hami_graph_run_begin(graph, &memory)) {
        return end(&p, CUDA_ERROR_OUT_OF_MEMORY);
    }
    CUresult status = end(&p, driver(graph, stream));
    hami_graph_run_end(memory, status);
    return status;
}

/* ---- waiting for work: the marks are set before, so that they tell the time it ended ---- */

static void close_marks(void) {
    count_launches();
    if (load_relaxed(&compute_state) == COMPUTE_ON) {
        HAMI_UNCANCELLED;
        compute_lock();
        return_ahead();
        runners_close(NULL);
        helper_wake();
        compute_unlock();
    }
}

int32_t hami_stream_sync(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    bool unnamed = stream == NULL && hook == HAMI_cuStreamSynchronize;
    uint64_t frees = hami_pools_waiting();
    close_marks();
    return hami_pools_waited(driver(stream), unnamed ? legacy : stream, frees);
}

int32_t hami_ctx_sync(enum hami_hook hook) {
    CUresult (*driver)(void) = hami_driver_function(hook);
    uint64_t frees = hami_pools_waiting();
    close_marks();
    return hami_pools_waited(driver(), HAMI_ALL_STREAMS, frees);
}

int32_t hami_ctx_sync_v2(enum hami_hook hook, CUcontext context) {
    CUresult (*driver)(CUcontext) = hami_driver_function(hook);
    uint64_t frees = hami_pools_waiting();
    close_marks();
    return hami_pools_waited(driver(context), HAMI_ALL_STREAMS, frees);
}

int32_t hami_event_sync(enum hami_hook hook, void *event) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    uint64_t frees = hami_pools_waiting();
    close_marks();
    return hami_pools_waited(driver(event), HAMI_NO_STREAM, frees);
}

int32_t hami_stream_destroy(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    hami_compute_stream_ending(stream);
    hami_pools_stream_ending(stream);
    return driver(stream);
}

static void drop_streams(CUcontext context, CUstream stream) {
    if (load_relaxed(&compute_state) != COMPUTE_FRESH) {
        HAMI_UNCANCELLED;
        compute_lock();
        runners_drop(context, stream);
        compute_unlock();
    }
}

void hami_compute_stream_ending(CUstream stream) {
    drop_streams(NULL, stream);
}

void hami_compute_context_ending(CUcontext context) {
    if (context != NULL) {
        drop_streams(context, NULL);
    }
}

/* ---- capture: as long as some stream is captured, launches ask whether theirs is ---- */

static int32_t capture_began(int32_t status) {
    if (status == CUDA_SUCCESS) {
        (void)atomic_fetch_add(&runner_captures, 1);
        runners_changed();
    }
    return status;
}

/* Other errors leave it under way, or there was none. */
static int32_t capture_ended(int32_t status) {
    bool ended = status == CUDA_SUCCESS || status == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
                 status == CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    int captures = atomic_load(&runner_captures);
    while (ended && captures > 0 && !atomic_compare_exchange_weak(&runner_captures, &captures, captures - 1)) {
    }
    return status;
}

int32_t hami_capture_begin_v1(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    close_marks();
    return capture_began(driver(stream));
}

int32_t hami_capture_begin(enum hami_hook hook, CUstream stream, int32_t mode) {
    CUresult (*driver)(CUstream, int32_t) = hami_driver_function(hook);
    close_marks();
    return capture_began(driver(stream, mode));
}

int32_t hami_capture_begin_graph(enum hami_hook hook, CUstream stream, void *graph, const void *dependencies,
                                 const void *data, uint64_t count, int32_t mode) {
    CUresult (*driver)(CUstream, void *, const void *, const void *, uint64_t, int32_t) = hami_driver_function(hook);
    close_marks();
    return capture_began(driver(stream, graph, dependencies, data, count, mode));
}

int32_t hami_capture_begin_cig(enum hami_hook hook, CUstream stream, void *params) {
    CUresult (*driver)(CUstream, void *) = hami_driver_function(hook);
    close_marks();
    return capture_began(driver(stream, params));
}

int32_t hami_capture_end(enum hami_hook hook, CUstream stream, void **graph) {
    CUresult (*driver)(CUstream, void **) = hami_driver_function(hook);
    return capture_ended(driver(stream, graph));
}

int32_t hami_capture_end_cig(enum hami_hook hook, CUstream stream) {
    CUresult (*driver)(CUstream) = hami_driver_function(hook);
    return capture_ended(driver(stream));
}
