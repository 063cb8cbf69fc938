/*
 * What this process reserves on a device, in pages, under the limit in force: the part between the limits with the
 * region (state.h) and everything that takes memory.
 */
#ifndef HAMI_CHARGE_H
#define HAMI_CHARGE_H

#include "compiler.h"
#include "cuda_abi.h"
#include "ledger/region.h"

#define HAMI_LARGE_STEP (UINT64_C(2) << 20) /* a device takes large allocations in these */
#define HAMI_HOST_STEP (UINT64_C(64) << 10) /* the largest page of a host */

/* Pages of one of abi.h's counters; device < 0: this process is not counted there. */
struct hami_charge {
    int device;
    uint64_t pages;
};

/* `bytes` rounded up to the device's step for large allocations; never wraps. */
uint64_t hami_large(uint64_t bytes);

/* Pages that processes may have of a device in the limits; UINT64_MAX: there is no limit. */
uint64_t hami_charge_limit(const struct hami_limits *limits, int device);

/* Index in the limits of a CUDA device where this process is counted and limited, or -1. */
int hami_charge_index(CUdevice device);

/* Index in the limits of a CUDA device where this process is counted, limited or not; or -1. */
int hami_charge_counted(CUdevice device);

/*
 * Reserves `bytes` (rounded up to pages) on a CUDA device. False: refuse with CUDA_ERROR_OUT_OF_MEMORY; nothing is
 * reserved then, and the refusal is counted.
 */
bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge);

/*
 * Reserves data for which host memory may stand in. Where the limits offer host memory, a refusal is not counted yet.
 */
bool hami_charge_take_or_host(CUdevice device, uint64_t bytes, struct hami_charge *charge);

/*
 * Reserves host memory in place of the device's. False: the limits offer none, the device cannot work on it, or too
 * little is left; refused for good, and counted.
 */
HAMI_COLD bool hami_charge_take_host(CUdevice device, uint64_t bytes, struct hami_charge *charge);

/* Whether no more than the limit is in use where a charge is. */
HAMI_COLD bool hami_charge_within(const struct hami_charge *charge);

/* Adds to a charge that exists, under the limit; adding 0 bytes checks the limit alone. */
HAMI_COLD bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes);

/* Tries once to add to a charge, and counts no refusal: the caller knows another way. */
bool hami_charge_try(struct hami_charge *charge, uint64_t bytes);

/*
 * Something that must fit under a limit. Returns 0 once it is done, or how many pages it would make together.
 * hami_charge_retry tries again what did not fit at once, with newer limits and without the dead, and for at most 10 ms
 * while what is in the way changes: another process may be taking an addition back. hami_charge_attempt tries at once,
 * then so, and notes a refusal of `bytes`.
 */
typedef uint64_t hami_attempt(struct hami_region_view *view, void *of);
HAMI_COLD bool hami_charge_retry(struct hami_region_view *view, hami_attempt *attempt, void *of);
HAMI_COLD bool hami_charge_attempt(struct hami_region_view *view, int device, uint64_t bytes, hami_attempt *attempt,
                                   void *of);
void hami_charge_after_fork(void);

/* Adds what the driver is found to have taken already; the limit cannot undo it and so is not asked. */
void hami_charge_found(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Brings a charge to `pages`, by taking more or giving some back. False: refuse; it stays as it was. */
bool hami_charge_resize(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Gives back what a charge has beyond `pages`. */
void hami_charge_lower(struct hami_charge *charge, enum hami_column column, uint64_t pages);

/* Gives a charge back whole. */
void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column);

#endif
