/*
 * Charges as abi.h describes them: one counter a device, changed through cells, each of which one writer has at a time.
 * Everything here works on a region by slot and cell; whose they are is for the caller to see to.
 */
#ifndef HAMI_CELLS_H
#define HAMI_CELLS_H

#include "hami/abi.h"

#include <stdbool.h>

enum { HAMI_TAG_BITS = 29, HAMI_TAG_SLOT_SHIFT = 19, HAMI_TAG_CELL_SHIFT = 16 };
#define HAMI_NOBODY (UINT64_C(7) << HAMI_TAG_CELL_SHIFT) /* what a counter names that was never changed */
#define HAMI_PAGES_MAX ((UINT64_C(1) << (64 - HAMI_TAG_BITS)) - 1)

/* Sums of what the file says: a program may have written any number there, and what is too large wraps. */
static inline int64_t hami_cells_sum(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Whose a change of a counter is; its lowest 16 bits are the cell's sequence number. */
static inline uint64_t hami_cells_tag(unsigned slot, unsigned index) {
    return (uint64_t)slot << HAMI_TAG_SLOT_SHIFT | (uint64_t)index << HAMI_TAG_CELL_SHIFT;
}

/* Adds pages to a counter through one cell, unless it would then exceed `limit`. True if they were added. */
bool hami_cells_add(struct hami_block *block, struct hami_device *counted, struct hami_cell *cell, uint64_t tag,
                    uint64_t pages, uint64_t limit);

/* Takes pages off a counter through one cell, and never more than it has. */
void hami_cells_give_back(struct hami_block *block, struct hami_device *counted, struct hami_cell *cell, uint64_t tag,
                          uint64_t pages);

/* The one or the other, by the sign of `amount`. */
bool hami_cells_change(struct hami_block *block, unsigned device, unsigned slot, unsigned index, int64_t amount,
                       uint64_t limit);

/* Pages that a cell has added, or less than none. */
int64_t hami_cells_total(const struct hami_cell *cell);

/* Pages that a slot's owner has charged, whether they are away or not. */
int64_t hami_cells_charged(const struct hami_block *block, unsigned slot, unsigned device);

/* Finishes or reverts what a writer who is gone was doing in one cell. */
void hami_cells_finish(struct hami_block *block, unsigned slot, unsigned device, unsigned cell);

/* Takes what the dead owner of a slot held off one counter. */
void hami_cells_settle(struct hami_block *block, unsigned slot, unsigned device);

/* Of a slot whose cells together hold nothing. */
void hami_cells_clear(struct hami_slot *slot);

#endif
