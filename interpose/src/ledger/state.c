/*
 * The limits and the region that are current in this process; state.h has the rules.
 *
 * Every LOOK_EVERY_MS one thread looks at the limits file. Other limits go into the next of GENERATIONS places, since
 * readers may still hold a pointer to the last ones. The child of a fork keeps limits and mapping, and claims a slot of
 * its own when it first needs one.
 */
#include "ledger/state.h"

#include "ledger/process.h"
#include "parts.h"
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FRESH, STARTING, STARTED };
enum { GENERATIONS = 8, LOOK_EVERY_MS = 250 };

static struct {
    _Atomic int progress;
    _Atomic bool has_fork_handler;
    struct hami_limits_source source;
    struct hami_limits generations[GENERATIONS];
    atomic_flag reloading;
    struct hami_limits read; /* by the thread that set `reloading` */
    _Atomic int64_t next_look_ms;
    struct timespec modified; /* of the limits file, with its inode; inode 0: read it again */
    uint64_t inode;
    struct hami_region_view view;
    _Atomic bool mapped; /* `view` has a region */
    atomic_flag claiming;
} state = {.reloading = ATOMIC_FLAG_INIT, .claiming = ATOMIC_FLAG_INIT};

_Atomic(const struct hami_limits *) hami_state_limits_now;
_Atomic(struct hami_region_view *) hami_state_region_now;

static int64_t state_now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- forks ---- */

/* Another thread of the parent may have been starting, or reading the file. The child has no such thread: it begins
 * again. */
void hami_state_after_fork(void) {
    atomic_store(&state.progress, state.progress == STARTED ? STARTED : FRESH);
    atomic_flag_clear(&state.reloading);
    atomic_flag_clear(&state.claiming);
    atomic_store(&hami_state_region_now, NULL);
    hami_region_after_fork(&state.view);
    state.inode = 0;
}

static void state_tell_forked(void) {
    HAMI_TELL(forked);
}

/* Comes before the start, since a child must not keep what that makes. Two threads may both set the handler: that does
 * no harm. */
static void state_watch_forks(void) {
    if (!atomic_load(&state.has_fork_handler) && pthread_atfork(NULL, NULL, state_tell_forked) == 0) {
        atomic_store(&state.has_fork_handler, true);
    }
    hami_process_watch();
}

/* ---- limits and region ---- */

/* Takes the file's time before its content. If the file changes in between, the next look finds another time. */
static void state_read_limits(struct hami_limits *limits) {
    struct stat found;
    if (state.source.file && stat(state.source.limits_path, &found) == 0) {
        state.modified = found.st_mtim;
        state.inode = found.st_ino;
    }
    hami_limits_load(&state.source, limits);
    if (limits->denied == HAMI_REASON_NO_LIMITS) {
        state.inode = 0; /* an unchanged file may be readable later: perhaps no descriptor was free */
    }
}

/* Writes the limits in force into the region, for its readers. */
static void state_publish(const struct hami_limits *limits) {
    struct hami_region *region = state.view.region;
    if (!atomic_load(&state.mapped) || limits->denied != HAMI_REASON_NONE) {
        return;
    }
    for (unsigned i = 0; i < limits->device_count; i++) {
        hami_region_show_limit(region, i, &limits->devices[i]);
    }
    atomic_store(&region->block.generation, limits->generation);
}

/* Called at every look until it succeeds. The agent may replace a bad region, or change the mode to one that needs it.
 */
static void state_attach_region(const struct hami_limits *limits) {
    hami_spin_lock(&state.claiming);
    if (limits->mode != HAMI_MODE_OFF && !atomic_load(&state.mapped) &&
        hami_region_attach(&state.view, state.source.region_path, !state.source.file, limits)) {
        atomic_store_explicit(&state.mapped, true, memory_order_release);
        state_publish(limits);
    }
    hami_spin_unlock(&state.claiming);
}

static void state_start(void) {
    struct hami_limits *limits = &state.generations[0];
    hami_limits_locate(&state.source);
    state_read_limits(limits);
    state_attach_region(limits);
    atomic_store(&state.next_look_ms, state_now_ms() + LOOK_EVERY_MS);
    atomic_store_explicit(&hami_state_limits_now, limits, memory_order_release);
}

static void state_ensure_started(void) {
    int fresh = FRESH;
    if (atomic_load_explicit(&state.progress, memory_order_acquire) == STARTED) {
        return;
    }
    HAMI_UNCANCELLED;
    state_watch_forks();
    if (atomic_compare_exchange_strong(&state.progress, &fresh, STARTING)) {
        state_start();
        atomic_store_explicit(&state.progress, STARTED, memory_order_release);
    }
    while (atomic_load_explicit(&state.progress, memory_order_acquire) != STARTED) {
        (void)sched_yield();
    }
}

/* ---- looks at the limits file ---- */

