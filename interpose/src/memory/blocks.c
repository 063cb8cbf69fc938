/*
 * Counts the small allocations in each block, and holds the block's charge (blocks.h). Allocating and freeing are on
 * the hot path and take no lock, except when a block is met for the first time.
 */
#include "memory/blocks.h"

#include "memory/contexts.h"
#include "memory/map.h"
#include "threads.h"

#include <stdlib.h>
#include <string.h>

/* A block has 4096 units of 512 bytes. An allocation of order 3 takes 2³ of them. */
enum { BLOCK_SHIFT = 21, UNIT_SHIFT = 9, BLOCK_UNITS = 1 << (BLOCK_SHIFT - UNIT_SHIFT), ORDERS = 12 };

/*
 * Fields of a block's state: device + 1 (8 bits), context (8), order of the last allocation (4), number of allocations
 * (20), units in use (20). They share a word so that one compare-exchange adds or removes an allocation.
 */
enum { DEVICE_SHIFT = 52, CONTEXT_SHIFT = 44, ORDER_SHIFT = 40, COUNT_SHIFT = 20 };
#define COUNT_MASK UINT64_C(0xfffff)

struct block {
    _Atomic uint64_t state;
    _Atomic uint8_t orders[BLOCK_UNITS]; /* by unit: order + 1 of the allocation that begins in the unit, or 0 */
};

/* address >> BLOCK_SHIFT → struct block. Blocks are never freed, since the driver uses their addresses again. */
static struct hami_map blocks;
static _Atomic uint32_t blocks_made;                   /* block_make raises it once a new block is in the map */
static atomic_flag busy = ATOMIC_FLAG_INIT;            /* set while a thread makes or empties a block */
static _Thread_local struct block *last_block[ORDERS]; /* by order: the block that this thread used last */

/* The last result of block_at in this thread. It holds while no block has been made since. */
static _Thread_local struct {
    uint64_t number;
    uint32_t made; /* the value of blocks_made then */
    struct block *block;
} last_found;

HAMI_HOT unsigned hami_block_order(uint64_t bytes) {
    return bytes <= 1u << UNIT_SHIFT ? 0 : 64 - UNIT_SHIFT - (unsigned)__builtin_clzll(bytes - 1);
}

static struct block *block_at(uint64_t address) {
    uint64_t number = address >> BLOCK_SHIFT;
    /* Read before the look-up: if another thread makes the block after that, blocks_made differs from this. */
    uint32_t made = atomic_load_explicit(&blocks_made, memory_order_acquire);
    if (last_found.number != number || last_found.made != made) {
        last_found.number = number;
        last_found.made = made;
        last_found.block = hami_map_pointer(&blocks, number);
    }
    return last_found.block;
}

/* Makes the block around an address unless another thread has just made it. NULL: this process has no memory left. */
HAMI_COLD static struct block *block_make(uint64_t address) {
    HAMI_HOLD(&busy);
    struct block *block = block_at(address);
    if (block == NULL) {
        block = calloc(1, sizeof *block);
        if (block != NULL && !hami_map_put(&blocks, address >> BLOCK_SHIFT, hami_map_key(block))) {
            free(block);
            block = NULL;
        }
        (void)atomic_fetch_add(&blocks_made, 1);
    }
    return block;
}

/* The place in `orders` for an allocation at this address. */
static _Atomic uint8_t *block_order_at(struct block *block, uint64_t address) {
    return &block->orders[address >> UNIT_SHIFT & (BLOCK_UNITS - 1)];
}

static uint64_t state_count(uint64_t state) {
    return state >> COUNT_SHIFT & COUNT_MASK;
}

static unsigned state_context(uint64_t state) {
    return state >> CONTEXT_SHIFT & 0xff;
}

/* Predicts only: other threads may change the block before hami_block_enter. */
HAMI_HOT int hami_block_with_room(unsigned order) {
    struct block *block = last_block[order];
    uint64_t state = block == NULL ? 0 : atomic_load_explicit(&block->state, memory_order_relaxed);
    bool room = state_count(state) != 0 && (state >> ORDER_SHIFT & 15) == order &&
                (state & COUNT_MASK) + (1u << order) <= BLOCK_UNITS;
    return room ? (int)(state >> DEVICE_SHIFT) - 1 : -1;
}

static void block_give_back(uint64_t state) {
    const struct hami_charge charge = {(int)(state >> DEVICE_SHIFT) - 1, HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT};
    hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
}

