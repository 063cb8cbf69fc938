/*
 * What this process has taken, by pointer and handle, and the way to take more: reserve, call the driver, keep or
 * give back. Sizes are what the device takes:
 *
 *   - allocations of 1 MiB and more: rounded up to 2 MiB;
 *   - smaller ones share blocks of 2 MiB; a block counts while anything lives in it.
 */
#ifndef HAMI_ACCOUNT_H
#define HAMI_ACCOUNT_H

#include "memory/charge.h"

#define HAMI_SMALL_BELOW (UINT64_C(1) << 20)

enum hami_kind {
    HAMI_KIND_LARGE = 1,
    HAMI_KIND_SMALL = 2,
    HAMI_KIND_POOL = 3,
    HAMI_KIND_CODE = 4,
    HAMI_KIND_SHARED = 5, /* a large one that other processes may hold */
    HAMI_KIND_HELD = 6    /* what another process of the container is charged for */
};

/* An allocation under way. */
struct hami_allocation {
    struct hami_charge charge;
    unsigned context; /* id of the context it belongs to; see context.h */
    bool counted;
    CUdevice device;
    bool large;   /* whatever its size */
    bool in_room; /* small, nothing reserved: will land in a block that is there and has room */
};

/* How an allocation is taken: small ones packed, all by themselves; and whether host memory may stand in for it. */
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

/* Takes the record at `address` out before a free; 0 if there is none. */
uint64_t hami_record_take(uint64_t address);

/* Takes out the record of what is known by a handle, or of code by its key; 0 if there is none. */
uint64_t hami_object_take(uint64_t key);

/* Puts a record back: the free failed. */
HAMI_COLD void hami_record_restore(uint64_t address, uint64_t record);

/* The free succeeded: gives back what the record stands for. */
void hami_record_release(uint64_t address, uint64_t record);

/* One of the two, by the driver's answer to the free, which it returns. A record of 0 stands for nothing. */
CUresult hami_record_freed(uint64_t address, uint64_t record, CUresult status);

/* Records an allocation that is charged already. False: it cannot be recorded. */
bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context);

/* Adds a charge for code to the record at `key`, which belongs to a context; one thread at a time for each key. */
bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context);

/* Other processes may be given what starts at `address`, under that identity. Small allocations stay as they are. */
void hami_record_share(uint64_t address, uint64_t identity);

/* Records what this process holds of a share. False: it cannot be recorded. */
bool hami_record_held(uint64_t address, int share, unsigned context);

/* Records a pool's allocation; pool.c knows what `pool` is and hears of its release. */
bool hami_record_pool(uint64_t address, unsigned pool);

/* Gives back everything that belongs to a context that is gone. */
void hami_records_drop_context(unsigned context);
/* Around the driver's call that ends a context and what is dropped then. */
void hami_records_context_ending(unsigned context, bool now);

/* In the child of a fork: the parent's allocations are not ours. */
void hami_account_after_fork(void);

#endif
