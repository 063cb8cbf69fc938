/*
 * Counts how often this process holds each share of the region, and charges what it imports (shared.h). abi.h explains
 * the table of shares, and ledger.h has the functions for it.
 */
#include "memory/shared.h"

#include "ledger/state.h"
#include "threads.h"

#include <string.h>

static uint32_t holds[HAMI_SHARES];         /* by share: how often this process holds it */
static atomic_flag busy = ATOMIC_FLAG_INIT; /* guards `holds` and this process's bits in the region */

/* ---- holding ---- */

/* Adds a hold of a share; the first one sets this process's bit in the region. The caller holds `busy`. */
static void shared_hold(const struct hami_region_view *view, hami_share share) {
    if (holds[share]++ == 0) {
        hami_ledger_share_hold(view->region, (unsigned)share, view->slot, true);
    }
}

/* Ends a hold of a share; the last one clears this process's bit in the region. The caller holds `busy`. */
static void shared_drop(const struct hami_region_view *view, hami_share share) {
    if (--holds[share] == 0) {
        hami_ledger_share_hold(view->region, (unsigned)share, view->slot, false);
    }
}

/* A share that this process wants to hold, if it has this identity and at least so many pages. */
struct joining {
    hami_share share;
    uint64_t identity, pages;
    bool joined;
};

/*
 * Holds the share first and sums then, as abi.h asks; drops it if the sum exceeds the limit. Keeps `busy` meanwhile:
 * another thread must not rely on a hold that is dropped again. A share that this process holds already needs no room.
 */
static uint64_t shared_attempt(struct hami_region_view *view, void *of) {
    struct joining *j = of;
    unsigned share = (unsigned)j->share, device = hami_ledger_share_device(view->region, share);
    uint64_t limit = hami_charge_limit(device), sum = 0;
    HAMI_HOLD(&busy);
    bool ours = holds[share] != 0;
    shared_hold(view, j->share);
    bool known = hami_ledger_share_is(view->region, share, j->identity) &&
                 hami_ledger_share_pages(view->region, share) >= j->pages;
    if (known && !ours && limit != HAMI_UNLIMITED) {
        sum = hami_ledger_sum(view->region, device);
    }
    j->joined = known && sum <= limit;
    if (!j->joined) {
        shared_drop(view, j->share);
    }
    return j->joined || !known ? 0 : sum;
}

bool hami_shared_take_up(uint64_t identity, uint64_t pages, hami_share *share) {
    struct hami_region_view *view = identity == 0 ? NULL : hami_state_region(NULL);
    unsigned count = view == NULL ? 0 : hami_ledger_shares(view->region);
    struct joining j = {.identity = identity, .pages = pages};
    bool fits = true;
    for (unsigned i = 0; fits && !j.joined && i < count; i++) {
        if (hami_ledger_share_is(view->region, i, identity)) {
            j.share = (hami_share)i;
            fits = shared_attempt(view, &j) == 0 || hami_charge_retry(view, shared_attempt, &j);
        }
        if (!fits) {
            hami_region_refused(view, HAMI_REASON_OVER_LIMIT, hami_ledger_share_device(view->region, i),
                                hami_ledger_share_pages(view->region, i) << HAMI_PAGE_SHIFT);
        }
    }
    *share = j.joined ? j.share : -1;
    return fits;
}

void hami_shared_close(hami_share share) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view != NULL) {
        HAMI_HOLD(&busy);
        shared_drop(view, share);
    }
}

/* ---- making ---- */

/* Makes the share before it lowers this process's word in the ledger, so that the memory is counted at any moment. */
hami_share hami_shared_export(uint64_t identity, const struct hami_charge *charge) {
    bool counted = charge->device >= 0 && charge->device < HAMI_DEVICES;
    struct hami_region_view *view = counted ? hami_state_region(NULL) : NULL;
    if (view == NULL) {
        return -1;
    }
    HAMI_HOLD(&busy);
    hami_share share = hami_ledger_share_claim(view->region, view->slot);
    if (share >= 0) {
        holds[share] = 1;
        hami_ledger_share_make(view->region, (unsigned)share, view->slot, identity, (unsigned)charge->device,
                               charge->pages);
        hami_ledger_release(view->region, view->slot, (unsigned)charge->device, charge->pages);
    }
    return share;
}

void hami_shared_let_go(hami_share share) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view != NULL) { /* HAMi's monitor has shown this memory as the exporter's */
        hami_region_show_less(view, hami_ledger_share_device(view->region, (unsigned)share),
                              hami_ledger_share_pages(view->region, (unsigned)share), HAMI_COLUMN_DATA);
        hami_shared_close(share);
    }
}

void hami_shared_give_back(hami_share share, const struct hami_charge *charge) {
    if (share < 0) {
        hami_charge_give_back(charge, HAMI_COLUMN_DATA);
    } else if (charge->pages != 0) {
        hami_shared_let_go(share);
    } else {
        hami_shared_close(share);
    }
}

bool hami_shared_adopt(uint64_t identity, int device, uint64_t pages, hami_share *share) {
    struct hami_charge room = {device, 0};
    *share = -1;
    if (device >= 0 && pages != 0 && !hami_charge_grow(&room, pages << HAMI_PAGE_SHIFT)) {
        return false;
    }
    *share = hami_shared_export(identity, &room);
    if (*share < 0) {
        hami_charge_give_back(&room, HAMI_COLUMN_DATA);
    } else {
        hami_region_show_less(hami_state_region(NULL), (unsigned)device, pages, HAMI_COLUMN_DATA);
    }
    return true;
}

void hami_shared_resize(hami_share share, struct hami_charge *charge, uint64_t pages) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view != NULL) {
        uint64_t moved = charge->pages - hami_ledger_share_pages(view->region, (unsigned)share);
        hami_ledger_share_resize(view->region, (unsigned)share, pages, false);
        hami_ledger_release(view->region, view->slot, (unsigned)charge->device, moved);
        hami_region_show_less(view, (unsigned)charge->device, charge->pages - pages, HAMI_COLUMN_DATA);
        charge->pages = pages;
    }
}

/* Charges the difference to this process until the share has been raised, so that it is counted at any moment. */
bool hami_shared_grow(hami_share share, uint64_t pages) {
    struct hami_region_view *view = hami_state_region(NULL);
    uint64_t before = view == NULL ? pages : hami_ledger_share_pages(view->region, (unsigned)share);
    if (before >= pages) {
        return true;
    }
    struct hami_charge room = {(int)hami_ledger_share_device(view->region, (unsigned)share), 0};
    if (!hami_charge_grow(&room, (pages - before) << HAMI_PAGE_SHIFT)) {
        return false;
    }
    hami_ledger_share_resize(view->region, (unsigned)share, pages, true);
    hami_charge_give_back(&room, HAMI_COLUMN_DATA);
    return true;
}

void hami_shared_after_fork(void) {
    memset(holds, 0, sizeof holds);
    hami_spin_unlock(&busy);
}
