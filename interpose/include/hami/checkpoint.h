/*
 * Processes that are suspended: what they held does not count while the driver has it in host memory. Which process has
 * done that does not matter, as long as it works with the container's region.
 */
#ifndef HAMI_CHECKPOINT_H
#define HAMI_CHECKPOINT_H

#include "hami/region.h"

/* Puts right what processes have left that died while they suspended or resumed one. */
void hami_checkpoint_look_all(struct hami_region_view *view);

/* Brings the state of one slot to what the driver says of its owner. */
void hami_checkpoint_look(struct hami_region_view *view, unsigned slot);

void hami_checkpoint_after_fork(void);

#endif
