/*
 * The ledger of abi.h: what each process holds of each counter. Every function works on a region and a slot number. It
 * does not decide who owns a slot, who is dead or what the limit is: region.h, state.h and memory/charge.h do.
 *
 * `counter` is one of abi.h's. Amounts are pages of 4 KiB. `owner` is an owner word without a state.
 */
#ifndef HAMI_LEDGER_H
#define HAMI_LEDGER_H

#include "abi.h"
#include "compiler.h"

#include <stdbool.h>

#define HAMI_UNLIMITED UINT64_MAX

/* ---- sums ---- */

/* Number of slots that were ever taken: the first ones. */
unsigned hami_ledger_slots(const struct hami_region *region);

/* Pages that all processes hold together. */
uint64_t hami_ledger_sum(const struct hami_region *region, unsigned counter);

/* Pages that the owner of a slot holds: its word, and the shares that name it. */
uint64_t hami_ledger_of(const struct hami_region *region, unsigned slot, unsigned counter);

/* ---- words; only by the owner of the slot ---- */

/*
 * Adds to the word unless the sum would then exceed `limit`, or the slot is not counted as `owner`'s. False: nothing
 * was added. With HAMI_UNLIMITED it always adds.
 */
bool hami_ledger_reserve(struct hami_region *region, unsigned slot, uint64_t owner, unsigned counter, uint64_t pages,
                         uint64_t limit);

void hami_ledger_release(struct hami_region *region, unsigned slot, unsigned counter, uint64_t pages);

/* ---- slots ---- */

static inline enum hami_slot_state hami_ledger_state(uint64_t owner) {
    return (enum hami_slot_state)(owner >> HAMI_OWNER_STATE_SHIFT);
}

static inline uint64_t hami_ledger_who(uint64_t owner) {
    return owner & ((UINT64_C(1) << HAMI_OWNER_STATE_SHIFT) - 1);
}

/* Whether a slot with this owner word is summed: on devices only while its owner is not suspended. */
static inline bool hami_ledger_is_summed(uint64_t owner, unsigned counter) {
    enum hami_slot_state state = hami_ledger_state(owner); /* of a free slot CLAIMED */
    return state != HAMI_SLOT_CLAIMED && (state != HAMI_SLOT_SUSPENDED || counter >= HAMI_DEVICES);
}

/* Claims a slot for `owner`. `expected` is its owner word: 0, or a dead process's. False: it has another word now. */
bool hami_ledger_claim(struct hami_region *region, unsigned slot, uint64_t expected, uint64_t owner);

/* Clears the words and shares of a slot that this process has claimed. */
void hami_ledger_clear(struct hami_region *region, unsigned slot);

/* From claimed to counted, and from claimed to free. */
void hami_ledger_count(struct hami_region *region, unsigned slot, uint64_t owner);
void hami_ledger_free(struct hami_region *region, unsigned slot);

/* Changes the state of a slot. False: it is not in state `from`, or not `owner`'s. */
bool hami_ledger_turn(struct hami_region *region, unsigned slot, uint64_t owner, enum hami_slot_state from,
                      enum hami_slot_state to);

/*
 * From suspended to moving, if what the owner holds fits under the limit of each device. Returns HAMI_DEVICES, or the
 * first device where it does not fit. A slot that is not suspended stays as it is.
 */
unsigned hami_ledger_resume(struct hami_region *region, unsigned slot, uint64_t owner,
                            const uint64_t limits[HAMI_DEVICES]);

/* ---- shares ---- */

/* Claims an entry that no process holds for the owner of `slot`. Returns its index; -1: there is none. */
int hami_ledger_share_claim(struct hami_region *region, unsigned slot);

/* Makes a claimed entry a share that the owner of `slot` holds. */
void hami_ledger_share_make(struct hami_region *region, unsigned share, unsigned slot, uint64_t identity,
                            unsigned device, uint64_t pages);

unsigned hami_ledger_shares(const struct hami_region *region);
bool hami_ledger_share_is(const struct hami_region *region, unsigned share, uint64_t identity);
unsigned hami_ledger_share_device(const struct hami_region *region, unsigned share);
uint64_t hami_ledger_share_pages(const struct hami_region *region, unsigned share);

/* Sets or clears the slot's bit in a share. */
void hami_ledger_share_hold(struct hami_region *region, unsigned share, unsigned slot, bool holds);

/*
 * Sets the pages of a share; with `only_more`, unless it has more already. The caller holds the share, and has reserved
 * an addition in its own word.
 */
void hami_ledger_share_resize(struct hami_region *region, unsigned share, uint64_t pages, bool only_more);

#endif
