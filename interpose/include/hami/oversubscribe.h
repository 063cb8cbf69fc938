/*
 * Device memory beyond the physical share, where the administrator scales memory: managed memory that is kept in the
 * host, which the device reads and writes over its link. docs/explanation/oversubscription.md tells what that means.
 */
#ifndef HAMI_OVERSUBSCRIBE_H
#define HAMI_OVERSUBSCRIBE_H

#include "hami/compiler.h"
#include "hami/cuda_abi.h"

/*
 * Allocates `bytes` in host memory instead of the current context's device. `flags` are those of cuMemAllocManaged.
 * CUDA_ERROR_OUT_OF_MEMORY: the limits offer none, or it is used up.
 */
HAMI_COLD CUresult hami_allocate_in_host(CUdeviceptr *address, uint64_t bytes, uint32_t flags);

#endif
