/* The charge protocol of abi.h; see cells.h. */
#include "hami/cells.h"

#include "hami/fault.h"

enum { SEQUENCE_SHIFT = 16, CELL_MASK = (1 << (HAMI_TAG_SLOT_SHIFT - HAMI_TAG_CELL_SHIFT)) - 1 };
#define TAG_MASK ((UINT64_C(1) << HAMI_TAG_BITS) - 1)

static uint64_t tag_of(unsigned slot, unsigned cell, uint64_t state) {
    return (uint64_t)slot << HAMI_TAG_SLOT_SHIFT | (uint64_t)cell << HAMI_TAG_CELL_SHIFT |
           (state >> SEQUENCE_SHIFT & 0xffff);
}

/* Step 2: records in the cell that changed the word last that it did, before the word forgets. */
static void acknowledge(struct hami_block *block, unsigned device, uint64_t word, uint64_t own_tag) {
    uint64_t tag = word & TAG_MASK;
    if ((tag ^ own_tag) >> HAMI_TAG_CELL_SHIFT == 0) {
        return; /* this cell, which has committed since */
    }
    unsigned slot = (unsigned)(tag >> HAMI_TAG_SLOT_SHIFT), index = tag >> HAMI_TAG_CELL_SHIFT & CELL_MASK;
    if (index >= HAMI_CELLS) {
        return; /* no tag of ours */
    }
    struct hami_cell *cell = &block->slots[slot].cells[device][index];
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
    if ((state & HAMI_CELL_PHASE) != HAMI_CELL_PENDING || (state >> SEQUENCE_SHIFT & 0xffff) != (tag & 0xffff)) {
        return;
    }
    uint64_t applied = (state & ~(uint64_t)HAMI_CELL_PHASE) | HAMI_CELL_APPLIED;
    (void)atomic_compare_exchange_strong(&cell->state, &state, applied);
    hami_step();
}

static void commit(struct hami_cell *cell, uint64_t state) {
    unsigned side = (state & HAMI_CELL_SIDE) != 0;
    int64_t amount = atomic_load_explicit(&cell->amount, memory_order_relaxed);
    int64_t total = atomic_load_explicit(&cell->total[side], memory_order_relaxed);
    uint64_t sequence = ((state >> SEQUENCE_SHIFT) + 1) & 0xffff;
    atomic_store_explicit(&cell->total[!side], hami_cells_sum(total, amount), memory_order_relaxed);
    hami_step();
    uint64_t idle = sequence << SEQUENCE_SHIFT | (side ? 0 : HAMI_CELL_SIDE) | HAMI_CELL_IDLE;
    atomic_store_explicit(&cell->state, idle, memory_order_release);
    hami_step();
}

static bool fits(uint64_t amount, uint64_t used, uint64_t orphaned, uint64_t limit) {
    uint64_t room = orphaned < limit ? limit - orphaned : 0;
    return amount <= room && used <= room - amount;
}

