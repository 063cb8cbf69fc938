/*
 * Turns. Beside other tenants' work the time between two marks would count their slices too, so the containers that
 * have a limit on a device give it work one at a time. The holder keeps the turn for at most QUANTUM while somebody
 * with greater arrears waits, gives it back as soon as it may not or does not start anything, and hands it to whoever
 * is furthest behind. A holder that is silent or keeps it loses it.
 *
 * Any tenant may write anything into the page, at any time. So each decision looks at the page anew, believes no number
 * further than it can do harm, and without a page that can be used goes as if there were none. Who waited for a turn in
 * vain does without for REST times as long, so that no page can cost more than a small part of a container's time.
 */
#include "compute/machine.h"

#include "ledger/process.h"
#include "ledger/state.h"

enum { HOLDER_BITS = 16, SILENT = 60000000, STEP = 20000000, LONGEST_BELIEVED = 500000000 };
enum {
    BEAT = 5000000,
    TEND = 1500000,
    AGAIN = 200000,
    OTHERS = 10000000,
    ALONE = 5000000,
    LINGER = 10000000,
    TAIL = 1000000,
    MARGIN = 20000,
    OFTEN = 125000,
    VERY_OFTEN = 20000,
    LOST_MOST = 500000000,
    REST = 10
};
#define GONE UINT64_C(10000000000)
#define SEEK UINT64_C(1000000000)
#define REST_MOST UINT64_C(60000000000)
#define HOLDER UINT64_C(0xffff)
#define IN_SLOT(index, field)                                                                                          \
    (offsetof(struct hami_turn_page, slots) + (index) * sizeof(struct hami_turn_slot) +                                \
     offsetof(struct hami_turn_slot, field))

enum { HEADER = offsetof(struct hami_turn_page, slots), WHOLE = sizeof(struct hami_turn_page) };

/* ---- the page ---- */

const _Atomic uint64_t *turn_word(const struct machine *m) {
    return &m->shared->turn;
}

static unsigned holder_of(uint64_t word) {
    return (unsigned)(word & HOLDER); /* slot + 1 */
}

/* What this process saw of the word, unless another of the container has seen a later one. True: it is ours now. */
static bool publish(struct machine *m, uint64_t known, uint64_t seen, uint64_t now) {
    unsigned self = atomic_load(&m->turn_slot) + 1, before = holder_of(known);
    bool ours = seen != known && atomic_compare_exchange_strong(&m->shared->turn, &known, seen) && before != self &&
                holder_of(seen) == self;
    if (ours) {
        atomic_store(&m->shared->turn_got, now);
    }
    return ours;
}

/* How long it took us to wake up for a turn that somebody handed over; others of the machine take as long. */
static void learn_waking(struct machine *m, uint64_t took) {
    uint64_t known = load_relaxed(&m->shared->turn_woke);
    took = took > EARLY ? EARLY : took;
    known = known == 0 || known > EARLY ? took : known - known / 8 + took / 8;
    store_relaxed(&m->shared->turn_woke, known);
}

/* So long before its work ends a turn is handed on: late, the device rests; early, slices of both tear the last of it.
 */
static int64_t lead(const struct machine *m) {
    uint64_t woke = load_relaxed(&m->shared->turn_woke);
    return woke == 0 || woke + MARGIN > EARLY ? EARLY : (int64_t)(woke + MARGIN);
}

void turn_open(struct machine *m, const char *uuid) {
    char path[4096];
    atomic_store(&m->page_sought, compute_now());
    if (hami_state_turn_path(uuid, path)) {
        page_open(&m->page, path);
    }
}

/* The program may have closed the file, or it was not there yet. */
static void seek(struct machine *m, uint64_t now) {
    const struct hami_limits *limits = hami_state_known_limits();
    uint64_t sought = atomic_load(&m->page_sought);
    if (now > sought && now - sought > SEEK && m->index < limits->device_count) {
        turn_open(m, limits->devices[m->index].uuid);
    }
}

