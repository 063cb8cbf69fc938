/*
 * A model test of the ledger. Virtual processes run the functions of ledger.c on one region and switch at random after
 * each load and store. Some die or stop on the way. Beside it stands the truth: what the driver has given each process.
 *
 *     ledger RUNS SEED       prints the seed and the fault of the first run that goes wrong
 */
#define HAMI_MODEL
#include "compute_abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../../src/ledger/ledger.c"

enum { MEMBERS = 6, PROCESSES = 5, DEEDS = 14, LIMIT = 20, MOST = 8, STACK = 64 << 10, MAIN = MEMBERS };

static struct hami_region *region;
static uint64_t random_state, this_seed, steps;

/* Members are threads; the first two are of one process. Each process is born again once it has died. */
static struct member {
    ucontext_t context;
    char stack[STACK];
    bool runs;
    uint64_t stopped_until;
} members[MEMBERS];
static ucontext_t main_context;
static int at = MAIN;

static struct process {
    uint64_t owner; /* of its present life */
    unsigned slot;
    bool counted, dead, away;
    uint64_t truth;  /* pages of its own that the driver has given it */
    bool holds;      /* the share */
    uint64_t keeper; /* owner word of the process that suspends or resumes this one: a lock that ends with its holder */
} processes[PROCESSES];

/* The share: exported by one process, joined by others. */
static struct {
    int entry; /* -1: none */
    uint64_t identity, pages;
} shared;
static uint64_t identities;

static unsigned chance(unsigned below) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)(random_state >> 33) % below;
}

static struct process *process_of(int member) {
    return &processes[member == 0 ? 0 : member - 1];
}

__attribute__((noreturn)) static void wrong(const char *what) {
    printf("seed %llu, step %llu: %s\n", (unsigned long long)this_seed, (unsigned long long)steps, what);
    exit(1);
}

/* ---- the driver ---- */

static uint64_t on_device(void) {
    uint64_t sum = 0;
    bool held = false;
    for (unsigned i = 0; i < PROCESSES; i++) {
        sum += processes[i].away ? 0 : processes[i].truth;
        held = held || (processes[i].holds && !processes[i].away);
    }
    return sum + (held ? shared.pages : 0);
}

static void check(void) {
    if (on_device() > LIMIT)
        wrong("more is on the device than the limit");
}

static void die(struct process *p) {
    p->dead = true;
    p->truth = 0;
    p->holds = false;
    p->away = false;
}

/* ---- turns ---- */

void hami_step(void) {
    steps++;
    if (at == MAIN)
        return;
    check();
    if (chance(400) == 0)
        die(process_of(at));
    if (chance(200) == 0)
        members[at].stopped_until = steps + chance(3000);
    if (chance(3) == 0 || process_of(at)->dead || members[at].stopped_until > steps)
        swapcontext(&members[at].context, &main_context);
}

/* ---- what processes do ---- */

static void take(struct process *p, uint64_t pages) {
    if (hami_ledger_reserve(region, p->slot, p->owner, 0, pages, LIMIT)) {
        p->truth += pages;
        check();
    }
}

static void give(struct process *p) {
    uint64_t pages = p->truth == 0 ? 0 : 1 + chance((unsigned)p->truth);
    p->truth -= pages;
    hami_ledger_release(region, p->slot, 0, pages);
}

/* There is one share at a time, so its truth is one number. A process that is joining the last share finds it gone. */
static void export_share(struct process *p) {
    uint64_t pages = p->truth == 0 ? 0 : 1 + chance((unsigned)p->truth);
    bool held = false;
    for (unsigned i = 0; i < PROCESSES; i++)
        held = held || processes[i].holds;
    if (pages == 0 || held)
        return;
    shared.entry = -1;
    shared.identity = 0;
    int entry = hami_ledger_share_claim(region, p->slot);
    uint64_t identity = ++identities;
    if (entry < 0 || shared.identity != 0)
        return;        /* another has exported meanwhile */
    p->truth -= pages; /* the share has it now, and it is on the device as before */
    p->holds = true;
    shared.pages = pages;
    shared.identity = identity;
    hami_ledger_share_make(region, (unsigned)entry, p->slot, identity, 0, pages);
    hami_ledger_release(region, p->slot, 0, pages);
    if (shared.identity == identity)
        shared.entry = entry;
}

/* Joins as shared.c does. The driver gave the memory before: a process still has it, or the import would fail. */
static void join(struct process *p) {
    int entry = shared.entry;
    uint64_t identity = shared.identity;
    if (entry < 0)
        return;
    hami_ledger_share_hold(region, (unsigned)entry, p->slot, true);
    bool joined = hami_ledger_share_is(region, (unsigned)entry, identity) && hami_ledger_sum(region, 0) <= LIMIT;
    if (joined && shared.identity == identity) {
        p->holds = true;
        check();
    } else {
        hami_ledger_share_hold(region, (unsigned)entry, p->slot, false);
    }
}

static void leave(struct process *p) {
    int entry = shared.entry;
    if (entry >= 0) {
        p->holds = false;
        hami_ledger_share_hold(region, (unsigned)entry, p->slot, false);
    }
}

static bool lives(uint64_t owner) {
    for (unsigned i = 0; i < PROCESSES; i++)
        if (processes[i].owner == hami_ledger_who(owner) && !processes[i].dead)
            return true;
    return false;
}

/* Works as checkpoint.c does. Any process may suspend another at any moment; the driver then blocks the other's calls.
 */