bool hami_cells_change(struct hami_block *block, unsigned device, unsigned slot, unsigned index, int64_t amount,
                       uint64_t limit) {
    struct hami_cell *cell = &block->slots[slot].cells[device][index];
    _Atomic uint64_t *counter = &block->devices[device].used;
    uint64_t idle = atomic_load_explicit(&cell->state, memory_order_relaxed);
    uint64_t pending = idle | HAMI_CELL_PENDING;
    atomic_store_explicit(&cell->amount, amount, memory_order_relaxed);
    hami_step();
    atomic_store_explicit(&cell->state, pending, memory_order_release); /* seen by whoever sees our word */
    hami_step();
    uint64_t word = atomic_load_explicit(counter, memory_order_acquire);
    uint64_t tag = tag_of(slot, index, pending);
    uint64_t pages = 0, orphaned = 0;
    do {
        uint64_t used = word >> HAMI_TAG_BITS;
        if (amount > 0) { /* after the word: what became an orphan has left it later */
            orphaned = atomic_load_explicit(&block->devices[device].orphaned, memory_order_acquire);
        }
        if (amount > 0 && !fits((uint64_t)amount, used, orphaned, limit)) {
            atomic_store_explicit(&cell->state, idle, memory_order_release);
            return false;
        }
        pages = amount < 0 && used < (uint64_t)-amount ? 0 : used + (uint64_t)amount;
        acknowledge(block, device, word, tag);
    } while (!atomic_compare_exchange_weak_explicit(counter, &word, pages << HAMI_TAG_BITS | tag, memory_order_acq_rel,
                                                    memory_order_acquire));
    hami_step();
    commit(cell, pending);
    _Atomic uint64_t *peak = &block->devices[device].peak;
    uint64_t seen = atomic_load_explicit(peak, memory_order_relaxed);
    while (seen < pages + orphaned && !atomic_compare_exchange_weak(peak, &seen, pages + orphaned)) {
    }
    return true;
}

/* ---- what cells say ---- */

int64_t hami_cells_total(const struct hami_cell *cell) {
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
    return atomic_load_explicit(&cell->total[(state & HAMI_CELL_SIDE) != 0], memory_order_relaxed);
}

int64_t hami_cells_charged(const struct hami_block *block, unsigned slot, unsigned device) {
    int64_t charged = 0;
    for (unsigned i = 0; i < HAMI_CELL_AWAY; i++) {
        charged = hami_cells_sum(charged, hami_cells_total(&block->slots[slot].cells[device][i]));
    }
    return charged;
}

/* ---- after somebody who is gone ---- */

void hami_cells_finish(struct hami_block *block, unsigned slot, unsigned device, unsigned index) {
    struct hami_cell *cell = &block->slots[slot].cells[device][index];
    uint64_t word = atomic_load(&block->devices[device].used); /* before the state: see abi.h */
    uint64_t state = atomic_load(&cell->state);
    if ((state & HAMI_CELL_PHASE) == HAMI_CELL_PENDING && (word & TAG_MASK) != tag_of(slot, index, state)) {
        atomic_store(&cell->state, state & ~(uint64_t)HAMI_CELL_PHASE);
        hami_step();
    } else if ((state & HAMI_CELL_PHASE) != HAMI_CELL_IDLE) {
        commit(cell, state);
    }
}

/*
 * Takes what the dead owner held off one counter. A cell alone may say more than that, another less than nothing: of
 * memory that one thread took and another gave back. So the counter is lowered by their sum and never by more, in parts
 * that each come out of one cell, and a sweeper who dies between two leaves the rest to the next.
 */
void hami_cells_settle(struct hami_block *block, unsigned slot, unsigned device) {
    const struct hami_cell *cells = block->slots[slot].cells[device];
    int64_t held = 0;
    for (unsigned i = 0; i < HAMI_CELLS; i++) {
        hami_cells_finish(block, slot, device, i);
        held = hami_cells_sum(held, hami_cells_total(&cells[i]));
    }
    for (unsigned i = 0; i < HAMI_CELLS && held > 0; i++) {
        int64_t total = hami_cells_total(&cells[i]);
        int64_t part = total < held ? total : held;
        if (part > 0) {
            (void)hami_cells_change(block, device, slot, i, -part, HAMI_PAGES_MAX);
            held -= part;
        }
    }
}

void hami_cells_clear(struct hami_slot *slot) {
    for (unsigned device = 0; device < HAMI_COUNTERS; device++) {
        for (unsigned i = 0; i < HAMI_CELLS; i++) {
            struct hami_cell *cell = &slot->cells[device][i];
            if (atomic_load(&cell->total[0]) != 0 || atomic_load(&cell->total[1]) != 0) {
                atomic_store(&cell->total[0], 0);
                atomic_store(&cell->total[1], 0);
                hami_step();
            }
        }
    }
}
