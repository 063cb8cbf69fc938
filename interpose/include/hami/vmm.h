/* Virtual memory management: physical memory lives while a handle, a mapping or a sparse array refers to it. */
#ifndef HAMI_VMM_H
#define HAMI_VMM_H

/* A sparse array, or a context with all of its arrays, is gone: what was mapped there is not any more. */
void hami_vmm_array_gone(const void *array);
void hami_vmm_context_gone(unsigned context);

void hami_vmm_after_fork(void);

#endif