/* False: there are no turns now. */
static bool look(struct machine *m, struct hami_turn_page *seen, size_t size, uint64_t now) {
    uint64_t known = atomic_load(&m->shared->turn), off = atomic_load(&m->shared->turns_off);
    if (off > now && off - now <= REST_MOST) {
        return false;
    }
    if (!page_read(&m->page, seen, size)) {
        seek(m, now);
        return false;
    }
    if (publish(m, known, seen->turn, now) && now >= seen->since) {
        learn_waking(m, now - seen->since);
    }
    return true;
}

/* The container's name on pages, drawn by its first process. */
static uint64_t identity(struct machine *m) {
    uint64_t known = atomic_load(&m->shared->identity);
    if (known == 0) {
        uint64_t drawn =
            (compute_now() ^ hami_process_self() << 20 ^ (uint64_t)(uintptr_t)m->shared) * UINT64_C(0x9e3779b97f4a7c15);
        drawn += drawn == 0;
        known = atomic_compare_exchange_strong(&m->shared->identity, &known, drawn) ? drawn : known;
    }
    return known;
}

static uint64_t next_word(uint64_t word, unsigned holder) {
    return ((word >> HOLDER_BITS) + 1) << HOLDER_BITS | holder;
}

static bool on_page(struct machine *m, const struct hami_turn_page *seen) {
    return seen->slots[atomic_load(&m->turn_slot)].owner == identity(m);
}

static bool mine(struct machine *m, const struct hami_turn_page *seen) {
    return holder_of(seen->turn) == atomic_load(&m->turn_slot) + 1 && on_page(m, seen);
}

/* As of the last look of any process of the container. */
static bool known_as_ours(const struct machine *m) {
    return holder_of(atomic_load(&m->shared->turn)) == atomic_load(&m->turn_slot) + 1;
}

static bool within(uint64_t at, uint64_t now, uint64_t ns) {
    return at > now ? at - now <= ns : now - at <= ns;
}

static bool silent(const struct hami_turn_page *seen, unsigned slot, uint64_t now) {
    bool just_got_it = holder_of(seen->turn) == slot + 1 && within(seen->since, now, SILENT);
    return !just_got_it && !within(seen->slots[slot].life.beat, now, SILENT);
}

/* Another may have taken the slot while we were silent. */
static bool find_slot(struct machine *m, const struct hami_turn_page *seen, uint64_t now, unsigned *slot) {
    uint64_t self = identity(m);
    unsigned unused = HAMI_TURN_SLOTS;
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_slot *at = &seen->slots[i];
        bool gone = !within(at->life.beat, now, GONE) && holder_of(seen->turn) != i + 1;
        if (at->owner == self) {
            *slot = i;
            return true;
        }
        unused = unused == HAMI_TURN_SLOTS && (at->owner == 0 || gone) ? i : unused;
    }
    *slot = unused;
    return unused < HAMI_TURN_SLOTS;
}

/* Takes a slot. TURN_OURS: there is none to be had, so there are no turns; TURN_OTHERS: have a look at the page now. */
static enum turn claim(struct machine *m, uint64_t now) {
    struct hami_turn_page seen;
    unsigned slot = 0;
    if (!page_lock(&m->page)) {
        return TURN_BUSY;
    }
    bool found = page_read(&m->page, &seen, WHOLE) && find_slot(m, &seen, now, &slot);
    if (found) {
        struct hami_turn_slot ours = {.owner = identity(m), .futex = seen.slots[slot].futex, .life = {.beat = now}};
        found = page_write(&m->page, IN_SLOT(slot, owner), &ours, sizeof ours);
        atomic_store(&m->turn_slot, slot);
    }
    page_unlock(&m->page);
    if (!found) {
        atomic_store(&m->shared->turns_off, now + SEEK); /* so that nothing of the page counts until then */
    }
    return found ? TURN_OTHERS : TURN_OURS;
}

