/*
 * The region, as a file from anybody: another size, damaged anywhere, or not a file at all. What is refused stays as it
 * was; what is accepted has the headers of the layout, and whatever stands behind them, work on it stays inside the
 * mapping (pages that nobody may touch lie on both sides), ends, and counts right from where it found the counters.
 *
 * An input is a kind of file, then damages to the content of hami_interpose.region.initial(), which HAMI_FUZZ_REGION
 * names, then what is done with it.
 */
#include <sys/mman.h>

static void *guarded_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
static int guarded_munmap(void *at, size_t size);
#define mmap guarded_mmap
#define munmap guarded_munmap
#include "../../src/ledger/region.c"
#undef mmap
#undef munmap

#include "fuzz.h"
#include "compute/compute.h"
#include "ledger/state.h"
#include "doors/hook.h"
#include "memory/memory.h"
#include "memory/shared.h"
#include "parts.h"

enum { GUARD = 1 << 16, PAGE = 4096, PAGES = HAMI_REGION_SIZE / PAGE };
_Static_assert(HAMI_REGION_SIZE % PAGE == 0, "the mapping ends where its last page does");

static const struct hami_limits limits = {.mode = HAMI_MODE_ENFORCE, .device_count = 1};
static uint8_t fresh[HAMI_REGION_SIZE], content[HAMI_REGION_SIZE];
static bool touched[PAGES], holds[PAGES];
static char path[4096];
static int file = -1;
static unsigned mapped;

/* As parts.c, without the parts that this program does not link. */
const struct hami_parts hami_parts = {
    .swept = {hami_checkpoint_look_all},
    .process_gone = {hami_compute_forget},
};

/* The driver, which says of every process that it is in that state, or from 6 on that it knows none. */
static int32_t driver_state;

static int32_t get_state(int32_t pid, int32_t *state) {
    (void)pid;
    *state = driver_state;
    return driver_state < 6 ? 0 : 1;
}

void *hami_named_function_there(const struct hami_named *named) {
    (void)named;
    return (void *)get_state;
}

/* Shares are this process's: of the region at hand. */
static struct hami_region_view *current;
_Atomic(struct hami_region_view *) hami_state_region_now;
_Atomic(const struct hami_limits *) hami_state_limits_now = &limits;

struct hami_region_view *hami_state_claimed_region(enum hami_reason *why) {
    (void)why;
    return current;
}

/* As charge.c does under a limit that leaves room for whatever can be counted. */
uint64_t hami_charge_limit(const struct hami_limits *limits, int device) {
    (void)limits;
    (void)device;
    return HAMI_UNLIMITED;
}

bool hami_charge_attempt(struct hami_region_view *view, int device, uint64_t bytes, hami_attempt *attempt, void *of) {
    (void)device;
    (void)bytes;
    return attempt(view, of) == 0;
}

bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes) {
    uint64_t pages = bytes >> HAMI_PAGE_SHIFT;
    if (!hami_region_charge(current, (unsigned)charge->device, pages, HAMI_UNLIMITED, HAMI_COLUMN_DATA)) {
        return false;
    }
    charge->pages += pages;
    return true;
}

void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column) {
    hami_region_release(current, (unsigned)charge->device, charge->pages, column);
}

static void *guarded_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset) {
    PROMISE(at == NULL && size == HAMI_REGION_SIZE && offset == 0);
    char *area = mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    PROMISE(area != MAP_FAILED);
    mapped++;
    return mmap(area + GUARD, size, protection, flags | MAP_FIXED, fd, offset);
}

static int guarded_munmap(void *at, size_t size) {
    PROMISE(size == HAMI_REGION_SIZE);
    mapped--;
    return munmap((char *)at - GUARD, size + 2 * GUARD);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    const char *name = getenv("HAMI_FUZZ_REGION");
    FILE *initial = name == NULL ? NULL : fopen(name, "rb");
    PROMISE(initial != NULL && fread(fresh, 1, sizeof fresh, initial) == sizeof fresh && fgetc(initial) == EOF);
    (void)fclose(initial);
    for (unsigned i = 0; i < PAGES; i++) {
        for (unsigned at = 0; at < PAGE; at++) {
            holds[i] = holds[i] || fresh[i * PAGE + at] != 0;
        }
    }
    memcpy(content, fresh, sizeof content);
    file = scratch_file(path, sizeof path);
    return 0;
}

