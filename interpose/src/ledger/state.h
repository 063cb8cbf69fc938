/*
 * The limits in force and the region of this process. The first call of one of these functions reads the limits and
 * maps the region; without such a call no file is opened. The pointers that the functions return stay valid for the
 * life of the process. memory/, compute/ and nvml/ call these functions.
 */
#ifndef HAMI_STATE_H
#define HAMI_STATE_H

#include "compiler.h"
#include "ledger/limits.h"
#include "ledger/region.h"

/* The limits in force: NULL before the first call of a function below. The region: NULL before it has our slot. */
extern _Atomic(const struct hami_limits *) hami_state_limits_now;
extern _Atomic(struct hami_region_view *) hami_state_region_now;

/* Returns the limits in force, never NULL. First checks, at most every 250 ms, whether the file has changed. */
const struct hami_limits *hami_state_limits(void);

/* Returns the limits in force without a look at the file, never NULL. For code that runs soon after the look. */
HAMI_COLD const struct hami_limits *hami_state_started_limits(void);
static inline const struct hami_limits *hami_state_known_limits(void) {
    const struct hami_limits *limits = atomic_load_explicit(&hami_state_limits_now, memory_order_acquire);
    return HAMI_LIKELY(limits != NULL) ? limits : hami_state_started_limits();
}

/* Looks at the limits file now. Returns whether other limits came into force. */
HAMI_COLD bool hami_state_reload(void);

/* Returns the region, with a slot for this process in it. On failure returns NULL, and sets *why if it is given. */
HAMI_COLD struct hami_region_view *hami_state_claimed_region(enum hami_reason *why);
static inline struct hami_region_view *hami_state_region(enum hami_reason *why) {
    struct hami_region_view *view = atomic_load_explicit(&hami_state_region_now, memory_order_acquire);
    return HAMI_LIKELY(view != NULL) ? view : hami_state_claimed_region(why);
}

/* Returns the region, even if this process has no slot in it; NULL if none could be mapped. */
struct hami_region_view *hami_state_mapped_region(void);

/* Writes the path of a device's turn page (compute_abi.h). Returns false if no limits folder is mounted. */
bool hami_state_turn_path(const char *uuid, char path[4096]);

void hami_state_after_fork(void);

#endif
