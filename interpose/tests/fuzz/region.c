/*
 * The region as a hostile file: of another size, damaged anywhere, or not a regular file. A refused file stays as it
 * was. An accepted file has the headers of the layout. Whatever the rest holds, work on it stays inside the mapping,
 * ends, and counts right from the counters that it found. Guard pages on both sides of the mapping catch accesses
 * outside.
 *
 * An input is a kind of file, then damages to the content of hami_interpose.region.initial() (the file
 * HAMI_FUZZ_REGION), then calls of the ledger.
 */
#include <sys/mman.h>

static void *guarded_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
static int guarded_munmap(void *at, size_t size);
#define mmap guarded_mmap
#define munmap guarded_munmap
#include "../../src/ledger/region.c"
#undef mmap
#undef munmap

#include "compute/compute.h"
#include "fuzz.h"
#include "parts.h"

enum { GUARD = 1 << 16, PAGE = 4096, PAGES = HAMI_REGION_SIZE / PAGE, HEADERS = 3 * 8 };
_Static_assert(HAMI_REGION_SIZE % PAGE == 0, "the mapping ends where its last page does");

static const struct hami_limits limits = {.mode = HAMI_MODE_ENFORCE, .device_count = 1};
static uint8_t fresh[HAMI_REGION_SIZE], content[HAMI_REGION_SIZE];
static bool touched[PAGES], holds[PAGES];
static char path[4096];
static int file = -1;
static unsigned mapped;

/* Of the parts above the ledger this program links one. */
const struct hami_parts hami_parts = {.process_gone = {hami_compute_forget}};

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

/* Numbers at which arithmetic turns, then owner words: claimed and counted by this process, counted by its parent. */
static uint64_t value(struct input *in) {
    static const uint64_t few[] = {0, 1, 2, 3, HAMI_PAGES_MAX, HAMI_PAGES_MAX + 1, UINT64_MAX};
    static const uint64_t more[] = {INT64_MAX, 1ull << 63, UINT32_MAX, INT32_MAX, HAMI_PROCESSES, 0x3fffff, 1 << 22};
    const uint64_t self = hami_process_self(), state = UINT64_C(1) << HAMI_OWNER_STATE_SHIFT;
    const uint64_t owners[] = {self, self | state, (uint64_t)getppid() | 2 * state};
    enum { FEW = 7, MORE = FEW + 7, ALL = MORE + 3 };
    unsigned which = byte(in);
    return which < FEW    ? few[which]
           : which < MORE ? more[which - FEW]
           : which < ALL  ? owners[which - MORE]
                          : number(in, 8);
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

/* The words of the three headers, then the number of slots. */
static uint64_t word_at(unsigned which) {
    const uint64_t headers[] = {0, HAMI_BLOCK_OFFSET, HAMI_COMPUTE_OFFSET};
    return which < HEADERS ? headers[which / 8] + which % 8 * 4 : offsetof(struct hami_v1, process_num);
}

static void damage_once(struct input *in) {
    enum { WORD, ANYWHERE, OWNER, HELD, SLOT, OUT, CORES, SHARE, SHARES_USED, SWEPT, KINDS };
    uint64_t at = 0;
    size_t size = 8;
    switch (byte(in) % KINDS) {
    case WORD:
        at = word_at(byte(in) % (HEADERS + 1));
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

/* The minor version and the number of devices are for readers: the library does not check them. */
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

/* Joins a share that is there, grows it and leaves it; then exports one. */
static void share(struct hami_region_view *view, struct input *in) {
    struct hami_region *r = view->region;
    uint64_t identity = value(in), pages = value(in) % HAMI_PAGES_MAX;
    for (unsigned i = 0, count = hami_ledger_shares(r); i < count; i++) {
        if (hami_ledger_share_is(r, i, identity)) {
            hami_ledger_share_hold(r, i, view->slot, true);
            PROMISE(hami_ledger_share_device(r, i) < HAMI_DEVICES);
            hami_ledger_share_resize(r, i, pages, true);
            hami_ledger_share_hold(r, i, view->slot, false);
        }
    }
    int made = hami_ledger_share_claim(r, view->slot);
    PROMISE(made < HAMI_SHARES);
    if (made >= 0) {
        hami_ledger_share_make(r, (unsigned)made, view->slot, identity, 0, pages);
        PROMISE(hami_ledger_share_is(r, (unsigned)made, identity) || identity == 0);
        hami_ledger_share_resize(r, (unsigned)made, value(in) % HAMI_PAGES_MAX, false);
        hami_ledger_share_hold(r, (unsigned)made, view->slot, false);
    }
}

/* Takes one slot from state to state, as its owner is suspended and resumed. */
static void suspend(struct hami_region_view *view, struct input *in) {
    unsigned slot = byte(in) % 4;
    _Atomic uint64_t *owner = &view->region->block.owners[slot];
    uint64_t before = *owner, who = hami_ledger_who(before), most[HAMI_DEVICES] = {value(in)};
    (void)hami_ledger_turn(view->region, slot, who, HAMI_SLOT_COUNTED, HAMI_SLOT_MOVING);
    (void)hami_ledger_turn(view->region, slot, who, HAMI_SLOT_MOVING, HAMI_SLOT_SUSPENDED);
    unsigned device = hami_ledger_resume(view->region, slot, who, most);
    PROMISE(device <= HAMI_DEVICES && hami_ledger_who(*owner) == who);
    PROMISE(device == HAMI_DEVICES || hami_ledger_state(*owner) == HAMI_SLOT_SUSPENDED);
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
            share(view, in);
            break;
        case SUSPEND:
            suspend(view, in);
            break;
        case REFUSED:
            hami_region_refused(view, HAMI_REASON_OVER_LIMIT, device, value(in));
            break;
        default:
            hami_region_after_fork(view);
            claim(view);
        }
        PROMISE(hami_ledger_sum(view->region, device) >= hami_region_slot_used(view, view->slot, device));
    }
}

/* ---- one run ---- */

/* A link, folder, pipe or nothing where the file should be is refused. */
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
    (void)guarded_munmap(view.region, HAMI_REGION_SIZE);
    (void)close(view.file);
}

/* The number of the next descriptor. It changes if one is left open. */
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
