/* The charge protocol of abi.h; see cells.h. */
#include "hami/cells.h"

#include "hami/compiler.h"
#include "hami/fault.h"

enum { FORGET_EVERY = 4096 }; /* changes of a cell; there are 65536 sequence numbers */
enum { SEQUENCE_SHIFT = 16, CELL_MASK = (1 << (HAMI_TAG_SLOT_SHIFT - HAMI_TAG_CELL_SHIFT)) - 1 };
#define TAG_MASK ((UINT64_C(1) << HAMI_TAG_BITS) - 1)
#define NOTED (UINT32_C(1) << 31)

static inline uint64_t number_of(uint64_t state) {
    return state >> SEQUENCE_SHIFT & 0xffff;
}

static inline bool same_cell(uint64_t tag, uint64_t other) {
    return ((tag ^ other) & TAG_MASK) >> HAMI_TAG_CELL_SHIFT == 0;
}

/* The cells of one process lie apart there, and so do the first cells of the first twelve. */
static inline _Atomic uint32_t *place_of(struct hami_device *counted, uint64_t tag) {
    uint32_t slot = tag >> HAMI_TAG_SLOT_SHIFT & (HAMI_PROCESSES - 1), index = tag >> HAMI_TAG_CELL_SHIFT & CELL_MASK;
    return &counted->seen[(slot + 3 * index) % HAMI_SEEN];
}

/* Records in a cell that its change was applied, if it has yet to do so itself. */
HAMI_COLD static void acknowledge(struct hami_block *block, struct hami_device *counted, uint64_t tag) {
    unsigned slot = (unsigned)(tag >> HAMI_TAG_SLOT_SHIFT), index = tag >> HAMI_TAG_CELL_SHIFT & CELL_MASK;
    if (index >= HAMI_CELLS) {
        return; /* no tag of ours */
    }
    struct hami_cell *cell = &block->slots[slot].cells[counted - block->devices][index];
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_acquire);
    if ((state & HAMI_CELL_PHASE) != HAMI_CELL_PENDING || number_of(state) != (tag & 0xffff)) {
        return;
    }
    uint64_t applied = (state & ~(uint64_t)HAMI_CELL_PHASE) | HAMI_CELL_APPLIED;
    (void)atomic_compare_exchange_strong(&cell->state, &state, applied);
    hami_step();
}

/*
 * Step 2, before the word forgets. False: it is another meanwhile. The word is read again after the note that is there,
 * so that of one cell no later note gives way to an earlier one of somebody who has slept in between.
 */
static inline bool note(struct hami_block *block, struct hami_device *counted, uint64_t word) {
    uint32_t mine = NOTED | (uint32_t)(word & TAG_MASK);
    _Atomic uint32_t *place = place_of(counted, word);
    uint32_t noted = atomic_load_explicit(place, memory_order_acquire);
    if (noted == mine) {
        return true;
    }
    if (noted != 0 && !same_cell(noted, mine)) {
        acknowledge(block, counted, noted & TAG_MASK);
    }
    if (atomic_load_explicit(&counted->used, memory_order_acquire) != word) {
        return false;
    }
    bool done = atomic_compare_exchange_strong(place, &noted, mine);
    hami_step();
    return done;
}

/* Sequence numbers come again: a note must not be there still when its number does. Nothing is under way here. */
HAMI_COLD static void forget_notes(struct hami_device *counted, uint64_t tag) {
    _Atomic uint32_t *place = place_of(counted, tag);
    uint32_t noted = atomic_load(place);
    if (noted != 0 && same_cell(noted, tag)) {
        (void)atomic_compare_exchange_strong(place, &noted, 0);
        hami_step();
    }
}

static inline void commit(struct hami_cell *cell, uint64_t state, int64_t amount) {
    unsigned side = (state & HAMI_CELL_SIDE) != 0;
    int64_t total = atomic_load_explicit(&cell->total[side], memory_order_relaxed);
    uint64_t sequence = (number_of(state) + 1) & 0xffff;
    atomic_store_explicit(&cell->total[!side], hami_cells_sum(total, amount), memory_order_relaxed);
    hami_step();
    uint64_t idle = sequence << SEQUENCE_SHIFT | (side ? 0 : HAMI_CELL_SIDE) | HAMI_CELL_IDLE;
    atomic_store_explicit(&cell->state, idle, memory_order_release);
    hami_step();
}

