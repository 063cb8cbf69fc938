/* Virtual memory management: physical memory lives while a handle or a mapping refers to it. */
#ifndef HAMI_VMM_H
#define HAMI_VMM_H

void hami_vmm_after_fork(void);

#endif
