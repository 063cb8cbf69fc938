/*
 * The turn page, which every tenant of the device may write at any moment, also between two looks of one decision: what
 * it says is believed so far as promised, nothing outside it is read, what is written lies where it may, and no launch
 * waits longer than promised. Time is a number here; a wait moves it on.
 *
 * An input is what the page says at first, then deeds: of this container, and of the others before each look.
 */
/* In place of hami/hook.h, which is generated in part. */
#define HAMI_HOOK_H
#include "../../src/compute/turn.c"
#include "../../src/compute/gate.c"

#include "alone.h"
#include "fuzz.h"

enum { DEEDS = 24, BUSY = 500, DEBT = 10000000, ENDS = 20000000 };
#define LONGEST_WAIT (TURNS_MOST + 2 * PATIENCE + DEBT * 100 / 30 + ENDS)

struct input {
    const uint8_t *at, *end;
};

static struct input in;
static struct hami_turn_page content;
static struct hami_compute_device device;
static struct hami_compute_process own;
static struct hami_region_view view;
static struct machine machine;
static struct standing standing;
static uint64_t now, deadline;
static bool locked, restless;

static unsigned byte(void) {
    return in.at < in.end ? *in.at++ : 0;
}

/* Numbers at which decisions turn, and any. */
static uint64_t value(void) {
    const uint64_t known[] = {0,
                              1,
                              63,
                              64,
                              65,
                              UINT16_MAX,
                              UINT64_MAX,
                              INT64_MAX,
                              INT64_MIN,
                              now,
                              now + 1,
                              now - 1,
                              now + SILENT,
                              now - SILENT - 1,
                              now - QUANTUM,
                              now + (uint64_t)REST * PATIENCE,
                              now - GONE - 1,
                              LONGEST_BELIEVED + 1,
                              TAIL};
    unsigned which = byte(), high = which == 255 ? byte() : 0;
    return which < sizeof known / sizeof known[0] ? known[which] : (uint64_t)byte() << high % 64;
}

/* Two others give the turn to and fro, and live. */
static void to_and_fro(void) {
    unsigned other = (unsigned)(content.turn >> HOLDER_BITS) % 2 + 2;
    content.turn = next_word(content.turn, other);
    content.since = content.slots[other - 1].life.beat = now;
    content.slots[other - 1].owner = other;
}

/* What another tenant does to the page. */
static void meddle(void) {
    enum { NOTHING, TURN, SINCE, FRONTIER, OWNER, OURS, BEAT, LONGEST, ARREARS, WAITING, HAND_OVER, KINDS };
    struct hami_turn_slot *slot = &content.slots[byte() % 4];
    switch (byte() % KINDS) {
    case TURN:
        content.turn = value();
        break;
    case SINCE:
        content.since = value();
        break;
    case FRONTIER:
        content.frontier = value();
        break;
    case OWNER:
        slot->owner = value();
        break;
    case OURS:
        slot->owner = atomic_load(&device.identity);
        break;
    case BEAT:
        slot->life.beat = value();
        break;
    case LONGEST:
        slot->life.longest = value();
        break;
    case ARREARS:
        slot->wish.arrears = (int64_t)value();
        break;
    case WAITING:
        slot->wish.waiting = value();
        break;
    case HAND_OVER:
        content.turn = next_word(content.turn, byte() % 4 + 1);
        content.since = now;
        break;
    default:
        break;
    }
}

/* ---- what the two stand on ---- */

static bool fails(void) {
    return byte() % 16 == 15;
}

bool page_read(struct page *p, struct hami_turn_page *seen, size_t size) {
    (void)p;
    PROMISE(size == HEADER || size == WHOLE);
    meddle();
    if (restless && in.at >= in.end) {
        to_and_fro();
    }
    memcpy(seen, &content, size);
    return !fails();
}

bool page_write(struct page *p, size_t at, const void *from, size_t size) {
    (void)p;
    size_t turn = offsetof(struct hami_turn_page, turn), frontier = offsetof(struct hami_turn_page, frontier);
    if (at < HEADER) {
        PROMISE((at == turn && locked && (size == 16 || size == 24)) || (at == frontier && size == 8));
    } else {
        size_t slot = (at - HEADER) / sizeof(struct hami_turn_slot), field = at - IN_SLOT(slot, owner);
        bool futex = field == offsetof(struct hami_turn_slot, futex) && size == 4;
        PROMISE(slot < HAMI_TURN_SLOTS && field + size <= sizeof(struct hami_turn_slot));
        PROMISE(field == 0 || futex || slot == atomic_load(&machine.turn_slot));
        PROMISE(locked || (field != 0 && !futex));
    }
    if (fails()) {
        return false;
    }
    memcpy((char *)&content + at, from, size);
    return true;
}

bool page_lock(struct page *p) {
    (void)p;
    PROMISE(!locked);
    locked = !fails();
    return locked;
}

void page_unlock(struct page *p) {
    (void)p;
    PROMISE(locked);
    locked = false;
}

/* What is cut off answers at once; with nothing more to come a wait takes all its time. */
static void wait_up_to(uint64_t ns) {
    PROMISE(!locked && ns <= PATIENCE);
    now += in.at < in.end ? ns / (1 + byte() % 64) : ns;
}

void page_wait(const struct page *p, size_t at, uint32_t seen, uint64_t ns) {
    (void)p;
    (void)seen;
    PROMISE(at == IN_SLOT(atomic_load(&machine.turn_slot), futex));
    wait_up_to(ns);
}

