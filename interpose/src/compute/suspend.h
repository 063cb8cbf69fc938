/*
 * HAMi's priorities. HAMi's monitor writes -1 into the region's recent_kernel while a container of higher priority is
 * active on the same device. Launches of this container then wait, with a core limit or without one.
 */
#ifndef HAMI_COMPUTE_SUSPEND_H
#define HAMI_COMPUTE_SUSPEND_H

#include "compute_abi.h"
#include "ledger/region.h"

#include <stdbool.h>

enum { SUSPEND_ACTIVE = 2 }; /* recent_kernel of a container that launched lately; the monitor counts it down */

extern _Atomic(_Atomic int32_t *) suspend_word; /* the region's recent_kernel; never NULL */

/* Says in the region that this container is active, and waits while the monitor suspends it. */
void suspend_check(void);
/* True: there was an agent, and it gave no sign of life for a minute. */
bool suspend_agent_is_gone(const struct hami_region_view *view);

#endif
