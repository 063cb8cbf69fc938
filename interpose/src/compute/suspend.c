/* Implements suspend.h. */
#include "compute/suspend.h"

#include "compute/wait.h"
#include "ledger/state.h"
#include "threads.h"

#include <time.h>

enum { LOOK_AGAIN_NS = 50000000, AGENT_GONE_AFTER_S = 60 };
#define SUSPENDED_MOST_NS UINT64_C(600000000000) /* by a monitor that never gives a sign of life */

static _Atomic int32_t always_active = SUSPEND_ACTIVE;
_Atomic(_Atomic int32_t *) suspend_word = &always_active;
static _Atomic uint64_t suspended_since; /* 0: not suspended */
static _Atomic uint64_t suspended_seen;  /* when a thread last saw that we are */

bool suspend_agent_is_gone(const struct hami_region_view *view) {
    uint64_t beat = atomic_load(&hami_compute_of(view->region)->agent_beat);
    return beat != 0 && (uint64_t)time(NULL) > beat + AGENT_GONE_AFTER_S;
}

/* True: the agent or monitor that suspended us is gone. One that shows life may suspend us for as long as it likes. */
static bool suspend_is_stale(const struct hami_region_view *view, uint64_t now) {
    uint64_t never = 0, before = atomic_exchange(&suspended_seen, now);
    if (now - before > SUSPENDED_MOST_NS) { /* nobody looked for so long; the word may have changed in between */
        atomic_store(&suspended_since, now);
    }
    (void)atomic_compare_exchange_strong(&suspended_since, &never, now);
    bool agent = atomic_load(&hami_compute_of(view->region)->agent_beat) != 0;
    return agent ? suspend_agent_is_gone(view) : now - atomic_load(&suspended_since) > SUSPENDED_MOST_NS;
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
        if (suspend_is_stale(view, now)) {
            break; /* launches go on; only the monitor changes a negative word */
        }
        waited = true;
        store_relaxed(status, 2);
        compute_sleep_until(now + LOOK_AGAIN_NS);
    }
    if (waited) {
        store_relaxed(status, 1);
    }
    if (atomic_load(word) >= 0) {
        store_relaxed(&suspended_since, 0);
    }
    int32_t seen = atomic_load(word);
    while (seen >= 0 && seen != SUSPEND_ACTIVE && !atomic_compare_exchange_weak(word, &seen, SUSPEND_ACTIVE)) {
    }
    store_relaxed(&view->region->v1.last_kernel_time, (uint64_t)time(NULL));
}
