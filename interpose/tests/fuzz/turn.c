/*
 * Turns and the gate over a turn page that other tenants write at any moment, also between two reads of one decision.
 * Promises: what the page says is believed no further than turn.h says, nothing outside the page is read, writes stay
 * in our slot or under the lock, and no launch waits longer than promised. Time is a number here; a wait moves it
 * forward.
 *
 * An input is what the page says at first, then deeds: of this container, and of the others before each read.
 */
/* In place of doors/hook.h, which needs a generated header. */
#define HAMI_HOOK_H
#include "../../src/compute/turn.c"
#include "../../src/compute/gate.c"
#include "../../src/compute/turn_yield.c"

#include "fuzz.h"

enum { DEEDS = 24, BUSY = 500, DEBT = 10000000, ENDS = 20000000 };
#define LONGEST_WAIT (TURNS_MOST_NS + 2 * WAIT_MOST_NS + DEBT * 100 / 30 + ENDS)

struct input {
    const uint8_t *at, *end;
};

static struct input in;
static struct hami_turn_page content;
static struct hami_compute_device shared;
static struct hami_compute_process own;
static struct hami_region_view view;
static struct limited_device device;
static struct snapshot standing;
static uint64_t now, deadline;
static bool locked, restless, completes_late, completed;

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
                              now + HOLDER_SILENT_AFTER_NS,
                              now - HOLDER_SILENT_AFTER_NS - 1,
                              now - TURN_NS,
                              now + (uint64_t)TURNS_OFF_TIMES * WAIT_MOST_NS,
                              now - SLOT_GONE_AFTER_NS - 1,
                              LAUNCH_BELIEVED_NS + 1,
                              FRONTIER_LATE_NS};
    unsigned which = byte(), high = which == 255 ? byte() : 0;
    return which < sizeof known / sizeof known[0] ? known[which] : (uint64_t)byte() << high % 64;
}

static uint64_t next_turn(unsigned holder) {
    return ((content.turn >> HOLDER_BITS) + 1) << HOLDER_BITS | holder;
}

/* Two others give the turn to and fro, and live. */
static void to_and_fro(void) {
    unsigned other = (unsigned)(content.turn >> HOLDER_BITS) % 2 + 2;
    content.turn = next_turn(other);
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
        slot->owner = atomic_load(&shared.identity);
        break;
    case BEAT:
        slot->life.beat = value();
        break;
    case LONGEST:
        slot->life.longest_launch = value();
        break;
    case ARREARS:
        slot->wish.arrears = (int64_t)value();
        break;
    case WAITING:
        slot->wish.waiting = value();
        break;
    case HAND_OVER:
        content.turn = next_turn(byte() % 4 + 1);
        content.since = now;
        break;
    default:
        break;
    }
}

/* ---- what turn.c, turn_yield.c and gate.c call ---- */

static bool fails(void) {
    return byte() % 16 == 15;
}

