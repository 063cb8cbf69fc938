/*
 * The functions that give a device work. Without a core limit, a launch reads three words and calls the driver. With a
 * limit, a short launch takes its time from its stream's grant. About one launch in a millisecond of work passes the
 * gate (gate.c), where it may have to wait.
 *
 * Each thread remembers streams and costs, so that most launches neither take a lock nor write shared memory.
 */
#include "compute/gate.h"

#include "compute/charging.h"
#include "compute/compute.h"
#include "compute/cost.h"
#include "compute/tuning.h"
#include "compute/wait.h"
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/contexts.h"
#include "memory/graph.h"
#include "memory/stream_pool.h"
#include "policies.h"
#include "threads.h"

#include <time.h>

enum {
    COSTS_REMEMBERED = 64,
    STREAMS_REMEMBERED = 4,
    REFRESH_EVERY_LAUNCHES = 64,     /* launches of a thread between two looks for changed limits, at most */
    REFRESH_EVERY_NS = 100000000,    /* a thread whose looks are further apart than this looks after fewer launches */
    AHEAD_LAUNCHES = 32,             /* a thread takes time for at most so many launches from a grant at once */
    AHEAD_MOST_NS = 50000,           /* a thread takes no more than this at once, unless one launch needs more */
    CLEAN_SAMPLES = 5,               /* least number of samples in the cost of a clean launch (stream.h) */
    CLEAN_MOST_NS = GRANT_NS / 2 * 5 /* highest cost of a clean launch */
};

struct launch {
    uint64_t key;    /* key of its cost: a hash of the function and of the sizes of grid and block; never 0 */
    CUstream stream; /* never NULL: CU_STREAM_LEGACY or CU_STREAM_PER_THREAD for a default stream */
};

struct remembered_cost {
    uint64_t key;
    uint32_t ns;
    uint32_t until_sample; /* launches before the next one that is sampled; 0: sample the next launch */
};

struct remembered_stream {
    _Alignas(64) CUcontext context;
    CUstream stream;
    struct stream_account *account;    /* NULL: the stream's device has no limit */
    const _Atomic uint64_t *turn_word; /* `shared->turn` of the stream's device; NULL if `account` is NULL */
    uint64_t ahead;                    /* ns that this thread has taken from the stream's grant and not used */
    uint64_t turn;                     /* `*turn_word` when `ahead` was taken; if it has changed, `ahead` is void */
    uint32_t closed; /* `account->closed` when `ahead` was taken; if it has changed, `ahead` is void */
    uint32_t epoch;  /* limited_device_epoch when the stream was remembered; if it has changed, the entry is void */
};

static _Thread_local struct remembered_cost costs[COSTS_REMEMBERED];
static _Thread_local struct remembered_stream streams[STREAMS_REMEMBERED];
static _Thread_local uint32_t until_refresh; /* launches until this thread looks for changed limits */
static _Thread_local uint32_t refresh_every; /* launches between this thread's looks for changed limits */
static _Thread_local uint32_t counted_at;    /* `until_refresh` when launch_count last ran */
static _Thread_local int64_t last_refresh;   /* when this thread last looked, ns of CLOCK_MONOTONIC_COARSE */

static uint64_t launch_mix(uint64_t a, uint64_t b) {
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
}

static struct launch launch_of(const void *function, uint64_t grid, uint64_t block, CUstream stream, bool per_thread) {
    uint64_t key = launch_mix((uint64_t)(uintptr_t)function, launch_mix(grid, block << 1));
    return (struct launch){(key ^ key >> 32) | 1, hami_stream_named(stream, per_thread)};
}

static uint64_t launch_size(const uint32_t size[3]) {
    return (uint64_t)size[0] * size[1] * size[2];
}

/* ---- launches without a limit ---- */

