/*
 * Keeps records in one map, and takes them out at frees (records.h). While a context ends, the driver may already give
 * its addresses to other contexts. A record there is then stale (contexts.h), and is dropped before a new one is made.
 */
#include "memory/records.h"

#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/map.h"
#include "memory/shared.h"
#include "parts.h"

/* Kinds of records. What the field `amount` of a record holds depends on its kind. */
enum record_kind {
    RECORD_LARGE = 1,  /* an allocation; amount: its pages */
    RECORD_SMALL = 2,  /* an allocation in a block, never in the map; amount: what hami_block_take returned */
    RECORD_POOL = 3,   /* an allocation of a pool; the other 60 bits are the address of its struct hami_stream_pool */
    RECORD_CODE = 4,   /* code on the device; amount: its pages */
    RECORD_SHARED = 5, /* an allocation that other processes may hold; amount: its share */
    RECORD_HELD = 6    /* imported memory; amount: its share, and how often this process has opened it again */
};

/* Fields of a record: kind (4 bits), device + 1 (8), context (8), amount (36). */
enum { KIND_SHIFT = 60, DEVICE_SHIFT = 52, CONTEXT_SHIFT = 44 };
enum { AGAIN_SHIFT = 16 }; /* in the amount of a RECORD_HELD: the number of further openings; the share is below it */
#define AMOUNT_MASK ((UINT64_C(1) << 36) - 1)
#define ADDRESS_MASK ((UINT64_C(1) << KIND_SHIFT) - 1)

static struct hami_map records; /* address, handle or key → record */

static uint64_t record_of(enum record_kind kind, int device, unsigned context, uint64_t amount) {
    return (uint64_t)kind << KIND_SHIFT | (uint64_t)(device + 1) << DEVICE_SHIFT | (uint64_t)context << CONTEXT_SHIFT |
           (amount & AMOUNT_MASK);
}

static enum record_kind record_kind(uint64_t record) {
    return record >> KIND_SHIFT;
}

static unsigned record_context(uint64_t record) {
    return record >> CONTEXT_SHIFT & 0xff;
}

static struct hami_charge record_charge(uint64_t record) {
    return (struct hami_charge){(int)(record >> DEVICE_SHIFT & 0xff) - 1, record & AMOUNT_MASK};
}

/* ---- frees ---- */

HAMI_HOT uint64_t hami_record_take(uint64_t address) {
    if (address == 0) {
        return 0;
    }
    unsigned small = hami_block_take(address);
    return small != 0 ? record_of(RECORD_SMALL, -1, 0, small) : hami_map_take(&records, address);
}

/* Puts a record back: the driver has not freed the memory. */
HAMI_COLD static void record_restore(uint64_t address, uint64_t record) {
    if (record_kind(record) == RECORD_SMALL) {
        hami_block_restore(address, (unsigned)(record & AMOUNT_MASK));
    } else if (record != 0) {
        (void)hami_map_put(&records, address, record);
    }
}

/* Gives back what a record of a rarer kind stands for. `charge->pages` is the record's amount, pages or not. */
HAMI_APART static void record_release_other(uint64_t record, const struct hami_charge *charge) {
    switch (record_kind(record)) {
    case RECORD_CODE:
        hami_charge_give_back(charge, HAMI_COLUMN_MODULE);
        break;
    case RECORD_SHARED:
        hami_shared_let_go((hami_share)charge->pages);
        break;
    case RECORD_HELD:
        hami_shared_close((hami_share)(charge->pages & ((1u << AGAIN_SHIFT) - 1)));
        break;
    case RECORD_POOL:
        HAMI_TELL(pool_memory_freed, (void *)(uintptr_t)(record & ADDRESS_MASK));
        break;
    default:
        break;
    }
}

/* Gives back what a record stands for, after the driver has freed the memory. */
HAMI_HOT static void record_release(uint64_t address, uint64_t record) {
    struct hami_charge charge = record_charge(record);
    enum record_kind kind = record_kind(record);
    if (kind == RECORD_SMALL) {
        hami_block_leave(address, (unsigned)charge.pages);
    } else if (kind == RECORD_LARGE) {
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
    } else {
        record_release_other(record, &charge);
    }
}