/* Shows life, and sees who else does. True while there is nobody to take turns with: no other was here lately. */
static bool show_life(struct machine *m, const struct hami_turn_page *seen, uint64_t now) {
    unsigned slot = atomic_load(&m->turn_slot);
    bool alone = true;
    if (!within(seen->slots[slot].life.beat, now, BEAT)) {
        struct hami_turn_life life = {now, load_relaxed(&m->shared->longest)};
        (void)page_write(&m->page, IN_SLOT(slot, life), &life, sizeof life);
    }
    for (unsigned i = 0; i < HAMI_TURN_SLOTS && alone; i++) {
        alone = i == slot || seen->slots[i].owner == 0 || !within(seen->slots[i].life.beat, now, GONE);
    }
    store_relaxed(&m->shared->turn_alone, alone ? now : 0);
    return alone;
}

/* Who comes to a device that one container had for itself waits so long before it is seen, once. */
bool turn_alone(const struct machine *m, uint64_t now) {
    uint64_t seen = load_relaxed(&m->shared->turn_alone);
    return now >= seen && now - seen < ALONE;
}

bool turn_company(const struct machine *m, uint64_t now) {
    bool used = holder_of(load_relaxed(&m->shared->turn)) != 0; /* as far as we know */
    return used && !turn_alone(m, now);
}

/* ---- who has it ---- */

/* With the page's lock. */
static bool set_turn(struct machine *m, const struct hami_turn_page *seen, unsigned holder, uint64_t now) {
    uint64_t known = atomic_load(&m->shared->turn);
    uint64_t made[3] = {next_word(seen->turn, holder), now,
                        atomic_load(&m->shared->frontier)};         /* turn, since, frontier */
    size_t size = mine(m, seen) ? sizeof made : 2 * sizeof made[0]; /* who gives it on says until when it worked */
    if (!page_write(&m->page, offsetof(struct hami_turn_page, turn), made, size)) {
        return false;
    }
    (void)publish(m, known, made[0], now);
    return true;
}

static bool young(const struct machine *m, uint64_t now) {
    return within(atomic_load(&m->shared->turn_got), now, QUANTUM - 1);
}

/* Whatever the page says: nobody takes a turn away that lately came or was looked at. */
static bool surely_ours(const struct machine *m, uint64_t now) {
    uint64_t seen = load_relaxed(&m->shared->turn_free);
    return known_as_ours(m) && (young(m, now) || turn_alone(m, now) || (now >= seen && now - seen < PAUSE));
}

enum turn turn_take(struct machine *m, uint64_t now) {
    struct hami_turn_page seen;
    if (surely_ours(m, now) || !look(m, &seen, WHOLE, now)) {
        return TURN_OURS;
    }
    if (!on_page(m, &seen)) {
        enum turn claimed = claim(m, now);
        if (claimed != TURN_OTHERS) {
            return claimed;
        }
    } else {
        (void)show_life(m, &seen, now);
    }
    unsigned self = atomic_load(&m->turn_slot) + 1, holder = holder_of(seen.turn);
    if (holder == self) {
        return TURN_OURS;
    }
    if (holder != 0 && holder <= HAMI_TURN_SLOTS && !silent(&seen, holder - 1, now)) {
        return TURN_OTHERS;
    }
    if (!page_lock(&m->page)) {
        return TURN_BUSY;
    }
    uint64_t word = seen.turn;
    bool taken = page_read(&m->page, &seen, HEADER) && seen.turn == word && set_turn(m, &seen, self, now);
    page_unlock(&m->page);
    if (taken) {
        add_relaxed(&m->shared->turns, 1);
    }
    return taken ? TURN_OURS : TURN_BUSY;
}

/* The slot + 1 that is furthest behind among the others that wait, or 0. */
static unsigned neediest(const struct machine *m, const struct hami_turn_page *seen, uint64_t now) {
    unsigned best = 0;
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_wish *wish = &seen->slots[i].wish;
        if (i != atomic_load(&m->turn_slot) && wish->waiting != 0 && !silent(seen, i, now) &&
            (best == 0 || wish->arrears > seen->slots[best - 1].wish.arrears)) {
            best = i + 1;
        }
    }
    return best;
}

/* Whether the turn, which is ours, has lasted long enough for somebody who is further behind. */
static bool over(const struct machine *m, const struct hami_turn_page *seen, const struct standing *s) {
    unsigned next = neediest(m, seen, s->now);
    return !young(m, s->now) && next != 0 && seen->slots[next - 1].wish.arrears > balance_arrears(m, s);
}

