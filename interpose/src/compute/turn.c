/* Implements turn.h. */
#include "compute/turn.h"

#include "compute/tuning.h"
#include "compute/wait.h"
#include "ledger/process.h"
#include "ledger/state.h"

enum {
    HOLDER_BITS = 16,
    SIGN_OF_LIFE_EVERY_NS = 5000000,
    HOLDER_SILENT_AFTER_NS = 60000000, /* a holder without a sign of life for so long loses the turn */
    OTHERS_READ_EVERY_NS = 10000000,
    ALONE_FOR_NS = 5000000,         /* a newcomer is seen after so long at the latest */
    FRONTIER_LATE_NS = 1000000,     /* others' work may end so long after our turn began */
    LAUNCH_BELIEVED_NS = 500000000, /* a longer launch is not believed of another container */
    TURNS_OFF_TIMES = 10 /* after a wait in vain the container does without turns for so many times as long */
};
#define SLOT_GONE_AFTER_NS UINT64_C(10000000000) /* without a sign of life for so long a slot may be taken */
#define PAGE_SEEK_EVERY_NS UINT64_C(1000000000)
#define TURNS_OFF_MOST_NS UINT64_C(60000000000)

/* ---- reading the page ---- */

unsigned turn_holder(uint64_t word) {
    return (unsigned)(word & ((1 << HOLDER_BITS) - 1));
}

/* Tells the container what this process saw of the word, unless another process saw a later one. True: now ours. */
static bool turn_publish(struct limited_device *d, uint64_t known, uint64_t seen, uint64_t now) {
    unsigned self = atomic_load(&d->turn_slot) + 1, before = turn_holder(known);
    bool ours = seen != known && atomic_compare_exchange_strong(&d->shared->turn, &known, seen) && before != self &&
                turn_holder(seen) == self;
    if (ours) {
        atomic_store(&d->shared->turn_since, now);
    }
    return ours;
}

/* How long a process took to wake up for a turn that was handed over. Other containers are taken to need as long. */
static void turn_learn_wake(struct limited_device *d, uint64_t took) {
    uint64_t known = load_relaxed(&d->shared->turn_wake_ns);
    took = earlier(took, EARLY_MOST_NS);
    known = known == 0 || known > EARLY_MOST_NS ? took : known - known / 8 + took / 8;
    store_relaxed(&d->shared->turn_wake_ns, known);
}

/* Opens the page again: the program may have closed the file, or the file was not there yet. */
static void turn_seek_page(struct limited_device *d, uint64_t now) {
    const struct hami_limits *limits = hami_state_known_limits();
    uint64_t sought = atomic_load(&d->page_sought_at);
    if (now > sought && now - sought > PAGE_SEEK_EVERY_NS && d->index < limits->device_count) {
        limited_device_open_page(d, limits->devices[d->index].uuid);
    }
}

bool turn_read_page(struct limited_device *d, struct hami_turn_page *seen, size_t size, uint64_t now) {
    uint64_t known = atomic_load(&d->shared->turn), off = atomic_load(&d->shared->turns_off_until);
    if (off > now && off - now <= TURNS_OFF_MOST_NS) {
        return false;
    }
    if (!page_read(&d->page, seen, size)) {
        turn_seek_page(d, now);
        return false;
    }
    if (turn_publish(d, known, seen->turn, now) && now >= seen->since) {
        turn_learn_wake(d, now - seen->since);
    }
    return true;
}

/* ---- our slot ---- */

