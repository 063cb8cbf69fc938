/* Clears the times in a region that are older than the start of this system. */
#ifndef HAMI_COMPUTE_BOOT_H
#define HAMI_COMPUTE_BOOT_H

#include "compute_abi.h"

/*
 * Called before anything believes a time in the region. Several processes may do it at once.
 *
 * CLOCK_MONOTONIC starts anew with the system, but the region's file stays. Its old times would lie in the future: they
 * would hold launches, or let them go, until the clock reached them again.
 */
void boot_check(struct hami_region *region);

#endif
