/*
 * What this process has taken, by pointer and handle, and the way to take more: reserve, call the driver, keep or
 * give back. Sizes are what the device takes:
 *
 *   - allocations of 1 MiB and more: rounded up to 2 MiB;
 *   - smaller ones share blocks of 2 MiB; a block counts while anything lives in it;
 *   - host memory in place of the device's: rounded up to 64 KiB, the largest page of a host.
 */
#ifndef HAMI_ACCOUNT_H
#define HAMI_ACCOUNT_H

#include "hami/cuda_abi.h"
#include "hami/region.h"

#define HAMI_LARGE_STEP (UINT64_C(2) << 20)
#define HAMI_SMALL_BELOW (UINT64_C(1) << 20)
#define HAMI_HOST_STEP (UINT64_C(64) << 10)

/* Pages of one of abi.h's counters; device < 0: this process is not counted there. */
struct hami_charge {
    int device;
    uint64_t pages;
};

/* `bytes` rounded up to the device's step for large allocations; never wraps. */
uint64_t hami_large(uint64_t bytes);

/*
 * Reserves `bytes` (rounded up to pages) on a CUDA device. False: refuse with CUDA_ERROR_OUT_OF_MEMORY; nothing is
 * reserved then, and the refusal is counted.
 */
bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge);

/* Adds to a charge that exists, under the same limit. */
bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes);

/* Same without a second look before it gives up and without noting a refusal: the caller knows another way. */
bool hami_charge_try(struct hami_charge *charge, uint64_t bytes);

/* Adds what the driver is found to have taken already; the limit cannot undo it and so is not asked. */
void hami_charge_found(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages);

/* Gives `pages` of a data charge back. */
void hami_charge_shrink(struct hami_charge *charge, uint64_t pages);

/* Gives a charge back whole. */
void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column);

/* ---- the allocations of this process ---- */

enum hami_kind { HAMI_KIND_LARGE = 1, HAMI_KIND_SMALL = 2, HAMI_KIND_POOL = 3, HAMI_KIND_CODE = 4 };

/* An allocation under way. */
struct hami_allocation {
    struct hami_charge charge;
    unsigned context; /* id of the context it belongs to; see context.h */
    bool counted;
    CUdevice device;
    bool in_room; /* small, nothing reserved: will land in a block that is there and has room */
};

/* How an allocation is taken: small ones packed, all by themselves; and whether host memory may stand in for it. */
enum hami_way { HAMI_PACKED = 0, HAMI_LARGE = 1, HAMI_OR_HOST = 2 };

/*
 * Reserves for an allocation of `bytes` in the current context. False: refuse, or with HAMI_OR_HOST try
 * hami_allocation_begin_in_host.
 */
bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way);

/* Same for host memory that stands in for the device's, where the limits offer it. False: refuse. */
__attribute__((cold)) bool hami_allocation_begin_in_host(struct hami_allocation *a, uint64_t bytes);

/* The allocation in host memory stands. False: it cannot be recorded; free it and refuse. */
__attribute__((cold)) bool hami_allocation_end_in_host(struct hami_allocation *a, uint64_t address);

/*
 * Keeps or gives back after the driver's answer. `actual` is what was taken at `address`. True: the allocation stands;
 * false: it does not fit after all and the caller must free it and answer CUDA_ERROR_OUT_OF_MEMORY.
 */
bool hami_allocation_end(struct hami_allocation *a, uint64_t address, uint64_t actual, bool always_large);

/* Gives the reserve back: the driver refused. */
void hami_allocation_cancel(struct hami_allocation *a);

/* Takes the record at `address` out before a free; 0 if there is none. */
uint64_t hami_record_take(uint64_t address);

/* Same for what is known by a handle instead of an address. */
uint64_t hami_object_take(const void *handle);

/* Same for code, by the key it was recorded with. */
uint64_t hami_code_take(uint64_t key);

/* Puts a record back: the free failed. */
void hami_record_restore(uint64_t address, uint64_t record);

/* The free succeeded: gives back what the record stands for. */
void hami_record_release(uint64_t address, uint64_t record);

/* Adds a charge for code to the record at `key`, which belongs to a context; one thread at a time for each key. */
bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context);

/* Records a pool's allocation; pool.c interprets `pool`. */
bool hami_record_pool(uint64_t address, unsigned pool);

/* Gives back everything that belongs to a context that is gone. */
void hami_records_drop_context(unsigned context);

/* In the child of a fork: the parent's allocations are not ours. */
void hami_account_after_fork(void);

#endif
