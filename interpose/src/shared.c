/* The table of shares; see shared.h and abi.h. */
#include "hami/shared.h"

#include "hami/cells.h"
#include "hami/fault.h"
#include "hami/guest.h"
#include "hami/spin.h"

#include <string.h>

enum { STATE_SHIFT = 61, SLOT_SHIFT = 51, DEVICE_SHIFT = 47, WORDS = HAMI_PROCESSES / 64 };
#define PAGES_MAX HAMI_PAGES_MAX
_Static_assert(PAGES_MAX >> DEVICE_SHIFT == 0, "pages of a share");

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

static bool is_orphan(uint64_t word) {
    return state_of(word) == HAMI_SHARE_ORPHANED || state_of(word) == HAMI_SHARE_LEAVING;
}

/* An orphan in another state, or of another size. */
static uint64_t orphan(uint64_t word, enum hami_share_state state, unsigned slot) {
    return word_of(state, slot, (int)device_of(word), word & PAGES_MAX);
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
        if (is_orphan(word)) {
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

/*
 * An orphan that nobody holds any more becomes vacant: by two steps, with a look between them, since others may come to
 * hold it at any moment (`join`). With the lock; `slot` is this process's, or one that it cleans up: nobody else leaves
 * by that, so the word of the first step is not met again.
 */
static void leave(struct hami_share_entry *entry, unsigned slot) {
    uint64_t word = atomic_load(&entry->word);
    while (is_orphan(word) && !is_held(entry)) {
        uint64_t leaving = orphan(word, HAMI_SHARE_LEAVING, slot);
        hami_step();
        if (!atomic_compare_exchange_strong(&entry->word, &word, leaving)) {
            continue;
        }
        hami_step();
        word = leaving;
        if (atomic_compare_exchange_strong(&entry->word, &word,
                                           orphan(word, is_held(entry) ? HAMI_SHARE_ORPHANED : HAMI_SHARE_VACANT, 0))) {
            hami_step();
            return;
        }
    }
}

/* An entry for this process: one that was never used, or one that nobody holds. */
static int claim(struct hami_region *region, unsigned slot) {
    uint64_t claimed = word_of(HAMI_SHARE_CLAIMED, slot, 0, 0);
    for (unsigned i = 0; i < HAMI_SHARES; i++) {
        struct hami_share_entry *entry = &region->block.shares[i];
        uint64_t word = atomic_load(&entry->word);
        bool unused = state_of(word) == HAMI_SHARE_FREE || state_of(word) == HAMI_SHARE_VACANT;
        bool idle = unused && !is_held(entry);
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

/* Once more, or once less, by this process. */
static void hold(struct hami_region_view *view, hami_share share) {
    lock();
    if (holds[share]++ == 0) {
        set_holder(&view->region->block.shares[share], view->slot);
    }
    unlock();
}

static void release(struct hami_region_view *view, hami_share share) {
    struct hami_share_entry *entry = &view->region->block.shares[share];
    lock();
    if (--holds[share] == 0) {
        clear_holder(entry, view->slot);
        leave(entry, view->slot);
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

/* Room for what is about to count, before it does: too much for a moment, never too little. */
static bool reserve(int device, uint64_t pages, struct hami_charge *room) {
    *room = (struct hami_charge){device, 0};
    return device < 0 || pages == 0 || hami_charge_grow(room, pages << HAMI_PAGE_SHIFT);
}

bool hami_shared_adopt(uint64_t identity, int device, uint64_t pages, hami_share *share) {
    struct hami_charge room;
    bool fits = reserve(device, pages < PAGES_MAX ? pages : PAGES_MAX, &room);
    *share = fits ? make(identity, HAMI_SHARE_ORPHANED, device, pages) : -1;
    hami_charge_give_back(&room, HAMI_COLUMN_DATA);
    return fits;
}

/* What it is counts only when its owner has gone: until then nothing is to be settled. */
void hami_shared_resize(hami_share share, uint64_t pages) {
    struct hami_share_entry *entry = &hami_guest_region(NULL)->region->block.shares[share];
    uint64_t word = atomic_load(&entry->word);
    if (state_of(word) == HAMI_SHARE_OWNED && (word & PAGES_MAX) != pages) {
        set_word(entry, (word & ~PAGES_MAX) | (pages < PAGES_MAX ? pages : PAGES_MAX));
    }
}

bool hami_shared_grow(hami_share share, uint64_t pages) {
    struct hami_region *region = hami_guest_region(NULL)->region;
    struct hami_share_entry *entry = &region->block.shares[share];
    uint64_t word = atomic_load(&entry->word), most = pages < PAGES_MAX ? pages : PAGES_MAX;
    struct hami_charge room = {-1, 0};
    bool fits = true, smaller = is_orphan(word) && (word & PAGES_MAX) < most;
    if (smaller) {
        fits = reserve((int)device_of(word), most - (word & PAGES_MAX), &room);
    }
    while (fits && is_orphan(word) && (word & PAGES_MAX) < most && /* two may see it grow */
           !atomic_compare_exchange_weak(&entry->word, &word,
                                         (orphan(word, HAMI_SHARE_ORPHANED, 0) & ~PAGES_MAX) | most)) {
    }
    if (smaller) {
        hami_step();
        hami_shared_settle(region);
        hami_charge_give_back(&room, HAMI_COLUMN_DATA);
    }
    return fits;
}

static bool is_known(const struct hami_share_entry *entry, uint64_t identity) {
    enum hami_share_state state = state_of(atomic_load(&entry->word));
    return state >= HAMI_SHARE_OWNED && state <= HAMI_SHARE_VACANT && atomic_load(&entry->identity) == identity;
}

/*
 * Whether what this process has begun to hold counts from here on until it lets go. What is vacant does only where so
 * many pages of room were reserved: others may have been given the room that it had.
 */
static bool counts(struct hami_share_entry *entry, uint64_t identity, uint64_t room) {
    uint64_t word = atomic_load(&entry->word);
    while (is_known(entry, identity)) {
        enum hami_share_state state = state_of(word);
        bool vacant = state == HAMI_SHARE_VACANT;
        if (state == HAMI_SHARE_OWNED || state == HAMI_SHARE_ORPHANED) {
            return true;
        }
        if (vacant && (word & PAGES_MAX) > room) {
            return false;
        }
        bool done = (vacant || state == HAMI_SHARE_LEAVING) &&
                    atomic_compare_exchange_strong(&entry->word, &word, orphan(word, HAMI_SHARE_ORPHANED, 0));
        hami_step();
        if (done) {
            return true;
        }
        word = atomic_load(&entry->word);
    }
    return false;
}

static bool join(struct hami_region_view *view, hami_share share, uint64_t identity, uint64_t room) {
    hami_step();
    hold(view, share);
    if (counts(&view->region->block.shares[share], identity, room)) {
        hami_shared_settle(view->region);
        return true;
    }
    hami_shared_close(share);
    return false;
}

static hami_share join_any(struct hami_region_view *view, uint64_t identity, uint64_t pages, bool owned) {
    unsigned count = shares_in_use(view->region);
    for (unsigned i = 0; i < count; i++) {
        const struct hami_share_entry *entry = &view->region->block.shares[i];
        uint64_t word = atomic_load(&entry->word);
        bool meant = owned ? state_of(word) == HAMI_SHARE_OWNED : is_orphan(word);
        if (meant && (word & PAGES_MAX) >= pages && is_known(entry, identity) && join(view, (int)i, identity, 0)) {
            return (int)i;
        }
    }
    return -1;
}

hami_share hami_shared_hold(uint64_t identity, uint64_t pages) {
    struct hami_region_view *view = identity == 0 ? NULL : hami_guest_region(NULL);
    hami_share share = view == NULL ? -1 : join_any(view, identity, pages, true);
    return view == NULL || share >= 0 ? share : join_any(view, identity, pages, false);
}

static bool join_in_room(struct hami_region_view *view, hami_share share, uint64_t identity, bool *fits) {
    uint64_t word = atomic_load(&view->region->block.shares[share].word), pages = word & PAGES_MAX;
    struct hami_charge room;
    hami_shared_settle(view->region); /* whoever has just left may not have come to it */
    *fits = reserve((int)device_of(word), pages, &room);
    bool joined = *fits && join(view, share, identity, pages);
    hami_charge_give_back(&room, HAMI_COLUMN_DATA);
    return joined;
}

/* What is vacant may have been known by a handle that the driver has given out again since. */
bool hami_shared_take_up(uint64_t identity, hami_share *share) {
    struct hami_region_view *view = identity == 0 ? NULL : hami_guest_region(NULL);
    unsigned count = view == NULL ? 0 : shares_in_use(view->region);
    bool fits = true;
    *share = hami_shared_hold(identity, 0);
    for (unsigned i = 0; *share < 0 && fits && i < count; i++) {
        bool known = is_known(&view->region->block.shares[i], identity);
        *share = known && join_in_room(view, (int)i, identity, &fits) ? (int)i : -1;
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
    hami_shared_settle(view->region);
    hami_charge_give_back(charge, HAMI_COLUMN_DATA);
    hami_shared_close(share);
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
            set_word(entry, orphan(word, HAMI_SHARE_ORPHANED, 0));
        }
        if ((atomic_load(&entry->holders[slot / 64]) >> (slot % 64) & 1) != 0) {
            clear_holder(entry, slot);
        }
        if (state_of(word) == HAMI_SHARE_CLAIMED && owner) {
            set_word(entry, word_of(HAMI_SHARE_FREE, 0, 0, 0));
        }
        lock();
        leave(entry, slot); /* it may have died before it did */
        unlock();
    }
    hami_shared_settle(region);
}

void hami_shared_after_fork(void) {
    memset(holds, 0, sizeof holds);
    unlock();
}
