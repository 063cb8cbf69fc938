/* The table of shares; see shared.h and abi.h. */
#include "hami/shared.h"

#include "hami/cells.h"
#include "hami/fault.h"
#include "hami/guest.h"
#include "hami/spin.h"

#include <string.h>

enum { STATE_SHIFT = 62, SLOT_SHIFT = 52, DEVICE_SHIFT = 48, WORDS = HAMI_PROCESSES / 64 };
#define PAGES_MAX HAMI_PAGES_MAX

static uint32_t holds[HAMI_SHARES]; /* by this process; under its lock */
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void) {
    hami_spin_lock(&busy);
}

static void unlock(void) {
    hami_spin_unlock(&busy);
}

static uint64_t word_of(enum hami_share_state state, unsigned slot, int device, uint64_t pages) {
    return (uint64_t)state << STATE_SHIFT | (uint64_t)slot << SLOT_SHIFT | (uint64_t)device << DEVICE_SHIFT |
           (pages < PAGES_MAX ? pages : PAGES_MAX);
}

static enum hami_share_state state_of(uint64_t word) {
    return (enum hami_share_state)(word >> STATE_SHIFT);
}

static unsigned slot_of(uint64_t word) {
    return word >> SLOT_SHIFT & (HAMI_PROCESSES - 1);
}

static unsigned device_of(uint64_t word) {
    return word >> DEVICE_SHIFT & (HAMI_DEVICES - 1);
}

static unsigned shares_in_use(const struct hami_region *region) {
    uint32_t used = atomic_load(&region->block.shares_used);
    return used < HAMI_SHARES ? used : HAMI_SHARES;
}

static bool is_held(const struct hami_share_entry *entry) {
    uint64_t any = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        any |= atomic_load(&entry->holders[i]);
    }
    return any != 0;
}

static void set_holder(struct hami_share_entry *entry, unsigned slot) {
    (void)atomic_fetch_or(&entry->holders[slot / 64], UINT64_C(1) << (slot % 64));
    hami_step();
}

static void clear_holder(struct hami_share_entry *entry, unsigned slot) {
    (void)atomic_fetch_and(&entry->holders[slot / 64], ~(UINT64_C(1) << (slot % 64)));
    hami_step();
}

static void set_word(struct hami_share_entry *entry, uint64_t word) {
    atomic_store(&entry->word, word);
    hami_step();
}

/* ---- what is orphaned ---- */

struct sums {
    uint64_t pages[HAMI_DEVICES];
};

static struct sums orphaned_by(const struct hami_region *region) {
    struct sums sums = {{0}};
    unsigned count = shares_in_use(region);
    for (unsigned i = 0; i < count; i++) {
        const struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = atomic_load(&entry->word);
        if (state_of(word) == HAMI_SHARE_ORPHANED && is_held(entry)) {
            uint64_t *pages = &sums.pages[device_of(word)];
            *pages = *pages + (word & PAGES_MAX) < PAGES_MAX ? *pages + (word & PAGES_MAX) : PAGES_MAX;
        }
    }
    return sums;
}

/*
 * Whoever changes the table does this afterwards, and sees that it stands: the last one is right. Where others never
 * leave it alone, they will do so.
 */
void hami_shared_settle(struct hami_region *region) {
    bool again = true;
    for (unsigned tries = 0; again && tries < 64; tries++) {
        uint64_t seen[HAMI_DEVICES];
        for (unsigned device = 0; device < HAMI_DEVICES; device++) {
            seen[device] = atomic_load(&region->block.devices[device].orphaned);
        }
        struct sums wanted = orphaned_by(region);
        again = false;
        for (unsigned device = 0; device < HAMI_DEVICES; device++) {
            if (seen[device] != wanted.pages[device]) {
                _Atomic uint64_t *orphaned = &region->block.devices[device].orphaned;
                (void)atomic_compare_exchange_strong(orphaned, &seen[device], wanted.pages[device]);
                hami_step();
                again = true;
            }
        }
    }
}

/* ---- the table ---- */

/* An entry for this process: one that was never used, or one that nobody holds. */
static int claim(struct hami_region *region, unsigned slot) {
    uint64_t claimed = word_of(HAMI_SHARE_CLAIMED, slot, 0, 0);
    for (unsigned i = 0; i < HAMI_SHARES; i++) {
        struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = atomic_load(&entry->word);
        bool idle = state_of(word) == HAMI_SHARE_FREE || (state_of(word) == HAMI_SHARE_ORPHANED && !is_held(entry));
        /* Their number is raised first: an entry beyond it would never be freed. */
        uint32_t used = atomic_load(&region->block.shares_used);
        while (idle && used < i + 1 && !atomic_compare_exchange_weak(&region->block.shares_used, &used, i + 1)) {
        }
        hami_step();
        if (!idle || !atomic_compare_exchange_strong(&entry->word, &word, claimed)) {
            continue;
        }
        hami_step();
        if (!is_held(entry)) {
            return (int)i;
        }
        set_word(entry, word); /* by one who found it meanwhile */
    }
    return -1;
}

