/*
 * Address space. Device addresses lie in a range that is reserved without access, so that a host program that follows
 * one crashes as on a real machine; the bytes behind it are in a shadow range at a fixed distance, committed page by
 * page as copies touch them. Managed and pinned memory lies in a second range that is its own shadow.
 *
 * Both ranges are cut into 2 MiB granules. Free runs carry their length at both ends (boundary tags) and are kept in
 * lists by the logarithm of their length.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "driver.h"

#define BINS 24

struct arena {
    uint64_t base, granules, high_water; /* granules at and above high_water were never used */
    uint64_t shadow;                     /* address of the bytes of granule 0 */
    struct sim_span *_Atomic *owner;     /* by granule */
    uint32_t *run;                       /* length of the free run that starts or ends here, 0 if in use */
    uint32_t *next, *previous;           /* free lists, by first granule + 1 */
    _Atomic uint8_t *touched;            /* granule has pages in the shadow */
    uint32_t bins[BINS];
    pthread_mutex_t lock;
};

static struct arena device_arena = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct arena host_arena = {.lock = PTHREAD_MUTEX_INITIALIZER};
static struct sim_span *free_spans;
static pthread_mutex_t span_lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned long long next_id = 1;
static _Atomic uint64_t shadow_used;
static uint64_t shadow_limit = 2ull << 30;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *reserve(uint64_t bytes, int protection) {
    void *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

static bool reserve_tables(struct arena *arena) {
    arena->owner = reserve(arena->granules * sizeof *arena->owner, PROT_READ | PROT_WRITE);
    arena->run = reserve(arena->granules * sizeof *arena->run, PROT_READ | PROT_WRITE);
    arena->next = reserve(arena->granules * sizeof *arena->next, PROT_READ | PROT_WRITE);
    arena->previous = reserve(arena->granules * sizeof *arena->previous, PROT_READ | PROT_WRITE);
    arena->touched = reserve(arena->granules, PROT_READ | PROT_WRITE);
    return arena->owner != NULL && arena->run != NULL && arena->next != NULL && arena->previous != NULL &&
           arena->touched != NULL;
}

/* The largest power of two of address space that the process may have, from `bytes` down to 1 GiB. */
static bool reserve_arena(struct arena *arena, uint64_t bytes, bool own_shadow) {
    for (; bytes >= 1ull << 30; bytes /= 2) {
        uint64_t total = bytes + SIM_GRANULE;
        void *at = reserve(total, own_shadow ? PROT_READ | PROT_WRITE : PROT_NONE);
        void *shadow = own_shadow || at == NULL ? at : reserve(total, PROT_READ | PROT_WRITE);
        if (at == NULL || shadow == NULL) {
            if (at != NULL) {
                munmap(at, total);
            }
            continue;
        }
        (void)madvise(shadow, total, MADV_DONTDUMP);
        (void)madvise(shadow, total, MADV_NOHUGEPAGE);
        arena->base = sim_round_up((uint64_t)(uintptr_t)at, SIM_GRANULE);
        arena->shadow = sim_round_up((uint64_t)(uintptr_t)shadow, SIM_GRANULE);
        arena->granules = bytes >> SIM_GRANULE_BITS;
        return reserve_tables(arena);
    }
    return false;
}

static void reserve_all(void) {
    const char *limit = getenv("HAMI_SIM_SHADOW_MIB");
    if (limit != NULL && *limit != '\0') {
        shadow_limit = strtoull(limit, NULL, 10) << 20;
    }
    const char *address = getenv("HAMI_SIM_ADDRESS_GIB");
    uint64_t bytes = 8ull << 40;
    if (address != NULL && *address != '\0') {
        uint64_t gib = strtoull(address, NULL, 10);
        bytes = gib >= 8 && gib < 8192 ? gib << 30 : bytes;
    }
    if (!reserve_arena(&device_arena, bytes, false) || !reserve_arena(&host_arena, bytes / 8, true)) {
        device_arena.granules = host_arena.granules = 0;
    }
}

bool sim_arena_ready(void) {
    pthread_once(&once, reserve_all);
    return host_arena.granules != 0;
}

static unsigned bin_of(uint64_t granules) {
    unsigned bin = 63u - (unsigned)__builtin_clzll(granules);
    return bin < BINS ? bin : BINS - 1;
}

static void list_add(struct arena *arena, uint32_t first, uint32_t granules) {
    unsigned bin = bin_of(granules);
    arena->run[first] = arena->run[first + granules - 1] = granules;
    arena->previous[first] = 0;
    arena->next[first] = arena->bins[bin];
    if (arena->bins[bin] != 0) {
        arena->previous[arena->bins[bin] - 1] = first + 1;
    }
    arena->bins[bin] = first + 1;
}

static void list_remove(struct arena *arena, uint32_t first) {
    uint32_t granules = arena->run[first];
    uint32_t next = arena->next[first], previous = arena->previous[first];
    if (previous != 0) {
        arena->next[previous - 1] = next;
    } else {
        arena->bins[bin_of(granules)] = next;
    }
    if (next != 0) {
        arena->previous[next - 1] = previous;
    }
    arena->run[first] = arena->run[first + granules - 1] = 0;
}

/* First granule of a run of that length, or UINT32_MAX. The rest of a longer run goes back to the lists. */
static uint32_t run_take(struct arena *arena, uint64_t granules) {
    for (unsigned bin = bin_of(granules); bin < BINS; bin++) {
        unsigned looked = 0;
        for (uint32_t at = arena->bins[bin]; at != 0 && looked < 64; at = arena->next[at - 1], looked++) {
            uint32_t first = at - 1, length = arena->run[first];
            if (length >= granules) {
                list_remove(arena, first);
                if (length > granules) {
                    list_add(arena, first + (uint32_t)granules, length - (uint32_t)granules);
                }
                return first;
            }
        }
    }
    if (arena->high_water + granules > arena->granules) {
        return UINT32_MAX;
    }
    uint32_t first = (uint32_t)arena->high_water;
    arena->high_water += granules;
    return first;
}

static void run_return(struct arena *arena, uint32_t first, uint32_t granules) {
    if (first > 0 && arena->run[first - 1] != 0) {
        uint32_t before = arena->run[first - 1];
        first -= before;
        list_remove(arena, first);
        granules += before;
    }
    uint32_t after = first + granules;
    if (after < arena->high_water && arena->run[after] != 0) {
        uint32_t length = arena->run[after];
        list_remove(arena, after);
        granules += length;
    }
    if (first + granules == arena->high_water) {
        arena->high_water = first;
    } else {
        list_add(arena, first, granules);
    }
}

static struct arena *arena_of_kind(enum sim_kind kind) {
    return kind == SIM_KIND_MANAGED || kind == SIM_KIND_HOST ? &host_arena : &device_arena;
}

static struct arena *arena_at(uint64_t address) {
    if (address - device_arena.base < device_arena.granules << SIM_GRANULE_BITS) {
        return &device_arena;
    }
    return address - host_arena.base < host_arena.granules << SIM_GRANULE_BITS ? &host_arena : NULL;
}

static struct sim_span *record_new(void) {
    pthread_mutex_lock(&span_lock);
    struct sim_span *span = free_spans;
    if (span != NULL) {
        free_spans = span->next_free;
    }
    pthread_mutex_unlock(&span_lock);
    if (span == NULL) {
        span = malloc(sizeof *span);
    }
    if (span != NULL) {
        memset(span, 0, sizeof *span);
    }
    return span;
}

static void record_delete(struct sim_span *span) {
    pthread_mutex_lock(&span_lock);
    span->next_free = free_spans;
    free_spans = span;
    pthread_mutex_unlock(&span_lock);
}

/* Others ask the books whether this process may be suspended. */
static void count_managed(enum sim_kind kind, int32_t change) {
    int slot = kind == SIM_KIND_MANAGED ? sim_slot_claim() : -1;
    if (slot >= 0) {
        atomic_fetch_add(&sim_books->suspensions[slot].managed, (uint32_t)change);
    }
}

struct sim_span *sim_span_new(enum sim_kind kind, uint64_t size, uint64_t alignment) {
    if (!sim_arena_ready() || size == 0) {
        return NULL;
    }
    struct arena *arena = arena_of_kind(kind);
    uint64_t granules = (size + SIM_GRANULE - 1) >> SIM_GRANULE_BITS;
    uint64_t step = alignment > SIM_GRANULE ? alignment >> SIM_GRANULE_BITS : 1;
    struct sim_span *span = granules + step > arena->granules ? NULL : record_new();
    if (span == NULL) {
        return NULL;
    }
    pthread_mutex_lock(&arena->lock);
    uint32_t first = run_take(arena, granules + step - 1);
    if (first != UINT32_MAX && step > 1) {
        uint64_t base_granule = arena->base >> SIM_GRANULE_BITS;
        uint64_t aligned = sim_round_up(base_granule + first, step) - base_granule;
        uint64_t end = first + granules + step - 1;
        if (aligned + granules < end) {
            run_return(arena, (uint32_t)(aligned + granules), (uint32_t)(end - aligned - granules));
        }
        if (aligned > first) {
            run_return(arena, first, (uint32_t)(aligned - first));
        }
        first = (uint32_t)aligned;
    }
    pthread_mutex_unlock(&arena->lock);
    if (first == UINT32_MAX) {
        record_delete(span);
        return NULL;
    }
    span->kind = kind;
    span->base = arena->base + ((uint64_t)first << SIM_GRANULE_BITS);
    span->size = size;
    span->granules = granules;
    span->id = atomic_fetch_add(&next_id, 1);
    atomic_store_explicit(&span->live, 1, memory_order_relaxed);
    for (uint64_t i = 0; i < granules; i++) {
        atomic_store_explicit(&arena->owner[first + i], span, memory_order_release);
    }
    count_managed(kind, 1);
    return span;
}

static void untouch(struct arena *arena, uint64_t first, uint64_t granules) {
    for (uint64_t i = first; i < first + granules; i++) {
        if (atomic_load_explicit(&arena->touched[i], memory_order_relaxed) != 0) {
            atomic_store(&arena->touched[i], 0);
            (void)madvise((void *)(uintptr_t)(arena->shadow + (i << SIM_GRANULE_BITS)), SIM_GRANULE, MADV_DONTNEED);
            atomic_fetch_sub(&shadow_used, SIM_GRANULE);
        }
    }
}

void sim_span_delete(struct sim_span *span) {
    struct arena *arena = arena_of_kind(span->kind);
    uint64_t first = (span->base - arena->base) >> SIM_GRANULE_BITS;
    count_managed(span->kind, -1);
    for (uint64_t i = 0; i < span->granules; i++) {
        atomic_store_explicit(&arena->owner[first + i], NULL, memory_order_release);
    }
    if (arena == &device_arena) {
        untouch(arena, first, span->granules);
    } else {
        (void)madvise((void *)(uintptr_t)span->base, span->granules << SIM_GRANULE_BITS, MADV_DONTNEED);
    }
    pthread_mutex_lock(&arena->lock);
    run_return(arena, (uint32_t)first, (uint32_t)span->granules);
    pthread_mutex_unlock(&arena->lock);
    record_delete(span);
}

struct sim_span *sim_span_at(uint64_t address) {
    struct arena *arena = arena_at(address);
    if (arena == NULL) {
        return NULL;
    }
    return atomic_load_explicit(&arena->owner[(address - arena->base) >> SIM_GRANULE_BITS], memory_order_acquire);
}

static void each_in(struct arena *arena, bool (*visit)(struct sim_span *, void *), void *closure) {
    pthread_mutex_lock(&arena->lock);
    uint64_t end = arena->high_water;
    pthread_mutex_unlock(&arena->lock);
    for (uint64_t i = 0; i < end;) {
        struct sim_span *span = atomic_load_explicit(&arena->owner[i], memory_order_acquire);
        i += span != NULL && span->granules > 0 ? span->granules : 1;
        if (span != NULL && !visit(span, closure)) {
            return;
        }
    }
}

void sim_span_each(bool (*visit)(struct sim_span *span, void *closure), void *closure) {
    each_in(&device_arena, visit, closure);
    each_in(&host_arena, visit, closure);
}

void *sim_bytes_at(uint64_t address) {
    struct arena *arena = arena_at(address);
    return arena == NULL ? NULL : (void *)(uintptr_t)(arena->shadow + (address - arena->base));
}

bool sim_touch(uint64_t address, uint64_t length) {
    struct arena *arena = arena_at(address);
    if (arena != &device_arena || length == 0) {
        return true;
    }
    uint64_t last = (address + length - 1 - arena->base) >> SIM_GRANULE_BITS;
    for (uint64_t i = (address - arena->base) >> SIM_GRANULE_BITS; i <= last; i++) {
        if (atomic_load_explicit(&arena->touched[i], memory_order_relaxed) != 0) {
            continue;
        }
        if (atomic_fetch_add(&shadow_used, SIM_GRANULE) + SIM_GRANULE > shadow_limit) {
            atomic_fetch_sub(&shadow_used, SIM_GRANULE);
            return false;
        }
        if (atomic_exchange(&arena->touched[i], 1) != 0) {
            atomic_fetch_sub(&shadow_used, SIM_GRANULE);
        }
    }
    return true;
}
