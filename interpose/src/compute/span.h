/* What the work before a completed timing event is charged: its span on the container's line, or its estimate. */
#ifndef HAMI_COMPUTE_SPAN_H
#define HAMI_COMPUTE_SPAN_H

#include "compute/stream.h"

/* Lock held. `rest`: what else this process has under way; `end`: when the event completed. */
void span_charge(struct stream_account *a, const struct timing_event *event, struct under_way rest, uint64_t end);

#endif
