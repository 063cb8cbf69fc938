/*
 * Sums, words, slots and shares of a region. abi.h has the rules that make the sums right.
 *
 * Loads and stores are sequentially consistent, as abi.h explains. After each of them a test may interrupt this process
 * (fault.h): the model test lets another process run, the kill test kills this one.
 */
#include "ledger/ledger.h"

#include "fault.h"

enum { EVERY_SLOT = HAMI_PROCESSES };

static inline uint64_t ledger_load(const _Atomic uint64_t *at) {
    uint64_t value = atomic_load(at);
    hami_look();
    return value;
}

static inline void ledger_store(_Atomic uint64_t *at, uint64_t value) {
    atomic_store(at, value);
    hami_step();
}

static inline bool ledger_swap(_Atomic uint64_t *at, uint64_t expected, uint64_t value) {
    bool done = atomic_compare_exchange_strong(at, &expected, value);
    hami_step();
    return done;
}

/* Raises a number in the region to at least `least`, even while another process raises it too. */
#define LEDGER_RAISE(at, least)                                                                                        \
    do {                                                                                                               \
        __auto_type seen = atomic_load(at);                                                                            \
        while (seen < (least) && !atomic_compare_exchange_weak(at, &seen, least)) {                                    \
        }                                                                                                              \
    } while (0)

/* ---- sums ---- */

unsigned hami_ledger_slots(const struct hami_region *region) {
    int32_t number = atomic_load(&region->v1.process_num);
    return number < 0 || number > HAMI_PROCESSES ? HAMI_PROCESSES : (unsigned)number;
}

/* Bounds a number of pages from the region: a hostile program can write any number there. */
static inline uint64_t ledger_bounded(uint64_t pages) {
    return pages < HAMI_PAGES_MAX ? pages : HAMI_PAGES_MAX;
}

static uint64_t share_pages(uint64_t word) {
    return word & HAMI_PAGES_MAX;
}

static unsigned share_device(uint64_t word) {
    return word >> HAMI_SHARE_DEVICE_SHIFT & (HAMI_DEVICES - 1);
}

static unsigned share_slot(uint64_t word) {
    return word >> HAMI_SHARE_SLOT_SHIFT & (HAMI_PROCESSES - 1);
}

static bool share_has_bit(const struct hami_share_entry *entry, unsigned slot) {
    return (ledger_load(&entry->holders[slot / 64]) >> slot % 64 & 1) != 0;
}

/* Whether any process holds the shared memory of an entry. With `summed`, suspended processes do not count. */
static bool share_is_held(const struct hami_region *region, const struct hami_share_entry *entry, bool summed) {
    unsigned words = (hami_ledger_slots(region) + 63) / 64;
    for (unsigned i = 0; i < words; i++) {
        for (uint64_t bits = ledger_load(&entry->holders[i]); bits != 0; bits &= bits - 1) {
            unsigned slot = i * 64 + (unsigned)__builtin_ctzll(bits);
            if (hami_ledger_is_summed(ledger_load(&region->block.owners[slot]), summed ? 0 : HAMI_DEVICES)) {
                return true;
            }
        }
    }
    return false;
}

unsigned hami_ledger_shares(const struct hami_region *region) {
    uint32_t used = atomic_load(&region->block.shares_used);
    return used < HAMI_SHARES ? used : HAMI_SHARES;
}

/* Pages of shared memory on a device: all in use for EVERY_SLOT, else what monitors show for the owner of `slot`. */
HAMI_APART static uint64_t share_sum(const struct hami_region *region, unsigned device, unsigned slot) {
    uint64_t sum = 0;
    unsigned count = device < HAMI_DEVICES ? hami_ledger_shares(region) : 0;
    for (unsigned i = 0; i < count; i++) {
        const struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = ledger_load(&entry->word);
        if (share_device(word) == device && share_pages(word) != 0 &&
            (slot == EVERY_SLOT ? share_is_held(region, entry, true)
                                : share_slot(word) == slot && share_has_bit(entry, slot))) {
            sum += share_pages(word);
        }
    }
    return sum;
}

