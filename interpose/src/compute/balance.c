/* The container's account on one device; compute_abi.h says how one word holds it. */
#include "compute/machine.h"

#include "fault.h"
#include "ledger/process.h"

static unsigned process_count(const struct machine *m) {
    return hami_ledger_slots(m->view->region);
}

static const struct hami_compute_process *process_at(const struct machine *m, unsigned slot) {
    return &hami_compute_of(m->view->region)->processes[slot][m->index];
}

bool balance_lets_rest(const struct hami_compute_process *process) {
    return (load_relaxed(&process->hidden) & HAMI_RESTS) != 0;
}

bool balance_silent(const struct hami_compute_process *process, uint64_t now) {
    uint64_t since = load_relaxed(&process->since), last = later(load_relaxed(&process->beat), since);
    return since != 0 && now > last && now - last > SILENT_AFTER;
}

/* A process that was stopped says nothing of what it had under way, which may be over: nobody waits for that. */
static bool is_away(const struct machine *m, const struct hami_compute_process *process, uint64_t now) {
    return process != m->own && balance_silent(process, now);
}

/* What all processes of the container have under way. */
static void add_up(const struct machine *m, struct standing *s) {
    s->out = s->expected = s->steady = 0;
    s->marks = s->waiting = s->fed = 0;
    for (unsigned i = 0, count = process_count(m); i < count; i++) {
        const struct hami_compute_process *process = process_at(m, i);
        if (is_away(m, process, s->now)) {
            continue;
        }
        int64_t out = load_relaxed(&process->out);
        bool steady = process == m->own || !balance_lets_rest(process);
        out = out > 0 ? out : 0;
        int64_t expected = out - (int64_t)((uint64_t)out * (load_relaxed(&process->hidden) & UINT16_MAX) >> 16);
        s->out += out;
        s->expected += expected;
        s->steady += steady ? expected : 0;
        s->marks += steady ? load_relaxed(&process->marks) : 0;
        s->waiting += load_relaxed(&process->waiting);
        s->fed += load_relaxed(&process->fed);
    }
}

bool balance_in_turn(const struct machine *m) {
    uint64_t now = compute_now();
    for (unsigned i = 0, count = process_count(m); i < count; i++) {
        const struct hami_compute_process *process = process_at(m, i);
        if (atomic_load(&process->in_turn) != 0 && !is_away(m, process, now)) {
            return true;
        }
    }
    return false;
}

int64_t balance_share(const struct machine *m) {
    uint32_t share = load_relaxed(&m->share);
    return share == 0 ? 100 : share;
}

/*
 * Only an idle container loses allowance: one that waits, for its own launches or others', had no way to use it. What
 * others' launches took is made up for at once, so that it may keep of it no more than a second may have too much.
 */
static int64_t cap_of(struct machine *m, const struct standing *s) {
    if (s->waiting == 0 && s->now > load_relaxed(&m->shared->last_wait) + IDLE) {
        return BURST;
    }
    int64_t own = (int64_t)load_relaxed(&m->shared->longest);
    int64_t others = 2 * (int64_t)turn_longest(m, s->now), longest = 2 * own;
    others = others > SECOND_MORE ? SECOND_MORE : others;
    longest = others > longest ? others : longest;
    return longest > BACKLOG ? longest : BACKLOG;
}

void balance_read(struct machine *m, struct standing *s) {
    s->now = compute_now();
    add_up(m, s);
    int64_t share = balance_share(m), now = (int64_t)s->now;
    int64_t least = now - (cap_of(m, s) + s->expected) * 100 / share;
    int64_t zero = load_relaxed(&m->shared->zero);
    while (zero < least && !atomic_compare_exchange_weak(&m->shared->zero, &zero, least)) {
    }
    s->lost = zero < least ? (uint64_t)(least - zero) : 0;
    zero = zero < least ? least : zero;
    s->balance = (now - zero) * share / 100 - s->expected;
}

void balance_charge(struct machine *m, uint64_t device_time) {
    (void)atomic_fetch_add(&m->shared->zero, (int64_t)device_time * 100 / balance_share(m));
    hami_step();
    add_relaxed(&m->shared->charged, device_time);
}

int64_t balance_arrears(const struct machine *m, const struct standing *s) {
    return s->balance * 100 / balance_share(m);
}

enum since { LAUNCHED, AT_WORK };

static uint64_t since_of(const struct hami_compute_process *process, enum since which) {
    return load_relaxed(which == AT_WORK && balance_lets_rest(process) ? &process->busy : &process->since);
}

static uint64_t earliest(const struct machine *m, enum since which, uint64_t first, bool own) {
    uint64_t now = compute_now();
    for (unsigned i = 0, count = process_count(m); i < count; i++) {
        const struct hami_compute_process *process = process_at(m, i);
        uint64_t since = own || process != m->own ? since_of(process, which) : 0;
        first = since != 0 && since < first && !is_away(m, process, now) ? since : first;
    }
    return first;
}

