/*
 * The ledger of abi.h: what processes hold of each counter, and how that changes. Every function works on a region by
 * slot and asks nobody: who owns a slot, who is dead and what the limit is are the callers' matters (region.h,
 * charge.h, shared.h). `counter` is one of abi.h's; amounts are pages.
 */
#ifndef HAMI_LEDGER_H
#define HAMI_LEDGER_H

#include "abi.h"
#include "compiler.h"

#include <stdbool.h>

#define HAMI_UNLIMITED UINT64_MAX

/* ---- sums ---- */

/* Slots from here on were never taken. */
unsigned hami_ledger_slots(const struct hami_region *region);

/* What all processes hold together. */
uint64_t hami_ledger_sum(const struct hami_region *region, unsigned counter);

/* What the owner of a slot holds: its word, and the shares that it is shown to have. */
uint64_t hami_ledger_of(const struct hami_region *region, unsigned slot, unsigned counter);

/* ---- words; only by the owner of the slot ---- */

/*
 * Adds to the word unless the sum would then exceed `limit`, or the slot is not counted as `owner`'s. False: nothing
 * was added. With HAMI_UNLIMITED it always adds.
 */
bool hami_ledger_reserve(struct hami_region *region, unsigned slot, uint64_t owner, unsigned counter, uint64_t pages,
                         uint64_t limit);

void hami_ledger_release(struct hami_region *region, unsigned slot, unsigned counter, uint64_t pages);

/* ---- slots; owner words are given without a state ---- */

static inline enum hami_slot_state hami_ledger_state(uint64_t owner) {
    return (enum hami_slot_state)(owner >> HAMI_OWNER_STATE_SHIFT);
}

static inline uint64_t hami_ledger_who(uint64_t owner) {
    return owner & ((UINT64_C(1) << HAMI_OWNER_STATE_SHIFT) - 1);
}

/* Whether a slot with this owner word counts: on devices only while its owner is not suspended. */
static inline bool hami_ledger_is_summed(uint64_t owner, unsigned counter) {
    enum hami_slot_state state = hami_ledger_state(owner); /* of a free slot CLAIMED */
    return state != HAMI_SLOT_CLAIMED && (state != HAMI_SLOT_SUSPENDED || counter >= HAMI_DEVICES);
}

/* free, or with the owner word `expected` of a dead process -> claimed by `owner`. False: it is not `expected` now. */
bool hami_ledger_claim(struct hami_region *region, unsigned slot, uint64_t expected, uint64_t owner);

/* Clears the words and shares of a slot that this process has claimed. */
void hami_ledger_clear(struct hami_region *region, unsigned slot);

/* claimed -> counted, or claimed -> free. */
void hami_ledger_count(struct hami_region *region, unsigned slot, uint64_t owner);
void hami_ledger_free(struct hami_region *region, unsigned slot);

/* From one state of its owner to another. False: the slot is not in the first, or is another's now. */
bool hami_ledger_turn(struct hami_region *region, unsigned slot, uint64_t owner, enum hami_slot_state from,
                      enum hami_slot_state to);

/*
 * suspended -> moving if what the owner holds fits under `limits`, one for each device. Returns HAMI_DEVICES, also for
 * a slot that is not suspended, or the first device where it does not fit.
 */
unsigned hami_ledger_resume(struct hami_region *region, unsigned slot, uint64_t owner,
                            const uint64_t limits[HAMI_DEVICES]);

/* ---- shares ---- */

/* Index of an entry that nobody holds, claimed by the owner of `slot`; -1: there is none. */
int hami_ledger_share_claim(struct hami_region *region, unsigned slot);

/* Makes a claimed entry a share that the owner of `slot` holds. */
void hami_ledger_share_make(struct hami_region *region, unsigned share, unsigned slot, uint64_t identity,
                            unsigned device, uint64_t pages);

unsigned hami_ledger_shares(const struct hami_region *region);
bool hami_ledger_share_is(const struct hami_region *region, unsigned share, uint64_t identity);
unsigned hami_ledger_share_device(const struct hami_region *region, unsigned share);
uint64_t hami_ledger_share_pages(const struct hami_region *region, unsigned share);

/* Sets or clears the slot's bit. */
void hami_ledger_share_hold(struct hami_region *region, unsigned share, unsigned slot, bool holds);

/* Sets or raises the pages of a share that this process holds, which has reserved what is added in its word. */
void hami_ledger_share_resize(struct hami_region *region, unsigned share, uint64_t pages);
void hami_ledger_share_raise(struct hami_region *region, unsigned share, uint64_t pages);

#endif
