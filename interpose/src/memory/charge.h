/*
 * Charges: the pages that this process has reserved in the ledger, under the limit in force. Every file that takes
 * device memory calls this one, which calls the ledger (state.h, region.h). A function that refuses a request counts
 * the refusal in the region, unless its comment says otherwise.
 */
#ifndef HAMI_CHARGE_H
#define HAMI_CHARGE_H

#include "compiler.h"
#include "cuda_abi.h"
#include "ledger/region.h"
#include "memory/sizes.h"

/* Pages that this process has reserved of one counter (abi.h). */
struct hami_charge {
    int device; /* the counter; negative: the memory is not counted, and `pages` is 0 */
    uint64_t pages;
};

/* The limit of a counter in pages, for all processes together. UINT64_MAX: there is no limit. */
uint64_t hami_charge_limit(unsigned counter);

/* Index of a CUDA device in the limits. -1: the limits do not name the device, or are off or cannot be read. */
int hami_charge_counted(CUdevice device);

/* Reserves `bytes` on a CUDA device. False: refuse with CUDA_ERROR_OUT_OF_MEMORY; nothing is reserved. */
bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge);

/* Does what hami_charge_take does. With `or_host`, counts no refusal if the limits offer host memory to try next. */
bool hami_charge_take_or_host(CUdevice device, uint64_t bytes, enum hami_column column, bool or_host,
                              struct hami_charge *charge);

/*
 * Reserves host memory in place of device memory. False: refuse. The limits offer no host memory, too little is left,
 * or the device cannot access it.
 */
HAMI_COLD bool hami_charge_take_host(CUdevice device, uint64_t bytes, struct hami_charge *charge);

/* True if all processes together hold no more of the charge's device than the limit. Counts no refusal. */
HAMI_COLD bool hami_charge_within(const struct hami_charge *charge);

/* Adds to a charge, under the limit. With 0 bytes, only checks the limit. False: refuse; the charge stays as it was. */
HAMI_COLD bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes);

/*
 * Adds to a charge if that fits at once. False: it does not fit, or the memory is not counted. Counts no refusal: the
 * caller makes room and tries again.
 */
bool hami_charge_try(struct hami_charge *charge, uint64_t bytes);

/* Makes a change that must fit under a limit, and returns 0. If it does not fit, returns the sum that was too large. */
typedef uint64_t hami_attempt(struct hami_region_view *view, void *of);

/*
 * Repeats an attempt that has failed. First lowers the charges of this process's pools to what the driver still holds,
 * and reads the limits again. Then frees the slots of dead processes and tries, for at most 10 ms and only while the
 * attempt's sum changes: another process may have added pages that do not fit and be about to subtract them. False: it
 * does not fit. Counts no refusal.
 */
HAMI_COLD bool hami_charge_retry(struct hami_region_view *view, hami_attempt *attempt, void *of);
void hami_charge_after_fork(void);

/* Adds pages that the driver has taken already. That cannot be undone, so the limit is not checked. */
void hami_charge_found(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Changes a charge to `pages`, by taking more or giving some back. False: refuse; the charge stays as it was. */
bool hami_charge_resize(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Lowers a charge to `pages`, if it is more. */
void hami_charge_lower(struct hami_charge *charge, enum hami_column column, uint64_t pages);

/* Gives all pages of a charge back to the ledger. */
void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column);

#endif