HAMI_HOT uint64_t hami_ledger_sum(const struct hami_region *region, unsigned counter) {
    const struct hami_block *block = &region->block;
    unsigned count = hami_ledger_slots(region);
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        if (hami_ledger_is_summed(ledger_load(&block->owners[i]), counter)) {
            sum += ledger_bounded(ledger_load(&block->held[counter][i]));
        }
    }
    /* Reads the shares last: memory moves only from a process's word to a share, so the sum misses none. */
    return HAMI_LIKELY(hami_ledger_shares(region) == 0) ? sum : sum + share_sum(region, counter, EVERY_SLOT);
}

uint64_t hami_ledger_of(const struct hami_region *region, unsigned slot, unsigned counter) {
    return ledger_bounded(ledger_load(&region->block.held[counter][slot])) + share_sum(region, counter, slot);
}

/* ---- words ---- */

/*
 * Refuses a request that is too large before its pages are added. Otherwise, while these pages count, another process's
 * small request would be refused too.
 */
HAMI_HOT bool hami_ledger_reserve(struct hami_region *region, unsigned slot, uint64_t owner, unsigned counter,
                                  uint64_t pages, uint64_t limit) {
    struct hami_block *block = &region->block;
    if (pages > HAMI_PAGES_MAX || (limit != HAMI_UNLIMITED && hami_ledger_sum(region, counter) + pages > limit)) {
        return false;
    }
    (void)atomic_fetch_add(&block->held[counter][slot], pages);
    hami_step();
    uint64_t sum = hami_ledger_sum(region, counter), now = ledger_load(&block->owners[slot]);
    bool counted = hami_ledger_who(now) == owner && hami_ledger_is_summed(now, counter);
    if (limit == HAMI_UNLIMITED || (counted && sum <= limit)) {
        LEDGER_RAISE(&block->devices[counter].peak, sum);
        return true;
    }
    hami_ledger_release(region, slot, counter, pages);
    return false;
}

HAMI_HOT void hami_ledger_release(struct hami_region *region, unsigned slot, unsigned counter, uint64_t pages) {
    (void)atomic_fetch_sub(&region->block.held[counter][slot], pages);
    hami_step();
}

/* ---- slots ---- */

static uint64_t ledger_owner(enum hami_slot_state state, uint64_t owner) {
    return (uint64_t)state << HAMI_OWNER_STATE_SHIFT | owner;
}

bool hami_ledger_claim(struct hami_region *region, unsigned slot, uint64_t expected, uint64_t owner) {
    /* Raises the number of slots before the claim: sums and sweeps leave out slots beyond it. */
    LEDGER_RAISE(&region->v1.process_num, (int32_t)slot + 1);
    hami_step();
    return ledger_swap(&region->block.owners[slot], expected, ledger_owner(HAMI_SLOT_CLAIMED, owner));
}

void hami_ledger_clear(struct hami_region *region, unsigned slot) {
    struct hami_block *block = &region->block;
    for (unsigned counter = 0; counter < HAMI_COUNTERS; counter++) {
        if (ledger_load(&block->held[counter][slot]) != 0) {
            ledger_store(&block->held[counter][slot], 0);
        }
    }
    unsigned count = hami_ledger_shares(region);
    for (unsigned i = 0; i < count; i++) {
        struct hami_share_entry *entry = &block->shares[i];
        uint64_t word = ledger_load(&entry->word);
        if (share_has_bit(entry, slot)) {
            hami_ledger_share_hold(region, i, slot, false);
        }
        if ((word & HAMI_SHARE_CLAIMED) != 0 && share_slot(word) == slot) {
            (void)ledger_swap(&entry->word, word, word & ~HAMI_SHARE_CLAIMED);
        }
    }
}

void hami_ledger_free(struct hami_region *region, unsigned slot) {
    ledger_store(&region->block.owners[slot], 0);
}

bool hami_ledger_turn(struct hami_region *region, unsigned slot, uint64_t owner, enum hami_slot_state from,
                      enum hami_slot_state to) {
    return ledger_swap(&region->block.owners[slot], ledger_owner(from, owner), ledger_owner(to, owner));
}

/* Whether the owner of a slot holds memory of a device, alone or shared. */
static bool ledger_is_on(const struct hami_region *region, unsigned slot, unsigned device) {
    bool has = ledger_load(&region->block.held[device][slot]) != 0;
    unsigned count = hami_ledger_shares(region);
    for (unsigned i = 0; i < count && !has; i++) {
        const struct hami_share_entry *entry = &region->block.shares[i];
        has = share_has_bit(entry, slot) && share_device(ledger_load(&entry->word)) == device;
    }
    return has;
}

