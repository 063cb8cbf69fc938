/*
 * Turns. Beside other tenants' work the time between two marks would count their slices too, so the containers that
 * have a limit on a device give it work one at a time. The holder keeps the turn for at most QUANTUM while somebody
 * with greater arrears waits, gives it back as soon as it may not or does not start anything, and hands it to whoever
 * is furthest behind. A holder that is silent or keeps it loses it.
 */
#include "machine.h"

#include "hami/guest.h"
#include "hami/process.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HOLDER_BITS = 16, SILENT = 60000000, STEP = 20000000, LONGEST_BELIEVED = 500000000 };
#define GONE UINT64_C(10000000000)
#define HOLDER UINT64_C(0xffff)

static _Atomic uint64_t no_turns; /* the word of a device without a page: never moves */

_Atomic uint64_t *turn_word(struct machine *m) {
    return m->page == NULL ? &no_turns : &m->page->turn;
}

/* ---- the page ---- */

static struct hami_turn_page *map_page(const char *path) {
    struct stat found;
    struct hami_turn_page *page = MAP_FAILED;
    int saved = errno, fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0) {
        if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode) && found.st_size == (off_t)sizeof *page) {
            page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        (void)close(fd);
    }
    errno = saved;
    if (page != MAP_FAILED &&
        (page->magic != HAMI_TURN_MAGIC || page->version != HAMI_TURN_VERSION || page->size != sizeof *page)) {
        (void)munmap(page, sizeof *page);
        page = MAP_FAILED;
    }
    return page == MAP_FAILED ? NULL : page;
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

static unsigned holder_of(uint64_t word) {
    return (unsigned)(word & HOLDER); /* slot + 1 */
}

static bool claim(struct machine *m, uint64_t now) {
    uint64_t self = identity(m);
    unsigned holder = holder_of(atomic_load(&m->page->turn));
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        if (atomic_load(&m->page->slots[i].owner) == self) {
            m->turn_slot = i;
            return true;
        }
    }
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        struct hami_turn_slot *slot = &m->page->slots[i];
        uint64_t owner = atomic_load(&slot->owner), beat = atomic_load(&slot->beat);
        bool free_slot = owner == 0 || (now > beat && now - beat > GONE && holder != i + 1);
        if (free_slot && atomic_compare_exchange_strong(&slot->owner, &owner, self)) {
            atomic_store(&slot->waiting, 0);
            atomic_store(&slot->beat, now);
            m->turn_slot = i;
            return true;
        }
    }
    return false;
}

void turn_open(struct machine *m, const char *uuid) {
    char path[4096];
    m->page = hami_guest_turn_path(uuid, path) ? map_page(path) : NULL;
    if (m->page != NULL && !claim(m, compute_now())) {
        (void)munmap(m->page, sizeof *m->page);
        m->page = NULL;
    }
}

static struct hami_turn_slot *own_slot(const struct machine *m) {
    return &m->page->slots[m->turn_slot];
}

void turn_beat(struct machine *m, uint64_t now) {
    if (m->page == NULL) {
        return;
    }
    struct hami_turn_slot *slot = own_slot(m);
    if (atomic_load_explicit(&slot->owner, memory_order_relaxed) != atomic_load(&m->shared->identity)) {
        (void)claim(m, now); /* another took it while we were silent */
        slot = own_slot(m);
    }
    atomic_store_explicit(&slot->beat, now, memory_order_relaxed);
    atomic_store_explicit(&slot->longest, atomic_load_explicit(&m->shared->longest, memory_order_relaxed),
                          memory_order_relaxed);
}

/* ---- who has it ---- */

bool turn_mine(const struct machine *m) {
    return m->page == NULL || holder_of(atomic_load(&m->page->turn)) == m->turn_slot + 1;
}

static uint64_t next_word(uint64_t word, unsigned holder) {
    return ((word >> HOLDER_BITS) + 1) << HOLDER_BITS | holder;
}

