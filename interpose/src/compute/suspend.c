/* Makes launches wait while the agent or HAMi's monitor suspends this container (limited_device.h). */
#include "compute/limited_device.h"

#include "compute/wait.h"
#include "ledger/state.h"
#include "threads.h"

#include <time.h>

enum { LOOK_AGAIN_NS = 50000000, AGENT_GONE_AFTER_S = 60 };
#define SUSPENDED_MOST_NS UINT64_C(600000000000) /* a suspension by a monitor without signs of life ends after this */

static _Atomic int32_t always_active = SUSPEND_ACTIVE;
_Atomic(_Atomic int32_t *) suspend_word = &always_active;
static _Atomic uint64_t suspended_since; /* when the present suspension was first found; 0: not suspended */
static _Atomic uint64_t suspended_seen;  /* when a thread last found the container suspended */

bool suspend_agent_is_gone(const struct hami_region_view *view) {
    uint64_t beat = atomic_load(&hami_compute_of(view->region)->agent_beat);
    return beat != 0 && (uint64_t)time(NULL) > beat + AGENT_GONE_AFTER_S;
}

/*
 * True: launches may go on although recent_kernel is negative, because the agent died. An agent that is alive may
 * suspend for any time. HAMi's own monitor gives no signs of life, so its suspensions end after SUSPENDED_MOST_NS.
 */
static bool suspend_is_stale(const struct hami_region_view *view, uint64_t now) {
    uint64_t never = 0, before = atomic_exchange(&suspended_seen, now);
    if (now - before > SUSPENDED_MOST_NS) { /* no thread looked for so long, so this may be another suspension */
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
    _Atomic int32_t *status = &view->region->v1.processes[view->slot].status; /* HAMi: 1 running, 2 suspended */
    bool waited = false;
    HAMI_UNCANCELLED;
    while (atomic_load(word) < 0) {
        uint64_t now = compute_now();
        if (suspend_is_stale(view, now)) {
            break; /* recent_kernel stays negative: only the agent or monitor raises it again */
        }
        waited = true;
        store_relaxed(status, 2);
        compute_sleep_until(now + LOOK_AGAIN_NS);
    }
    if (waited) {
        store_relaxed(status, 1);
    }
    int32_t seen = atomic_load(word);
    if (seen >= 0) {
        store_relaxed(&suspended_since, 0);
    }
    while (seen >= 0 && seen != SUSPEND_ACTIVE && !atomic_compare_exchange_weak(word, &seen, SUSPEND_ACTIVE)) {
    }
    store_relaxed(&view->region->v1.last_kernel_time, (uint64_t)time(NULL));
}
