/*
 * HAMi's priorities. Its monitor counts a container's activity down in the region's recent_kernel, and writes -1 there
 * while a container of higher priority on the same device is active: launches wait then. That holds with and without a
 * core limit.
 */
#include "compute/machine.h"

#include "ledger/state.h"
#include "threads.h"

#include <time.h>

enum { ACTIVE = 2, STEP = 50000000 };
#define AGENT_SILENT 60                    /* seconds: the agent that suspended us is gone */
#define NEVER_HEARD UINT64_C(600000000000) /* ns: a monitor that gives no sign of life keeps us no longer */

static _Atomic int32_t always_active = ACTIVE;
_Atomic(_Atomic int32_t *) suspend_word = &always_active;
static _Atomic uint64_t suspended; /* since when; 0: not */
static _Atomic uint64_t checked;   /* when somebody last saw that we are */

bool suspend_agent_gone(const struct hami_region_view *view) {
    uint64_t beat = atomic_load(&hami_compute_of(view->region)->agent_beat);
    return beat != 0 && (uint64_t)time(NULL) > beat + AGENT_SILENT;
}

/* True: whoever suspended us gives no sign. One that shows life may keep us for as long as it likes. */
static bool left_alone(const struct hami_region_view *view, uint64_t now) {
    uint64_t never = 0, before = atomic_exchange(&checked, now);
    if (now - before > NEVER_HEARD) { /* the word may have been another in between */
        atomic_store(&suspended, now);
    }
    (void)atomic_compare_exchange_strong(&suspended, &never, now);
    bool agent = atomic_load(&hami_compute_of(view->region)->agent_beat) != 0;
    return agent ? suspend_agent_gone(view) : now - atomic_load(&suspended) > NEVER_HEARD;
}

void suspend_check(void) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL) {
        return;
    }
    _Atomic int32_t *word = &view->region->v1.recent_kernel;
    _Atomic int32_t *status = &view->region->v1.processes[view->slot].status;
    bool waited = false;
    HAMI_UNCANCELLED;
    while (atomic_load(word) < 0) {
        uint64_t now = compute_now();
        if (left_alone(view, now)) {
            break; /* launches go; the word is the monitor's to change */
        }
        waited = true;
        store_relaxed(status, 2);
        compute_sleep_until(now + STEP);
    }
    if (waited) {
        store_relaxed(status, 1);
    }
    if (atomic_load(word) >= 0) {
        store_relaxed(&suspended, 0);
    }
    int32_t seen = atomic_load(word);
    while (seen >= 0 && seen != ACTIVE && !atomic_compare_exchange_weak(word, &seen, ACTIVE)) {
    }
    store_relaxed(&view->region->v1.last_kernel_time, (uint64_t)time(NULL));
}
