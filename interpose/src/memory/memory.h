/* What files of this room without a header of their own do when something happens; src/parts.c calls it. */
#ifndef HAMI_MEMORY_H
#define HAMI_MEMORY_H

#include "ledger/region.h"

/* A context has ended: what was opened or mapped there, and what its limits took, is free. */
void hami_context_limits_gone(unsigned context);
void hami_ipc_context_gone(unsigned context);
void hami_sparse_context_gone(unsigned context);

/* A sparse array has ended, and what was mapped there is no longer mapped. */
void hami_sparse_array_gone(const void *array);

/* Brings the state of a slot to what the driver says of its owner: of one, of ours, of all that are MOVING. */
void hami_checkpoint_look(struct hami_region_view *view, unsigned slot);
void hami_checkpoint_awake(struct hami_region_view *view);
void hami_checkpoint_look_all(struct hami_region_view *view);

/* In the child of a fork. */
void hami_checkpoint_after_fork(void);
void hami_context_calls_after_fork(void);
void hami_context_limits_after_fork(void);
void hami_ipc_after_fork(void);
void hami_modules_after_fork(void);
void hami_sparse_after_fork(void);
void hami_vmm_after_fork(void);

#endif
