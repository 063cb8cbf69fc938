/*
 * The charge protocol by itself, in every order that chance finds: processes that change one counter through their
 * cells take turns at each access to memory, some die on the way, and others tidy up after them and may die of it.
 *
 *     cells RUNS SEED        prints what is wrong with the first run that goes wrong, and its seed
 *     cells again            a cell whose sequence numbers have come round dies over one that was noted before
 */
#include "hami/cells.h"
#include "hami/compiler.h"
#include "hami/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

static void turn(void);

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_compare_exchange_strong
#undef atomic_compare_exchange_weak
#undef atomic_compare_exchange_weak_explicit
#define atomic_load(at) (turn(), *(at))
#define atomic_load_explicit(at, order) (turn(), *(at))
#define atomic_store(at, value) (turn(), (void)(*(at) = (value)))
#define atomic_store_explicit(at, value, order) (turn(), (void)(*(at) = (value)))
#define exchange_if(at, expected, value, same)                                                                         \
    ({                                                                                                                 \
        turn();                                                                                                        \
        bool done_ = (same) && *(at) == *(expected);                                                                   \
        if (done_)                                                                                                     \
            *(at) = (value);                                                                                           \
        else                                                                                                           \
            *(expected) = *(at);                                                                                       \
        done_;                                                                                                         \
    })
#define atomic_compare_exchange_strong(at, expected, value) exchange_if(at, expected, value, true)
#define atomic_compare_exchange_weak(at, expected, value) exchange_if(at, expected, value, chance(8) != 0)
#define atomic_compare_exchange_weak_explicit(at, expected, value, won, lost)                                          \
    exchange_if(at, expected, value, chance(8) != 0)

static uint64_t random_state;

/* Below `below`; xorshift. */
static unsigned chance(unsigned below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % below;
}

#include "../../src/cells.c"

enum { MEMBERS = 7, CHANGES = 12, MOST = 5, LIMIT = 12, STACK = 64 << 10 };

/* Threads of processes: the first two are of one. All but two of the cells are noted in one place. */
static const struct {
    unsigned slot, index;
} cells[MEMBERS] = {{0, 0}, {0, 1}, {12, 0}, {24, 0}, {9, 1}, {1, 0}, {3, 3}};

static struct hami_block *block;
static struct member {
    ucontext_t context;
    bool over, dead;
    int64_t held; /* by changes that have returned */
} members[MEMBERS];
static ucontext_t scheduler;
static unsigned running;
static int sweepers[HAMI_PROCESSES]; /* member + 1 that tidies up after the dead of a slot */
static char stacks[MEMBERS][STACK];

static void turn(void) {
    if (running < MEMBERS) {
        (void)swapcontext(&members[running].context, &scheduler);
    }
}

static bool is_dead(unsigned slot) {
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (cells[i].slot == slot && members[i].dead) {
            return true;
        }
    }
    return false;
}

static void sweep(unsigned slot) {
    if (sweepers[slot] == 0 || members[sweepers[slot] - 1].dead) {
        sweepers[slot] = (int)running + 1;
        hami_cells_settle(block, slot, 0);
        sweepers[slot] = 0;
    }
}

static void work(void) {
    struct member *me = &members[running];
    unsigned slot = cells[running].slot, index = cells[running].index;
    for (unsigned i = 0; i < CHANGES; i++) {
        unsigned other = cells[chance(MEMBERS)].slot;
        int64_t amount = 1 + chance(MOST);
        if (chance(4) == 0 && is_dead(other)) {
            sweep(other);
            continue;
        }
        amount = me->held > 0 && chance(2) == 0 ? -(amount < me->held ? amount : me->held) : amount;
        if (hami_cells_change(block, 0, slot, index, amount, LIMIT)) {
            me->held += amount;
        }
    }
    me->over = true;
    turn();
}

