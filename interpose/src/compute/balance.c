/* The container's account on a device (balance.h). compute_abi.h defines how the word `zero` holds the balance. */
#include "compute/balance.h"

#include "compute/compute.h"
#include "compute/tuning.h"
#include "compute/wait.h"
#include "fault.h"
#include "ledger/ledger.h"

enum {
    OTHERS_ALLOWANCE_MOST_NS = 80000000, /* other containers' long launches raise the cap to 8 % of 1 s at most */
    GONE_AFTER_NS = 2000000000,          /* a process whose helper did not look for so long is taken to be gone */
    BACK_WITHIN_NS = GRANT_MOST_NS       /* a process that got a grant within this time will ask for another */
};

static const struct hami_compute_process *balance_process(const struct limited_device *d, unsigned slot) {
    return &hami_compute_of(d->view->region)->processes[slot][d->index];
}

bool balance_is_bursty(const struct hami_compute_process *process) {
    return (load_relaxed(&process->overlap) & HAMI_BURSTY) != 0;
}

bool balance_is_silent(const struct hami_compute_process *process, uint64_t now) {
    uint64_t oldest = load_relaxed(&process->oldest_at), last = later(load_relaxed(&process->beat), oldest);
    return oldest != 0 && now > last && now - last > SILENT_AFTER_NS;
}

static bool balance_leaves_out(const struct limited_device *d, const struct hami_compute_process *process,
                               uint64_t now) {
    return process != d->own && balance_is_silent(process, now);
}

/* A snapshot of the processes' records; `balance` and `forfeited` are not filled in. */
static struct snapshot balance_add_up(const struct limited_device *d, uint64_t now) {
    struct snapshot s = {.now = now};
    for (unsigned i = 0, count = hami_ledger_slots(d->view->region); i < count; i++) {
        const struct hami_compute_process *process = balance_process(d, i);
        if (balance_leaves_out(d, process, now)) {
            continue;
        }
        int64_t reserved = load_relaxed(&process->reserved);
        bool steady = process == d->own || !balance_is_bursty(process);
        reserved = reserved > 0 ? reserved : 0;
        uint64_t overlap = (uint64_t)reserved * (load_relaxed(&process->overlap) & UINT16_MAX) >> 16;
        int64_t expected = reserved - (int64_t)overlap;
        s.reserved += reserved;
        s.expected += expected;
        s.steady += steady ? expected : 0;
        s.events += steady ? load_relaxed(&process->events) : 0;
        s.waiters += load_relaxed(&process->waiters);
        s.waiting_for_event += load_relaxed(&process->waiting_for_event);
        s.waiting_for_turn += atomic_load(&process->waiting_for_turn);
    }
    return s;
}

bool balance_waits_for_turn(const struct limited_device *d) {
    return balance_add_up(d, compute_now()).waiting_for_turn != 0;
}

int64_t balance_share(const struct limited_device *d) {
    uint32_t share = load_relaxed(&d->share);
    return share == 0 ? 100 : share;
}

/*
 * The cap of the balance. A container whose launches wait cannot use its balance, so it may keep more than an idle one.
 * Long launches raise the cap to twice their length. But a balance that grew during other containers' launches is used
 * at once afterwards, above the limit. So those launches raise the cap to 80 ms at most: a container may exceed its
 * limit by 8 % of any second.
 */
static int64_t balance_cap(struct limited_device *d, const struct snapshot *s) {
    if (s->waiters == 0 && s->now > load_relaxed(&d->shared->last_wait_at) + IDLE_AFTER_NS) {
        return IDLE_ALLOWANCE_NS;
    }
    int64_t own = 2 * (int64_t)load_relaxed(&d->shared->longest_launch);
    int64_t others = 2 * (int64_t)load_relaxed(&d->others_longest);
    others = others > OTHERS_ALLOWANCE_MOST_NS ? OTHERS_ALLOWANCE_MOST_NS : others;
    int64_t longest = others > own ? others : own;
    return longest > WAITING_ALLOWANCE_NS ? longest : WAITING_ALLOWANCE_NS;
}

struct snapshot balance_read(struct limited_device *d) {
    struct snapshot s = balance_add_up(d, compute_now());
    int64_t share = balance_share(d), now = (int64_t)s.now;
    int64_t least = now - (balance_cap(d, &s) + s.expected) * 100 / share;
    int64_t zero = load_relaxed(&d->shared->zero);
    while (zero < least && !atomic_compare_exchange_weak(&d->shared->zero, &zero, least)) {
    }
    s.forfeited = zero < least ? (uint64_t)(least - zero) : 0;
    zero = zero < least ? least : zero;
    s.balance = (now - zero) * share / 100 - s.expected;
    return s;
}

void balance_charge(struct limited_device *d, uint64_t device_time) {
    (void)atomic_fetch_add(&d->shared->zero, (int64_t)device_time * 100 / balance_share(d));
    hami_step();
    add_relaxed(&d->shared->charged, device_time);
}

int64_t balance_arrears(const struct limited_device *d, const struct snapshot *s) {
    return s->balance * 100 / balance_share(d);
}

/* ---- work under way ---- */

uint64_t balance_work_since(const struct limited_device *d, enum balance_work work, uint64_t first) {
    uint64_t now = compute_now();
    for (unsigned i = 0, count = hami_ledger_slots(d->view->region); i < count; i++) {
        const struct hami_compute_process *process = balance_process(d, i);
        bool surely = work != ALL_WORK && balance_is_bursty(process);
        uint64_t since = load_relaxed(surely ? &process->busy_since : &process->oldest_at);
        bool counts = work != PEERS_SURE_WORK || process != d->own;
        if (counts && since != 0 && !balance_leaves_out(d, process, now)) {
            first = earlier(first, since);
        }
    }
    return first;
}

