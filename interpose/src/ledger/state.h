/*
 * The limits and the region that are current in this process. The first call that needs them starts them: it reads the
 * limits and maps the region. A process that makes no such call opens no file and keeps no state.
 *
 * Called by memory/, compute/ and nvml/. The pointers that hot calls read are atomic; what they point to stays valid
 * for the life of the process.
 */
#ifndef HAMI_STATE_H
#define HAMI_STATE_H

#include "compiler.h"
#include "ledger/limits.h"
#include "ledger/region.h"

/* For hot calls. Both are NULL before the start; the region also until this process has a slot in it. */
extern _Atomic(const struct hami_limits *) hami_state_limits_now;
extern _Atomic(struct hami_region_view *) hami_state_region_now;

/* The limits in force, never NULL. Looks at the limits file again at most four times a second. */
const struct hami_limits *hami_state_limits(void);

/* The limits as of the last look, never NULL. For code that runs after a call of hami_state_limits. */
HAMI_COLD const struct hami_limits *hami_state_started_limits(void);
static inline const struct hami_limits *hami_state_known_limits(void) {
    const struct hami_limits *limits = atomic_load_explicit(&hami_state_limits_now, memory_order_acquire);
    return HAMI_LIKELY(limits != NULL) ? limits : hami_state_started_limits();
}

/* Looks at the limits file now. True if other limits came into force. */
HAMI_COLD bool hami_state_reload(void);

/* The region, with a slot of this process; or NULL, and the reason in *why unless `why` is NULL. */
HAMI_COLD struct hami_region_view *hami_state_claimed_region(enum hami_reason *why);
static inline struct hami_region_view *hami_state_region(enum hami_reason *why) {
    struct hami_region_view *view = atomic_load_explicit(&hami_state_region_now, memory_order_acquire);
    return HAMI_LIKELY(view != NULL) ? view : hami_state_claimed_region(why);
}

/* The region, perhaps without a slot of this process; or NULL. */
struct hami_region_view *hami_state_mapped_region(void);

/* Path of a device's turn page (compute_abi.h). False: no limits folder is mounted. */
bool hami_state_turn_path(const char *uuid, char path[4096]);

void hami_state_after_fork(void);

#endif
