/*
 * Records; see records.h. While a context ends, the driver may already give its addresses to other contexts. A record
 * there is then stale (hami_context_is_stale), and is dropped before a new one is made.
 */
#include "memory/records.h"

#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/map.h"
#include "memory/shared.h"
#include "parts.h"

enum record_kind {
    RECORD_LARGE = 1,
    RECORD_SMALL = 2, /* amount: order in its block, which has the record; never in the map */
    RECORD_POOL = 3,  /* the rest of the record is the address of a struct hami_stream_pool */
    RECORD_CODE = 4,
    RECORD_SHARED = 5, /* a large allocation that other processes may hold; amount: its share */
    RECORD_HELD = 6    /* amount: a share that this process imported, and how often it opened it again */
};

/* Fields of a record: kind (4 bits), device + 1 (8), context (8), amount (36): pages if nothing else is said. */
enum { KIND_SHIFT = 60, DEVICE_SHIFT = 52, CONTEXT_SHIFT = 44 };
enum { AGAIN_SHIFT = 16 }; /* in the amount of RECORD_HELD; the share's number is below */
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
    unsigned small = address == 0 ? 0 : hami_block_take(address);
    if (small != 0) {
        return record_of(RECORD_SMALL, -1, 0, small - 1);
    }
    return address == 0 ? 0 : hami_map_take(&records, address);
}

/* Puts a record back after a free that the driver refused. */
HAMI_COLD static void record_restore(uint64_t address, uint64_t record) {
    if (record_kind(record) == RECORD_SMALL) {
        hami_block_restore(address, (unsigned)(record & AMOUNT_MASK) + 1);
    } else if (record != 0) {
        (void)hami_map_put(&records, address, record);
    }
}

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

/* Gives back what a record stands for, after the driver has freed it. */
HAMI_HOT static void record_release(uint64_t address, uint64_t record) {
    struct hami_charge charge = record_charge(record);
    enum record_kind kind = record_kind(record);
    if (kind == RECORD_SMALL) {
        if (!hami_block_leave(address, (unsigned)charge.pages, &charge.device)) {
            return;
        }
        charge.pages = HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT;
    } else if (kind != RECORD_LARGE) {
        record_release_other(record, &charge);
        return;
    }
    hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
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

/* Gives back a record of an ended context, unless another thread does. A pool's allocations belong to no context. */
static void record_drop(uint64_t address, uint64_t record, void *context) {
    if (record_kind(record) != RECORD_POOL && record_context(record) == *(const unsigned *)context &&
        hami_map_take_pair(&records, address, record)) {
        record_release(address, record);
    }
}

/*
 * `context` was given an address. Drops a block and a record there that belong to another context, which is ending. A
 * stale block must go first: a free looks for a block before it looks for a record.
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

static bool record_put(uint64_t address, enum record_kind kind, int device, unsigned context, uint64_t amount) {
    if (hami_contexts_are_ending()) {
        record_drop_stale(address, context);
    }
    return hami_map_put(&records, address, record_of(kind, device, context, amount));
}

HAMI_HOT bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context) {
    return record_put(address, RECORD_LARGE, charge->device, context, charge->pages);
}

bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context) {
    uint64_t before = hami_map_take(&records, key);
    if (!record_put(key, RECORD_CODE, charge->device, context, charge->pages + (before & AMOUNT_MASK))) {
        record_restore(key, before); /* fits where it was taken out */
        return false;
    }
    return true;
}

bool hami_record_held(uint64_t address, int share, unsigned context) {
    return record_put(address, RECORD_HELD, -1, context, (uint64_t)share);
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

bool hami_record_pool(uint64_t address, const void *pool) {
    if (hami_contexts_are_ending()) {
        record_drop_stale(address, hami_context_current_id());
    }
    return hami_map_put(&records, address, (uint64_t)RECORD_POOL << KIND_SHIFT | hami_map_key(pool));
}

/* Two threads may export one address at once: only the one that takes the record out makes a share. */
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
