/*
 * The way to take memory that is known by an address or handle: reserve, call the driver, keep or give back. Sizes are
 * what the device takes: 1 MiB and more are rounded up to 2 MiB; smaller allocations share blocks of 2 MiB (blocks.h).
 * allocate.c, arrays.c, external.c call this file.
 */
#ifndef HAMI_ALLOCATION_H
#define HAMI_ALLOCATION_H

#include "doors/hook.h"
#include "memory/charge.h"

/* An allocation under way. */
struct hami_allocation {
    struct hami_charge charge;
    unsigned context; /* id of the context it belongs to; see contexts.h */
    bool counted;
    CUdevice device;
    bool large;   /* whatever its size */
    bool in_room; /* small, nothing reserved: the driver will put it into a block that has room */
};

/* How an allocation is taken: packed if small, or always large; and whether host memory may stand in for it. */
enum hami_way { HAMI_PACKED = 0, HAMI_LARGE = 1, HAMI_OR_HOST = 2 };

/* Reserves for an allocation of `bytes` in the current context. False: refuse, or with HAMI_OR_HOST try the host's. */
bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way);

/*
 * Keeps or gives back after the driver's answer. `actual` is what was taken at `address`. True: the allocation stands;
 * false: it does not fit after all and the caller must free it and answer CUDA_ERROR_OUT_OF_MEMORY.
 */
bool hami_allocation_end(struct hami_allocation *a, uint64_t address, uint64_t actual);

/* Gives the reserve back: the driver refused. */
HAMI_COLD void hami_allocation_cancel(struct hami_allocation *a);

/* After the driver's answer: ends or cancels. Has the hook `destroy` free what does not fit. Returns the answer. */
CUresult hami_allocation_kept(struct hami_allocation *a, CUresult status, uint64_t address, uint64_t actual,
                              enum hami_hook destroy);

/*
 * Host memory in place of the device's (host_memory.c): allocates, reserves and records. `flags` are those of
 * cuMemAllocManaged. CUDA_ERROR_OUT_OF_MEMORY: the limits offer no host memory, or it is used up.
 */
HAMI_COLD CUresult hami_host_allocate(CUdeviceptr *address, uint64_t bytes, uint32_t flags);

#endif