static bool state_file_changed(void) {
    struct stat found;
    bool there = stat(state.source.limits_path, &found) == 0;
    return !there || found.st_ino != state.inode || found.st_mtim.tv_sec != state.modified.tv_sec ||
           found.st_mtim.tv_nsec != state.modified.tv_nsec;
}

/*
 * A file that cannot be read denies memory. It says nothing of compute: a share in force stays, and without one none
 * comes into force.
 */
static void state_deny_memory(struct hami_limits *limits, const struct hami_limits *before) {
    enum hami_reason denied = limits->denied;
    memcpy(limits, before, sizeof *limits);
    for (unsigned i = 0; before->mode != HAMI_MODE_ENFORCE && i < limits->device_count; i++) {
        limits->devices[i].cores = 100;
    }
    limits->denied = denied;
    limits->mode = HAMI_MODE_ENFORCE;
}

/* Tells of the change before and after it: in between, a thread may still store what it derived from the old limits. */
static void state_replace_limits(const struct hami_limits *before) {
    struct hami_limits *next = &state.generations[(before - state.generations + 1) % GENERATIONS];
    memcpy(next, &state.read, sizeof *next);
    HAMI_TELL(limits_changed);
    state_attach_region(next);
    state_publish(next);
    atomic_store(&hami_state_limits_now, next);
    HAMI_TELL(limits_changed);
}

/* Reads the file. Limits equal to those in force do not use up a generation: a denied process reads very often. */
static bool state_read_again(void) {
    const struct hami_limits *before = atomic_load(&hami_state_limits_now);
    state_read_limits(&state.read);
    if (state.read.denied != HAMI_REASON_NONE) {
        state_deny_memory(&state.read, before);
    }
    bool changed = memcmp(&state.read, before, sizeof *before) != 0;
    if (changed) {
        state_replace_limits(before);
    }
    return changed;
}

bool hami_state_reload(void) {
    HAMI_UNCANCELLED;
    state_ensure_started();
    if (!state.source.file || atomic_flag_test_and_set(&state.reloading)) {
        return false;
    }
    bool changed = state_file_changed() && state_read_again();
    atomic_flag_clear(&state.reloading);
    return changed;
}

/* Several threads may find that a look is due. The one that moves the time on does it. */
HAMI_COLD static const struct hami_limits *state_look(int64_t now_ms, int64_t due_ms) {
    if (atomic_compare_exchange_strong(&state.next_look_ms, &due_ms, now_ms + LOOK_EVERY_MS)) {
        HAMI_UNCANCELLED;
        (void)hami_state_reload();
        if (!atomic_load(&state.mapped)) {
            state_attach_region(hami_state_known_limits());
        } else if (state.view.has_slot) {
            hami_region_relock(&state.view);
            hami_region_sweep_in_turn(&state.view);
            HAMI_TELL(awake, &state.view);
        }
    }
    return hami_state_known_limits();
}

HAMI_HOT const struct hami_limits *hami_state_limits(void) {
    if (hami_process_is_child()) {
        state_tell_forked(); /* by clone(2) or _Fork(3), which run no fork handlers */
    }
    const struct hami_limits *limits = hami_state_known_limits();
    int64_t now_ms = state_now_ms();
    int64_t due_ms = atomic_load_explicit(&state.next_look_ms, memory_order_relaxed);
    return HAMI_LIKELY(now_ms < due_ms) ? limits : state_look(now_ms, due_ms);
}

const struct hami_limits *hami_state_started_limits(void) {
    state_ensure_started();
    return atomic_load_explicit(&hami_state_limits_now, memory_order_acquire);
}

/* ---- the region for others ---- */

struct hami_region_view *hami_state_mapped_region(void) {
    state_ensure_started();
    return atomic_load_explicit(&state.mapped, memory_order_acquire) ? &state.view : NULL;
}

struct hami_region_view *hami_state_claimed_region(enum hami_reason *why) {
    struct hami_region_view *view = hami_state_mapped_region();
    enum hami_reason reason = view == NULL ? HAMI_REASON_BAD_REGION : HAMI_REASON_NONE;
    if (view != NULL && !view->has_slot) {
        HAMI_UNCANCELLED;
        hami_spin_lock(&state.claiming);
        if (!view->has_slot && !hami_region_claim(view)) {
            reason = HAMI_REASON_NO_SLOT;
            hami_region_refused(view, reason, HAMI_DEVICES, 0);
        }
        hami_spin_unlock(&state.claiming);
    }
    if (why != NULL) {
        *why = reason;
    }
    if (reason != HAMI_REASON_NONE) {
        return NULL;
    }
    atomic_store_explicit(&hami_state_region_now, view, memory_order_release);
    return view;
}

bool hami_state_turn_path(const char *uuid, char path[4096]) {
    const char *limits = state.source.limits_path, *end = strstr(limits, "limits/limits");
    if (!state.source.file || end == NULL || strchr(uuid, '/') != NULL) {
        return false;
    }
    int length = snprintf(path, 4096, "%.*sturns/%s", (int)(end - limits), limits, uuid);
    return length > 0 && length < 4096;
}
