/*
 * The functions that give a device work. Without a limit they read one or two words before the driver's function. With
 * a limit, a short launch takes from what its stream was granted, and about one in a millisecond of work goes through
 * the gate.
 *
 * Each thread remembers streams and costs, so that most launches neither take a lock nor write shared memory.
 */
#include "compute/gate.h"

#include "compute/charging.h"
#include "compute/compute.h"
#include "compute/cost.h"
#include "compute/suspend.h"
#include "compute/tuning.h"
#include "compute/turn.h"
#include "compute/wait.h"
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/contexts.h"
#include "memory/graph.h"
#include "policies.h"
#include "threads.h"

#include <time.h>

enum {
    COSTS_REMEMBERED = 64,
    STREAMS_REMEMBERED = 4,
    REFRESH_EVERY_LAUNCHES = 64, /* are there other limits now? */
    REFRESH_EVERY_NS = 100000000,
    AHEAD_LAUNCHES = 32,   /* what a thread takes ahead of a grant: so many launches, */
    AHEAD_MOST_NS = 50000, /* but no more than this */
    CLEAN_SAMPLES = 5,
    CLEAN_MOST_NS = GRANT_NS / 2 * 5
};

/* What a launch is to the controller. */
struct launch {
    uint64_t key; /* of its cost: function and shape */
    CUstream stream;
};

struct remembered_cost {
    uint64_t key;
    uint32_t ns;
    uint32_t until_sample; /* launches */
};

struct remembered_stream {
    _Alignas(64) CUcontext context;
    CUstream stream;
    struct stream_account *account; /* NULL: its device has no limit */
    const _Atomic uint64_t *turn_word;
    const _Atomic uint32_t *closed_word;
    uint64_t turn;
    uint32_t epoch;  /* limited_device_epoch; if that has moved, nothing is remembered */
    uint32_t closed; /* of the account: what was taken before its grant was closed is void */
    uint64_t ahead;  /* ns taken of the grant and not used */
};

static _Thread_local struct remembered_cost costs[COSTS_REMEMBERED];
static _Thread_local struct remembered_stream streams[STREAMS_REMEMBERED];
static _Thread_local uint32_t until_refresh; /* launches */
static _Thread_local uint32_t refresh_every;
static _Thread_local uint32_t counted_at; /* `until_refresh` when launches were last counted */
static _Thread_local int64_t last_refresh;

