/*
 * Blocks: 2 MiB of addresses that the driver packs small allocations into. A block holds a charge of 2 MiB while any
 * allocation lives in it. Only records.c and allocation.c call this file.
 */
#ifndef HAMI_BLOCKS_H
#define HAMI_BLOCKS_H

#include "memory/charge.h"

#define HAMI_SMALL_BELOW (UINT64_C(1) << 20)

enum hami_block_entry {
    HAMI_BLOCK_REFUSED, /* the caller holds no charge and the block has none either */
    HAMI_BLOCK_STARTED, /* the allocation is the first: its charge now belongs to the block */
    HAMI_BLOCK_JOINED   /* the block has its charge already */
};

/* Small allocations are rounded up to 512 bytes times a power of two, the order. */
unsigned hami_block_order(uint64_t bytes);

/* Whether the block that served this thread last has room for one more allocation of this order on the device. */
bool hami_block_has_room(int device, unsigned order);

/* Adds an allocation to its block. With a charge of 0 pages, only to a block that has its charge already. */
enum hami_block_entry hami_block_enter(uint64_t address, unsigned order, const struct hami_charge *charge,
                                       unsigned context);

/* Takes out the small allocation at an address. Returns its order plus one; 0: there is none. */
unsigned hami_block_take(uint64_t address);

/* Puts it back: the driver did not free it. */
HAMI_COLD void hami_block_restore(uint64_t address, unsigned order_and_one);

/* Ends an allocation that was taken out. True: it was the last of its block, whose charge is on `*device`. */
bool hami_block_leave(uint64_t address, unsigned order, int *device);

/*
 * `context` was given an address. If the block there belongs to another context, which is ending, its allocations are
 * dropped.
 */
HAMI_COLD void hami_block_drop_stale(uint64_t address, unsigned context);

/* Drops every block of a context that has ended. */
void hami_blocks_drop_context(unsigned context);

void hami_blocks_after_fork(void);

#endif
