/*
 * Charges an allocation that the program knows by an address or handle. hami_allocation_begin reserves the charge
 * before the driver's call. hami_allocation_end records it after the call, or gives it back. An allocation of 1 MiB or
 * more is charged in steps of 2 MiB, to which the driver rounds it up; smaller ones share blocks of 2 MiB (blocks.h).
 * Policies of allocation.c and ipc.c call this file, and generated wrappers.
 */
#ifndef HAMI_ALLOCATION_H
#define HAMI_ALLOCATION_H

#include "doors/hook.h"
#include "memory/charge.h"

/* An allocation whose driver call is under way. */
struct hami_allocation {
    struct hami_charge charge; /* 0 pages: not counted, or the allocation will probably join a charged block */
    unsigned context;          /* id of the context that the allocation belongs to (contexts.h) */
    bool large;                /* the allocation is charged in steps of 2 MiB, even if it is small */
};

/*
 * Flags of hami_allocation_begin. PACKED: a small allocation shares its block's charge. LARGE: it has a charge of its
 * own. OR_HOST: the caller tries host memory next, so a refusal is not counted where the limits offer host memory.
 */
enum hami_way { HAMI_PACKED = 0, HAMI_LARGE = 1, HAMI_OR_HOST = 2 };

/* Reserves what `bytes` in the current context may take. `way`: hami_way flags. False: refuse; nothing is taken. */
bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way);

/*
 * To be called after the driver's call. Charges and records the `actual` bytes at `address` (0: as many as were
 * reserved), and returns `status`. If `status` is an error, only gives the charge back. If the bytes do not fit after
 * all or cannot be recorded, frees the memory by the function of the hook `destroy` and returns
 * CUDA_ERROR_OUT_OF_MEMORY.
 */
CUresult hami_allocation_end(struct hami_allocation *a, CUresult status, uint64_t address, uint64_t actual,
                             enum hami_hook destroy);

#endif
