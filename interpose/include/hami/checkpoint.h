/*
 * Processes that are suspended: what they held does not count while the driver has it in host memory. Which process has
 * done that does not matter, as long as it works with the container's region.
 */
#ifndef HAMI_CHECKPOINT_H
#define HAMI_CHECKPOINT_H

#include "hami/abi.h"

/* Puts right what processes have left that died while they suspended or resumed one. */
void hami_checkpoint_settle(struct hami_region *region);

/* Sees whether a suspended process is back on the device without anybody having said so. */
void hami_checkpoint_look(struct hami_region *region, unsigned slot);

#endif
