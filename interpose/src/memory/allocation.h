/*
 * The way to take memory that is known by an address or handle: reserve, call the driver, keep or give back. Sizes are
 * what the device takes: 1 MiB and more are rounded up to 2 MiB; smaller allocations share blocks of 2 MiB (blocks.h).
 * allocate.c, arrays.c, external.c and generated policies call this file.
 */
#ifndef HAMI_ALLOCATION_H
#define HAMI_ALLOCATION_H

#include "doors/hook.h"
#include "memory/charge.h"

/* An allocation under way. */
struct hami_allocation {
    struct hami_charge charge; /* 0 pages: the driver will probably put it into a block that has its charge already */
    unsigned context;          /* id of the context it belongs to; see contexts.h */
    bool large;                /* charged by itself, in steps of 2 MiB, whatever its size */
};

/* How an allocation is charged: in a block if small, or always as large; and whether host memory may stand in for it.
 */
enum hami_way { HAMI_PACKED = 0, HAMI_LARGE = 1, HAMI_OR_HOST = 2 };

/* Reserves for an allocation of `bytes` in the current context. False: refuse, or with HAMI_OR_HOST try the host's. */
bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way);

/*
 * After the driver's answer: keeps the charge of what it took at `address`, or gives it back. `actual` is what the
 * driver took; 0: what was reserved. What does not fit after all is freed by the hook `destroy`, and the answer is
 * CUDA_ERROR_OUT_OF_MEMORY. Returns the answer.
 */
CUresult hami_allocation_end(struct hami_allocation *a, CUresult status, uint64_t address, uint64_t actual,
                             enum hami_hook destroy);

#endif
