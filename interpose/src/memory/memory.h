/* Functions of files that have no header of their own. src/parts.c calls most of them, when events occur (parts.h). */
#ifndef HAMI_MEMORY_H
#define HAMI_MEMORY_H

#include "ledger/region.h"

/* A context has ended: gives back what was mapped in it, and what its limits took. */
void hami_context_limits_gone(unsigned context);
void hami_sparse_context_gone(unsigned context);

/* A sparse array has ended: the memory that was mapped into it is no longer in use there. */
void hami_sparse_array_gone(const void *array);

/* Set the state of a slot to what the driver tells about its process: of one slot, of ours, of all that are MOVING. */
void hami_checkpoint_look(struct hami_region_view *view, unsigned slot);
void hami_checkpoint_awake(struct hami_region_view *view);
void hami_checkpoint_look_all(struct hami_region_view *view);

/* In the child of a fork: forget what was the parent's. */
void hami_checkpoint_after_fork(void);
void hami_context_calls_after_fork(void);
void hami_context_limits_after_fork(void);
void hami_ipc_after_fork(void);
void hami_modules_after_fork(void);
void hami_sparse_after_fork(void);
void hami_vmm_after_fork(void);

#endif
