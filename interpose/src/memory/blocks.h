/*
 * Blocks: 2 MiB of addresses that the driver packs small allocations into. A block holds a charge of 2 MiB while any
 * allocation lives in it. Only records.c and allocation.c call this file.
 */
#ifndef HAMI_BLOCKS_H
#define HAMI_BLOCKS_H

#include "memory/charge.h"

#define HAMI_SMALL_BELOW (UINT64_C(1) << 20) /* bytes: an allocation is small if it is smaller */

/* The order of a small allocation: it is rounded up to 512 bytes times 2 to the power of its order. */
unsigned hami_block_order(uint64_t bytes);

/*
 * Predicts the block that an allocation of this order will join: the block of this thread's last such allocation, since
 * a driver packs equal sizes of one thread together. Returns its device (index in the limits); -1: it has no room, or
 * there is no such block.
 */
int hami_block_with_room(unsigned order);

/*
 * Adds an allocation to its block. If it is the first there, moves 2 MiB of `charge` to the block. False: the block
 * needs a charge but `charge` has 0 pages, or this process has no memory left for the block's record.
 */
bool hami_block_enter(uint64_t address, unsigned order, struct hami_charge *charge, unsigned context);

/*
 * Takes the small allocation at an address out, before the driver is asked to free it. Returns its order plus one; 0:
 * there is none. With that number, hami_block_restore puts it back if the driver refuses the free, and hami_block_leave
 * ends it if the driver has freed it. The last allocation to leave gives the block's charge back.
 */
unsigned hami_block_take(uint64_t address);
HAMI_COLD void hami_block_restore(uint64_t address, unsigned order_and_one);
void hami_block_leave(uint64_t address, unsigned order_and_one);

/*
 * The driver has given an address to `context`. Drops the allocations in the block there if they belong to another
 * context that is ending (hami_context_is_stale).
 */
HAMI_COLD void hami_block_drop_stale(uint64_t address, unsigned context);

/* Drops all small allocations of a context that has ended, and gives the charges of their blocks back. */
void hami_blocks_drop_context(unsigned context);

void hami_blocks_after_fork(void);

#endif