/* Once more, or once less, by this process. True: it had it already. */
static bool hold(struct hami_region_view *view, hami_share share) {
    lock();
    bool had = holds[share]++ != 0;
    if (!had) {
        set_holder(&view->region->block.shares[share], view->slot);
    }
    unlock();
    return had;
}

static void release(struct hami_region_view *view, hami_share share) {
    lock();
    if (--holds[share] == 0) {
        clear_holder(&view->region->block.shares[share], view->slot);
    }
    unlock();
}

static hami_share make(uint64_t identity, enum hami_share_state state, int device, uint64_t pages) {
    struct hami_region_view *view = device < 0 || device >= HAMI_DEVICES ? NULL : hami_guest_region(NULL);
    int share = view == NULL ? -1 : claim(view->region, view->slot);
    if (share >= 0) {
        struct hami_share_entry *entry = &view->region->block.shares[share];
        atomic_store(&entry->identity, identity);
        hami_step();
        hold(view, share);
        set_word(entry, word_of(state, view->slot, device, pages));
        hami_shared_settle(view->region);
    }
    return share;
}

hami_share hami_shared_export(uint64_t identity, const struct hami_charge *charge) {
    return make(identity, HAMI_SHARE_OWNED, charge->device, charge->pages);
}

hami_share hami_shared_adopt(uint64_t identity, int device, uint64_t pages) {
    return make(identity, HAMI_SHARE_ORPHANED, device, pages);
}

/* What it is counts only when its owner has gone: until then nothing is to be settled. */
void hami_shared_resize(hami_share share, uint64_t pages) {
    struct hami_share_entry *entry = &hami_guest_region(NULL)->region->block.shares[share];
    uint64_t word = atomic_load(&entry->word);
    if (state_of(word) == HAMI_SHARE_OWNED && (word & PAGES_MAX) != pages) {
        set_word(entry, (word & ~PAGES_MAX) | (pages < PAGES_MAX ? pages : PAGES_MAX));
    }
}

void hami_shared_grow(hami_share share, uint64_t pages) {
    struct hami_region *region = hami_guest_region(NULL)->region;
    struct hami_share_entry *entry = &region->block.shares[share];
    uint64_t word = atomic_load(&entry->word), most = pages < PAGES_MAX ? pages : PAGES_MAX;
    while (state_of(word) == HAMI_SHARE_ORPHANED && (word & PAGES_MAX) < most) {
        if (atomic_compare_exchange_weak(&entry->word, &word, (word & ~PAGES_MAX) | most)) { /* two may see it grow */
            hami_step();
            hami_shared_settle(region);
            return;
        }
    }
}

static bool is_known(const struct hami_share_entry *entry, uint64_t identity) {
    enum hami_share_state state = state_of(atomic_load(&entry->word));
    return (state == HAMI_SHARE_OWNED || state == HAMI_SHARE_ORPHANED) && atomic_load(&entry->identity) == identity;
}

struct holders {
    uint64_t slots[WORDS];
};

static struct holders holders_of(const struct hami_share_entry *entry, unsigned but_for) {
    struct holders found;
    for (unsigned i = 0; i < WORDS; i++) {
        uint64_t own = i == but_for / 64 ? UINT64_C(1) << (but_for % 64) : 0;
        found.slots[i] = atomic_load(&entry->holders[i]) & ~own;
    }
    return found;
}

static bool anybody_in_both(const struct holders *before, const struct holders *after) {
    uint64_t both = 0;
    for (unsigned i = 0; i < WORDS; i++) {
        both |= before->slots[i] & after->slots[i];
    }
    return both != 0;
}

/* Not what the last one is letting go of: others may have been given the room that it had. */
static bool hold_with_others(struct hami_region_view *view, hami_share share, uint64_t identity) {
    const struct hami_share_entry *entry = &view->region->block.shares[share];
    struct holders before = holders_of(entry, view->slot);
    bool had = hold(view, share);
    struct holders after = holders_of(entry, view->slot);
    if (is_known(entry, identity) && (had || anybody_in_both(&before, &after))) {
        hami_shared_settle(view->region);
        return true;
    }
    hami_shared_close(share);
    return false;
}

static hami_share hold_in_state(struct hami_region_view *view, uint64_t identity, uint64_t pages,
                                enum hami_share_state state) {
    unsigned count = shares_in_use(view->region);
    for (unsigned i = 0; i < count; i++) {
        const struct hami_share_entry *entry = &view->region->block.shares[i];
        uint64_t word = atomic_load(&entry->word);
        bool meant = is_known(entry, identity) && state_of(word) == state && (word & PAGES_MAX) >= pages;
        if (meant && is_held(entry) && hold_with_others(view, (int)i, identity)) {
            return (int)i;
        }
    }
    return -1;
}