bool page_read(struct page *p, struct hami_turn_page *seen, size_t size) {
    (void)p;
    PROMISE(size == TURN_PAGE_HEADER || size == TURN_PAGE_WHOLE);
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
    if (at < TURN_PAGE_HEADER) {
        PROMISE((at == turn && locked && (size == 16 || size == 24)) || (at == frontier && size == 8));
    } else {
        size_t slot = (at - TURN_PAGE_HEADER) / sizeof(struct hami_turn_slot),
               field = at - TURN_SLOT_OFFSET(slot, owner);
        bool futex = field == offsetof(struct hami_turn_slot, futex) && size == 4;
        PROMISE(slot < HAMI_TURN_SLOTS && field + size <= sizeof(struct hami_turn_slot));
        PROMISE(field == 0 || futex || slot == atomic_load(&device.turn_slot));
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

/* On a page that was cut short a wait returns at once. Behind the end of the input it takes all its time. */
static void wait_up_to(uint64_t ns) {
    PROMISE(!locked && ns <= WAIT_MOST_NS);
    now += in.at < in.end ? ns / (1 + byte() % 64) : ns;
}

const _Atomic uint32_t *page_futex(const struct page *p, size_t at) {
    (void)p;
    PROMISE(at < TURN_PAGE_WHOLE);
    return (const _Atomic uint32_t *)(const void *)((const char *)&content + at);
}

void limited_device_open_page(struct limited_device *d) {
    (void)d;
}

uint64_t compute_now(void) {
    now += BUSY;
    PROMISE(now <= deadline); /* of the launch under way */
    return now;
}

void compute_sleep_until(uint64_t due) {
    PROMISE(!locked && (due <= now || due - now <= WAIT_MOST_NS));
    now = due > now ? due : now;
}

/* Nobody would wake a launch that sleeps although the work that it waits for has completed since its last look. */
void compute_wait(const _Atomic uint32_t *word, uint32_t seen, uint32_t bits, uint64_t ns) {
    (void)bits;
    size_t own_futex = TURN_SLOT_OFFSET(atomic_load(&device.turn_slot), futex);
    PROMISE(word == &shared.completions || word == &shared.serving || word == page_futex(NULL, own_futex));
    PROMISE(!completed || word != &shared.completions || *word != seen);
    wait_up_to(ns);
}

/* Time pays in, and what is under way ends, or completes just after the look. */
struct snapshot balance_read(struct limited_device *d) {
    struct snapshot s = standing;
    s.now = compute_now();
    int64_t paid = (int64_t)(s.now - standing.now) * balance_share(d) / 100;
    s.balance = standing.balance + paid < WAITING_ALLOWANCE_NS ? standing.balance + paid : WAITING_ALLOWANCE_NS;
    if (s.now - standing.now > ENDS) {
        s.reserved = s.expected = 0;
        s.events = 0;
    }
    completed = completes_late && s.reserved > 0;
    if (completed) {
        standing.reserved = standing.expected = standing.steady = 0;
        standing.events = 0;
        atomic_fetch_add(&shared.completions, 1);
    }
    return s;
}

bool balance_waits_for_turn(const struct limited_device *d) {
    return atomic_load(&d->own->waiting_for_turn) != 0;
}

uint64_t balance_work_since(const struct limited_device *d, enum balance_work work, uint64_t first) {
    (void)d;
    (void)work;
    return first;
}

/* ---- deeds of ours ---- */

static void launch(void) {
    int64_t amount = GRANT_NS;
    deadline = now + LONGEST_WAIT;
    (void)gate_pass(&device, &amount, false, GRANT_NS);
    deadline = UINT64_MAX;
    PROMISE(amount > 0 && amount <= GRANT_MOST_NS);
    PROMISE(atomic_load(&own.waiters) == 0 && atomic_load(&own.waiting_for_turn) == 0 &&
            atomic_load(&own.waiting_for_event) == 0);
    PROMISE(atomic_load(&shared.serving) == atomic_load(&shared.ticket));
    atomic_store(&own.reserved, 0);
}

static void complete(void) {
    uint64_t end = now - (uint64_t)byte() * 10000, got = atomic_load(&shared.turn_since);
    uint64_t before = atomic_load(&shared.frontier), found = turn_frontier(&device, end);
    got = atomic_load(&shared.turn_since) > got ? atomic_load(&shared.turn_since) : got;
    PROMISE(found <= end && found <= got + FRONTIER_LATE_NS);
    atomic_store(&shared.frontier, end > before ? end : before);
    turn_move_frontier(&device, end);
}

static void yield(void) {
    uint64_t due = yield_turn(&device), most = turn_is_alone(&device, now) ? WATCH_NS : WATCH_END_NS;
    PROMISE(due == UINT64_MAX || (due > now - 100 * BUSY && due <= now + most));
}

static void ask(void) {
    uint64_t patience = 0;
    (void)turn_take(&device, now, &patience);
    PROMISE(patience == 0 || patience >= WAIT_MOST_NS);
    PROMISE(patience <= WAIT_MOST_NS + 2 * (uint64_t)LAUNCH_BELIEVED_NS);
    PROMISE(atomic_load(&device.others_longest) <= LAUNCH_BELIEVED_NS);
}

static void work(void) {
    standing = (struct snapshot){.now = now,
                                 .balance = (int64_t)byte() * 300000 - DEBT,
                                 .reserved = (int64_t)(byte() % 16) * GRANT_NS,
                                 .events = byte() % 4,
                                 .forfeited = (uint64_t)byte() * 1000000};
    standing.expected = standing.steady = standing.reserved;
    atomic_store(&shared.longest_launch, (uint64_t)byte() * 100000);
    atomic_store(&shared.last_grant_at, now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    enum { LAUNCH, COMPLETE, YIELD, ASK, WORK, LATER, KINDS };
    in = (struct input){data, data + size};
    now = UINT64_C(1) << 40;
    deadline = UINT64_MAX;
    memset(&content, 0, sizeof content);
    memset(&shared, 0, sizeof shared);
    memset(&own, 0, sizeof own);
    memset(&device, 0, sizeof device);
    content.magic = HAMI_TURN_MAGIC;
    content.version = HAMI_TURN_VERSION;
    content.size = sizeof content;
    standing = (struct snapshot){.now = now, .balance = WAITING_ALLOWANCE_NS};
    device.shared = &shared;
    device.own = &own;
    device.view = &view;
    device.share = 30;
    device.charge_ratio = 1;
    unsigned habits = byte();
    restless = habits % 2 == 1;
    completes_late = habits / 2 % 2 == 1;
    for (unsigned i = byte() % 16; i > 0; i--) {
        meddle();
    }
    for (unsigned i = 0; i < DEEDS && in.at < in.end; i++) {
        switch (byte() % KINDS) {
        case LAUNCH:
            launch();
            break;
        case COMPLETE:
            complete();
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
            now += value() % SLOT_GONE_AFTER_NS;
        }
        PROMISE(!locked && atomic_load(&device.turn_slot) < HAMI_TURN_SLOTS);
    }
    launch();
    return 0;
}

/* ---- what plays no part here ---- */

void compute_wake(const _Atomic uint32_t *word, uint32_t bits) {
    (void)word;
    (void)bits;
}

struct peers balance_peers(const struct limited_device *d, uint64_t now) {
    (void)d;
    (void)now;
    return (struct peers){0, INT64_MAX, INT64_MAX, 0};
}

int64_t balance_counted_grant(const struct limited_device *d, int64_t amount) {
    (void)d;
    return amount;
}

int64_t balance_share(const struct limited_device *d) {
    return d->share;
}

int64_t balance_arrears(const struct limited_device *d, const struct snapshot *s) {
    return s->balance * 100 / balance_share(d);
}

int limited_devices_refresh(void) {
    return COMPUTE_ON;
}

void compute_lock(void) {
}

void compute_unlock(void) {
}

void helper_wake(void) {
}

void close_all(struct limited_device *d) {
    (void)d;
}

void close_hurry(const struct limited_device *d) {
    (void)d;
}

void collect_if_due(struct limited_device *d, uint64_t now) {
    (void)d;
    (void)now;
}

bool hami_region_sweep(struct hami_region_view *view) {
    (void)view;
    return false;
}

static const struct hami_limits limits;

_Atomic(const struct hami_limits *) hami_state_limits_now = &limits;

const struct hami_limits *hami_state_started_limits(void) {
    return &limits;
}

uint64_t hami_process_self(void) {
    return 1;
}

void compute_look_by(uint64_t due) {
    PROMISE(due == UINT64_MAX || due <= now + WATCH_NS);
}