bool turn_expired(struct machine *m, const struct standing *s) {
    struct hami_turn_page seen;
    if (surely_ours(m, s->now) || !look(m, &seen, WHOLE, s->now) || !mine(m, &seen)) {
        return false;
    }
    bool expired = over(m, &seen, s);
    (void)show_life(m, &seen, s->now);
    if (!expired) {
        store_relaxed(&m->shared->turn_free, s->now);
    }
    return expired;
}

/* False: somebody else is at it, it is still ours. */
static bool release(struct machine *m, uint64_t now) {
    struct hami_turn_page seen;
    unsigned next = 0;
    if (!page_lock(&m->page)) {
        return false;
    }
    bool ours = page_read(&m->page, &seen, WHOLE) && mine(m, &seen), done = true;
    if (ours) {
        next = neediest(m, &seen, now);
        done = set_turn(m, &seen, next, now);
    }
    bool hand_over = done && next != 0;
    if (hand_over) {
        uint32_t moved = seen.slots[next - 1].futex + 1;
        (void)page_write(&m->page, IN_SLOT(next - 1, futex), &moved, sizeof moved);
    }
    page_unlock(&m->page);
    if (hand_over) {
        page_wake(&m->page, IN_SLOT(next - 1, futex));
    }
    return done;
}

/* Estimated time until what was granted is finished. */
static int64_t remainder_of(struct machine *m, const struct standing *s) {
    uint64_t begun = later(atomic_load(&m->shared->frontier), balance_oldest(m, s->now));
    begun = later(begun, turn_frontier(m, s->now));
    int64_t since = s->now > begun ? (int64_t)(s->now - begun) : 0;
    if (s->marks == 0 && s->out == 0) {
        return 0;
    }
    return s->expected > since ? s->expected - since : 0;
}

uint64_t turn_yield(struct machine *m) {
    struct hami_turn_page seen;
    struct standing s;
    balance_read(m, &s);
    uint64_t last = atomic_load(&m->shared->last_grant), rested = s.now > last && s.fed == 0 ? s.now - last : 0;
    bool paused = rested > PAUSE, over_all = s.out == 0 && rested >= LINGER;
    if (known_as_ours(m) && !over_all && turn_alone(m, s.now)) {
        return s.now + LINGER;
    }
    if (known_as_ours(m) && s.balance > 0 && !paused && young(m, s.now)) {
        return s.now + PAUSE; /* whatever the page says */
    }
    if (!look(m, &seen, WHOLE, s.now) || !mine(m, &seen)) {
        return UINT64_MAX;
    }
    bool company = !show_life(m, &seen, s.now);
    if (neediest(m, &seen, s.now) == 0) {
        if (over_all || (company && paused && s.out == 0)) {
            return release(m, s.now) ? UINT64_MAX : s.now + AGAIN;
        }
        return s.now + (company ? PAUSE : LINGER);
    }
    if (s.balance > 0 && !paused && !over(m, &seen, &s)) {
        return s.now + PAUSE;
    }
    runners_close(m);
    balance_read(m, &s);
    int64_t left = remainder_of(m, &s);
    bool brief = atomic_load(&m->shared->longest) <= SHORT;
    if (s.out == 0 || (brief && left <= lead(m))) {
        return release(m, s.now) ? UINT64_MAX : s.now + AGAIN;
    }
    left = !brief ? OFTEN : left - lead(m) > TEND ? TEND : left - lead(m);
    return s.now + (uint64_t)(left > VERY_OFTEN ? left : VERY_OFTEN);
}

/* ---- waiting for it ---- */

/* Says on the page whether any of the container's threads waits; who says so last has looked after all had said it. */
static void wish(struct machine *m, int64_t arrears) {
    enum { TRIES = 8 };
    unsigned slot = atomic_load(&m->turn_slot);
    struct hami_turn_wish made = {arrears, balance_in_turn(m)};
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t said = made.waiting;
        (void)page_write(&m->page, IN_SLOT(slot, wish), &made, sizeof made);
        made.waiting = balance_in_turn(m);
        if (made.waiting == said) {
            break;
        }
    }
}

