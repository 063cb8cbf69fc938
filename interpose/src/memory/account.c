/* Records of what charges stand for; see account.h. */
#include "memory/account.h"

#include "doors/hook.h"
#include "memory/context.h"
#include "memory/map.h"
#include "memory/shared.h"
#include "parts.h"
#include "threads.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_SHIFT = 21, UNIT_SHIFT = 9, BLOCK_UNITS = 1 << (BLOCK_SHIFT - UNIT_SHIFT), ORDERS = 12 };

/* Record of an allocation: kind (4 bits), device + 1 (8), context (8), pages of large ones or order of small (36). */
enum { KIND_SHIFT = 60, DEVICE_SHIFT = 52, CONTEXT_SHIFT = 44 };
#define AMOUNT_MASK ((UINT64_C(1) << 36) - 1)
#define KIND_MASK (UINT64_C(15) << KIND_SHIFT)
#define SHARE_MARK (UINT64_C(1) << 32)

/*
 * 2 MiB of addresses in which small allocations lie; never freed, since the driver comes back to its addresses.
 *
 * state: device + 1 (8 bits), context (8), order of the last allocation (4), allocations (20), units in use (20).
 * It holds a charge of 2 MiB while there are any. orders: by first unit, order + 1 of the allocation there, or 0.
 */
enum { ORDER_SHIFT = 40, COUNT_SHIFT = 20 };
#define BLOCK_FIELD UINT64_C(0xfffff)

struct block {
    _Atomic uint64_t state;
    _Atomic uint8_t orders[BLOCK_UNITS];
};

static struct hami_map records; /* address or handle → record */
static struct hami_map shares;  /* address of a shared allocation → share; marked, since no value may be 0 */
static struct hami_map blocks;  /* address >> BLOCK_SHIFT → block */
static _Atomic uint32_t blocks_made;
static atomic_flag making_block = ATOMIC_FLAG_INIT;
static atomic_flag sharing = ATOMIC_FLAG_INIT;
/*
 * Contexts that are being ended: what the driver has freed with one it may give to other threads before we have dropped
 * it. Who is given such an address for another context drops what is still known there. In the same one all is as it
 * was: the driver may refuse, or have taken no more than one of its references away.
 */
static _Atomic unsigned endings;
static _Atomic uint64_t ending[4]; /* bit per context */
static atomic_flag dropping = ATOMIC_FLAG_INIT;
static _Thread_local struct block *last_block[ORDERS]; /* where this thread's last allocation of a size went */
static _Thread_local struct {
    uint64_t number;
    uint32_t made; /* of blocks_made; one may have been made there since */
    struct block *block;
} last_met; /* where this thread looked last, and what was there; no block lies at 0 */

/* ---- blocks of small allocations ---- */

/* Small allocations are rounded up to 512 bytes times a power of two, the order. */
static unsigned order_of(uint64_t bytes) {
    return bytes <= 1u << UNIT_SHIFT ? 0 : 64 - UNIT_SHIFT - (unsigned)__builtin_clzll(bytes - 1);
}

static struct block *block_at(uint64_t address) {
    uint64_t number = address >> BLOCK_SHIFT;
    uint32_t made = atomic_load_explicit(&blocks_made, memory_order_acquire);
    if (last_met.number != number || last_met.made != made) {
        last_met.number = number;
        last_met.made = made;
        last_met.block = (struct block *)(uintptr_t)hami_map_get(&blocks, number);
    }
    return last_met.block;
}

HAMI_COLD static struct block *make_block(uint64_t address) {
    hami_spin_lock(&making_block);
    struct block *block = block_at(address);
    if (block == NULL) {
        block = calloc(1, sizeof *block);
        if (block != NULL && !hami_map_put(&blocks, address >> BLOCK_SHIFT, (uint64_t)(uintptr_t)block)) {
            free(block);
            block = NULL;
        }
        (void)atomic_fetch_add(&blocks_made, 1);
    }
    hami_spin_unlock(&making_block);
    return block;
}