static void suspend_or_resume(struct process *p, uint64_t keeper) {
    uint64_t owner = p->owner, limits[HAMI_DEVICES] = {LIMIT};
    if (!p->counted || p->dead || (p->keeper != 0 && lives(p->keeper)))
        return;
    p->keeper = keeper;
    (void)hami_ledger_turn(region, p->slot, owner, HAMI_SLOT_MOVING, p->away ? HAMI_SLOT_SUSPENDED : HAMI_SLOT_COUNTED);
    if (p->owner == owner && !p->dead && !p->away) {
        (void)hami_ledger_turn(region, p->slot, owner, HAMI_SLOT_COUNTED, HAMI_SLOT_MOVING);
        p->away = p->owner == owner && !p->dead;
        (void)hami_ledger_turn(region, p->slot, owner, HAMI_SLOT_MOVING, HAMI_SLOT_SUSPENDED);
    } else if (p->away && hami_ledger_resume(region, p->slot, owner, limits) == HAMI_DEVICES) {
        if (p->owner == owner)
            p->away = false;
        check();
        (void)hami_ledger_turn(region, p->slot, owner, HAMI_SLOT_MOVING, HAMI_SLOT_COUNTED);
    }
    if (p->owner == owner)
        p->keeper = 0;
}

static void sweep(uint64_t self) {
    unsigned count = hami_ledger_slots(region);
    for (unsigned i = 0; i < count; i++) {
        uint64_t owner = ledger_load(&region->block.owners[i]);
        if (owner != 0 && !lives(owner) && hami_ledger_claim(region, i, owner, self)) {
            hami_ledger_clear(region, i);
            hami_ledger_free(region, i);
        }
    }
}

static bool claim(struct process *p) {
    for (unsigned i = 0; i < PROCESSES + 1; i++) {
        if (ledger_load(&region->block.owners[i]) == 0 && hami_ledger_claim(region, i, 0, p->owner)) {
            p->slot = i;
            hami_ledger_clear(region, i);
            (void)hami_ledger_turn(region, i, p->owner, HAMI_SLOT_CLAIMED, HAMI_SLOT_COUNTED);
            return true;
        }
    }
    return false;
}

static void live(int member) {
    struct process *p = process_of(member);
    if (member != 1) { /* the second thread of the first process waits for the first */
        do {
            sweep(p->owner);
            p->counted = claim(p);
        } while (!p->counted);
    }
    for (unsigned i = 0; i < DEEDS; i++) {
        while (!p->counted || (p->away && chance(4) != 0))
            swapcontext(&members[member].context, &main_context);
        struct process *other = &processes[1 + chance(PROCESSES - 1)]; /* of one thread: what it does, it does alone */
        unsigned deed = p->away ? 9 : chance(10);
        if (deed < 4)
            take(p, 1 + chance(MOST));
        else if (deed < 6)
            give(p);
        else if (deed == 6 && member != 0 && member != 1)
            export_share(p);
        else if (deed == 7 && member != 0 && member != 1)
            p->holds ? leave(p) : join(p);
        else if (deed == 8)
            sweep(p->owner);
        else
            suspend_or_resume(other, p->owner);
    }
    members[member].runs = false;
}

static void begin(int member) {
    struct member *m = &members[member];
    getcontext(&m->context);
    m->context.uc_stack.ss_sp = m->stack;
    m->context.uc_stack.ss_size = STACK;
    m->context.uc_link = &main_context;
    makecontext(&m->context, (void (*)(void))live, 1, member);
    m->runs = true;
    m->stopped_until = 0;
}

static void bear(unsigned process, uint64_t pid) {
    processes[process] = (struct process){.owner = pid};
    for (int member = 0; member < MEMBERS; member++)
        if (process_of(member) == &processes[process])
            begin(member);
}

/* ---- one run ---- */

static void run(void) {
    uint64_t pids = 0;
    memset(region->block.owners, 0, sizeof region->block.owners);
    memset(region->block.held[0], 0, 64 * sizeof region->block.held[0][0]);
    memset(region->block.shares, 0, 8 * sizeof region->block.shares[0]);
    region->v1.process_num = 0;
    region->block.shares_used = 0;
    memset(&shared, 0, sizeof shared);
    shared.entry = -1;
    for (unsigned i = 0; i < PROCESSES; i++)
        bear(i, ++pids);
    for (unsigned lives_left = 4, left = 1; left != 0; steps++) {
        int ready[MEMBERS], count = 0;
        left = 0;
        for (int i = 0; i < MEMBERS; i++) {
            bool can = members[i].runs && !process_of(i)->dead;
            left += can;
            if (can && members[i].stopped_until <= steps)
                ready[count++] = i;
        }
        unsigned again = chance(PROCESSES);
        if (processes[again].dead && lives_left > 0) {
            lives_left--;
            left++;
            bear(again, ++pids);
        } else if (count > 0) {
            at = ready[chance((unsigned)count)];
            swapcontext(&main_context, &members[at].context);
            at = MAIN;
        }
    }
    uint64_t last = ++pids;
    for (unsigned i = 0; i < PROCESSES; i++) { /* a process may have died while it suspended or resumed another */
        enum hami_slot_state now = processes[i].away ? HAMI_SLOT_SUSPENDED : HAMI_SLOT_COUNTED;
        (void)hami_ledger_turn(region, processes[i].slot, processes[i].owner, HAMI_SLOT_MOVING, now);
    }
    sweep(last);
    uint64_t sum = hami_ledger_sum(region, 0);
    if (sum != on_device())
        wrong("when all is quiet, the sum is not what is on the device");
    for (unsigned i = 0; i < PROCESSES; i++)
        die(&processes[i]);
    sweep(last);
    if (hami_ledger_sum(region, 0) != 0)
        wrong("when all are gone, something is left");
}

int main(int argc, char **argv) {
    uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : 1, seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    region = mmap(NULL, HAMI_REGION_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (uint64_t i = 0; i < runs; i++) {
        this_seed = seed + i;
        random_state = this_seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
        steps = 0;
        run();
    }
    return 0;
}
