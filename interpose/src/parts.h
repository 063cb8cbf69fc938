/* What parts of the library do when something happens that concerns them: events.h tells of what. */
#ifndef HAMI_PARTS_H
#define HAMI_PARTS_H

#include "ledger/region.h"

/* A context is gone: what was opened or mapped there, and what its limits took. */
void hami_context_limits_gone(unsigned context);
void hami_ipc_context_gone(unsigned context);
void hami_vmm_context_gone(unsigned context);

/* A sparse array is gone: what was mapped there is not any more. */
void hami_vmm_array_gone(const void *array);

/* Brings the state of one slot, or of all that are MOVING, to what the driver says of the owner. */
void hami_checkpoint_look(struct hami_region_view *view, unsigned slot);
void hami_checkpoint_look_all(struct hami_region_view *view);

/* In the child of a fork. */
void hami_checkpoint_after_fork(void);
void hami_context_limits_after_fork(void);
void hami_ipc_after_fork(void);
void hami_modules_after_fork(void);
void hami_vmm_after_fork(void);

#endif