/* The container's name on pages, drawn by its first process. */
static uint64_t turn_identity(struct limited_device *d) {
    uint64_t known = atomic_load(&d->shared->identity);
    if (known == 0) {
        uint64_t drawn =
            (compute_now() ^ hami_process_self() << 20 ^ (uint64_t)(uintptr_t)d->shared) * UINT64_C(0x9e3779b97f4a7c15);
        drawn += drawn == 0;
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

/* A time from the page may be anything, also in the future. */
static bool turn_is_within(uint64_t at, uint64_t now, uint64_t ns) {
    return at > now ? at - now <= ns : now - at <= ns;
}

static bool turn_slot_is_silent(const struct hami_turn_page *seen, unsigned slot, uint64_t now) {
    bool just_got_it = turn_holder(seen->turn) == slot + 1 && turn_is_within(seen->since, now, HOLDER_SILENT_AFTER_NS);
    return !just_got_it && !turn_is_within(seen->slots[slot].life.beat, now, HOLDER_SILENT_AFTER_NS);
}

/* Another container may have taken our slot while we were silent. */
static bool turn_find_slot(struct limited_device *d, const struct hami_turn_page *seen, uint64_t now, unsigned *slot) {
    uint64_t self = turn_identity(d);
    unsigned unused = HAMI_TURN_SLOTS;
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_slot *at = &seen->slots[i];
        bool gone = !turn_is_within(at->life.beat, now, SLOT_GONE_AFTER_NS) && turn_holder(seen->turn) != i + 1;
        if (at->owner == self) {
            *slot = i;
            return true;
        }
        unused = unused == HAMI_TURN_SLOTS && (at->owner == 0 || gone) ? i : unused;
    }
    *slot = unused;
    return unused < HAMI_TURN_SLOTS;
}

/* Takes a slot. TURN_OTHERS: done, read the page now. TURN_OURS: all slots are taken, so there are no turns. */
static enum turn turn_claim_slot(struct limited_device *d, uint64_t now) {
    struct hami_turn_page seen;
    unsigned slot = 0;
    if (!page_lock(&d->page)) {
        return TURN_BUSY;
    }
    bool found = page_read(&d->page, &seen, TURN_PAGE_WHOLE) && turn_find_slot(d, &seen, now, &slot);
    if (found) {
        struct hami_turn_slot ours = {
            .owner = turn_identity(d), .futex = seen.slots[slot].futex, .life = {.beat = now}};
        found = page_write(&d->page, TURN_SLOT_OFFSET(slot, owner), &ours, sizeof ours);
        atomic_store(&d->turn_slot, slot);
    }
    page_unlock(&d->page);
    if (!found) {
        atomic_store(&d->shared->turns_off_until, now + PAGE_SEEK_EVERY_NS); /* nothing of the page counts until then */
    }
    return found ? TURN_OTHERS : TURN_OURS;
}

bool turn_show_life(struct limited_device *d, const struct hami_turn_page *seen, uint64_t now) {
    unsigned slot = atomic_load(&d->turn_slot);
    bool alone = true;
    if (!turn_is_within(seen->slots[slot].life.beat, now, SIGN_OF_LIFE_EVERY_NS)) {
        struct hami_turn_life life = {now, load_relaxed(&d->shared->longest_launch)};
        (void)page_write(&d->page, TURN_SLOT_OFFSET(slot, life), &life, sizeof life);
    }
    for (unsigned i = 0; i < HAMI_TURN_SLOTS && alone; i++) {
        const struct hami_turn_slot *other = &seen->slots[i];
        alone = i == slot || other->owner == 0 || !turn_is_within(other->life.beat, now, SLOT_GONE_AFTER_NS);
    }
    store_relaxed(&d->shared->turn_alone_at, alone ? now : 0);
    return alone;
}

bool turn_is_alone(const struct limited_device *d, uint64_t now) {
    uint64_t seen = load_relaxed(&d->shared->turn_alone_at);
    return now >= seen && now - seen < ALONE_FOR_NS;
}

bool turn_has_company(const struct limited_device *d, uint64_t now) {
    bool used = turn_holder(load_relaxed(&d->shared->turn)) != 0; /* as far as we know */
    return used && !turn_is_alone(d, now);
}

/* ---- who has the turn ---- */

/* Page's lock held. A holder that gives the turn on also says until when it worked. */
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

/* No container takes a turn away that came or was looked at a moment ago, whatever the page says. */
bool turn_is_surely_ours(const struct limited_device *d, uint64_t now) {
    uint64_t seen = load_relaxed(&d->shared->turn_uncontested_at);
    return turn_is_ours(d) &&
           (turn_is_young(d, now) || turn_is_alone(d, now) || (now >= seen && now - seen < PAUSE_NS));
}

enum turn turn_take(struct limited_device *d, uint64_t now) {
    struct hami_turn_page seen;
    if (turn_is_surely_ours(d, now) || !turn_read_page(d, &seen, TURN_PAGE_WHOLE, now)) {
        return TURN_OURS;
    }
    if (!turn_has_slot(d, &seen)) {
        enum turn claimed = turn_claim_slot(d, now);
        if (claimed != TURN_OTHERS) {
            return claimed;
        }
    } else {
        (void)turn_show_life(d, &seen, now);
    }
    unsigned self = atomic_load(&d->turn_slot) + 1, holder = turn_holder(seen.turn);
    if (holder == self) {
        return TURN_OURS;
    }
    if (holder != 0 && holder <= HAMI_TURN_SLOTS && !turn_slot_is_silent(&seen, holder - 1, now)) {
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
    if (!page_lock(&d->page)) {
        return false;
    }
    bool ours = page_read(&d->page, &seen, TURN_PAGE_WHOLE) && turn_is_ours_on(d, &seen), done = true;
    if (ours) {
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
        page_wake(&d->page, TURN_SLOT_OFFSET(next - 1, futex));
    }
    return done;
}

void turn_give_up(struct limited_device *d, uint64_t now, uint64_t waited) {
    add_relaxed(&d->shared->turn_timeouts, 1);
    atomic_store(&d->shared->turns_off_until, now + TURNS_OFF_TIMES * waited);
}

/* ---- what others say of themselves; they may say anything ---- */

static uint64_t turn_believed_launch(const struct hami_turn_slot *slot) {
    return slot->life.longest_launch > LAUNCH_BELIEVED_NS ? LAUNCH_BELIEVED_NS : slot->life.longest_launch;
}

uint64_t turn_patience(struct limited_device *d) {
    struct hami_turn_page seen;
    unsigned holder = turn_read_page(d, &seen, TURN_PAGE_WHOLE, compute_now()) ? turn_holder(seen.turn) : 0;
    bool known = holder != 0 && holder <= HAMI_TURN_SLOTS;
    return WAIT_MOST_NS + (known ? 2 * turn_believed_launch(&seen.slots[holder - 1]) : 0);
}

uint64_t turn_longest_launch(struct limited_device *d, uint64_t now) {
    struct hami_turn_page seen;
    if (turn_is_within(atomic_load(&d->others_looked_at), now, OTHERS_READ_EVERY_NS)) {
        return atomic_load(&d->others_longest);
    }
    uint64_t longest = 0;
    bool there = turn_read_page(d, &seen, TURN_PAGE_WHOLE, now);
    for (unsigned i = 0; there && i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_slot *slot = &seen.slots[i];
        if (slot->owner != 0 && turn_is_within(slot->life.beat, now, SLOT_GONE_AFTER_NS)) {
            longest = later(longest, turn_believed_launch(slot));
        }
    }
    atomic_store(&d->others_longest, longest);
    atomic_store(&d->others_looked_at, now);
    return longest;
}

/*
 * The time up to which other containers' work is complete, as the page says; 0: it says nothing that matters. Their
 * work ends before our turn begins, or shortly after it, and before `end`. A later time is not believed.
 */
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