/*
 * Drops the allocations of `context`, which has ended or is ending, from a block. If another thread frees the last of
 * them at the same time, only one of the two gives the charge back.
 */
HAMI_COLD static void block_empty(struct block *block, unsigned context) {
    HAMI_HOLD(&busy);
    uint64_t state = atomic_load(&block->state);
    if (state_count(state) != 0 && state_context(state) == context) {
        for (unsigned i = 0; i < BLOCK_UNITS; i++) {
            atomic_store_explicit(&block->orders[i], 0, memory_order_relaxed); /* the exchange below publishes it */
        }
        if (state_count(atomic_exchange(&block->state, 0)) != 0) {
            block_give_back(state);
        }
    }
}

void hami_block_drop_stale(uint64_t address, unsigned context) {
    struct block *block = block_at(address);
    unsigned recorded = block == NULL ? HAMI_CONTEXT_UNKNOWN : state_context(atomic_load(&block->state));
    if (hami_context_is_stale(recorded, context)) {
        block_empty(block, recorded);
    }
}

HAMI_HOT bool hami_block_enter(uint64_t address, unsigned order, struct hami_charge *charge, unsigned context) {
    struct block *found = block_at(address), *block = HAMI_LIKELY(found != NULL) ? found : block_make(address);
    if (block == NULL) {
        return false;
    }
    if (hami_contexts_are_ending()) {
        hami_block_drop_stale(address, context);
    }
    uint64_t state = atomic_load_explicit(&block->state, memory_order_relaxed); /* the exchange below checks it */
    uint64_t next = 0;
    do {
        if (state_count(state) == 0 && charge->pages == 0) {
            return false;
        }
        uint64_t inside = (state & (COUNT_MASK << COUNT_SHIFT | COUNT_MASK)) + (UINT64_C(1) << COUNT_SHIFT);
        next = (uint64_t)(charge->device + 1) << DEVICE_SHIFT | (uint64_t)context << CONTEXT_SHIFT |
               (uint64_t)order << ORDER_SHIFT | (inside + (UINT64_C(1) << order));
    } while (!atomic_compare_exchange_weak_explicit(&block->state, &state, next, memory_order_acq_rel,
                                                    memory_order_relaxed));
    atomic_store_explicit(block_order_at(block, address), (uint8_t)(order + 1), memory_order_release);
    last_block[order] = block;
    charge->pages -= state_count(state) == 0 ? HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT : 0;
    return true;
}

HAMI_HOT unsigned hami_block_take(uint64_t address) {
    struct block *block = block_at(address);
    _Atomic uint8_t *at = block == NULL ? NULL : block_order_at(block, address);
    uint8_t found = at == NULL ? 0 : atomic_load_explicit(at, memory_order_acquire);
    if (found == 0 || (address & ((1u << UNIT_SHIFT) - 1)) != 0) {
        return 0;
    }
    atomic_store_explicit(at, 0, memory_order_relaxed); /* no other thread frees this address */
    return found;
}

void hami_block_restore(uint64_t address, unsigned order_and_one) {
    atomic_store_explicit(block_order_at(block_at(address), address), (uint8_t)order_and_one, memory_order_release);
}

HAMI_HOT void hami_block_leave(uint64_t address, unsigned order_and_one) {
    struct block *block = block_at(address);
    uint64_t leaving = (UINT64_C(1) << COUNT_SHIFT) + (UINT64_C(1) << (order_and_one - 1));
    uint64_t state = atomic_load_explicit(&block->state, memory_order_relaxed); /* the exchange below checks it */
    while (state_count(state) != 0) { /* 0: the context has ended, and block_empty has given the charge back */
        if (atomic_compare_exchange_weak_explicit(&block->state, &state, state - leaving, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            if (state_count(state) == 1) {
                block_give_back(state);
            }
            return;
        }
    }
}

static void block_drop(uint64_t number, uint64_t block, void *context) {
    (void)number;
    block_empty((struct block *)(uintptr_t)block, *(const unsigned *)context);
}

void hami_blocks_drop_context(unsigned context) {
    hami_map_each(&blocks, block_drop, &context);
}

void hami_blocks_after_fork(void) {
    hami_map_reset(&blocks);
    atomic_flag_clear(&busy);
    memset(last_block, 0, sizeof last_block);
    memset(&last_found, 0, sizeof last_found);
}