void page_wake(const struct page *p, size_t at) {
    (void)p;
    PROMISE(at < WHOLE);
}

void page_open(struct page *p, const char *path) {
    (void)p;
    (void)path;
}

uint64_t compute_now(void) {
    now += BUSY;
    PROMISE(now <= deadline); /* of the launch under way */
    return now;
}

void compute_sleep_until(uint64_t due) {
    PROMISE(!locked && (due <= now || due - now <= PATIENCE));
    now = due > now ? due : now;
}

void compute_wait(const _Atomic uint32_t *word, uint32_t seen, uint64_t ns) {
    (void)word;
    (void)seen;
    wait_up_to(ns);
}

/* Time pays in, and what is under way ends. */
void balance_read(struct machine *m, struct standing *s) {
    *s = standing;
    s->now = compute_now();
    int64_t paid = (int64_t)(s->now - standing.now) * balance_share(m) / 100;
    s->balance = standing.balance + paid < BACKLOG ? standing.balance + paid : BACKLOG;
    if (s->now - standing.now > ENDS) {
        s->out = s->expected = 0;
        s->marks = 0;
    }
}

int64_t balance_arrears(const struct machine *m, const struct standing *s) {
    return s->balance * 100 / balance_share(m);
}

bool balance_in_turn(const struct machine *m) {
    return atomic_load(&m->own->in_turn) != 0;
}

uint64_t balance_oldest(const struct machine *m, uint64_t opened) {
    (void)m;
    return opened;
}

/* ---- deeds of ours ---- */

static void launch(void) {
    int64_t amount = BATCH;
    deadline = now + LONGEST_WAIT;
    (void)gate_pass(&machine, &amount, false, BATCH);
    deadline = UINT64_MAX;
    PROMISE(amount > 0 && amount <= BATCH_MOST);
    PROMISE(atomic_load(&own.waiting) == 0 && atomic_load(&own.in_turn) == 0 && atomic_load(&own.fed) == 0);
    PROMISE(atomic_load(&device.serving) == atomic_load(&device.ticket));
    atomic_store(&own.out, 0);
}

static void settle(void) {
    uint64_t end = now - (uint64_t)byte() * 10000, got = atomic_load(&device.turn_got);
    uint64_t before = atomic_load(&device.frontier), found = turn_frontier(&machine, end);
    got = atomic_load(&device.turn_got) > got ? atomic_load(&device.turn_got) : got;
    PROMISE(found <= end && found <= got + TAIL);
    atomic_store(&device.frontier, end > before ? end : before);
    turn_move_frontier(&machine, end);
}

static void yield(void) {
    uint64_t due = turn_yield(&machine), most = turn_alone(&machine, now) ? LINGER : TEND;
    PROMISE(due == UINT64_MAX || (due > now - 100 * BUSY && due <= now + most));
}

static void ask(void) {
    PROMISE(turn_patience(&machine) <= PATIENCE + 2 * (uint64_t)LONGEST_BELIEVED);
    PROMISE(turn_longest(&machine, now) <= LONGEST_BELIEVED);
}

static void work(void) {
    standing = (struct standing){.now = now,
                                 .balance = (int64_t)byte() * 300000 - DEBT,
                                 .out = (int64_t)(byte() % 4) * BATCH,
                                 .marks = byte() % 4,
                                 .lost = (uint64_t)byte() * 1000000};
    standing.expected = standing.out;
    atomic_store(&device.longest, (uint64_t)byte() * 100000);
    atomic_store(&device.last_grant, now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LAUNCH, SETTLE, YIELD, ASK, WORK, LATER, KINDS };
    in = (struct input){data, data + size};
    now = UINT64_C(1) << 40;
    deadline = UINT64_MAX;
    memset(&content, 0, sizeof content);
    memset(&device, 0, sizeof device);
    memset(&own, 0, sizeof own);
    memset(&machine, 0, sizeof machine);
    content.magic = HAMI_TURN_MAGIC;
    content.version = HAMI_TURN_VERSION;
    content.size = sizeof content;
    standing = (struct standing){.now = now, .balance = BACKLOG};
    machine.shared = &device;
    machine.own = &own;
    machine.view = &view;
    machine.share = 30;
    machine.ratio = 1;
    restless = byte() % 2 == 1;
    for (unsigned i = byte() % 16; i > 0; i--) {
        meddle();
    }
    for (unsigned i = 0; i < DEEDS && in.at < in.end; i++) {
        switch (byte() % KINDS) {
        case LAUNCH:
            launch();
            break;
        case SETTLE:
            settle();
            break;
        case YIELD:
            yield();
            break;
        case ASK:
            ask();
            break;
        case WORK:
            work();
            break;
        default:
            now += value() % GONE;
        }
        PROMISE(!locked && atomic_load(&machine.turn_slot) < HAMI_TURN_SLOTS);
    }
    launch();
    return 0;
}

/* ---- what they do not ask here ---- */

static const struct hami_limits limits;

_Atomic(const struct hami_limits *) hami_state_limits_now = &limits;

const struct hami_limits *hami_state_started_limits(void) {
    return &limits;
}

bool hami_state_turn_path(const char *uuid, char path[4096]) {
    (void)uuid;
    (void)path;
    return false;
}

uint64_t hami_process_self(void) {
    return 1;
}

void helper_wake_by(uint64_t due) {
    PROMISE(due == UINT64_MAX || due <= now + LINGER);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    return 0;
}
