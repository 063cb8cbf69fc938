/* Reads and changes the turn page: slots, signs of life, and which container has the turn (turn.h). */
#include "compute/turn.h"

#include "compute/tuning.h"
#include "compute/wait.h"
#include "ledger/process.h"
#include "ledger/state.h"

enum {
    HOLDER_BITS = 16,
    SIGN_OF_LIFE_EVERY_NS = 5000000,
    HOLDER_SILENT_AFTER_NS = 60000000, /* a holder loses the turn if it gives no sign of life for so long */
    ALONE_FOR_NS = 5000000,            /* a process that saw no other container on the page relies on it for so long */
    FRONTIER_LATE_NS = 1000000,        /* work of the last holder may run on for this long in the next holder's turn */
    LAUNCH_BELIEVED_NS = 500000000,    /* if the page gives a longer launch, it counts as this long */
    TURNS_OFF_TIMES = 10               /* a container that waited 1 s in vain ignores turns for 10 s */
};
#define SLOT_GONE_AFTER_NS UINT64_C(10000000000) /* a slot may be taken if its container was silent for so long */
#define PAGE_SEEK_EVERY_NS UINT64_C(1000000000)
#define TURNS_OFF_MOST_NS UINT64_C(60000000000) /* a container ignores turns for at most this long */

/* ---- reading the page ---- */

unsigned turn_holder(uint64_t word) {
    return (unsigned)(word & ((1 << HOLDER_BITS) - 1));
}

/*
 * Copies the page's `turn`, read as `seen`, into the region. `known` is the region's copy from before that read. If the
 * copy has changed since, another process saw a later `turn`, and `seen` is dropped. True: the turn has just come to
 * this container.
 */
static bool turn_publish(struct limited_device *d, uint64_t known, uint64_t seen, uint64_t now) {
    unsigned self = atomic_load(&d->turn_slot) + 1, before = turn_holder(known);
    bool ours = seen != known && atomic_compare_exchange_strong(&d->shared->turn, &known, seen) && before != self &&
                turn_holder(seen) == self;
    if (ours) {
        atomic_store(&d->shared->turn_since, now);
    }
    return ours;
}

/* Learns how long a process takes to wake up for a turn. Other containers are assumed to take as long. */
static void turn_learn_wake(struct limited_device *d, uint64_t took) {
    uint64_t known = load_relaxed(&d->shared->turn_wake_ns);
    took = earlier(took, EARLY_MOST_NS);
    known = known == 0 || known > EARLY_MOST_NS ? took : known - known / 8 + took / 8;
    store_relaxed(&d->shared->turn_wake_ns, known);
}

bool turn_read_page(struct limited_device *d, struct hami_turn_page *seen, size_t size, uint64_t now) {
    uint64_t known = atomic_load(&d->shared->turn), off = atomic_load(&d->shared->turns_off_until);
    if (off > now && off - now <= TURNS_OFF_MOST_NS) { /* a program can write any time into its region */
        return false;
    }
    if (!page_read(&d->page, seen, size)) {
        if (now > atomic_load(&d->page_sought_at) + PAGE_SEEK_EVERY_NS) {
            limited_device_open_page(d); /* the program may have closed the file, or the agent has made it since */
        }
        return false;
    }
    if (turn_publish(d, known, seen->turn, now) && now >= seen->since) {
        turn_learn_wake(d, now - seen->since);
    }
    return true;
}

/* ---- this container's slot ---- */

/* The container's random name on turn pages. The first process that needs it draws it. */
static uint64_t turn_identity(struct limited_device *d) {
    uint64_t known = atomic_load(&d->shared->identity);
    if (known == 0) {
        uint64_t mixed = compute_now() ^ hami_process_self() << 20 ^ (uint64_t)(uintptr_t)d->shared;
        uint64_t drawn = (mixed * UINT64_C(0x9e3779b97f4a7c15)) | 1; /* not 0 */
        known = atomic_compare_exchange_strong(&d->shared->identity, &known, drawn) ? drawn : known;
    }
    return known;
}

bool turn_has_slot(struct limited_device *d, const struct hami_turn_page *seen) {
    return seen->slots[atomic_load(&d->turn_slot)].owner == turn_identity(d);
}

bool turn_is_ours_on(struct limited_device *d, const struct hami_turn_page *seen) {
    return turn_holder(seen->turn) == atomic_load(&d->turn_slot) + 1 && turn_has_slot(d, seen);
}

bool turn_is_ours(const struct limited_device *d) {
    return turn_holder(atomic_load(&d->shared->turn)) == atomic_load(&d->turn_slot) + 1;
}

/* Whether two times differ by at most `ns`. `at` may come from the page and can then be any number. */
static bool turn_is_within(uint64_t at, uint64_t now, uint64_t ns) {
    return at > now ? at - now <= ns : now - at <= ns;
}