static bool silent(const struct hami_turn_slot *slot, uint64_t now) {
    uint64_t beat = atomic_load(&slot->beat);
    return now > beat && now - beat > SILENT;
}

bool turn_take(struct machine *m, uint64_t now) {
    if (m->page == NULL) {
        return true;
    }
    turn_beat(m, now);
    uint64_t word = atomic_load(&m->page->turn);
    unsigned holder = holder_of(word);
    if (holder == m->turn_slot + 1) {
        return true;
    }
    bool lost = holder > 0 && holder <= HAMI_TURN_SLOTS && silent(&m->page->slots[holder - 1], now);
    if (holder != 0 && holder <= HAMI_TURN_SLOTS && !lost) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&m->page->turn, &word, next_word(word, m->turn_slot + 1))) {
        return false;
    }
    atomic_store(&m->page->since, now);
    (void)atomic_fetch_add_explicit(&m->shared->turns, 1, memory_order_relaxed);
    if (lost) {
        (void)atomic_fetch_add_explicit(&m->page->slots[holder - 1].lost, 1, memory_order_relaxed);
    }
    return true;
}

/* The one that is furthest behind among the others that wait, or NULL. */
static struct hami_turn_slot *neediest(const struct machine *m, uint64_t now) {
    struct hami_turn_slot *best = NULL;
    for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++) {
        struct hami_turn_slot *slot = &m->page->slots[i];
        if (i == m->turn_slot || atomic_load_explicit(&slot->waiting, memory_order_relaxed) == 0 || silent(slot, now)) {
            continue;
        }
        if (best == NULL || atomic_load(&slot->arrears) > atomic_load(&best->arrears)) {
            best = slot;
        }
    }
    return best;
}

bool turn_wanted(const struct machine *m) {
    return m->page != NULL && neediest(m, compute_now()) != NULL;
}

bool turn_expired(const struct machine *m, const struct standing *s) {
    uint64_t since = m->page == NULL ? 0 : atomic_load(&m->page->since);
    if (m->page == NULL || !turn_mine(m) || s->now < since || s->now - since < QUANTUM) {
        return false;
    }
    const struct hami_turn_slot *next = neediest(m, s->now);
    return next != NULL && atomic_load(&next->arrears) > balance_arrears(m, s);
}

static void release(struct machine *m, uint64_t now) {
    uint64_t word = atomic_load(&m->page->turn);
    if (holder_of(word) != m->turn_slot + 1) {
        return;
    }
    struct hami_turn_slot *next = neediest(m, now);
    unsigned holder = next == NULL ? 0 : (unsigned)(next - m->page->slots) + 1;
    atomic_store(&m->page->since, now);
    if (atomic_compare_exchange_strong(&m->page->turn, &word, next_word(word, holder)) && next != NULL) {
        atomic_store(&next->beat, now);
        (void)atomic_fetch_add(&next->futex, 1);
        compute_wake(&next->futex);
    }
}

/* Estimated time until what was granted is finished. */
static int64_t remainder_of(const struct machine *m, const struct standing *s) {
    uint64_t begun = atomic_load(&m->shared->frontier), oldest = balance_oldest(m, s->now);
    uint64_t others = turn_frontier(m, s->now);
    begun = oldest > begun ? oldest : begun;
    begun = others > begun ? others : begun;
    int64_t since = s->now > begun ? (int64_t)(s->now - begun) : 0;
    if (s->marks == 0 && s->out == 0) {
        return 0;
    }
    int64_t out = (int64_t)((double)s->out * m->ratio);
    return out > since ? out - since : 0;
}