static _Atomic uint8_t *order_at(struct block *block, uint64_t address) {
    return &block->orders[address >> UNIT_SHIFT & (BLOCK_UNITS - 1)];
}

static uint64_t count_in(uint64_t state) {
    return state >> COUNT_SHIFT & BLOCK_FIELD;
}

/*
 * Whether the driver will find room for a small allocation in a block that it has: it packs equal sizes together, by
 * thread, so what is left of the block that served this thread last can be counted on.
 */
static bool room_for(int device, unsigned order) {
    struct block *block = last_block[order];
    uint64_t state = block == NULL ? 0 : atomic_load_explicit(&block->state, memory_order_relaxed);
    return count_in(state) != 0 && state >> DEVICE_SHIFT == (uint64_t)(device + 1) &&
           (state >> ORDER_SHIFT & 15) == order && (state & BLOCK_FIELD) + (1u << order) <= BLOCK_UNITS;
}

enum entrance { TURNED_AWAY, STARTED, JOINED };

static unsigned context_of(uint64_t record_or_state) {
    return record_or_state >> CONTEXT_SHIFT & 0xff;
}

/* What is known at an address that was just given to `context` is another's, which ends. */
static bool is_stale(uint64_t record_or_state, unsigned context) {
    unsigned whose = context_of(record_or_state);
    return context != HAMI_CONTEXT_UNKNOWN && whose != context &&
           (atomic_load(&ending[whose / 64]) >> whose % 64 & 1) != 0;
}

/* Forgets what a context that is gone has in a block: by whoever comes first, once. */
HAMI_COLD static void empty_block(struct block *block, unsigned context) {
    hami_spin_lock(&dropping);
    uint64_t state = atomic_load(&block->state);
    if (count_in(state) != 0 && context_of(state) == context) {
        for (unsigned i = 0; i < BLOCK_UNITS; i++) {
            atomic_store_explicit(&block->orders[i], 0, memory_order_relaxed);
        }
        if (count_in(atomic_exchange(&block->state, 0)) != 0) {
            struct hami_charge charge = {(int)(state >> DEVICE_SHIFT) - 1, HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT};
            hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        }
    }
    hami_spin_unlock(&dropping);
}

HAMI_COLD static void drop_stale_block(struct block *block, unsigned context) {
    uint64_t state = atomic_load(&block->state);
    if (count_in(state) != 0 && is_stale(state, context)) {
        empty_block(block, context_of(state));
    }
}

static bool somebody_ends(void) {
    return !HAMI_LIKELY(atomic_load_explicit(&endings, memory_order_acquire) == 0);
}

/* Adds an allocation to its block; the first of a block only if it brings a charge of 2 MiB. */
static enum entrance enter_block(struct block *block, const struct hami_allocation *a, unsigned order) {
    if (somebody_ends()) {
        drop_stale_block(block, a->context);
    }
    uint64_t state = atomic_load_explicit(&block->state, memory_order_relaxed);
    uint64_t next = 0;
    do {
        if (count_in(state) == 0 && a->in_room) {
            return TURNED_AWAY;
        }
        uint64_t inside = (state & (BLOCK_FIELD << COUNT_SHIFT | BLOCK_FIELD)) + (UINT64_C(1) << COUNT_SHIFT);
        next = (uint64_t)(a->charge.device + 1) << DEVICE_SHIFT | (uint64_t)a->context << CONTEXT_SHIFT |
               (uint64_t)order << ORDER_SHIFT | (inside + (UINT64_C(1) << order));
    } while (!atomic_compare_exchange_weak_explicit(&block->state, &state, next, memory_order_acq_rel,
                                                    memory_order_relaxed));
    return count_in(state) == 0 ? STARTED : JOINED;
}