static bool turn_slot_is_silent(const struct hami_turn_page *seen, unsigned slot, uint64_t now) {
    bool just_got_it = turn_holder(seen->turn) == slot + 1 && turn_is_within(seen->since, now, HOLDER_SILENT_AFTER_NS);
    return !just_got_it && !turn_is_within(seen->slots[slot].life.beat, now, HOLDER_SILENT_AFTER_NS);
}

/* The container's slot, else the first that is free or whose container is gone. HAMI_TURN_SLOTS: all are taken. */
static unsigned turn_find_slot(struct limited_device *d, const struct hami_turn_page *seen, uint64_t now) {
    uint64_t self = turn_identity(d);
    unsigned unused = HAMI_TURN_SLOTS;
    for (unsigned i = HAMI_TURN_SLOTS; i-- > 0;) {
        const struct hami_turn_slot *at = &seen->slots[i];
        bool gone = !turn_is_within(at->life.beat, now, SLOT_GONE_AFTER_NS) && turn_holder(seen->turn) != i + 1;
        if (at->owner == self) {
            return i;
        }
        unused = at->owner == 0 || gone ? i : unused;
    }
    return unused;
}

/*
 * Takes a slot on the page, at first or after another container took the old one while this container was silent.
 * TURN_OTHERS: this container has a slot now and may try to take the turn. TURN_OURS: it could get no slot, so it
 * ignores turns for a second. TURN_BUSY: the page is locked.
 */
static enum turn turn_claim_slot(struct limited_device *d, uint64_t now) {
    struct hami_turn_page seen;
    if (!page_lock(&d->page)) {
        return TURN_BUSY;
    }
    unsigned slot = page_read(&d->page, &seen, TURN_PAGE_WHOLE) ? turn_find_slot(d, &seen, now) : HAMI_TURN_SLOTS;
    bool found = slot < HAMI_TURN_SLOTS;
    if (found) {
        struct hami_turn_slot ours = {
            .owner = turn_identity(d), .futex = seen.slots[slot].futex, .life = {.beat = now}};
        found = page_write(&d->page, TURN_SLOT_OFFSET(slot, owner), &ours, sizeof ours);
        atomic_store(&d->turn_slot, slot);
    }
    page_unlock(&d->page);
    if (!found) {
        atomic_store(&d->shared->turns_off_until, now + PAGE_SEEK_EVERY_NS);
    }
    return found ? TURN_OTHERS : TURN_OURS;
}

/* A tenant may write any number, so no launch counts as longer than LAUNCH_BELIEVED_NS. */
static uint64_t turn_believed_launch(const struct hami_turn_slot *slot) {
    return earlier(slot->life.longest_launch, LAUNCH_BELIEVED_NS);
}

bool turn_show_life(struct limited_device *d, const struct hami_turn_page *seen, uint64_t now) {
    unsigned slot = atomic_load(&d->turn_slot);
    bool alone = true;
    uint64_t longest = 0;
    if (!turn_is_within(seen->slots[slot].life.beat, now, SIGN_OF_LIFE_EVERY_NS)) {
        struct hami_turn_life life = {now, load_relaxed(&d->shared->longest_launch)};
        (void)page_write(&d->page, TURN_SLOT_OFFSET(slot, life), &life, sizeof life);
    }
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_slot *other = &seen->slots[i];
        if (i != slot && other->owner != 0 && turn_is_within(other->life.beat, now, SLOT_GONE_AFTER_NS)) {
            alone = false;
            longest = later(longest, turn_believed_launch(other));
        }
    }
    store_relaxed(&d->others_longest, longest);
    store_relaxed(&d->shared->turn_alone_at, alone ? now : 0);
    return alone;
}

bool turn_is_alone(const struct limited_device *d, uint64_t now) {
    return turn_is_within(load_relaxed(&d->shared->turn_alone_at), now, ALONE_FOR_NS - 1);
}

bool turn_has_company(const struct limited_device *d, uint64_t now) {
    bool is_used = turn_holder(load_relaxed(&d->shared->turn)) != 0; /* some container had the turn when last read */
    return is_used && !turn_is_alone(d, now);
}

/* ---- who has the turn ---- */

/*
 * Writes a new holder, slot + 1 or 0, to the page. If this container has the turn, also writes when its last work
 * ended. Needs the page's lock.
 */
static bool turn_set(struct limited_device *d, const struct hami_turn_page *seen, unsigned holder, uint64_t now) {
    uint64_t known = atomic_load(&d->shared->turn);
    uint64_t word = ((seen->turn >> HOLDER_BITS) + 1) << HOLDER_BITS | holder;
    uint64_t made[3] = {word, now, atomic_load(&d->shared->frontier)}; /* turn, since, frontier */
    size_t size = turn_is_ours_on(d, seen) ? sizeof made : 2 * sizeof made[0];
    if (!page_write(&d->page, offsetof(struct hami_turn_page, turn), made, size)) {
        return false;
    }
    (void)turn_publish(d, known, word, now);
    return true;
}

