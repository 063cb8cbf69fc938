/* What the limits of contexts (cuCtxSetLimit) take of the device: stacks, heap, print buffer, device runtime. */
#ifndef HAMI_CONTEXT_LIMITS_H
#define HAMI_CONTEXT_LIMITS_H

/* A context is gone, and with it what its limits took. */
void hami_context_limits_gone(unsigned context);

void hami_context_limits_after_fork(void);

#endif
