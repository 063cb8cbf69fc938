/*
 * Charges: the pages that this process has reserved in the ledger, under the limit in force. Every file that takes
 * device memory calls this one, which calls the ledger (state.h, region.h).
 */
#ifndef HAMI_CHARGE_H
#define HAMI_CHARGE_H

#include "compiler.h"
#include "cuda_abi.h"
#include "ledger/region.h"

#define HAMI_LARGE_STEP (UINT64_C(2) << 20) /* drivers round large allocations up to this */
#define HAMI_HOST_STEP (UINT64_C(64) << 10) /* the largest page size of Linux hosts (aarch64) */

/* Pages of one counter of abi.h. A device below 0: this process is not counted there, and has no pages. */
struct hami_charge {
    int device;
    uint64_t pages;
};

/* `bytes` rounded up to the device's step for large allocations; never wraps. */
uint64_t hami_large(uint64_t bytes);

/* The limit of a device in pages, for all processes together; UINT64_MAX: there is no limit. */
uint64_t hami_charge_limit(const struct hami_limits *limits, int device);

/* Index in the limits of a CUDA device where this process is counted, limited or not; or -1. */
int hami_charge_counted(CUdevice device);

/*
 * Reserves `bytes` (rounded up to pages) on a CUDA device. False: refuse with CUDA_ERROR_OUT_OF_MEMORY; nothing is
 * reserved then, and the refusal is counted.
 */
bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge);

/* Reserves data. With `or_host` and where the limits offer host memory, a refusal is not counted yet. */
bool hami_charge_take_data(CUdevice device, uint64_t bytes, bool or_host, struct hami_charge *charge);

/*
 * Reserves host memory in place of device memory. False: refuse, and the refusal is counted. The limits offer no host
 * memory, too little is left, or the device cannot access it.
 */
HAMI_COLD bool hami_charge_take_host(CUdevice device, uint64_t bytes, struct hami_charge *charge);

/* Whether the use of the charge's device, by all processes, is within its limit. */
HAMI_COLD bool hami_charge_within(const struct hami_charge *charge);

/* Adds to a charge, under the limit. With 0 bytes: only checks the limit. False: refuse; the refusal is counted. */
HAMI_COLD bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes);

/* Adds to a charge if that fits at once. Counts no refusal: the caller tries something else next. */
bool hami_charge_try(struct hami_charge *charge, uint64_t bytes);

/*
 * A change that must fit under a limit. Returns 0 when it is made, else the sum of pages that it would have led to.
 * hami_charge_retry reads the limits again, removes dead processes and tries for at most 10 ms while that sum changes:
 * another process may have added pages that do not fit and be about to subtract them. hami_charge_attempt tries at
 * once, then retries, and counts a refusal of `bytes`.
 */
typedef uint64_t hami_attempt(struct hami_region_view *view, void *of);
HAMI_COLD bool hami_charge_retry(struct hami_region_view *view, hami_attempt *attempt, void *of);
HAMI_COLD bool hami_charge_attempt(struct hami_region_view *view, int device, uint64_t bytes, hami_attempt *attempt,
                                   void *of);
void hami_charge_after_fork(void);

/* Adds pages that the driver has taken already. It cannot be undone, so the limit is not checked. */
void hami_charge_found(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Changes a charge to `pages`, by taking more or giving some back. False: refuse; the charge stays as it was. */
bool hami_charge_resize(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Gives back what a charge has beyond `pages`. */
void hami_charge_lower(struct hami_charge *charge, enum hami_column column, uint64_t pages);

/* Gives a charge back whole. */
void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column);

#endif
