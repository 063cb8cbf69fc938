/* Functions of files of this room that have no header of their own. src/parts.c calls most of them (parts.h). */
#ifndef HAMI_MEMORY_H
#define HAMI_MEMORY_H

#include "ledger/region.h"

/*
 * The context with this id (contexts.h) has ended. The first function gives back the charges for its limits
 * (cuCtxSetLimit). The second ends the uses of memory that was mapped into sparse arrays in this context.
 */
void hami_context_limits_gone(unsigned context);
void hami_sparse_context_gone(unsigned context);

/* An array was destroyed. If it was sparse, ends the uses of the memory that was mapped into it. */
void hami_sparse_array_gone(const void *array);

/* Sets the state of this process's slot, or of all slots that are MOVING, to what the driver reports (abi.h). */
void hami_checkpoint_awake(struct hami_region_view *view);
void hami_checkpoint_reconcile_moving(struct hami_region_view *view);

/* In the child of a fork: each file forgets the parent's state and unlocks its locks. */
void hami_checkpoint_after_fork(void);
void hami_context_calls_after_fork(void);
void hami_context_limits_after_fork(void);
void hami_ipc_after_fork(void);
void hami_modules_after_fork(void);
void hami_sparse_after_fork(void);
void hami_vmm_after_fork(void);

#endif
