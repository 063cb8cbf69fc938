/*
 * The limits in force and the region of this process.
 *
 * Calls look whether the limits file has changed, but not more often than every LOOK_EVERY_MS. New limits go into the
 * next of GENERATIONS places, since other threads may still read the old ones. The child of a fork keeps the limits and
 * the mapping. It claims a slot of its own when it first needs one.
 */
#include "ledger/state.h"

#include "ledger/process.h"
#include "parts.h"
#include "threads.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { GENERATIONS = 8, LOOK_EVERY_MS = 250 };

static struct {
    struct hami_limits_source source;
    struct hami_limits generations[GENERATIONS];
    atomic_flag reloading; /* held to start, and to look at the limits file */
    _Atomic int64_t next_look_ms;
    struct timespec modified; /* st_mtim of the limits file when it was read */
    uint64_t inode;           /* st_ino of the limits file when it was read; 0: read it at the next look */
    struct hami_region_view view;
    _Atomic bool mapped;  /* view.region is set */
    atomic_flag claiming; /* held to map the region and to claim a slot */
} state = {.reloading = ATOMIC_FLAG_INIT, .claiming = ATOMIC_FLAG_INIT};

_Atomic(const struct hami_limits *) hami_state_limits_now;
_Atomic(struct hami_region_view *) hami_state_region_now;

/* Time in ms of CLOCK_MONOTONIC. The coarse clock is late by up to one tick of the kernel (1 to 10 ms). */
static int64_t state_now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- forks ---- */

/* Frees locks that threads of the parent held: the child lacks these threads. The next look reads the file again. */
void hami_state_after_fork(void) {
    atomic_flag_clear(&state.reloading);
    atomic_flag_clear(&state.claiming);
    atomic_store(&hami_state_region_now, NULL);
    hami_region_after_fork(&state.view);
    state.inode = 0;
}

static void state_tell_forked(void) {
    HAMI_TELL(forked);
}

/* ---- limits and region ---- */

/* Takes the file's time before it reads the content. If the file changes in between, the next look reads it again. */
static void state_read_limits(struct hami_limits *limits) {
    struct stat found;
    if (state.source.file && stat(state.source.limits_path, &found) == 0) {
        state.modified = found.st_mtim;
        state.inode = found.st_ino;
    }
    hami_limits_load(&state.source, limits);
    if (limits->denied == HAMI_REASON_NO_LIMITS) {
        state.inode = 0; /* the next look reads even an unchanged file: perhaps only a free descriptor was missing */
    }
}

/*
 * Maps the region if that has not succeeded yet, and writes the limits into it. While there is no region, each look
 * calls this again: the agent may replace a bad file, or change the mode from "off".
 */
static void state_attach_region(const struct hami_limits *limits) {
    HAMI_HOLD(&state.claiming);
    if (limits->mode != HAMI_MODE_OFF && !atomic_load(&state.mapped) &&
        hami_region_attach(&state.view, state.source.region_path, !state.source.file, limits)) {
        atomic_store_explicit(&state.mapped, true, memory_order_release);
    }
    if (atomic_load(&state.mapped) && limits->denied == HAMI_REASON_NONE) {
        hami_region_show_limits(state.view.region, limits);
    }
}

const struct hami_limits *hami_state_started_limits(void) {
    const struct hami_limits *limits = atomic_load_explicit(&hami_state_limits_now, memory_order_acquire);
    if (limits != NULL) {
        return limits;
    }
    HAMI_UNCANCELLED;
    /* Set before the start, so that each later fork runs the handler. Set by two threads, it runs twice: no harm. */
    (void)pthread_atfork(NULL, NULL, state_tell_forked);
    hami_process_watch();
    HAMI_HOLD(&state.reloading);
    if (atomic_load(&hami_state_limits_now) == NULL) {
        hami_limits_locate(&state.source);
        state_read_limits(&state.generations[0]);
        state_attach_region(&state.generations[0]);
        atomic_store(&state.next_look_ms, state_now_ms() + LOOK_EVERY_MS);
        atomic_store(&hami_state_limits_now, &state.generations[0]);
    }
    return atomic_load(&hami_state_limits_now);
}

/* ---- looks at the limits file ---- */