static uint64_t launch_mix(uint64_t a, uint64_t b) {
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t launch_key(const void *function, uint64_t grid, uint64_t block) {
    uint64_t key = launch_mix((uint64_t)(uintptr_t)function, launch_mix(grid, block << 1));
    key ^= key >> 32;
    return key | 1;
}

static struct launch launch_of(const void *function, uint64_t grid, uint64_t block, CUstream stream, bool per_thread) {
    CUstream real = stream != NULL ? stream : per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
    return (struct launch){launch_key(function, grid, block), real};
}

/* ---- without a limit ---- */

/* Acquire: a view that is seen is seen filled in. */
void launch_count(void) {
    struct hami_region_view *view = atomic_load_explicit(&hami_state_region_now, memory_order_acquire);
    uint32_t launches = counted_at - until_refresh;
    if (view != NULL && launches != 0) {
        _Atomic uint64_t *figure = &view->region->block.slots[view->slot].launches;
        add_relaxed(figure, launches);
    }
    counted_at = until_refresh;
}

/* Every REFRESH_EVERY_LAUNCHES launches, or after fewer where they take long. */
HAMI_APART static void launch_refresh(void) {
    struct timespec coarse;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
    int64_t now = (int64_t)coarse.tv_sec * 1000000000 + coarse.tv_nsec, took = now - last_refresh;
    last_refresh = now;
    if (took > REFRESH_EVERY_NS) {
        refresh_every = refresh_every / 8 + 1;
    } else if (refresh_every < REFRESH_EVERY_LAUNCHES) {
        refresh_every *= 2;
    }
    launch_count();
    counted_at = until_refresh = refresh_every;
    HAMI_UNCANCELLED;
    suspend_check();
    (void)limited_devices_refresh();
}

static inline bool launch_is_unlimited(void) {
    if (__builtin_expect(until_refresh == 0, 0)) {
        launch_refresh();
    }
    until_refresh--;
    const _Atomic int32_t *active = load_relaxed(&suspend_word);
    if (__builtin_expect(load_relaxed(active) != SUSPEND_ACTIVE, 0)) {
        suspend_check();
    }
    return load_relaxed(&compute_state) != COMPUTE_ON;
}

/* ---- what the thread remembers ---- */

/* Hides where the pointer comes from: the compiler would compute a thread-local address anew at each use. */
#define KEEP_IN_REGISTER(pointer) __asm__("" : "+r"(pointer))

static inline struct remembered_cost *launch_cost_place(uint64_t key) {
    struct remembered_cost *place = &costs[(key >> 1) % COSTS_REMEMBERED];
    KEEP_IN_REGISTER(place);
    return place;
}

static inline struct remembered_stream *launch_stream_place(CUstream stream) {
    struct remembered_stream *place = &streams[((uintptr_t)stream >> 6 ^ (uintptr_t)stream) % STREAMS_REMEMBERED];
    KEEP_IN_REGISTER(place);
    return place;
}

/* Takes more of the grant ahead. False: not even enough for one launch is left. */
static bool launch_take_ahead(struct remembered_stream *stream, uint32_t ns, uint64_t turn) {
    uint32_t launches = ns < AHEAD_MOST_NS / AHEAD_LAUNCHES ? AHEAD_LAUNCHES
                        : ns < AHEAD_MOST_NS                ? AHEAD_MOST_NS / ns
                                                            : 1;
    uint32_t closed = load_relaxed(stream->closed_word);
    int64_t taken = stream_take(stream->account, ns, (int64_t)ns * launches);
    if (stream->turn != turn || stream->closed != closed) {
        stream->turn = turn;
        stream->closed = closed;
        stream->ahead = 0;
    }
    stream->ahead += (uint64_t)taken;
    return taken > 0;
}

void launch_return_ahead(void) {
    for (unsigned i = 0; i < STREAMS_REMEMBERED; i++) {
        struct remembered_stream *stream = &streams[i];
        if (stream->ahead != 0 && stream->epoch == atomic_load(&limited_device_epoch) &&
            stream->turn == atomic_load(stream->turn_word) && stream->closed == atomic_load(stream->closed_word)) {
            stream_refund(stream->account, (int64_t)stream->ahead);
            stream->ahead = 0;
        }
    }
}

/*
 * Takes a launch from what this thread has ahead. True: it may go to the driver. All loads are relaxed: a launch that
 * misses a change of the turn or a closed grant at that very moment counts as one that came before.
 */
static inline __attribute__((always_inline)) bool launch_spend(const struct launch *l) {
    struct remembered_cost *cost = launch_cost_place(l->key);
    struct remembered_stream *stream = launch_stream_place(l->stream);
    uint32_t ns = cost->ns;
    if (stream->stream != l->stream || stream->epoch != load_relaxed(&limited_device_epoch)) {
        return false;
    }
    if (cost->key != l->key || cost->until_sample == 0 || __builtin_expect(stream->account == NULL, 0)) {
        return stream->account == NULL;
    }
    uint64_t turn = load_relaxed(stream->turn_word);
    uint32_t closed = load_relaxed(stream->closed_word);
    bool is_void = stream->turn != turn || stream->closed != closed;
    if (__builtin_expect(stream->ahead < ns || is_void, 0) && !launch_take_ahead(stream, ns, turn)) {
        return false;
    }
    stream->ahead -= ns;
    cost->until_sample--;
    return true;
}

/* Each context has default streams of its own under the same handles. Handles of other streams are unique. */
static inline bool launch_stream_is_ambiguous(CUstream stream) {
    return (stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) && !hami_context_only_one();
}

static bool launch_was_granted(const struct launch *l) {
    struct hami_context context;
    if (launch_stream_is_ambiguous(l->stream) &&
        (!hami_context_current(&context) || launch_stream_place(l->stream)->context != context.handle)) {
        return false;
    }
    return launch_spend(l);
}

/* While a stream is captured, no stream is remembered: each launch then asks whether its own is. */
static uint32_t launch_epoch_to_remember(uint32_t epoch) {
    return atomic_load(&event_captures) > 0 ? 0 : epoch;
}

/* Until limits change, launches on this stream need not ask. */
static void launch_remember_unlimited(const struct launch *l, const struct hami_context *context, uint32_t epoch) {
    *launch_stream_place(l->stream) = (struct remembered_stream){
        .context = context->handle, .stream = l->stream, .epoch = launch_epoch_to_remember(epoch)};
}

static void launch_remember(const struct launch *l, const struct hami_context *context, struct stream_account *account,
                            const struct cost *cost) {
    struct remembered_cost *known = launch_cost_place(l->key);
    struct remembered_stream *place = launch_stream_place(l->stream);
    uint32_t epoch = atomic_load(&limited_device_epoch); /* before the captures: the begin of one moves it */
    if (place->epoch != epoch || place->stream != l->stream || place->context != context->handle) {
        *place = (struct remembered_stream){.context = context->handle,
                                            .stream = l->stream,
                                            .account = account,
                                            .turn_word = turn_word(account->device),
                                            .closed_word = &account->closed,
                                            .epoch = launch_epoch_to_remember(epoch)};
    }
    uint32_t ns = cost->mean > UINT32_MAX ? UINT32_MAX : (uint32_t)(cost->mean + 0.5);
    if (known->key == l->key) {
        known->ns = ns;
        return;
    }
    *known = (struct remembered_cost){l->key, ns, cost->mean > 0 ? cost_launches_until_sample(cost) : 0};
}

/* Whether to sample this launch; the thread then counts down to its next sample. */
static bool launch_is_sampled(const struct launch *l, const struct cost *cost) {
    struct remembered_cost *known = launch_cost_place(l->key);
    if (cost->mean <= 0) {
        return true;
    }
    if (known->key != l->key) {
        return cost_launches_until_sample(cost) == 0;
    }
    if (known->until_sample > 0) {
        known->until_sample--;
        return false;
    }
    known->until_sample = cost_launches_until_sample(cost);
    return true;
}

/* ---- with a limit ---- */

/* Waits in the gate if need be, and grants the launch its time. Fills in what is left to do after the driver's call. */
static void launch_through_gate(const struct launch *l, const struct hami_context *context, struct limited_device *d,
                                struct hami_pass *p) {
    struct grant how = {.arrived = compute_now()};
    bool apart = stream_events_stand_apart(d, how.arrived);
    compute_lock();
    struct stream_account *account = stream_account_of(d, context->handle, l->stream);
    if (account != NULL) {
        close_if_due(account, apart ? CLOSE_NOW : CLOSE_WHEN_FULL); /* may learn costs */
    }
    struct cost *cost = cost_of(l->key);
    int64_t ns = (int64_t)cost->mean;
    how.known = ns > 0;
    how.clean = how.known && cost->samples >= CLEAN_SAMPLES && ns <= CLEAN_MOST_NS;
    ns = how.known ? ns : UNKNOWN_LAUNCH_NS;
    int64_t longest = ns + 3 * (int64_t)cost->spread; /* it will hardly take longer */
    bool sampled = launch_is_sampled(l, cost), granted = false, waited = false;
    int64_t part = 0, amount = 0;
    if (account != NULL) {
        launch_remember(l, context, account, cost);
        granted = how.known && stream_take(account, ns, ns) > 0;
        part = apart && how.known ? stream_amount_apart(account, ns, how.arrived) : 0;
        amount = part > 0 && !granted ? stream_take_aside(account, ns, part, how.arrived) : 0;
    }
    compute_unlock();
    how.aside = amount > 0;
    if (how.aside) {
        gate_reserve(d, amount, longest, compute_now());
    } else if (!granted) {
        amount = ns > GRANT_NS || !how.known ? ns : GRANT_NS;
        waited = gate_pass(d, &amount, !how.known, longest);
    }
    compute_lock();
    if (account == NULL || account->device != d || !stream_is(account, context->handle, l->stream)) {
        /* More streams than can be followed, or the stream ended meanwhile, which charged what it had been granted. */
        if (!granted) {
            balance_charge(d, (uint64_t)ns);
            (void)atomic_fetch_sub(&d->own->reserved, amount);
        }
    } else {
        how.passed = compute_now();
        if (part > 0 && amount > part) {
            stream_set_aside(account, amount - part);
            amount = part;
        }
        bool alone = part > 0 && amount == ns;
        if (!granted) {
            stream_grant(account, amount, ns, how);
        }
        account->in_driver++;
        *p = (struct hami_pass){.account = account,
                                .cost = ns,
                                .close = !how.known ? CLOSE_NOW
                                         : alone    ? CLOSE_AFTER_ONE
                                                    : CLOSE_WHEN_FULL,
                                .closed = atomic_load(&account->closed),
                                .how = how};
        if (waited) {
            stream_compare_clocks(account);
        }
        if (sampled) {
            p->sample = cost_sample_begin(account->context, l->stream, l->key);
        }
    }
    helper_wake();
    compute_unlock();
}

static void launch_begin_limited(const struct launch *l, struct hami_pass *p) {
    struct hami_context context;
    if (launch_was_granted(l) || !hami_context_current(&context)) {
        return;
    }
    HAMI_UNCANCELLED; /* a thread that died in the gate would hold up the others of its container */
    uint32_t epoch = atomic_load(&limited_device_epoch); /* before the limits, whose change moves it */
    struct limited_device *d = limited_devices_refresh() == COMPUTE_ON ? limited_device_of(context.device) : NULL;
    if (d == NULL) {
        return;
    }
    bool captured = load_relaxed(&event_captures) > 0 && event_stream_is_captured(l->stream);
    if (load_relaxed(&d->share) == 0) {
        launch_remember_unlimited(l, &context, epoch);
    } else if (!captured) { /* captured work is charged when its graph is launched */
        launch_through_gate(l, &context, d, p);
    }
}

struct hami_pass hami_launch_begin(const void *function, uint64_t grid, uint64_t block, CUstream stream,
                                   bool per_thread) {
    struct launch l = launch_of(function, grid, block, stream, per_thread);
    struct hami_pass p;
    p.account = NULL;
    if (!launch_is_unlimited()) {
        launch_begin_limited(&l, &p);
    }
    return p;
}

struct hami_pass hami_launch_begin_config(const struct hami_launch_config *config, const void *function,
                                          bool per_thread) {
    if (config == NULL) {
        return (struct hami_pass){.account = NULL}; /* the driver refuses it */
    }
    const uint32_t *g = config->grid, *b = config->block;
    return hami_launch_begin(function, (uint64_t)g[0] * g[1] * g[2], (uint64_t)b[0] * b[1] * b[2], config->stream,
                             per_thread);
}

int32_t hami_launch_end(struct hami_pass *p, int32_t status) {
    struct stream_account *a = p->account;
    if (__builtin_expect(a == NULL, 1)) {
        return status;
    }
    HAMI_UNCANCELLED;
    compute_lock();
    if (status != CUDA_SUCCESS) {
        stream_refund(a, p->cost);
        cost_sample_drop(p->sample);
    } else {
        cost_sample_end(atomic_load(&a->stream), p->sample);
        p->close = stream_regrant(a, p->closed, p->cost, p->how) ? CLOSE_NOW : p->close;
    }
    a->in_driver--;
    close_if_due(a, p->close);
    helper_wake();
    compute_unlock();
    return status;
}

/* ---- cuLaunchKernel, the most frequent call of all ---- */

/*
 * A launch without a limit goes to the driver at once, one with a grant nearly so. Each step has the driver's own
 * arguments, which then stay in their registers.
 */
#define LAUNCH                                                                                                         \
    void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared,     \
        CUstream stream, void **params, void **extra
#define LAUNCHED function, gx, gy, gz, bx, by, bz, shared, stream, params, extra

typedef CUresult launch_kernel(LAUNCH);

static _Atomic(launch_kernel *) driver_launch[2]; /* of the legacy and the per-thread default stream */

static inline int32_t launch_gated(enum hami_hook hook, LAUNCH) {
    bool per_thread = hook == HAMI_cuLaunchKernel_ptsz;
    launch_kernel *driver = hami_driver_function(hook);
    store_relaxed(&driver_launch[per_thread], driver);
    struct hami_pass p =
        hami_launch_begin(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream, per_thread);
    return hami_launch_end(&p, driver(LAUNCHED));
}

HAMI_APART static int32_t launch_gated_legacy(LAUNCH) {
    return launch_gated(HAMI_cuLaunchKernel, LAUNCHED);
}

HAMI_APART static int32_t launch_gated_ptsz(LAUNCH) {
    return launch_gated(HAMI_cuLaunchKernel_ptsz, LAUNCHED);
}

static inline int32_t launch_granted(bool per_thread, LAUNCH) {
    struct launch l = launch_of(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream, per_thread);
    if (launch_stream_is_ambiguous(l.stream) || !launch_spend(&l)) {
        return per_thread ? launch_gated_ptsz(LAUNCHED) : launch_gated_legacy(LAUNCHED);
    }
    until_refresh--;
    launch_kernel *driver = load_relaxed(&driver_launch[per_thread]);
    return driver(LAUNCHED);
}

HAMI_APART static int32_t launch_granted_legacy(LAUNCH) {
    return launch_granted(false, LAUNCHED);
}

HAMI_APART static int32_t launch_granted_ptsz(LAUNCH) {
    return launch_granted(true, LAUNCHED);
}

int32_t hami_launch_kernel(enum hami_hook hook, LAUNCH) {
    bool per_thread = hook == HAMI_cuLaunchKernel_ptsz;
    launch_kernel *driver = load_relaxed(&driver_launch[per_thread]);
    const _Atomic int32_t *active = load_relaxed(&suspend_word);
    if (driver == NULL || until_refresh == 0 || load_relaxed(active) != SUSPEND_ACTIVE) {
        return per_thread ? launch_gated_ptsz(LAUNCHED) : launch_gated_legacy(LAUNCHED);
    }
    if (load_relaxed(&compute_state) == COMPUTE_ON) {
        return per_thread ? launch_granted_ptsz(LAUNCHED) : launch_granted_legacy(LAUNCHED);
    }
    until_refresh--;
    return driver(LAUNCHED);
}

/* ---- the other launch functions ---- */

/* Each part is a launch on its own device. Parts beyond FOLLOWED are not limited. */
int32_t hami_launch_multi_device(enum hami_hook hook, struct hami_launch_params *list, uint32_t count, uint32_t flags) {
    enum { FOLLOWED = 16 };
    struct hami_pass passes[FOLLOWED] = {{.account = NULL}};
    CUcontext contexts[FOLLOWED], popped = NULL;
    uint32_t followed = list == NULL ? 0 : count < FOLLOWED ? count : FOLLOWED;
    for (uint32_t i = 0; i < followed && !launch_is_unlimited(); i++) {
        const struct hami_launch_params *at = &list[i];
        if (hami_call_cuStreamGetCtx(at->stream, &contexts[i]) == CUDA_SUCCESS &&
            hami_call_cuCtxPushCurrent_v2(contexts[i]) == CUDA_SUCCESS) {
            struct launch l = launch_of(at->function, (uint64_t)at->grid[0] * at->grid[1] * at->grid[2],
                                        (uint64_t)at->block[0] * at->block[1] * at->block[2], at->stream, false);
            launch_begin_limited(&l, &passes[i]);
            (void)hami_call_cuCtxPopCurrent_v2(&popped);
        }
    }
    CUresult status = hami_call_launch_multi_device(hook, list, count, flags);
    for (uint32_t i = 0; i < followed; i++) {
        if (passes[i].account != NULL) {
            bool pushed = hami_call_cuCtxPushCurrent_v2(contexts[i]) == CUDA_SUCCESS;
            (void)hami_launch_end(&passes[i], status);
            if (pushed) {
                (void)hami_call_cuCtxPopCurrent_v2(&popped);
            }
        }
    }
    return status;
}

int32_t hami_graph_start(enum hami_hook hook, void *graph, CUstream stream) {
    struct hami_graph_memory *memory = NULL;
    /* The launch may wait, and nothing should be held meanwhile: so it comes before the graph's memory. */
    struct hami_pass p = hami_launch_begin(graph, 0, 0, stream, hook == HAMI_cuGraphLaunch_ptsz);
    if (!hami_graph_run_begin(graph, &memory)) {
        return hami_launch_end(&p, CUDA_ERROR_OUT_OF_MEMORY);
    }
    CUresult status = hami_launch_end(&p, hami_call_graph_start(hook, graph, stream));
    hami_graph_run_end(memory, status);
    return status;
}