unsigned hami_ledger_resume(struct hami_region *region, unsigned slot, uint64_t owner,
                            const uint64_t limits[HAMI_DEVICES]) {
    unsigned device = 0;
    if (!hami_ledger_turn(region, slot, owner, HAMI_SLOT_SUSPENDED, HAMI_SLOT_MOVING)) {
        return HAMI_DEVICES;
    }
    while (device < HAMI_DEVICES &&
           (!ledger_is_on(region, slot, device) || hami_ledger_sum(region, device) <= limits[device])) {
        device++;
    }
    if (device < HAMI_DEVICES) {
        (void)hami_ledger_turn(region, slot, owner, HAMI_SLOT_MOVING, HAMI_SLOT_SUSPENDED);
    }
    return device;
}

/* ---- shares ---- */

/*
 * Claims the first entry that no process holds or has claimed. If a process set its bit in the entry just before the
 * claim, the entry gets its old word back. Its pages were counted all the time, since a claimed entry keeps pages and
 * bits.
 */
int hami_ledger_share_claim(struct hami_region *region, unsigned slot) {
    const uint64_t slots = (uint64_t)(HAMI_PROCESSES - 1) << HAMI_SHARE_SLOT_SHIFT;
    for (unsigned i = 0; i < HAMI_SHARES; i++) {
        struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = ledger_load(&entry->word);
        uint64_t claimed = (word & ~slots) | HAMI_SHARE_CLAIMED | (uint64_t)slot << HAMI_SHARE_SLOT_SHIFT;
        if ((word & HAMI_SHARE_CLAIMED) != 0 || share_is_held(region, entry, false)) {
            continue;
        }
        LEDGER_RAISE(&region->block.shares_used, i + 1);
        hami_step();
        if (!ledger_swap(&entry->word, word, claimed)) {
            continue;
        }
        if (!share_is_held(region, entry, false)) {
            return (int)i;
        }
        while (!ledger_swap(&entry->word, claimed, (claimed & ~slots & ~HAMI_SHARE_CLAIMED) | (word & slots))) {
            claimed = ledger_load(&entry->word); /* the process that holds the share has changed its size */
        }
    }
    return -1;
}

void hami_ledger_share_make(struct hami_region *region, unsigned share, unsigned slot, uint64_t identity,
                            unsigned device, uint64_t pages) {
    struct hami_share_entry *entry = &region->block.shares[share];
    uint64_t word =
        (uint64_t)slot << HAMI_SHARE_SLOT_SHIFT | (uint64_t)device << HAMI_SHARE_DEVICE_SHIFT | ledger_bounded(pages);
    ledger_store(&entry->identity, identity);
    ledger_store(&entry->word, word | HAMI_SHARE_CLAIMED);
    hami_ledger_share_hold(region, share, slot, true);
    ledger_store(&entry->word, word);
}

bool hami_ledger_share_is(const struct hami_region *region, unsigned share, uint64_t identity) {
    const struct hami_share_entry *entry = &region->block.shares[share];
    return (ledger_load(&entry->word) & HAMI_SHARE_CLAIMED) == 0 && ledger_load(&entry->identity) == identity;
}

unsigned hami_ledger_share_device(const struct hami_region *region, unsigned share) {
    return share_device(ledger_load(&region->block.shares[share].word));
}

uint64_t hami_ledger_share_pages(const struct hami_region *region, unsigned share) {
    return share_pages(ledger_load(&region->block.shares[share].word));
}

void hami_ledger_share_hold(struct hami_region *region, unsigned share, unsigned slot, bool holds) {
    _Atomic uint64_t *part = &region->block.shares[share].holders[slot / 64];
    uint64_t bit = UINT64_C(1) << slot % 64;
    if (holds) {
        (void)atomic_fetch_or(part, bit);
    } else {
        (void)atomic_fetch_and(part, ~bit);
    }
    hami_step();
}

void hami_ledger_share_resize(struct hami_region *region, unsigned share, uint64_t pages, bool only_more) {
    _Atomic uint64_t *at = &region->block.shares[share].word;
    uint64_t word = ledger_load(at);
    pages = ledger_bounded(pages);
    while ((!only_more || share_pages(word) < pages) && !ledger_swap(at, word, (word & ~HAMI_PAGES_MAX) | pages)) {
        word = ledger_load(at);
    }
}