/* The acquire load makes sure that a thread that sees the view also sees its fields. */
void launch_count(void) {
    struct hami_region_view *view = atomic_load_explicit(&hami_state_region_now, memory_order_acquire);
    uint32_t launches = counted_at - until_refresh;
    if (view != NULL && launches != 0) {
        _Atomic uint64_t *figure = &view->region->block.slots[view->slot].launches;
        add_relaxed(figure, launches);
    }
    counted_at = until_refresh;
}

/* Looks for changed limits, and decides after how many launches to look again. */
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
    /*
     * Until the driver's functions are known each launch refreshes, since launch_unchecked must not call NULL.
     * Functions become known in the order of their names, so the acquire load that sees the second one sees both.
     */
    void *driver = atomic_load_explicit(&hami_driver_functions[HAMI_cuLaunchKernel_ptsz], memory_order_acquire);
    counted_at = until_refresh = driver != NULL ? refresh_every : 1;
    HAMI_UNCANCELLED;
    suspend_check();
    (void)limited_devices_refresh();
}

/* Counts a launch. Waits while HAMI's monitor suspends the container. True: no device has a core limit. */
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

/* Hides that the pointer is thread-local: otherwise the compiler computes its address anew at each use. */
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

/* Takes time for several launches of `ns` from the stream's grant. False: not enough is left for one of them. */
static bool launch_take_ahead(struct remembered_stream *stream, uint32_t ns, uint64_t turn) {
    uint32_t launches = ns < AHEAD_MOST_NS / AHEAD_LAUNCHES ? AHEAD_LAUNCHES
                        : ns < AHEAD_MOST_NS                ? AHEAD_MOST_NS / ns
                                                            : 1;
    uint32_t closed = load_relaxed(&stream->account->closed);
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
            stream->turn == atomic_load(stream->turn_word) && stream->closed == atomic_load(&stream->account->closed)) {
            stream_refund(stream->account, (int64_t)stream->ahead);
            stream->ahead = 0;
        }
    }
}

/*
 * Takes a launch's time from what this thread took ahead. True: the launch may go to the driver, because it got its
 * time or its stream has no limit. Relaxed loads are enough: a launch that does not see that the turn has changed or
 * its grant was closed counts as one before that.
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
    bool is_void = stream->turn != turn || stream->closed != load_relaxed(&stream->account->closed);
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

/* True if the launch may go to the driver by what this thread remembers of its stream and cost. */
static bool launch_was_granted(const struct launch *l) {
    struct hami_context context;
    if (launch_stream_is_ambiguous(l->stream) &&
        (!hami_context_current(&context) || launch_stream_place(l->stream)->context != context.handle)) {
        return false;
    }
    return launch_spend(l);
}

/*
 * Remembers a stream and its account. NULL: its device has no limit, and the caller read `epoch` before it looked at
 * the limit. While any stream is captured, the entry gets epoch 0, which is void: each launch has to ask if its stream
 * is captured.
 */
static void launch_remember_stream(const struct launch *l, const struct hami_context *context,
                                   struct stream_account *account, uint32_t epoch) {
    struct remembered_stream *place = launch_stream_place(l->stream);
    if (place->epoch == epoch && place->stream == l->stream && place->context == context->handle) {
        return; /* the entry is valid, and keeps `ahead` */
    }
    *place = (struct remembered_stream){.context = context->handle,
                                        .stream = l->stream,
                                        .account = account,
                                        .turn_word = account == NULL ? NULL : &account->device->shared->turn,
                                        .epoch = atomic_load(&event_captures) > 0 ? 0 : epoch};
}

/* Remembers the cost of a launch. Returns true if this launch should be sampled (cost.h). */
static bool launch_remember_cost(const struct launch *l, const struct cost *cost) {
    struct remembered_cost *place = launch_cost_place(l->key);
    bool is_known = cost->mean > 0, is_remembered = place->key == l->key;
    uint32_t ns = cost->mean > UINT32_MAX ? UINT32_MAX : (uint32_t)(cost->mean + 0.5);
    uint32_t until_sample = is_known ? cost_launches_until_sample(cost) : 0;
    bool sampled = (is_known && is_remembered ? place->until_sample : until_sample) == 0;
    if (is_remembered && !sampled) {
        until_sample = place->until_sample - 1;
    }
    *place = (struct remembered_cost){l->key, ns, until_sample};
    return sampled;
}