hami_share hami_shared_hold(uint64_t identity, uint64_t pages) {
    struct hami_region_view *view = identity == 0 ? NULL : hami_guest_region(NULL);
    hami_share share = view == NULL ? -1 : hold_in_state(view, identity, pages, HAMI_SHARE_OWNED);
    return view == NULL || share >= 0 ? share : hold_in_state(view, identity, pages, HAMI_SHARE_ORPHANED);
}

/* There is room before it counts: too much for a moment, never too little. */
static bool hold_in_room(struct hami_region_view *view, hami_share share, uint64_t identity, bool *fits) {
    const struct hami_share_entry *entry = &view->region->block.shares[share];
    uint64_t word = atomic_load(&entry->word), bytes = (word & PAGES_MAX) << HAMI_PAGE_SHIFT;
    struct hami_charge room = {(int)device_of(word), 0};
    *fits = bytes == 0 || hami_charge_grow(&room, bytes);
    if (!*fits) {
        return false;
    }
    (void)hold(view, share);
    bool stands = is_known(entry, identity); /* or somebody is making another share of it */
    if (stands) {
        hami_shared_settle(view->region);
    } else {
        hami_shared_close(share);
    }
    hami_charge_give_back(&room, HAMI_COLUMN_DATA);
    return stands;
}

/* An orphan that nobody holds may have been known by a handle that the driver has given out again since. */
bool hami_shared_take_up(uint64_t identity, hami_share *share) {
    struct hami_region_view *view = identity == 0 ? NULL : hami_guest_region(NULL);
    unsigned count = view == NULL ? 0 : shares_in_use(view->region);
    bool fits = true;
    *share = hami_shared_hold(identity, 0);
    for (unsigned i = 0; *share < 0 && fits && i < count; i++) {
        const struct hami_share_entry *entry = &view->region->block.shares[i];
        bool orphan = is_known(entry, identity) && state_of(atomic_load(&entry->word)) == HAMI_SHARE_ORPHANED;
        *share = orphan && hold_in_room(view, (int)i, identity, &fits) ? (int)i : -1;
    }
    return fits;
}

void hami_shared_close(hami_share share) {
    struct hami_region_view *view = hami_guest_region(NULL);
    release(view, share);
    hami_shared_settle(view->region);
}

/* The orphans have it before the counter lets it go: too much for a moment, never too little. */
void hami_shared_let_go(hami_share share, const struct hami_charge *charge) {
    struct hami_region_view *view = hami_guest_region(NULL);
    struct hami_share_entry *entry = &view->region->block.shares[share];
    set_word(entry, word_of(HAMI_SHARE_ORPHANED, 0, charge->device, charge->pages));
    release(view, share);
    hami_shared_settle(view->region);
    hami_charge_give_back(charge, HAMI_COLUMN_DATA);
}

uint64_t hami_shared_by(const struct hami_region *region, unsigned slot, unsigned device) {
    uint64_t pages = 0;
    unsigned count = shares_in_use(region);
    for (unsigned i = 0; i < count; i++) {
        const struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = atomic_load(&entry->word), others = 0;
        for (unsigned part = 0; part < WORDS; part++) {
            uint64_t own = part == slot / 64 ? UINT64_C(1) << (slot % 64) : 0;
            others |= atomic_load(&entry->holders[part]) & ~own;
        }
        bool shared = state_of(word) == HAMI_SHARE_OWNED && slot_of(word) == slot && others != 0;
        pages += shared && device_of(word) == device ? word & PAGES_MAX : 0;
    }
    return pages;
}

void hami_shared_dead(struct hami_region *region, unsigned slot) {
    unsigned count = shares_in_use(region);
    for (unsigned i = 0; i < count; i++) {
        struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = atomic_load(&entry->word);
        bool owner = slot_of(word) == slot;
        if (state_of(word) == HAMI_SHARE_OWNED && owner) {
            set_word(entry, word_of(HAMI_SHARE_ORPHANED, 0, (int)device_of(word), word & PAGES_MAX));
        }
        if ((atomic_load(&entry->holders[slot / 64]) >> (slot % 64) & 1) != 0) {
            clear_holder(entry, slot);
        }
        if (state_of(word) == HAMI_SHARE_CLAIMED && owner) {
            set_word(entry, word_of(HAMI_SHARE_FREE, 0, 0, 0));
        }
    }
    hami_shared_settle(region);
}

void hami_shared_after_fork(void) {
    memset(holds, 0, sizeof holds);
    unlock();
}