void turn_wait(struct machine *m, const struct standing *s, enum turn why) {
    struct hami_turn_page seen;
    if (why == TURN_BUSY) {
        compute_sleep_until(s->now + AGAIN);
        return;
    }
    if (!look(m, &seen, WHOLE, s->now) || !on_page(m, &seen)) {
        return;
    }
    unsigned slot = atomic_load(&m->turn_slot);
    uint32_t futex = seen.slots[slot].futex;
    (void)atomic_fetch_add(&m->own->in_turn, 1);
    wish(m, balance_arrears(m, s));
    if (look(m, &seen, WHOLE, s->now) && !mine(m, &seen) && holder_of(seen.turn) != 0) {
        page_wait(&m->page, IN_SLOT(slot, futex), futex, STEP);
    }
    (void)atomic_fetch_sub(&m->own->in_turn, 1);
    wish(m, balance_arrears(m, s));
}

/* As the container says of itself; it may say anything. */
static uint64_t longest_of(const struct hami_turn_slot *slot) {
    return slot->life.longest > LONGEST_BELIEVED ? LONGEST_BELIEVED : slot->life.longest;
}

uint64_t turn_patience(struct machine *m) {
    struct hami_turn_page seen;
    unsigned holder = look(m, &seen, WHOLE, compute_now()) ? holder_of(seen.turn) : 0;
    return PATIENCE + (holder == 0 || holder > HAMI_TURN_SLOTS ? 0 : 2 * longest_of(&seen.slots[holder - 1]));
}

uint64_t turn_longest(struct machine *m, uint64_t now) {
    struct hami_turn_page seen;
    if (within(atomic_load(&m->others_looked), now, OTHERS)) {
        return atomic_load(&m->others_longest);
    }
    uint64_t longest = 0;
    bool there = look(m, &seen, WHOLE, now);
    for (unsigned i = 0; there && i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_slot *slot = &seen.slots[i];
        if (slot->owner != 0 && longest_of(slot) > longest && within(slot->life.beat, now, GONE)) {
            longest = longest_of(slot);
        }
    }
    atomic_store(&m->others_longest, longest);
    atomic_store(&m->others_looked, now);
    return longest;
}

/* Others' turns may take what was too much for the balance to keep, but not most of the time. */
void turn_lost(struct machine *m, const struct standing *s) {
    uint64_t before = atomic_load(&m->shared->turn_lost), at = atomic_load(&m->shared->turn_lost_at);
    uint64_t forgiven = s->now > at ? (s->now - at) / 2 : 0;
    uint64_t lost = s->lost + (before > forgiven ? before - forgiven : 0);
    if (lost > LOST_MOST) {
        turn_given_up(m, s->now, lost);
        lost = 0;
    }
    atomic_store(&m->shared->turn_lost, lost);
    atomic_store(&m->shared->turn_lost_at, s->now);
}

void turn_given_up(struct machine *m, uint64_t now, uint64_t waited) {
    add_relaxed(&m->shared->turn_timeouts, 1);
    atomic_store(&m->shared->turns_off, now + REST * waited);
}

/* ---- the frontier of all turns ---- */

/* Others' work ends before our turn begins, or shortly after; and before ours ends. What is later is not believed. */
uint64_t turn_frontier(struct machine *m, uint64_t end) {
    struct hami_turn_page seen;
    uint64_t last = atomic_load(&m->shared->turn_got) + TAIL;
    bool matters = atomic_load(&m->shared->frontier) < last && look(m, &seen, HEADER, end);
    return matters && seen.frontier <= end && seen.frontier <= last ? seen.frontier : 0;
}

void turn_move_frontier(struct machine *m, uint64_t end) {
    struct hami_turn_page seen;
    uint64_t now = compute_now();
    if (!known_as_ours(m) && look(m, &seen, HEADER, now) && (end > seen.frontier || seen.frontier > now)) {
        (void)page_write(&m->page, offsetof(struct hami_turn_page, frontier), &end, sizeof end);
    }
}