/* ---- launches with a limit ---- */

/* A launch that has to go through the gate: what it asks for, and what it got. */
struct request {
    int64_t ns;      /* what the launch should take; UNKNOWN_LAUNCH_NS if its cost is not known */
    int64_t longest; /* the launch hardly takes longer than this */
    int64_t part;    /* most that the stream gets at once if events stand apart (ADR 11); 0: they do not */
    int64_t amount;  /* ns granted for this launch; may be more than `ns` */
    bool covered;    /* the stream's open grant had enough left, so `amount` is 0 */
    bool sampled;    /* the launch's cost is measured (cost.h) */
    bool waited;     /* the launch waited in the gate */
    struct grant how;
};

/*
 * Fills in the request. Takes the launch's time from the stream's open grant, or from what the stream has set aside, if
 * there is enough. Returns the stream's account, or NULL if all accounts are in use.
 */
static struct stream_account *launch_request(const struct launch *l, const struct hami_context *context,
                                             struct limited_device *d, struct request *r) {
    bool apart = stream_events_stand_apart(d, r->how.arrived);
    struct stream_account *account = stream_account_of(d, context->handle, l->stream);
    if (account != NULL) {
        close_if_due(account, apart ? CLOSE_NOW : CLOSE_WHEN_FULL); /* before cost_of, since closing may learn costs */
    }
    const struct cost *cost = cost_of(l->key);
    int64_t mean = (int64_t)cost->mean;
    r->how.known = mean > 0;
    r->how.clean = r->how.known && cost->samples >= CLEAN_SAMPLES && mean <= CLEAN_MOST_NS;
    r->ns = r->how.known ? mean : UNKNOWN_LAUNCH_NS;
    r->longest = r->ns + 3 * (int64_t)cost->spread;
    if (account != NULL) {
        launch_remember_stream(l, context, account, atomic_load(&limited_device_epoch));
        r->sampled = launch_remember_cost(l, cost);
        r->covered = r->how.known && stream_take(account, r->ns, r->ns) > 0;
        r->part = apart && r->how.known ? stream_amount_apart(account, r->ns, r->how.arrived) : 0;
        r->amount = r->part > 0 && !r->covered ? stream_take_aside(account, r->ns, r->part, r->how.arrived) : 0;
        r->how.aside = r->amount > 0;
    }
    return account;
}

/* Grants the stream what the launch got. Returns what hami_launch_end needs after the driver's call. */
static struct hami_pass launch_pass(const struct launch *l, struct stream_account *account, struct request *r) {
    r->how.passed = compute_now();
    if (r->part > 0 && r->amount > r->part) {
        stream_set_aside(account, r->amount - r->part);
        r->amount = r->part;
    }
    if (!r->covered) {
        stream_grant(account, r->amount, r->ns, r->how);
    }
    if (r->waited) {
        stream_compare_clocks(account);
    }
    account->in_driver++;
    bool alone = r->part > 0 && r->amount == r->ns;
    return (struct hami_pass){
        .account = account,
        .cost = r->ns,
        .sample = r->sampled ? cost_sample_begin(account->context, l->stream, l->key) : NULL,
        .close = !r->how.known ? CLOSE_NOW
                 : alone       ? CLOSE_AFTER_ONE
                               : CLOSE_WHEN_FULL,
        .closed = atomic_load(&account->closed),
        .how = r->how,
    };
}