HAMI_HOT CUresult hami_record_freed(uint64_t address, uint64_t record, CUresult status) {
    if (status != CUDA_SUCCESS) {
        record_restore(address, record);
    } else if (record != 0) {
        record_release(address, record);
    }
    return status;
}

/* ---- records of ending contexts ---- */

/*
 * Gives back what a record stands for if it belongs to the context with the id `*context`, unless another thread has
 * taken the record out. Allocations of pools have no context.
 */
static void record_drop(uint64_t address, uint64_t record, void *context) {
    if (record_kind(record) != RECORD_POOL && record_context(record) == *(const unsigned *)context &&
        hami_map_take_pair(&records, address, record)) {
        record_release(address, record);
    }
}

/*
 * The driver has given an address to `context`. Drops the block and the record there if they belong to another context
 * that is ending (hami_context_is_stale). The block must go too, since a free looks for a block before it looks for a
 * record.
 */
HAMI_COLD static void record_drop_stale(uint64_t address, unsigned context) {
    hami_block_drop_stale(address, context);
    uint64_t record = hami_map_get(&records, address);
    unsigned recorded = record_context(record);
    if (record != 0 && hami_context_is_stale(recorded, context)) {
        record_drop(address, record, &recorded);
    }
}

void hami_records_drop_context(unsigned context) {
    hami_map_each(&records, record_drop, &context);
    hami_blocks_drop_context(context);
}

/* ---- making records ---- */

static bool record_put(uint64_t address, uint64_t record, unsigned context) {
    if (hami_contexts_are_ending()) {
        record_drop_stale(address, context);
    }
    return hami_map_put(&records, address, record);
}

HAMI_HOT bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context) {
    return record_put(address, record_of(RECORD_LARGE, charge->device, context, charge->pages), context);
}

bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context) {
    uint64_t before = hami_map_take(&records, key), pages = charge->pages + (before & AMOUNT_MASK);
    if (!record_put(key, record_of(RECORD_CODE, charge->device, context, pages), context)) {
        record_restore(key, before); /* `before` is 0, unless another thread took the place that it left in the map */
        return false;
    }
    return true;
}

bool hami_record_pool(uint64_t address, const void *pool) {
    unsigned context = hami_contexts_are_ending() ? hami_context_current_id() : HAMI_CONTEXT_UNKNOWN;
    return record_put(address, (uint64_t)RECORD_POOL << KIND_SHIFT | hami_map_key(pool), context);
}

bool hami_record_held(uint64_t key, int share, unsigned context) {
    return record_put(key, record_of(RECORD_HELD, -1, context, (uint64_t)share), context);
}

bool hami_record_open_again(uint64_t key) {
    uint64_t record = hami_map_take(&records, key);
    record_restore(key, record == 0 ? 0 : record + (UINT64_C(1) << AGAIN_SHIFT));
    return record != 0;
}

bool hami_record_closed(uint64_t key) {
    uint64_t record = hami_map_take(&records, key);
    if ((record & AMOUNT_MASK) >> AGAIN_SHIFT != 0) {
        record_restore(key, record - (UINT64_C(1) << AGAIN_SHIFT));
    } else if (record != 0) {
        record_release(key, record);
    }
    return record != 0;
}

/* If two threads export one address at once, only the one that takes the record out makes a share. */
void hami_record_share(uint64_t address, uint64_t identity) {
    uint64_t record = hami_map_take(&records, address);
    if (record_kind(record) == RECORD_LARGE) {
        struct hami_charge charge = record_charge(record);
        hami_share share = hami_shared_export(identity, &charge);
        record = share < 0 ? record : record_of(RECORD_SHARED, charge.device, record_context(record), (uint64_t)share);
    }
    record_restore(address, record);
}

void hami_records_after_fork(void) {
    hami_map_reset(&records);
    hami_blocks_after_fork();
}