/* Takes an allocation out of its block. True if it was the last. */
static bool leave_block(struct block *block, unsigned order, int *device) {
    uint64_t leaving = (UINT64_C(1) << COUNT_SHIFT) + (UINT64_C(1) << order);
    uint64_t state = atomic_load_explicit(&block->state, memory_order_relaxed);
    while (count_in(state) != 0) {
        if (atomic_compare_exchange_weak_explicit(&block->state, &state, state - leaving, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            *device = (int)(state >> DEVICE_SHIFT) - 1;
            return count_in(state) == 1;
        }
    }
    return false; /* its context ended meanwhile and took all along */
}

/* ---- allocations ---- */

static uint64_t record_of(enum hami_kind kind, int device, unsigned context, uint64_t amount) {
    return (uint64_t)kind << KIND_SHIFT | (uint64_t)(device + 1) << DEVICE_SHIFT | (uint64_t)context << CONTEXT_SHIFT |
           (amount & AMOUNT_MASK);
}

HAMI_HOT bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way) {
    struct hami_context context;
    memset(a, 0, sizeof *a);
    a->charge.device = -1;
    if (!hami_context_assumed(&context)) {
        return true; /* no context: the driver's answer says so */
    }
    a->context = context.id;
    a->device = context.device;
    a->large = (way & HAMI_LARGE) != 0;
    if (!a->large && bytes < HAMI_SMALL_BELOW) {
        int index = hami_charge_index(context.device);
        a->in_room = index >= 0 && room_for(index, order_of(bytes));
        a->charge.device = a->in_room ? index : -1;
    }
    if (!a->in_room) {
        bool taken = (way & HAMI_OR_HOST) != 0
                         ? hami_charge_take_or_host(context.device, hami_large(bytes), &a->charge)
                         : hami_charge_take(context.device, hami_large(bytes), HAMI_COLUMN_DATA, &a->charge);
        if (!taken) {
            return !hami_context_current(&context); /* as above */
        }
    }
    a->counted = a->charge.device >= 0;
    return true;
}

/* The driver started a block although the last one had room. */
HAMI_COLD static enum entrance enter_after_all(struct block *block, struct hami_allocation *a, unsigned order) {
    a->in_room = false;
    bool taken = hami_charge_take(a->device, HAMI_LARGE_STEP, HAMI_COLUMN_DATA, &a->charge);
    return taken && block != NULL ? enter_block(block, a, order) : TURNED_AWAY;
}

HAMI_HOT static bool end_small(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    const uint64_t block_pages = HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT;
    unsigned order = order_of(actual);
    struct block *found = block_at(address), *block = HAMI_LIKELY(found != NULL) ? found : make_block(address);
    enum entrance how = block == NULL ? TURNED_AWAY : enter_block(block, a, order);
    if (how == TURNED_AWAY && a->in_room) {
        how = enter_after_all(block, a, order);
    }
    if (how == TURNED_AWAY) { /* over the limit, or this process's own memory is full */
        hami_allocation_cancel(a);
        return false;
    }
    if (!a->in_room) {
        hami_charge_shrink(&a->charge, how == JOINED ? a->charge.pages : a->charge.pages - block_pages);
    }
    atomic_store_explicit(order_at(block, address), (uint8_t)(order + 1), memory_order_release);
    last_block[order] = block;
    return true;
}

HAMI_HOT static bool end_large(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    uint64_t pages = hami_large(actual) >> HAMI_PAGE_SHIFT;
    if (pages > a->charge.pages && !hami_charge_grow(&a->charge, (pages - a->charge.pages) << HAMI_PAGE_SHIFT)) {
        hami_allocation_cancel(a);
        return false;
    }
    hami_charge_shrink(&a->charge, a->charge.pages - pages);
    if (!hami_record_large(address, &a->charge, a->context)) {
        hami_allocation_cancel(a);
        return false;
    }
    return true;
}

HAMI_HOT bool hami_allocation_end(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    if (!a->counted) {
        return true;
    }
    bool small = !a->large && actual < HAMI_SMALL_BELOW;
    return small ? end_small(a, address, actual) : end_large(a, address, actual);
}