static void die(unsigned slot) {
    for (unsigned i = 0; i < MEMBERS; i++) {
        members[i].dead = members[i].dead || cells[i].slot == slot;
    }
}

/* Lets one go on, at times for so long that the others sleep through much. */
static bool go_on(void) {
    unsigned ready[MEMBERS], count = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (!members[i].over && !members[i].dead) {
            ready[count++] = i;
        }
    }
    if (count == 0) {
        return false;
    }
    running = ready[chance(count)];
    for (unsigned turns = chance(4) == 0 ? 40 : 1 + chance(3); turns > 0 && !members[running].over; turns--) {
        (void)swapcontext(&scheduler, &members[running].context);
    }
    if (chance(60) == 0) {
        die(cells[running].slot);
    }
    return true;
}

static void start(unsigned member) {
    struct member *one = &members[member];
    *one = (struct member){.over = false};
    (void)getcontext(&one->context);
    one->context.uc_stack.ss_sp = stacks[member];
    one->context.uc_stack.ss_size = STACK;
    makecontext(&one->context, work, 0);
    struct hami_cell *cell = &block->slots[cells[member].slot].cells[0][cells[member].index];
    memset(cell, 0, sizeof *cell);
    cell->state = (uint64_t)(chance(4) == 0 ? 0xffff - chance(8) : chance(1 << 16)) << SEQUENCE_SHIFT;
}

/* What the counter says when all is over and tidied up, less what the living hold; and whether it was ever too much. */
static int64_t run(void) {
    struct hami_device *counted = &block->devices[0];
    memset(counted, 0, sizeof *counted);
    counted->used = HAMI_NOBODY;
    memset(sweepers, 0, sizeof sweepers);
    for (unsigned i = 0; i < MEMBERS; i++) {
        start(i);
    }
    while (go_on()) {
        if (counted->used >> HAMI_TAG_BITS > LIMIT) {
            return INT64_MAX;
        }
    }
    running = MEMBERS; /* from now on nobody interrupts */
    int64_t used = 0;
    for (unsigned i = 0; i < MEMBERS; i++) {
        if (members[i].dead) {
            hami_cells_settle(block, cells[i].slot, 0);
        }
        used -= members[i].dead ? 0 : members[i].held;
    }
    return used + (int64_t)(counted->used >> HAMI_TAG_BITS);
}

static int run_many(unsigned long runs, uint64_t seed) {
    for (unsigned long i = 0; i < runs; i++) {
        random_state = (seed + i) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        int64_t wrong = run();
        if (wrong != 0) {
            printf("seed %llu: %lld pages more than the living hold\n", (unsigned long long)(seed + i),
                   (long long)wrong);
            return 1;
        }
    }
    return 0;
}

/* A change is noted; its cell goes on alone until the number comes again, and dies before that change is applied. */
static int run_again(void) {
    random_state = 1;
    running = MEMBERS;
    block->devices[0].used = HAMI_NOBODY;
    (void)hami_cells_change(block, 0, 1, 0, 1, LIMIT);
    (void)hami_cells_change(block, 0, 2, 0, 1, LIMIT);
    for (unsigned i = 1; i < 1 << 16; i++) {
        (void)hami_cells_change(block, 0, 1, 0, i % 2 == 0 ? -1 : 1, LIMIT);
    }
    (void)prepare(&block->devices[0], &block->slots[1].cells[0][0], hami_cells_tag(1, 0), 3);
    hami_cells_settle(block, 1, 0);
    uint64_t used = block->devices[0].used >> HAMI_TAG_BITS;
    if (used != 1) {
        printf("%llu pages where one holds 1\n", (unsigned long long)used);
    }
    return used != 1;
}

int main(int argc, char **argv) {
    block = calloc(1, sizeof *block);
    if (block == NULL || argc < 2) {
        return 2;
    }
    return argc == 2 ? run_again() : run_many(strtoul(argv[1], NULL, 10), strtoull(argv[2], NULL, 10));
}