/* Nothing that is under way began before this. */
uint64_t balance_oldest(const struct machine *m, uint64_t opened) {
    return earliest(m, LAUNCHED, opened, true);
}

uint64_t balance_at_work(const struct machine *m, uint64_t opened) {
    return earliest(m, AT_WORK, opened, true);
}

uint64_t balance_others_at_work(const struct machine *m) {
    return earliest(m, AT_WORK, UINT64_MAX, false);
}

uint64_t balance_until(const struct machine *m, uint64_t now) {
    struct standing s = {.now = now};
    add_up(m, &s);
    return load_relaxed(&m->shared->charged) + (uint64_t)s.expected;
}

uint64_t balance_end(const struct machine *m, uint64_t opened, uint64_t until) {
    uint64_t frontier = load_relaxed(&m->shared->frontier);
    uint64_t charged = load_relaxed(&m->shared->charged);
    return later(frontier, balance_oldest(m, opened)) + (until > charged ? until - charged : 0);
}

static bool is_gone(const struct hami_compute_process *process, uint64_t now) {
    uint64_t beat = load_relaxed(&process->beat);
    return now > beat && now - beat > GONE_AFTER;
}

bool balance_single(const struct machine *m, uint64_t now) {
    for (unsigned i = 0, count = process_count(m); i < count; i++) {
        const struct hami_compute_process *process = process_at(m, i);
        if (process != m->own && !is_gone(process, now)) {
            return false;
        }
    }
    return true;
}

int64_t balance_own(const struct machine *m, int64_t amount) {
    bool beside = load_relaxed(&m->streams) > 1;
    return beside ? (int64_t)((double)amount * m->ratio) : amount;
}

struct others balance_others(const struct machine *m, uint64_t now) {
    struct others others = {0, INT64_MAX, INT64_MAX, 0};
    for (unsigned i = 0, count = process_count(m); i < count; i++) {
        const struct hami_compute_process *process = process_at(m, i);
        if (process == m->own) {
            continue;
        }
        int64_t had = (int64_t)load_relaxed(&process->had);
        bool waits = load_relaxed(&process->waiting) != 0 && !is_gone(process, now);
        bool back = (uint32_t)(now >> 16) - load_relaxed(&process->granted) <= BACK >> 16;
        others.had += had;
        if ((waits || back) && !is_away(m, process, now)) {
            others.asking++;
            others.least = had < others.least ? had : others.least;
            others.least_waiting = waits && had < others.least_waiting ? had : others.least_waiting;
        }
    }
    return others;
}

/* Moves a word on to `end`; returns where it was, or `end`, if it was further. */
static uint64_t move_on(_Atomic uint64_t *word, uint64_t end) {
    uint64_t before = atomic_load(word);
    while (before < end && !atomic_compare_exchange_weak(word, &before, end)) {
    }
    hami_step();
    return before < end ? before : end;
}

void balance_complete(struct machine *m, uint64_t end) {
    (void)move_on(&m->shared->frontier, end);
}

struct spanned balance_spanned(const struct machine *m) {
    uint64_t sum = atomic_load(&m->shared->spanned), to = atomic_load(&m->shared->spanned_to); /* as much at least */
    return (struct spanned){sum, atomic_load(&m->shared->spanned_from), to};
}

uint64_t balance_sliced(uint64_t rest, uint64_t span) {
    return rest == 0 ? span : span > SLICE ? span - SLICE : 0;
}

uint64_t balance_span(struct machine *m, uint64_t start, uint64_t end) {
    if (end > start && start > atomic_load(&m->shared->spanned_to)) {
        atomic_store(&m->shared->spanned_from, start); /* before `spanned_to` passes over the rest */
        hami_step();
    }
    uint64_t to = move_on(&m->shared->spanned_to, end);
    start = to > start ? to : start;
    uint64_t span = end > start ? end - start : 0;
    (void)atomic_fetch_add(&m->shared->spanned, balance_sliced(start - to, span));
    hami_step();
    return span;
}

/* What died unfinished is charged as it was estimated; twice rather than never if a sweeper dies between. */
void hami_compute_forget(struct hami_region *region, unsigned slot) {
    struct hami_compute *compute = hami_compute_of(region);
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        struct hami_compute_process *process = &compute->processes[slot][device];
        int64_t out = atomic_load(&process->out);
        uint32_t cores = atomic_load(&region->block.devices[device].cores);
        if (out > 0 && cores > 0 && cores < 100) {
            out = out > BACKLOG ? BACKLOG : out;
            (void)atomic_fetch_add(&compute->devices[device].zero, out * 100 / cores);
            hami_step();
        }
        atomic_store(&process->out, 0);
        atomic_store(&process->hidden, 0);
        atomic_store(&process->had, 0);
        atomic_store(&process->since, 0);
        atomic_store(&process->busy, 0);
        atomic_store(&process->marks, 0);
        atomic_store(&process->waiting, 0);
        atomic_store(&process->fed, 0);
        atomic_store(&process->in_turn, 0);
        if (out > 0) {
            (void)atomic_fetch_add(&compute->devices[device].done, 1);
        }
    }
}