uint64_t balance_charged_after(const struct limited_device *d, uint64_t now) {
    return load_relaxed(&d->shared->charged) + (uint64_t)balance_add_up(d, now).expected;
}

uint64_t balance_expected_end(const struct limited_device *d, uint64_t opened, uint64_t charged) {
    uint64_t frontier = load_relaxed(&d->shared->frontier), before = load_relaxed(&d->shared->charged);
    return later(frontier, balance_work_since(d, ALL_WORK, opened)) + (charged > before ? charged - before : 0);
}

/* ---- the container's processes ---- */

static bool balance_is_gone(const struct hami_compute_process *process, uint64_t now) {
    uint64_t beat = load_relaxed(&process->beat);
    return now > beat && now - beat > GONE_AFTER_NS;
}

bool balance_is_only_process(const struct limited_device *d, uint64_t now) {
    for (unsigned i = 0, count = hami_ledger_slots(d->view->region); i < count; i++) {
        const struct hami_compute_process *process = balance_process(d, i);
        if (process != d->own && !balance_is_gone(process, now)) {
            return false;
        }
    }
    return true;
}

int64_t balance_counted_grant(const struct limited_device *d, int64_t amount) {
    bool overlap = load_relaxed(&d->busy_streams) > 1;
    return overlap ? (int64_t)((double)amount * d->charge_ratio) : amount;
}

struct peers balance_peers(const struct limited_device *d, uint64_t now) {
    struct peers peers = {0, INT64_MAX, INT64_MAX, 0};
    for (unsigned i = 0, count = hami_ledger_slots(d->view->region); i < count; i++) {
        const struct hami_compute_process *process = balance_process(d, i);
        if (process == d->own) {
            continue;
        }
        int64_t granted = (int64_t)load_relaxed(&process->granted_total);
        bool waits = load_relaxed(&process->waiters) != 0 && !balance_is_gone(process, now);
        bool back = (uint32_t)(now >> 16) - load_relaxed(&process->granted_at) <= BACK_WITHIN_NS >> 16;
        peers.granted += granted;
        if ((waits || back) && !balance_leaves_out(d, process, now)) {
            peers.asking++;
            peers.least = granted < peers.least ? granted : peers.least;
            peers.least_waiting = waits && granted < peers.least_waiting ? granted : peers.least_waiting;
        }
    }
    return peers;
}

/* ---- the frontier and the line of spans ---- */

/* Raises the word to `end` if it is lower. Returns its value from before, but at most `end`. */
static uint64_t balance_move_word(_Atomic uint64_t *word, uint64_t end) {
    uint64_t before = atomic_load(word);
    while (before < end && !atomic_compare_exchange_weak(word, &before, end)) {
    }
    hami_step();
    return before < end ? before : end;
}

void balance_move_frontier(struct limited_device *d, uint64_t end) {
    (void)balance_move_word(&d->shared->frontier, end);
}

/* Reads the end before the start. balance_take_span writes them in the other order, so the result contains no gap. */
struct span_line balance_span_line(const struct limited_device *d) {
    uint64_t to = atomic_load(&d->shared->spanned_to);
    return (struct span_line){atomic_load(&d->shared->spanned_from), to};
}

uint64_t balance_take_span(struct limited_device *d, uint64_t start, uint64_t end) {
    if (end > start && start > atomic_load(&d->shared->spanned_to)) {
        atomic_store(&d->shared->spanned_from, start); /* before the line's end moves over the gap */
        hami_step();
    }
    uint64_t to = balance_move_word(&d->shared->spanned_to, end);
    start = later(start, to);
    return end > start ? end - start : 0;
}

/* ---- the end of a process ---- */

/*
 * Charges what a dead process had reserved, up to 60 ms, and zeroes the process's record. If the sweeper dies between
 * the two, the next sweeper charges the work again. That is better than never.
 */
void hami_compute_forget(struct hami_region *region, unsigned slot) {
    struct hami_compute *compute = hami_compute_of(region);
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        struct hami_compute_process *process = &compute->processes[slot][device];
        int64_t reserved = atomic_load(&process->reserved);
        uint32_t cores = atomic_load(&region->block.devices[device].cores);
        if (reserved > 0 && cores > 0 && cores < 100) {
            reserved = reserved > WAITING_ALLOWANCE_NS ? WAITING_ALLOWANCE_NS : reserved;
            (void)atomic_fetch_add(&compute->devices[device].zero, reserved * 100 / cores);
            hami_step();
        }
        atomic_store(&process->reserved, 0);
        atomic_store(&process->overlap, 0);
        atomic_store(&process->granted_total, 0);
        atomic_store(&process->oldest_at, 0);
        atomic_store(&process->busy_since, 0);
        atomic_store(&process->events, 0);
        atomic_store(&process->waiters, 0);
        atomic_store(&process->waiting_for_event, 0);
        atomic_store(&process->waiting_for_turn, 0);
        atomic_store(&process->granted_at, 0);
        atomic_store(&process->beat, 0); /* boot_check relies on records without times from before a reboot */
        if (reserved > 0) {
            (void)atomic_fetch_add(&compute->devices[device].completions, 1);
        }
    }
}