/* Step 1; returns the state that the cell has from now on. */
static inline uint64_t prepare(struct hami_device *counted, struct hami_cell *cell, uint64_t tag, int64_t amount) {
    uint64_t pending = atomic_load_explicit(&cell->state, memory_order_relaxed) | HAMI_CELL_PENDING;
    if (__builtin_expect(number_of(pending) % FORGET_EVERY == 0, 0)) {
        forget_notes(counted, tag);
    }
    atomic_store_explicit(&cell->amount, amount, memory_order_relaxed);
    hami_step();
    atomic_store_explicit(&cell->state, pending, memory_order_release); /* seen by whoever sees our word */
    hami_step();
    return pending;
}

static inline bool exchange(struct hami_block *block, struct hami_device *counted, uint64_t *word, uint64_t pages,
                            uint64_t tag) {
    if (!same_cell(*word, tag) && !note(block, counted, *word)) { /* this cell itself has committed since */
        *word = atomic_load_explicit(&counted->used, memory_order_acquire);
        return false;
    }
    return atomic_compare_exchange_weak_explicit(&counted->used, word, pages << HAMI_TAG_BITS | tag,
                                                 memory_order_acq_rel, memory_order_acquire);
}

static inline bool fits(uint64_t amount, uint64_t used, uint64_t orphaned, uint64_t limit) {
    uint64_t room = orphaned < limit ? limit - orphaned : 0;
    return amount <= room && used <= room - amount;
}

HAMI_HOT bool hami_cells_add(struct hami_block *block, struct hami_device *counted, struct hami_cell *cell,
                             uint64_t tag, uint64_t pages, uint64_t limit) {
    uint64_t pending = prepare(counted, cell, tag, (int64_t)pages), after = 0, orphaned = 0;
    uint64_t word = atomic_load_explicit(&counted->used, memory_order_acquire);
    tag |= number_of(pending);
    do { /* what became an orphan has left the word later */
        orphaned = atomic_load_explicit(&counted->orphaned, memory_order_acquire);
        if (!fits(pages, word >> HAMI_TAG_BITS, orphaned, limit)) {
            atomic_store_explicit(&cell->state, pending & ~(uint64_t)HAMI_CELL_PENDING, memory_order_release);
            return false;
        }
        after = (word >> HAMI_TAG_BITS) + pages;
    } while (!exchange(block, counted, &word, after, tag));
    hami_step();
    commit(cell, pending, (int64_t)pages);
    uint64_t peak = atomic_load_explicit(&counted->peak, memory_order_relaxed);
    while (peak < after + orphaned && !atomic_compare_exchange_weak(&counted->peak, &peak, after + orphaned)) {
    }
    return true;
}

HAMI_HOT void hami_cells_give_back(struct hami_block *block, struct hami_device *counted, struct hami_cell *cell,
                                   uint64_t tag, uint64_t pages) {
    uint64_t pending = prepare(counted, cell, tag, -(int64_t)pages), used = 0;
    uint64_t word = atomic_load_explicit(&counted->used, memory_order_acquire);
    tag |= number_of(pending);
    do {
        used = word >> HAMI_TAG_BITS;
    } while (!exchange(block, counted, &word, used < pages ? 0 : used - pages, tag));
    hami_step();
    commit(cell, pending, -(int64_t)pages);
}

bool hami_cells_change(struct hami_block *block, unsigned device, unsigned slot, unsigned index, int64_t amount,
                       uint64_t limit) {
    struct hami_device *counted = &block->devices[device];
    struct hami_cell *cell = &block->slots[slot].cells[device][index];
    if (amount >= 0) {
        return hami_cells_add(block, counted, cell, hami_cells_tag(slot, index), (uint64_t)amount, limit);
    }
    hami_cells_give_back(block, counted, cell, hami_cells_tag(slot, index), (uint64_t)-amount);
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
    uint64_t tag = hami_cells_tag(slot, index);
    uint64_t word = atomic_load(&block->devices[device].used); /* in this order: see abi.h */
    uint32_t noted = atomic_load(place_of(&block->devices[device], tag));
    uint64_t state = atomic_load(&cell->state);
    tag |= number_of(state);
    if ((state & HAMI_CELL_PHASE) == HAMI_CELL_PENDING && (word & TAG_MASK) != tag && noted != (NOTED | tag)) {
        atomic_store(&cell->state, state & ~(uint64_t)HAMI_CELL_PHASE);
        hami_step();
    } else if ((state & HAMI_CELL_PHASE) != HAMI_CELL_IDLE) {
        commit(cell, state, atomic_load(&cell->amount));
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