/* ---- the input ---- */

struct input {
    const uint8_t *at, *end;
};

static unsigned byte(struct input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static uint64_t number(struct input *in, unsigned bytes) {
    uint64_t found = 0;
    for (unsigned i = 0; i < bytes; i++) {
        found |= (uint64_t)byte(in) << 8 * i;
    }
    return found;
}

/* Numbers at which arithmetic turns, and those that say who lives. */
static uint64_t value(struct input *in) {
    const uint64_t known[] = {0,
                              1,
                              2,
                              3,
                              HAMI_PAGES_MAX,
                              HAMI_PAGES_MAX + 1,
                              UINT64_MAX,
                              INT64_MAX,
                              INT64_MIN,
                              UINT32_MAX,
                              INT32_MAX,
                              HAMI_PROCESSES,
                              0x3fffff,
                              1 << 22,
                              hami_process_self(),
                              hami_process_self() | UINT64_C(1) << HAMI_OWNER_STATE_SHIFT,
                              (uint64_t)getppid() | UINT64_C(2) << HAMI_OWNER_STATE_SHIFT};
    unsigned which = byte(in);
    return which < sizeof known / sizeof known[0] ? known[which] : number(in, 8);
}

static void damage(uint64_t at, const void *bytes, size_t size) {
    for (size_t i = 0; i < size && at + i < HAMI_REGION_SIZE; i++) {
        content[at + i] = ((const uint8_t *)bytes)[i];
        touched[(at + i) / PAGE] = true;
    }
}

static unsigned slot_of(struct input *in) {
    unsigned which = byte(in);
    return which >= 250 ? HAMI_PROCESSES - 1 : which % 4;
}

#define BLOCK(field) (HAMI_BLOCK_OFFSET + offsetof(struct hami_block, field))
#define COMPUTE(field) (HAMI_COMPUTE_OFFSET + offsetof(struct hami_compute, field))

static void damage_once(struct input *in) {
    static const uint32_t words[] = {0,
                                     4,
                                     8,
                                     BLOCK(magic),
                                     BLOCK(magic) + 4,
                                     BLOCK(version),
                                     BLOCK(size),
                                     BLOCK(header_size),
                                     BLOCK(device_size),
                                     BLOCK(slot_size),
                                     BLOCK(device_count),
                                     COMPUTE(magic),
                                     COMPUTE(magic) + 4,
                                     COMPUTE(version),
                                     COMPUTE(size),
                                     COMPUTE(header_size),
                                     COMPUTE(device_size),
                                     COMPUTE(process_size),
                                     offsetof(struct hami_v1, process_num)};
    enum { WORD, ANYWHERE, OWNER, HELD, SLOT, OUT, CORES, SHARE, SHARES_USED, SWEPT, KINDS };
    uint64_t at = 0;
    size_t size = 8;
    switch (byte(in) % KINDS) {
    case WORD:
        at = words[byte(in) % (sizeof words / sizeof words[0])];
        size = 4;
        break;
    case ANYWHERE:
        at = number(in, 3) % HAMI_REGION_SIZE;
        size = byte(in) % 8 + 1;
        break;
    case OWNER:
        at = BLOCK(owners) + slot_of(in) * sizeof(uint64_t);
        break;
    case HELD:
        at = BLOCK(held) + slot_of(in) * sizeof(uint64_t);
        at += byte(in) % HAMI_COUNTERS * HAMI_PROCESSES * sizeof(uint64_t);
        break;
    case SLOT:
        at = BLOCK(slots) + slot_of(in) * sizeof(struct hami_slot) + byte(in) % 4 * 8;
        break;
    case OUT:
        at = COMPUTE(processes) + byte(in) % 64 * sizeof(struct hami_compute_process);
        break;
    case CORES:
        at = BLOCK(devices) + byte(in) % HAMI_DEVICES * sizeof(struct hami_device);
        at += offsetof(struct hami_device, cores);
        size = 4;
        break;
    case SHARE:
        at = BLOCK(shares) + byte(in) % 4 * sizeof(struct hami_share_entry) + byte(in) % 4 * 8;
        break;
    case SHARES_USED:
        at = BLOCK(shares_used);
        size = 4;
        break;
    default:
        at = BLOCK(swept);
    }
    uint64_t bytes = value(in);
    damage(at, &bytes, size);
}

/* ---- the file ---- */

static void write_content(uint64_t size) {
    PROMISE(ftruncate(file, 0) == 0 && ftruncate(file, (off_t)size) == 0);
    for (unsigned i = 0; i < PAGES; i++) {
        uint64_t at = (uint64_t)i * PAGE, most = at < size ? size - at : 0;
        if (touched[i] || holds[i]) {
            size_t length = most < PAGE ? most : PAGE;
            PROMISE(pwrite(file, content + at, length, (off_t)at) == (ssize_t)length);
        }
    }
}

static void unchanged(uint64_t size) {
    uint8_t page[PAGE];
    PROMISE(lseek(file, 0, SEEK_END) == (off_t)size);
    for (off_t at = lseek(file, 0, SEEK_DATA); at >= 0 && at < (off_t)size; at = lseek(file, at + PAGE, SEEK_DATA)) {
        at -= at % PAGE;
        ssize_t length = pread(file, page, sizeof page, at);
        PROMISE(length > 0);
        for (ssize_t i = 0; i < length; i++) {
            PROMISE(page[i] == (at + i < (off_t)HAMI_REGION_SIZE ? content[at + i] : 0));
        }
    }
}

/* The headers but for the minor version and the number of devices, which are for readers. */
static bool headers_whole(void) {
    return memcmp(content, fresh, 8) == 0 &&
           memcmp(content + HAMI_BLOCK_OFFSET, fresh + HAMI_BLOCK_OFFSET, offsetof(struct hami_block, device_count)) ==
               0 &&
           memcmp(content + HAMI_COMPUTE_OFFSET, fresh + HAMI_COMPUTE_OFFSET, offsetof(struct hami_compute, pad)) == 0;
}

/* ---- what is done with it ---- */

static uint64_t own(const struct hami_region_view *view, unsigned device) {
    return view->region->block.held[device][view->slot];
}

static void charge(struct hami_region_view *view, struct input *in, unsigned device) {
    uint64_t pages = value(in), limit = value(in), before = own(view, device),
             used = hami_ledger_sum(view->region, device);
    bool done = hami_region_charge(view, device, pages, limit, HAMI_COLUMN_DATA);
    PROMISE(own(view, device) == before + (done ? pages : 0));
    PROMISE(!done || pages == 0 || limit == HAMI_UNLIMITED || hami_ledger_sum(view->region, device) <= limit);
    PROMISE(done || pages > HAMI_PAGES_MAX || used + pages > limit || before + pages > HAMI_PAGES_MAX);
}

static void share(struct hami_region_view *view, struct input *in, unsigned device) {
    uint64_t identity = value(in) % 4, pages = value(in), before = own(view, device % HAMI_DEVICES);
    struct hami_charge taken = {(int)(device % HAMI_DEVICES), 0};
    hami_share adopted = -1, exported = -1;
    (void)hami_shared_take_up(identity, 0, &adopted);
    if (adopted < 0) {
        (void)hami_shared_adopt(identity, taken.device, pages, &adopted);
    }
    if (hami_charge_grow(&taken, (pages % HAMI_PAGES_MAX) << HAMI_PAGE_SHIFT)) {
        exported = hami_shared_export(value(in), &taken);
    }
    if (adopted >= 0) {
        (void)hami_shared_grow(adopted, value(in));
        hami_shared_close(adopted);
    }
    if (exported >= 0) {
        hami_shared_resize(exported, &taken, value(in) % HAMI_PAGES_MAX);
        hami_shared_let_go(exported, &taken);
    } else {
        hami_charge_give_back(&taken, HAMI_COLUMN_DATA);
    }
    PROMISE(own(view, device % HAMI_DEVICES) == before);
}

/* Brings one slot to what the driver says. */
static void suspend(struct hami_region_view *view, struct input *in) {
    _Atomic uint64_t *owner = &view->region->block.owners[byte(in) % 4];
    uint64_t before = *owner;
    driver_state = (int32_t)byte(in) % 8;
    hami_checkpoint_look(view, (unsigned)(owner - view->region->block.owners));
    PROMISE(hami_ledger_who(*owner) == hami_ledger_who(before));
    PROMISE(driver_state <= 3 || *owner == before);
    *owner = before;
}

static void claim(struct hami_region_view *view) {
    const _Atomic uint64_t *owners = view->region->block.owners;
    if (hami_region_claim(view)) {
        PROMISE(view->slot < HAMI_PROCESSES && hami_ledger_who(owners[view->slot]) == hami_process_self());
        PROMISE(hami_region_slot_pid(view, view->slot) == getpid());
        for (unsigned device = 0; device < HAMI_COUNTERS; device++) {
            PROMISE(own(view, device) == 0);
        }
    }
    for (unsigned i = 0; !view->has_slot && i < HAMI_PROCESSES; i++) {
        PROMISE(owners[i] != 0);
    }
}

static void use(struct hami_region_view *view, struct input *in) {
    enum { CHARGE, RELEASE, SWEEP, REFUSED, CHILD, SHARE, SUSPEND, KINDS, MOST = 12 };
    current = view;
    claim(view);
    for (unsigned i = 0; i < MOST && in->at < in->end && view->has_slot; i++) {
        unsigned kind = byte(in), device = kind / 8 % HAMI_COUNTERS;
        switch (kind % KINDS) {
        case CHARGE:
            charge(view, in, device);
            break;
        case RELEASE:
            hami_region_release(view, device, own(view, device), HAMI_COLUMN_MODULE);
            break;
        case SWEEP:
            (void)hami_region_sweep(view);
            break;
        case SHARE:
            (void)hami_region_sweep(view);
            share(view, in, device);
            break;
        case SUSPEND:
            suspend(view, in);
            break;
        case REFUSED:
            hami_region_refused(view, HAMI_REASON_OVER_LIMIT, device, value(in));
            break;
        default:
            hami_region_after_fork(view);
            hami_shared_after_fork();
            claim(view);
        }
        PROMISE(hami_ledger_sum(view->region, device) >= hami_region_slot_used(view, view->slot, device));
    }
}

/* ---- one run ---- */

/* Something that is no file, where the file should be. */
static void refuse_other(unsigned kind) {
    enum { LINK, FOLDER, PIPE, NOTHING };
    char other[4128];
    struct hami_region_view view = {0};
    (void)snprintf(other, sizeof other, "%s.other", path);
    PROMISE((kind == LINK     ? symlink(path, other)
             : kind == FOLDER ? mkdir(other, 0700)
             : kind == PIPE   ? mkfifo(other, 0600)
                              : 0) == 0);
    PROMISE(!hami_region_attach(&view, other, false, &limits));
    PROMISE(view.region == NULL && view.file == -1);
    PROMISE(kind == NOTHING || remove(other) == 0);
}

static void attach(struct input *in, uint64_t size) {
    struct hami_region_view view = {0};
    write_content(size);
    bool attached = hami_region_attach(&view, path, false, &limits);
    if (size != HAMI_REGION_SIZE || !headers_whole()) {
        PROMISE(!attached && view.region == NULL && view.file == -1 && mapped == 0);
        unchanged(size);
        return;
    }
    PROMISE(attached && view.region != NULL && view.file >= 64 && mapped == 1);
    PROMISE(memchr(view.region->block.build, '\0', HAMI_BUILD_BYTES) != NULL);
    use(&view, in);
    PROMISE(lseek(file, 0, SEEK_END) == (off_t)size);
    hami_region_after_fork(&view);
    hami_shared_after_fork();
    (void)guarded_munmap(view.region, HAMI_REGION_SIZE);
    (void)close(view.file);
}

/* Moves when something is left open. */
static int next_descriptor(void) {
    int next = dup(file);
    (void)close(next);
    return next;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct input in = {data, data + size};
    enum { SHORTER = 200, LONGER = 220, OTHER = 240, MOST = 16 };
    unsigned kind = byte(&in);
    int next = next_descriptor();
    uint64_t length = HAMI_REGION_SIZE;
    if (kind >= OTHER) {
        refuse_other(kind % 4);
    } else {
        length = kind >= LONGER ? length + 1 + number(&in, 3) : kind >= SHORTER ? number(&in, 3) % length : length;
        for (unsigned i = byte(&in) % MOST; i > 0 && in.at < in.end; i--) {
            damage_once(&in);
        }
        attach(&in, length);
        for (unsigned i = 0; i < PAGES; i++) {
            if (touched[i]) {
                memcpy(content + i * PAGE, fresh + i * PAGE, PAGE);
                touched[i] = false;
            }
        }
    }
    PROMISE(next_descriptor() == next);
    return 0;
}
