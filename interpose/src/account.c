/* Charges and the records of what they stand for; see account.h. */
#include "hami/account.h"

#include "hami/context.h"
#include "hami/guest.h"
#include "hami/map.h"
#include "hami/pool.h"
#include "hami/vmm.h"

#include <sched.h>
#include <string.h>

enum { BLOCK_SHIFT = 21, UNIT_SHIFT = 9, BLOCK_UNITS = 1 << (BLOCK_SHIFT - UNIT_SHIFT), BLOCK_LOCKS = 64 };

/* Record of an allocation: kind (4 bits), device + 1 (8), context (8), pages of large ones or units of small (36). */
enum { KIND_SHIFT = 60, DEVICE_SHIFT = 52, CONTEXT_SHIFT = 44 };
#define AMOUNT_MASK ((UINT64_C(1) << 36) - 1)

/* Record of a block: device + 1 (8 bits), units of one allocation (12), allocations in it (20), units in use (20). */
enum { BLOCK_SIZE_SHIFT = 40, BLOCK_COUNT_SHIFT = 20, SIZES = 12 };
#define BLOCK_SIZE_FIELD UINT64_C(0xfff)
#define BLOCK_FIELD UINT64_C(0xfffff)

static struct hami_map records;
static struct hami_map blocks;
static atomic_flag block_locks[BLOCK_LOCKS];
static _Thread_local uint64_t last_block[SIZES]; /* where this thread's last allocation of a size went */

/* ---- charges ---- */

uint64_t hami_large(uint64_t bytes) {
    return bytes > UINT64_MAX - HAMI_LARGE_STEP ? UINT64_MAX : (bytes + HAMI_LARGE_STEP - 1) & ~(HAMI_LARGE_STEP - 1);
}

static uint64_t pages_of(uint64_t bytes) {
    return (bytes >> HAMI_PAGE_SHIFT) + ((bytes & ((1u << HAMI_PAGE_SHIFT) - 1)) != 0);
}

static uint64_t limit_pages(const struct hami_limits *limits, int device) {
    uint64_t bytes = limits->devices[device].memory_bytes;
    return limits->mode == HAMI_MODE_ENFORCE && bytes != 0 ? bytes >> HAMI_PAGE_SHIFT : UINT64_MAX;
}

static void refused(int device, uint64_t bytes) {
    struct hami_region_view *view = hami_guest_region(NULL);
    if (view != NULL && device >= 0) {
        hami_region_refused(view, HAMI_REASON_OVER_LIMIT, (unsigned)device, bytes);
    }
}

/* Charges under the limit in force; before giving up asks for newer limits and for memory of dead processes. */
static bool take_pages(struct hami_region_view *view, int device, uint64_t pages, enum hami_column column) {
    const struct hami_limits *limits = hami_guest_known_limits();
    if (hami_region_charge(view, (unsigned)device, pages, limit_pages(limits, device), column)) {
        return true;
    }
    hami_pools_settle();
    (void)hami_guest_reload();
    (void)hami_region_sweep(view);
    limits = hami_guest_known_limits();
    return limits->denied == HAMI_REASON_NONE &&
           hami_region_charge(view, (unsigned)device, pages, limit_pages(limits, device), column);
}

/* Refuses in enforce mode and says why; in observe mode lets the call go uncounted. */
static bool cannot_count(const struct hami_limits *limits, enum hami_reason reason, uint64_t bytes) {
    struct hami_region_view *view = hami_guest_region(NULL);
    if (view != NULL) {
        hami_region_refused(view, reason, HAMI_DEVICES, bytes);
    }
    return limits->mode == HAMI_MODE_OBSERVE;
}

bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge) {
    const struct hami_limits *limits = hami_guest_limits();
    enum hami_reason why = HAMI_REASON_NONE;
    *charge = (struct hami_charge){-1, 0};
    if (limits->denied != HAMI_REASON_NONE && hami_guest_reload()) {
        limits = hami_guest_known_limits();
    }
    if (limits->mode == HAMI_MODE_OFF) {
        return true;
    }
    if (limits->denied != HAMI_REASON_NONE) {
        return cannot_count(limits, limits->denied, bytes);
    }
    int index = hami_guest_cuda_device(limits, device);
    if (index < 0 || (uint32_t)index >= limits->device_count) {
        return cannot_count(limits, HAMI_REASON_UNKNOWN_DEVICE, bytes);
    }
    struct hami_region_view *view = hami_guest_region(&why);
    if (view == NULL) {
        return cannot_count(limits, why, bytes);
    }
    if (!take_pages(view, index, pages_of(bytes), column)) {
        refused(index, bytes);
        return false;
    }
    *charge = (struct hami_charge){index, pages_of(bytes)};
    return true;
}

bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes) {
    struct hami_region_view *view = hami_guest_region(NULL);
    if (charge->device < 0 || bytes == 0) {
        return true;
    }
    if (view == NULL || !take_pages(view, charge->device, pages_of(bytes), HAMI_COLUMN_DATA)) {
        refused(charge->device, bytes);
        return false;
    }
    charge->pages += pages_of(bytes);
    return true;
}

void hami_charge_shrink(struct hami_charge *charge, uint64_t pages) {
    struct hami_charge part = {charge->device, pages < charge->pages ? pages : charge->pages};
    hami_charge_give_back(&part, HAMI_COLUMN_DATA);
    charge->pages -= part.pages;
}

void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column) {
    struct hami_region_view *view = charge->device < 0 ? NULL : hami_guest_region(NULL);
    if (view != NULL) {
        hami_region_release(view, (unsigned)charge->device, charge->pages, column);
    }
}

/* ---- blocks of small allocations ---- */

/* Small allocations are rounded up to a power of two of at least 512 bytes. */
static uint64_t units_of(uint64_t bytes) {
    uint64_t units = 1;
    while (units << UNIT_SHIFT < bytes) {
        units <<= 1;
    }
    return units;
}

static atomic_flag *lock_block(uint64_t block) {
    atomic_flag *lock = &block_locks[block % BLOCK_LOCKS];
    while (atomic_flag_test_and_set_explicit(lock, memory_order_acquire)) {
        (void)sched_yield();
    }
    return lock;
}

static uint64_t block_record(int device, uint64_t size, uint64_t count, uint64_t units) {
    return (uint64_t)(device + 1) << DEVICE_SHIFT | size << BLOCK_SIZE_SHIFT | count << BLOCK_COUNT_SHIFT | units;
}

/*
 * Whether the driver will find room for a small allocation in a block that it has: it packs equal sizes together, by
 * thread, so what is left of the block that served this thread last can be counted on.
 */
static bool room_for(int device, uint64_t units) {
    uint64_t block = last_block[__builtin_ctzll(units)];
    uint64_t found = block == 0 ? 0 : hami_map_get(&blocks, block);
    return found >> DEVICE_SHIFT == (uint64_t)(device + 1) && (found >> BLOCK_SIZE_SHIFT & BLOCK_SIZE_FIELD) == units &&
           (found & BLOCK_FIELD) + units <= BLOCK_UNITS;
}

/* Adds an allocation to its block. True if the block was there; else it is made if `may_start`. */
static bool enter_block(uint64_t block, int device, uint64_t units, bool may_start) {
    atomic_flag *lock = lock_block(block);
    uint64_t found = hami_map_get(&blocks, block);
    uint64_t count = found >> BLOCK_COUNT_SHIFT & BLOCK_FIELD;
    uint64_t record = block_record(device, units, count + 1, (found & BLOCK_FIELD) + units);
    if (found != 0) {
        (void)hami_map_set(&blocks, block, record);
    } else if (may_start) {
        (void)hami_map_put(&blocks, block, record);
    }
    atomic_flag_clear_explicit(lock, memory_order_release);
    return found != 0;
}

/* Takes an allocation out of its block. True if it was the last. */
static bool leave_block(uint64_t block, int device, uint64_t units) {
    atomic_flag *lock = lock_block(block);
    uint64_t found = hami_map_get(&blocks, block);
    uint64_t count = found >> BLOCK_COUNT_SHIFT & BLOCK_FIELD;
    if (count > 1) {
        (void)hami_map_set(&blocks, block, block_record(device, units, count - 1, (found & BLOCK_FIELD) - units));
    } else {
        (void)hami_map_take(&blocks, block);
    }
    atomic_flag_clear_explicit(lock, memory_order_release);
    return count == 1;
}

/* ---- allocations ---- */

static uint64_t record_of(enum hami_kind kind, int device, unsigned context, uint64_t amount) {
    return (uint64_t)kind << KIND_SHIFT | (uint64_t)(device + 1) << DEVICE_SHIFT | (uint64_t)context << CONTEXT_SHIFT |
           (amount & AMOUNT_MASK);
}

/* Index of a CUDA device where this process is counted and limited, or -1. */
static int limited_device(CUdevice device) {
    const struct hami_limits *limits = hami_guest_known_limits();
    bool enforced = limits->mode == HAMI_MODE_ENFORCE && limits->denied == HAMI_REASON_NONE;
    return enforced ? hami_guest_cuda_device(limits, device) : -1;
}

bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, bool always_large) {
    struct hami_context context;
    memset(a, 0, sizeof *a);
    a->charge.device = -1;
    if (!hami_context_current(&context)) {
        return true; /* no context: the driver's answer says so */
    }
    a->context = context.id;
    a->device = context.device;
    if (!always_large && bytes < HAMI_SMALL_BELOW) {
        int index = limited_device(context.device);
        a->in_room = index >= 0 && room_for(index, units_of(bytes));
        a->charge.device = a->in_room ? index : -1;
    }
    if (!a->in_room && !hami_charge_take(context.device, hami_large(bytes), HAMI_COLUMN_DATA, &a->charge)) {
        return false;
    }
    a->counted = a->charge.device >= 0;
    return true;
}

static bool end_small(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    uint64_t units = units_of(actual);
    uint64_t block = address >> BLOCK_SHIFT;
    if (a->in_room && !enter_block(block, a->charge.device, units, false)) {
        /* The driver started a block although the last one had room. */
        if (!hami_charge_take(a->device, HAMI_LARGE_STEP, HAMI_COLUMN_DATA, &a->charge)) {
            return false;
        }
        a->in_room = false;
    }
    if (!a->in_room) {
        bool there = enter_block(block, a->charge.device, units, true);
        hami_charge_shrink(&a->charge,
                           there ? a->charge.pages : a->charge.pages - (HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT));
    }
    last_block[__builtin_ctzll(units)] = block;
    return hami_map_put(&records, address, record_of(HAMI_KIND_SMALL, a->charge.device, a->context, units));
}

static bool end_large(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    uint64_t pages = pages_of(hami_large(actual));
    if (pages > a->charge.pages && !hami_charge_grow(&a->charge, (pages - a->charge.pages) << HAMI_PAGE_SHIFT)) {
        hami_charge_give_back(&a->charge, HAMI_COLUMN_DATA);
        return false;
    }
    hami_charge_shrink(&a->charge, a->charge.pages - pages);
    return hami_map_put(&records, address, record_of(HAMI_KIND_LARGE, a->charge.device, a->context, pages));
}

bool hami_allocation_end(struct hami_allocation *a, uint64_t address, uint64_t actual, bool always_large) {
    if (!a->counted) {
        return true;
    }
    bool small = !always_large && actual < HAMI_SMALL_BELOW;
    return small ? end_small(a, address, actual) : end_large(a, address, actual);
}

void hami_allocation_cancel(struct hami_allocation *a) {
    if (a->counted) {
        hami_charge_give_back(&a->charge, HAMI_COLUMN_DATA);
    }
}

uint64_t hami_record_take(uint64_t address) {
    return address == 0 ? 0 : hami_map_take(&records, address);
}

void hami_record_restore(uint64_t address, uint64_t record) {
    if (record != 0) {
        (void)hami_map_put(&records, address, record);
    }
}

void hami_record_release(uint64_t address, uint64_t record) {
    struct hami_charge charge = {(int)(record >> DEVICE_SHIFT & 0xff) - 1, record & AMOUNT_MASK};
    switch (record >> KIND_SHIFT) {
    case HAMI_KIND_LARGE:
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        break;
    case HAMI_KIND_SMALL:
        if (leave_block(address >> BLOCK_SHIFT, charge.device, charge.pages)) {
            charge.pages = HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT;
            hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        }
        break;
    case HAMI_KIND_POOL:
        hami_pool_settle((unsigned)charge.pages);
        break;
    default:
        break;
    }
}

bool hami_record_pool(uint64_t address, unsigned pool) {
    return hami_map_put(&records, address, record_of(HAMI_KIND_POOL, -1, 0, pool));
}

static void drop_one(uint64_t address, uint64_t record, void *data) {
    unsigned context = *(const unsigned *)data;
    bool tied = record >> KIND_SHIFT != HAMI_KIND_POOL && (record >> CONTEXT_SHIFT & 0xff) == context;
    if (tied && hami_map_take(&records, address) == record) {
        hami_record_release(address, record);
    }
}

void hami_records_drop_context(unsigned context) {
    hami_map_each(&records, drop_one, &context);
}

void hami_account_after_fork(void) {
    hami_map_reset(&records);
    hami_map_reset(&blocks);
    for (unsigned i = 0; i < BLOCK_LOCKS; i++) {
        atomic_flag_clear(&block_locks[i]);
    }
    memset(last_block, 0, sizeof last_block);
    hami_contexts_after_fork();
    hami_pools_after_fork();
    hami_vmm_after_fork();
}