void hami_allocation_cancel(struct hami_allocation *a) {
    if (a->counted) {
        hami_charge_give_back(&a->charge, HAMI_COLUMN_DATA);
    }
}

/* The order leaves before the memory does, as records do. */
static uint64_t take_small(uint64_t address) {
    struct block *block = block_at(address);
    _Atomic uint8_t *at = block == NULL ? NULL : order_at(block, address);
    uint8_t found = at == NULL ? 0 : atomic_load_explicit(at, memory_order_acquire);
    if (found == 0 || (address & ((1u << UNIT_SHIFT) - 1)) != 0) {
        return 0;
    }
    atomic_store_explicit(at, 0, memory_order_relaxed);
    return record_of(HAMI_KIND_SMALL, -1, 0, found - 1u);
}

HAMI_HOT uint64_t hami_record_take(uint64_t address) {
    uint64_t small = address == 0 ? 0 : take_small(address);
    return small != 0 || address == 0 ? small : hami_map_take(&records, address);
}

uint64_t hami_object_take(uint64_t key) {
    return key == 0 ? 0 : hami_map_take(&records, key);
}

void hami_record_restore(uint64_t address, uint64_t record) {
    if (record >> KIND_SHIFT == HAMI_KIND_SMALL) {
        atomic_store_explicit(order_at(block_at(address), address), (uint8_t)((record & AMOUNT_MASK) + 1),
                              memory_order_release);
    } else if (record != 0) {
        (void)hami_map_put(&records, address, record);
    }
}

HAMI_APART static void release_other(uint64_t address, enum hami_kind kind, const struct hami_charge *charge) {
    switch (kind) {
    case HAMI_KIND_CODE:
        hami_charge_give_back(charge, HAMI_COLUMN_MODULE);
        break;
    case HAMI_KIND_SHARED:
        hami_shared_let_go((hami_share)(hami_map_take(&shares, address) & ~SHARE_MARK), charge);
        break;
    case HAMI_KIND_HELD:
        hami_shared_close((hami_share)charge->pages);
        break;
    case HAMI_KIND_POOL:
        HAMI_TELL(pool_memory_freed, (unsigned)charge->pages);
        break;
    default:
        break;
    }
}

HAMI_HOT void hami_record_release(uint64_t address, uint64_t record) {
    struct hami_charge charge = {(int)(record >> DEVICE_SHIFT & 0xff) - 1, record & AMOUNT_MASK};
    enum hami_kind kind = record >> KIND_SHIFT;
    if (kind == HAMI_KIND_SMALL) {
        if (!leave_block(block_at(address), (unsigned)charge.pages, &charge.device)) {
            return;
        }
        charge.pages = HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT;
    } else if (kind != HAMI_KIND_LARGE) {
        release_other(address, kind, &charge);
        return;
    }
    hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
}

HAMI_HOT CUresult hami_record_freed(uint64_t address, uint64_t record, CUresult status) {
    if (status != CUDA_SUCCESS) {
        hami_record_restore(address, record);
    } else if (record != 0) {
        hami_record_release(address, record);
    }
    return status;
}

/* Small allocations come first wherever an address is looked up, so a block may hide what comes to lie there. */
HAMI_COLD static void drop_stale(uint64_t address, unsigned context) {
    struct block *block = block_at(address);
    if (block != NULL) {
        drop_stale_block(block, context);
    }
    uint64_t record = hami_map_get(&records, address);
    bool tied = record != 0 && record >> KIND_SHIFT != HAMI_KIND_POOL && is_stale(record, context);
    if (tied && hami_map_take_pair(&records, address, record)) {
        hami_record_release(address, record);
    }
}

/* Same for what is a pool's, whoever's context it was taken in. */
HAMI_COLD static void drop_stale_here(uint64_t address) {
    struct hami_context context;
    drop_stale(address, hami_context_current(&context) ? context.id : HAMI_CONTEXT_UNKNOWN);
}