/* Waits in the gate if the launch's time is not granted yet. Sets `*p`, unless the launch has no account. */
static void launch_through_gate(const struct launch *l, const struct hami_context *context, struct limited_device *d,
                                struct hami_pass *p) {
    struct request r = {.how.arrived = compute_now()};
    compute_lock();
    struct stream_account *account = launch_request(l, context, d, &r);
    compute_unlock();
    if (r.how.aside) {
        gate_reserve(d, r.amount, r.longest, compute_now());
    } else if (!r.covered) {
        r.amount = r.ns > GRANT_NS ? r.ns : GRANT_NS;
        r.waited = gate_pass(d, &r.amount, !r.how.known, r.longest);
    }
    compute_lock();
    if (account != NULL && account->device == d && stream_is(account, context->handle, l->stream)) {
        *p = launch_pass(l, account, &r);
    } else if (!r.covered) {
        /* All accounts are in use, or the stream has ended during the wait: no event can tell what the launch takes. */
        balance_charge(d, (uint64_t)r.ns);
        stream_reserve(d, -r.amount);
    }
    helper_wake();
    compute_unlock();
}

static void launch_begin_limited(const struct launch *l, struct hami_pass *p) {
    struct hami_context context;
    if (launch_was_granted(l) || !hami_context_current(&context)) {
        return;
    }
    HAMI_UNCANCELLED; /* a thread that was cancelled in the gate would hold up the other threads of the container */
    uint32_t epoch = atomic_load(&limited_device_epoch); /* read before the limits: a change of limits moves it */
    struct limited_device *d = limited_devices_refresh() == COMPUTE_ON ? limited_device_of(context.device) : NULL;
    if (d == NULL) {
        return;
    }
    bool captured = load_relaxed(&event_captures) > 0 && event_stream_is_captured(l->stream);
    if (load_relaxed(&d->share) == 0) {
        launch_remember_stream(l, &context, NULL, epoch);
    } else if (!captured) { /* captured work is charged when its graph is launched */
        launch_through_gate(l, &context, d, p);
    }
}

struct hami_pass hami_launch_begin(const void *function, uint64_t grid, uint64_t block, CUstream stream,
                                   bool per_thread) {
    struct launch l = launch_of(function, grid, block, stream, per_thread);
    struct hami_pass p;
    p.account = NULL; /* the other fields are read only if there is an account */
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
    return hami_launch_begin(function, launch_size(config->grid), launch_size(config->block), config->stream,
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
        cost_sample_end(p->sample, atomic_load(&a->stream));
        p->close = stream_regrant(a, p->closed, p->cost, p->how) ? CLOSE_NOW : p->close;
    }
    a->in_driver--;
    close_if_due(a, p->close);
    helper_wake();
    compute_unlock();
    return status;
}

/* ---- cuLaunchKernel, the most frequent call of all ---- */

/* The functions below take the driver's own arguments, so that these stay in the registers of the program's call. */
#define LAUNCH                                                                                                         \
    void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx, uint32_t by, uint32_t bz, uint32_t shared,     \
        CUstream stream, void **params, void **extra
#define LAUNCHED function, gx, gy, gz, bx, by, bz, shared, stream, params, extra

/* Calls the driver's function. It is not NULL: launch_refresh has found it, since `until_refresh` is above 0. */
static inline int32_t launch_unchecked(enum hami_hook hook, LAUNCH) {
    until_refresh--;
    CUresult (*driver)(LAUNCH) = load_relaxed(&hami_driver_functions[hook]);
    return driver(LAUNCHED);
}

static inline int32_t launch_gated(enum hami_hook hook, LAUNCH) {
    struct hami_pass p = hami_launch_begin(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream,
                                           hook == HAMI_cuLaunchKernel_ptsz);
    return hami_launch_end(&p, hami_call_launch_kernel(hook, LAUNCHED));
}

HAMI_APART static int32_t launch_gated_legacy(LAUNCH) {
    return launch_gated(HAMI_cuLaunchKernel, LAUNCHED);
}

HAMI_APART static int32_t launch_gated_ptsz(LAUNCH) {
    return launch_gated(HAMI_cuLaunchKernel_ptsz, LAUNCHED);
}

