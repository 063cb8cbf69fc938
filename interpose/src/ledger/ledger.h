/*
 * The ledger of a shared region: the pages that each process holds of each counter. abi.h has the terms and the rules.
 * The functions take a region and a slot number. Other files decide who owns a slot and who is dead (region.h), and
 * what the limit is (state.h, memory/charge.h).
 *
 * `counter` is i for memory of device i, and i + HAMI_DEVICES for host memory in its place. Amounts are pages of 4 KiB.
 * `owner` is an owner word whose state bits are 0.
 */
#ifndef HAMI_LEDGER_H
#define HAMI_LEDGER_H

#include "abi.h"
#include "compiler.h"

#include <stdbool.h>

#define HAMI_UNLIMITED UINT64_MAX

/* ---- sums ---- */

/* Number of process slots that were ever in use. Slots from this number on are free. */
unsigned hami_ledger_slots(const struct hami_region *region);

/* Pages of `counter` in use: what all processes hold together, without device memory of suspended processes. */
uint64_t hami_ledger_sum(const struct hami_region *region, unsigned counter);

/* Pages of a counter that monitors show for the owner of `slot`: its word, and shares that it made and holds. */
uint64_t hami_ledger_of(const struct hami_region *region, unsigned slot, unsigned counter);

/* ---- words; only the owner of a slot may change them ---- */

/*
 * Reserves pages for the owner of a slot. Returns false, and reserves nothing, if all processes together would exceed
 * `limit`, or if `owner` no longer owns the slot. With HAMI_UNLIMITED it refuses only a request of more than
 * HAMI_PAGES_MAX pages.
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

/* Whether what the process with this owner word holds of `counter` counts as in use. */
static inline bool hami_ledger_is_summed(uint64_t owner, unsigned counter) {
    enum hami_slot_state state = hami_ledger_state(owner); /* a free slot's word is 0, which reads as CLAIMED */
    return state != HAMI_SLOT_CLAIMED && (state != HAMI_SLOT_SUSPENDED || counter >= HAMI_DEVICES);
}

/* Claims a slot for the process `owner`, if the slot's owner word still is `expected`: 0, or a dead process's. */
bool hami_ledger_claim(struct hami_region *region, unsigned slot, uint64_t expected, uint64_t owner);

/* Clears what the last owner of a slot held, alone or shared. The caller has claimed the slot. */
void hami_ledger_clear(struct hami_region *region, unsigned slot);

/* Frees a slot that the caller has claimed. */
void hami_ledger_free(struct hami_region *region, unsigned slot);

/* Changes the state of a slot that `owner` owns. Returns false if it has another owner, or is not in state `from`. */
bool hami_ledger_turn(struct hami_region *region, unsigned slot, uint64_t owner, enum hami_slot_state from,
                      enum hami_slot_state to);

/*
 * Changes the slot of a suspended process to HAMI_SLOT_MOVING if the process's memory fits under the limit (in pages)
 * of each device. Returns HAMI_DEVICES, or the first device where the memory does not fit. A slot in another state
 * stays as it is.
 */
unsigned hami_ledger_resume(struct hami_region *region, unsigned slot, uint64_t owner,
                            const uint64_t limits[HAMI_DEVICES]);

/* ---- shares ---- */

/* Claims an entry for memory that the owner of `slot` will share. Returns its index, or -1 if all entries are held. */
int hami_ledger_share_claim(struct hami_region *region, unsigned slot);

/* Turns a claimed entry into a share of `pages` pages. The owner of `slot` holds this share. */
void hami_ledger_share_make(struct hami_region *region, unsigned share, unsigned slot, uint64_t identity,
                            unsigned device, uint64_t pages);

/* Number of entries of shares[] to look at: entries from this index on were never claimed. */
unsigned hami_ledger_shares(const struct hami_region *region);

/* Whether an entry is a share of the memory with this identity (memory/identity.h). */
bool hami_ledger_share_is(const struct hami_region *region, unsigned share, uint64_t identity);
unsigned hami_ledger_share_device(const struct hami_region *region, unsigned share);
uint64_t hami_ledger_share_pages(const struct hami_region *region, unsigned share);

/* Sets whether the owner of `slot` holds a share. */
void hami_ledger_share_hold(struct hami_region *region, unsigned share, unsigned slot, bool holds);

/*
 * Sets the size of a share; with `only_more`, never lowers it. The caller must hold the share. Before the share grows,
 * the caller must have reserved the difference in its own word.
 */
void hami_ledger_share_resize(struct hami_region *region, unsigned share, uint64_t pages, bool only_more);

#endif