static bool put_record(uint64_t address, enum hami_kind kind, int device, unsigned context, uint64_t amount) {
    if (somebody_ends()) {
        drop_stale(address, context);
    }
    return hami_map_put(&records, address, record_of(kind, device, context, amount));
}

HAMI_HOT bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context) {
    return put_record(address, HAMI_KIND_LARGE, charge->device, context, charge->pages);
}

static void share_large(uint64_t address, uint64_t record, uint64_t identity) {
    struct hami_charge charge = {(int)(record >> DEVICE_SHIFT & 0xff) - 1, record & AMOUNT_MASK};
    uint64_t shared = (record & ~KIND_MASK) | (uint64_t)HAMI_KIND_SHARED << KIND_SHIFT;
    hami_share share = hami_shared_export(identity, &charge);
    if (share >= 0 && hami_map_put(&shares, address, (uint64_t)share | SHARE_MARK)) {
        (void)hami_map_set(&records, address, shared);
    } else if (share >= 0) {
        hami_shared_close(share);
    }
}

/* One thread at a time: several may ask for the handle of one address. */
void hami_record_share(uint64_t address, uint64_t identity) {
    hami_spin_lock(&sharing);
    uint64_t record = hami_map_get(&records, address);
    if (record >> KIND_SHIFT == HAMI_KIND_LARGE) {
        share_large(address, record, identity);
    }
    hami_spin_unlock(&sharing);
}

bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context) {
    if (somebody_ends()) {
        drop_stale(key, context);
    }
    uint64_t before = hami_map_take(&records, key);
    uint64_t pages = charge->pages + (before & AMOUNT_MASK);
    if (!hami_map_put(&records, key, record_of(HAMI_KIND_CODE, charge->device, context, pages))) {
        hami_record_restore(key, before); /* into the place that it has just left */
        return false;
    }
    return true;
}

bool hami_record_held(uint64_t address, int share, unsigned context) {
    return put_record(address, HAMI_KIND_HELD, -1, context, (uint64_t)share);
}

bool hami_record_pool(uint64_t address, unsigned pool) {
    if (somebody_ends()) {
        drop_stale_here(address);
    }
    return hami_map_put(&records, address, record_of(HAMI_KIND_POOL, -1, 0, pool));
}

static void drop_one(uint64_t address, uint64_t record, void *data) {
    unsigned context = *(const unsigned *)data;
    bool tied = record >> KIND_SHIFT != HAMI_KIND_POOL && context_of(record) == context;
    if (tied && hami_map_take_pair(&records, address, record)) {
        hami_record_release(address, record);
    }
}

static void drop_block(uint64_t number, uint64_t value, void *data) {
    (void)number;
    empty_block((struct block *)(uintptr_t)value, *(const unsigned *)data);
}

void hami_records_context_ending(unsigned context, bool now) {
    uint64_t bit = UINT64_C(1) << context % 64;
    if (context == HAMI_CONTEXT_UNKNOWN) {
        return; /* who else's it may be is not known */
    }
    if (now) {
        (void)atomic_fetch_or(&ending[context / 64], bit);
        (void)atomic_fetch_add(&endings, 1);
    } else {
        (void)atomic_fetch_sub(&endings, 1);
        (void)atomic_fetch_and(&ending[context / 64], ~bit);
    }
}

void hami_records_drop_context(unsigned context) {
    hami_map_each(&records, drop_one, &context);
    hami_map_each(&blocks, drop_block, &context);
}

void hami_account_after_fork(void) {
    hami_map_reset(&records);
    hami_map_reset(&shares);
    hami_map_reset(&blocks);
    atomic_flag_clear(&making_block);
    atomic_flag_clear(&sharing);
    atomic_flag_clear(&dropping);
    atomic_store(&endings, 0);
    memset(ending, 0, sizeof ending);
    memset(last_block, 0, sizeof last_block);
    memset(&last_met, 0, sizeof last_met);
}