bool turn_is_young(const struct limited_device *d, uint64_t now) {
    return turn_is_within(atomic_load(&d->shared->turn_since), now, TURN_NS - 1);
}

/*
 * Other containers do not take the turn from a holder that got it, or showed life, a moment ago. So the page need not
 * be read: if it names another holder all the same, a hostile tenant wrote that.
 */
bool turn_is_surely_ours(const struct limited_device *d, uint64_t now) {
    return turn_is_ours(d) && (turn_is_young(d, now) || turn_is_alone(d, now) ||
                               turn_is_within(load_relaxed(&d->shared->turn_uncontested_at), now, PAUSE_NS - 1));
}

enum turn turn_take(struct limited_device *d, uint64_t now, uint64_t *patience) {
    struct hami_turn_page seen;
    if (turn_is_surely_ours(d, now) || !turn_read_page(d, &seen, TURN_PAGE_WHOLE, now)) {
        return TURN_OURS;
    }
    unsigned holder = turn_holder(seen.turn);
    bool is_slot = holder != 0 && holder <= HAMI_TURN_SLOTS;
    *patience = WAIT_MOST_NS + (is_slot ? 2 * turn_believed_launch(&seen.slots[holder - 1]) : 0);
    if (!turn_has_slot(d, &seen)) {
        enum turn claimed = turn_claim_slot(d, now);
        if (claimed != TURN_OTHERS) {
            return claimed;
        }
    } else {
        (void)turn_show_life(d, &seen, now);
    }
    unsigned self = atomic_load(&d->turn_slot) + 1;
    if (holder == self) {
        return TURN_OURS;
    }
    if (is_slot && !turn_slot_is_silent(&seen, holder - 1, now)) {
        return TURN_OTHERS;
    }
    if (!page_lock(&d->page)) {
        return TURN_BUSY;
    }
    uint64_t word = seen.turn;
    bool taken = page_read(&d->page, &seen, TURN_PAGE_HEADER) && seen.turn == word && turn_set(d, &seen, self, now);
    page_unlock(&d->page);
    if (taken) {
        add_relaxed(&d->shared->turns, 1);
    }
    return taken ? TURN_OURS : TURN_BUSY;
}

unsigned turn_neediest(const struct limited_device *d, const struct hami_turn_page *seen, uint64_t now) {
    unsigned best = 0;
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_wish *wish = &seen->slots[i].wish;
        if (i != atomic_load(&d->turn_slot) && wish->waiting != 0 && !turn_slot_is_silent(seen, i, now) &&
            (best == 0 || wish->arrears > seen->slots[best - 1].wish.arrears)) {
            best = i + 1;
        }
    }
    return best;
}

bool turn_release(struct limited_device *d, uint64_t now) {
    struct hami_turn_page seen;
    unsigned next = 0;
    bool done = true;
    if (!page_lock(&d->page)) {
        return false;
    }
    if (page_read(&d->page, &seen, TURN_PAGE_WHOLE) && turn_is_ours_on(d, &seen)) {
        next = turn_neediest(d, &seen, now);
        done = turn_set(d, &seen, next, now);
    }
    bool hand_over = done && next != 0;
    if (hand_over) {
        uint32_t moved = seen.slots[next - 1].futex + 1;
        (void)page_write(&d->page, TURN_SLOT_OFFSET(next - 1, futex), &moved, sizeof moved);
    }
    page_unlock(&d->page);
    if (hand_over) {
        compute_wake(page_futex(&d->page, TURN_SLOT_OFFSET(next - 1, futex)), EVERY_BIT);
    }
    return done;
}

void turn_give_up(struct limited_device *d, uint64_t now, uint64_t waited) {
    add_relaxed(&d->shared->turn_timeouts, 1);
    atomic_store(&d->shared->turns_off_until, now + earlier(TURNS_OFF_TIMES * waited, TURNS_OFF_MOST_NS));
}

/* ---- when work under a turn ended ---- */

uint64_t turn_frontier(struct limited_device *d, uint64_t end) {
    struct hami_turn_page seen;
    uint64_t last = atomic_load(&d->shared->turn_since) + FRONTIER_LATE_NS;
    bool matters = atomic_load(&d->shared->frontier) < last && turn_read_page(d, &seen, TURN_PAGE_HEADER, end);
    return matters && seen.frontier <= end && seen.frontier <= last ? seen.frontier : 0;
}

void turn_move_frontier(struct limited_device *d, uint64_t end) {
    struct hami_turn_page seen;
    uint64_t now = compute_now();
    if (!turn_is_ours(d) && turn_read_page(d, &seen, TURN_PAGE_HEADER, now) &&
        (end > seen.frontier || seen.frontier > now)) {
        (void)page_write(&d->page, offsetof(struct hami_turn_page, frontier), &end, sizeof end);
    }
}