static bool state_file_changed(void) {
    struct stat found;
    return stat(state.source.limits_path, &found) != 0 || found.st_ino != state.inode ||
           memcmp(&found.st_mtim, &state.modified, sizeof state.modified) != 0;
}

/*
 * Makes the limits to use while the file cannot be read: all memory is denied. The compute limits stay as they were. If
 * the old mode did not enforce them, there are none.
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

/* Reads the limits file into the next place. If nothing changed, returns false; the next read reuses the place. */
static bool state_read_again(void) {
    const struct hami_limits *before = atomic_load(&hami_state_limits_now);
    struct hami_limits *next = &state.generations[(before - state.generations + 1) % GENERATIONS];
    state_read_limits(next);
    if (next->denied != HAMI_REASON_NONE) {
        state_deny_memory(next, before);
    }
    if (memcmp(next, before, sizeof *before) == 0) {
        return false;
    }
    /* Announces the change twice: in between, a thread may still store an answer that it got from the old limits. */
    HAMI_TELL(limits_changed);
    state_attach_region(next);
    atomic_store(&hami_state_limits_now, next);
    HAMI_TELL(limits_changed);
    return true;
}

bool hami_state_reload(void) {
    HAMI_UNCANCELLED;
    (void)hami_state_started_limits();
    if (!state.source.file || atomic_flag_test_and_set(&state.reloading)) {
        return false;
    }
    bool changed = state_file_changed() && state_read_again();
    atomic_flag_clear(&state.reloading);
    return changed;
}

/* Several threads may find that a look is due. Only the thread that sets the time of the next look does it. */
HAMI_COLD static const struct hami_limits *state_look_at_file(int64_t now_ms, int64_t due_ms) {
    if (atomic_compare_exchange_strong(&state.next_look_ms, &due_ms, now_ms + LOOK_EVERY_MS)) {
        HAMI_UNCANCELLED;
        (void)hami_state_reload();
        if (!atomic_load(&state.mapped)) {
            state_attach_region(hami_state_known_limits());
        } else if (state.view.has_slot) {
            hami_region_relock(&state.view);
            hami_region_sweep_in_turn(&state.view, (uint64_t)now_ms);
            HAMI_TELL(awake, &state.view);
        }
    }
    return hami_state_known_limits();
}

HAMI_HOT const struct hami_limits *hami_state_limits(void) {
    if (hami_process_is_child()) {
        state_tell_forked(); /* this child was made by clone(2) or _Fork(3), which run no fork handlers */
    }
    const struct hami_limits *limits = hami_state_known_limits();
    int64_t now_ms = state_now_ms();
    int64_t due_ms = atomic_load_explicit(&state.next_look_ms, memory_order_relaxed);
    return HAMI_LIKELY(now_ms < due_ms) ? limits : state_look_at_file(now_ms, due_ms);
}

/* ---- the region ---- */

struct hami_region_view *hami_state_mapped_region(void) {
    (void)hami_state_started_limits();
    return atomic_load_explicit(&state.mapped, memory_order_acquire) ? &state.view : NULL;
}

struct hami_region_view *hami_state_claimed_region(enum hami_reason *why) {
    struct hami_region_view *view = hami_state_mapped_region();
    enum hami_reason reason = view == NULL ? HAMI_REASON_BAD_REGION : HAMI_REASON_NONE;
    if (view != NULL) {
        HAMI_UNCANCELLED;
        HAMI_HOLD(&state.claiming);
        if (view->has_slot || hami_region_claim(view)) {
            atomic_store(&hami_state_region_now, view);
        } else {
            reason = HAMI_REASON_NO_SLOT;
            hami_region_refused(view, reason, HAMI_DEVICES, 0);
        }
    }
    if (why != NULL) {
        *why = reason;
    }
    return reason == HAMI_REASON_NONE ? view : NULL;
}

bool hami_state_turn_path(const char *uuid, char path[4096]) {
    const char *limits = state.source.limits_path, *end = strstr(limits, "limits/limits");
    if (!state.source.file || end == NULL || strchr(uuid, '/') != NULL) {
        return false;
    }
    int length = snprintf(path, 4096, "%.*sturns/%s", (int)(end - limits), limits, uuid);
    return length > 0 && length < 4096;
}