uint64_t turn_yield(struct machine *m) {
    struct standing s;
    if (m->page == NULL || !turn_mine(m)) {
        return UINT64_MAX;
    }
    balance_read(m, &s);
    bool paused = s.now - atomic_load(&m->shared->last_grant) > PAUSE && s.fed == 0;
    if (neediest(m, s.now) == NULL) {
        if (paused && s.out == 0) {
            release(m, s.now);
            return UINT64_MAX;
        }
        return s.now + 2 * PAUSE;
    }
    if (s.balance > 0 && !paused && !turn_expired(m, &s)) {
        return s.now + PAUSE;
    }
    runners_close(m);
    balance_read(m, &s);
    int64_t left = remainder_of(m, &s);
    bool brief = atomic_load(&m->shared->longest) <= SHORT;
    if (s.out == 0 || (brief && left <= EARLY)) {
        release(m, s.now);
        return UINT64_MAX;
    }
    return brief ? s.now + (uint64_t)(left - EARLY > 20000 ? left - EARLY : 20000) : UINT64_MAX;
}

/* ---- waiting for it ---- */

void turn_wait(struct machine *m, const struct standing *s) {
    struct hami_turn_slot *slot = own_slot(m);
    uint32_t seen = atomic_load(&slot->futex);
    turn_beat(m, s->now);
    atomic_store(&slot->arrears, balance_arrears(m, s));
    (void)atomic_fetch_add(&slot->waiting, 1);
    if (!turn_mine(m) && holder_of(atomic_load(&m->page->turn)) != 0) {
        compute_wait(&slot->futex, seen, STEP);
    }
    uint32_t waiting = atomic_load(&slot->waiting);
    while (waiting > 0 && !atomic_compare_exchange_weak(&slot->waiting, &waiting, waiting - 1)) {
    }
}

/* As the container says of itself; it may say anything. */
static uint64_t longest_of(const struct hami_turn_slot *slot) {
    uint64_t longest = atomic_load_explicit(&slot->longest, memory_order_relaxed);
    return longest > LONGEST_BELIEVED ? LONGEST_BELIEVED : longest;
}

uint64_t turn_patience(const struct machine *m) {
    unsigned holder = m->page == NULL ? 0 : holder_of(atomic_load(&m->page->turn));
    return PATIENCE + (holder == 0 || holder > HAMI_TURN_SLOTS ? 0 : 2 * longest_of(&m->page->slots[holder - 1]));
}

uint64_t turn_longest(const struct machine *m) {
    uint64_t longest = 0, now = m->page == NULL ? 0 : compute_now();
    for (unsigned i = 0; m->page != NULL && i < HAMI_TURN_SLOTS; i++) {
        const struct hami_turn_slot *slot = &m->page->slots[i];
        if (atomic_load_explicit(&slot->owner, memory_order_relaxed) != 0 && longest_of(slot) > longest) {
            uint64_t beat = atomic_load_explicit(&slot->beat, memory_order_relaxed);
            longest = now > beat && now - beat > GONE ? longest : longest_of(slot);
        }
    }
    return longest;
}

void turn_given_up(struct machine *m) {
    unsigned holder = holder_of(atomic_load(&m->page->turn));
    (void)atomic_fetch_add_explicit(&m->shared->turn_timeouts, 1, memory_order_relaxed);
    if (holder > 0 && holder <= HAMI_TURN_SLOTS) {
        (void)atomic_fetch_add_explicit(&m->page->slots[holder - 1].lost, 1, memory_order_relaxed);
    }
}

/* ---- the frontier of all turns: believed only as far as it explains this mark's own time ---- */

uint64_t turn_frontier(const struct machine *m, uint64_t end) {
    uint64_t frontier = m->page == NULL ? 0 : atomic_load(&m->page->frontier);
    return frontier <= end ? frontier : 0;
}

void turn_move_frontier(struct machine *m, uint64_t end) {
    if (m->page != NULL) {
        uint64_t frontier = atomic_load(&m->page->frontier);
        uint64_t now = compute_now();
        frontier = frontier > now ? 0 : frontier;
        if (end > frontier) {
            atomic_store(&m->page->frontier, end);
        }
    }
}