static inline int32_t launch_granted(enum hami_hook hook, LAUNCH) {
    bool per_thread = hook == HAMI_cuLaunchKernel_ptsz;
    struct launch l = launch_of(function, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz, stream, per_thread);
    if (launch_stream_is_ambiguous(l.stream) || !launch_spend(&l)) {
        return per_thread ? launch_gated_ptsz(LAUNCHED) : launch_gated_legacy(LAUNCHED);
    }
    return launch_unchecked(hook, LAUNCHED);
}

HAMI_APART static int32_t launch_granted_legacy(LAUNCH) {
    return launch_granted(HAMI_cuLaunchKernel, LAUNCHED);
}

HAMI_APART static int32_t launch_granted_ptsz(LAUNCH) {
    return launch_granted(HAMI_cuLaunchKernel_ptsz, LAUNCHED);
}

int32_t hami_launch_kernel(enum hami_hook hook, LAUNCH) {
    bool per_thread = hook == HAMI_cuLaunchKernel_ptsz;
    int32_t active = load_relaxed(load_relaxed(&suspend_word));
    /* One branch for two conditions: with two branches, gcc copies all arguments, which takes 12 instructions more. */
    if (((active ^ SUSPEND_ACTIVE) | (until_refresh == 0)) != 0) {
        return per_thread ? launch_gated_ptsz(LAUNCHED) : launch_gated_legacy(LAUNCHED);
    }
    if (load_relaxed(&compute_state) == COMPUTE_ON) {
        return per_thread ? launch_granted_ptsz(LAUNCHED) : launch_granted_legacy(LAUNCHED);
    }
    return launch_unchecked(hook, LAUNCHED);
}

/* ---- the other launch functions ---- */

/* Makes the context of a stream the current one. False: the current context stays. */
static bool launch_push_context(CUstream stream) {
    CUcontext context;
    return hami_call_cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
           hami_call_cuCtxPushCurrent_v2(context) == CUDA_SUCCESS;
}

/* Each entry of `list` is a launch on another device. Entries after the first HAMI_DEVICES pass without the gate. */
int32_t hami_launch_multi_device(enum hami_hook hook, struct hami_launch_params *list, uint32_t count, uint32_t flags) {
    struct hami_pass passes[HAMI_DEVICES] = {{.account = NULL}};
    CUcontext popped = NULL;
    uint32_t followed = list == NULL ? 0 : count < HAMI_DEVICES ? count : HAMI_DEVICES;
    for (uint32_t i = 0; i < followed; i++) {
        const struct hami_launch_params *at = &list[i];
        if (launch_push_context(at->stream)) {
            passes[i] =
                hami_launch_begin(at->function, launch_size(at->grid), launch_size(at->block), at->stream, false);
            (void)hami_call_cuCtxPopCurrent_v2(&popped);
        }
    }
    CUresult status = hami_call_launch_multi_device(hook, list, count, flags);
    for (uint32_t i = 0; i < followed; i++) {
        if (passes[i].account != NULL) {
            bool pushed = launch_push_context(list[i].stream);
            (void)hami_launch_end(&passes[i], status);
            if (pushed) {
                (void)hami_call_cuCtxPopCurrent_v2(&popped);
            }
        }
    }
    return status;
}

/* The launch waits in the gate before it reserves the graph's memory, so that waiting launches hold none. */
int32_t hami_graph_start(enum hami_hook hook, void *graph, CUstream stream) {
    struct hami_graph_memory *memory = hami_graph_memory_of(graph);
    struct hami_pass p = hami_launch_begin(graph, 0, 0, stream, hook == HAMI_cuGraphLaunch_ptsz);
    if (!hami_graph_pools_begin(memory)) {
        return hami_launch_end(&p, CUDA_ERROR_OUT_OF_MEMORY);
    }
    CUresult status = hami_launch_end(&p, hami_call_graph_start(hook, graph, stream));
    hami_graph_pools_end(memory, status == CUDA_SUCCESS);
    return status;
}
