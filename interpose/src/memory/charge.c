/*
 * Reserves pages in the ledger and gives them back (charge.h). hami_charge_take_or_host and what it calls are on
 * the path of every allocation.
 */
#include "memory/charge.h"

#include "doors/calls.h"
#include "ledger/state.h"
#include "memory/devices.h"
#include "parts.h"
#include "threads.h"

#include <sched.h>
#include <time.h>

static uint64_t charge_pages_of(uint64_t bytes) {
    return (bytes >> HAMI_PAGE_SHIFT) + ((bytes & ((1u << HAMI_PAGE_SHIFT) - 1)) != 0);
}

/* The region, or NULL if this process is not counted on the charge's device. */
static struct hami_region_view *charge_region(const struct hami_charge *charge) {
    return charge->device < 0 ? NULL : hami_state_region(NULL);
}

uint64_t hami_charge_limit(unsigned counter) {
    const struct hami_limits *limits = hami_state_known_limits();
    if (counter >= HAMI_DEVICES) {
        return limits->devices[counter - HAMI_DEVICES].host_bytes >> HAMI_PAGE_SHIFT;
    }
    if (limits->mode != HAMI_MODE_ENFORCE) {
        return HAMI_UNLIMITED;
    }
    if (limits->denied != HAMI_REASON_NONE || counter >= limits->device_count) {
        return 0;
    }
    uint64_t bytes = limits->devices[counter].device_bytes;
    return bytes != 0 ? bytes >> HAMI_PAGE_SHIFT : HAMI_UNLIMITED;
}

/* ---- requests that do not fit at once ---- */

enum { RETRY_MS = 10, YIELDS = 4, FIRST_NAP_NS = 50000 };

static atomic_flag retrying = ATOMIC_FLAG_INIT; /* set while a thread of this process retries a request */

void hami_charge_after_fork(void) {
    atomic_flag_clear(&retrying);
}

static int64_t charge_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Lets other processes run before the next attempt: yields four times, then sleeps for 50, 100, 200 µs … */
static void charge_pause(unsigned times) {
    if (times < YIELDS) {
        (void)sched_yield();
    } else {
        const struct timespec nap = {0, FIRST_NAP_NS << (times - YIELDS)};
        (void)nanosleep(&nap, NULL);
    }
}

/*
 * Repeats an attempt until the time `until_ns`, but at least once. Gives up early if the sum is the same twice: then
 * memory in use is in the way, and not the addition of a process that is about to subtract it.
 */
static bool charge_retry_until(struct hami_region_view *view, hami_attempt *attempt, void *of, int64_t until_ns) {
    uint64_t before = 0;
    for (unsigned times = 0; times == 0 || charge_now_ns() < until_ns; times++) {
        if (times > 0) {
            charge_pause(times - 1);
        }
        (void)hami_region_sweep(view);
        HAMI_TELL(awake, view);
        uint64_t sum = attempt(view, of);
        if (sum == 0 || sum == before) {
            return sum == 0;
        }
        before = sum;
    }
    return false;
}

/*
 * One thread in the container retries at a time. Otherwise two requests that each fit alone could both add their pages,
 * see too large a sum and subtract them, again and again. A request that does not get the lock is tried once.
 */
bool hami_charge_retry(struct hami_region_view *view, hami_attempt *attempt, void *of) {
    HAMI_UNCANCELLED;
    HAMI_TELL(memory_short);
    (void)hami_state_reload();
    if (hami_state_known_limits()->denied != HAMI_REASON_NONE) {
        return false;
    }
    int64_t until_ns = charge_now_ns() + RETRY_MS * INT64_C(1000000);
    bool locked = hami_region_lock(view, &retrying, HAMI_LOCK_RETRY, RETRY_MS);
    bool fits = charge_retry_until(view, attempt, of, locked ? until_ns : 0);
    if (locked) {
        hami_region_unlock(view, &retrying, HAMI_LOCK_RETRY);
    }
    return fits;
}

/* ---- reserving ---- */

/* A request to add pages to what this process holds of a counter. */
struct request {
    unsigned counter;
    uint64_t pages;
    enum hami_column column;
};

HAMI_HOT static bool charge_try(struct hami_region_view *view, const struct request *r) {
    return hami_region_charge(view, r->counter, r->pages, hami_charge_limit(r->counter), r->column);
}

static uint64_t charge_attempt(struct hami_region_view *view, void *of) {
    const struct request *r = of;
    return charge_try(view, r) ? 0 : hami_ledger_sum(view->region, r->counter) + r->pages;
}

HAMI_HOT static bool charge_take_pages(struct hami_region_view *view, int counter, uint64_t pages,
                                       enum hami_column column) {
    struct request r = {(unsigned)counter, pages, column};
    return HAMI_LIKELY(charge_try(view, &r)) || hami_charge_retry(view, charge_attempt, &r);
}

/* The limits or the region cannot be used. Refuses in enforce mode; in observe mode lets the call go uncounted. */
HAMI_COLD static bool charge_cannot_count(const struct hami_limits *limits, enum hami_reason reason, uint64_t bytes) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view != NULL) {
        hami_region_refused(view, reason, HAMI_DEVICES, bytes);
    }
    return limits->mode == HAMI_MODE_OBSERVE;
}

HAMI_HOT bool hami_charge_take_or_host(CUdevice device, uint64_t bytes, enum hami_column column, bool or_host,
                                       struct hami_charge *charge) {
    const struct hami_limits *limits = hami_state_limits();
    enum hami_reason why = HAMI_REASON_NONE;
    *charge = (struct hami_charge){-1, 0};
    if (limits->denied != HAMI_REASON_NONE && hami_state_reload()) {
        limits = hami_state_known_limits();
    }
    if (limits->mode == HAMI_MODE_OFF) {
        return true;
    }
    if (limits->denied != HAMI_REASON_NONE) {
        return charge_cannot_count(limits, limits->denied, bytes);
    }
    int index = hami_device_of_cuda(limits, device);
    if (index == HAMI_DEVICE_MISSING) {
        return true; /* the driver will refuse the call */
    }
    if (index < 0 || (uint32_t)index >= limits->device_count) {
        return charge_cannot_count(limits, HAMI_REASON_UNKNOWN_DEVICE, bytes);
    }
    struct hami_region_view *view = hami_state_region(&why);
    if (view == NULL) {
        return charge_cannot_count(limits, why, bytes);
    }
    if (!charge_take_pages(view, index, charge_pages_of(bytes), column)) {
        if (!or_host || limits->devices[index].host_bytes == 0) {
            hami_region_refused(view, HAMI_REASON_OVER_LIMIT, (unsigned)index, bytes);
        }
        return false;
    }
    *charge = (struct hami_charge){index, charge_pages_of(bytes)};
    return true;
}

HAMI_HOT bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge) {
    return hami_charge_take_or_host(device, bytes, column, false, charge);
}

HAMI_HOT int hami_charge_counted(CUdevice device) {
    const struct hami_limits *limits = hami_state_known_limits();
    bool counted = limits->mode != HAMI_MODE_OFF && limits->denied == HAMI_REASON_NONE;
    int index = counted ? hami_device_of_cuda(limits, device) : -1;
    return index >= 0 && (uint32_t)index < limits->device_count ? index : -1;
}

/* True if the device can access managed memory that stays in the host. */
static bool charge_reaches_host(CUdevice device) {
    int can = 0;
    CUresult status = hami_call_cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
    return status == CUDA_SUCCESS && can != 0;
}

bool hami_charge_take_host(CUdevice device, uint64_t bytes, struct hami_charge *charge) {
    enum { HOST_STEP = 64 << 10 }; /* the largest page size of Linux hosts (aarch64) */
    const struct hami_limits *limits = hami_state_known_limits();
    int index = limits->mode == HAMI_MODE_ENFORCE ? hami_charge_counted(device) : -1;
    struct hami_region_view *view = index < 0 ? NULL : hami_state_region(NULL);
    if (view == NULL || limits->devices[index].host_bytes == 0) {
        return false; /* if the limit refused the request, hami_charge_take_or_host has counted that */
    }
    uint64_t pages = charge_pages_of(hami_rounded(bytes, HOST_STEP));
    if (!charge_reaches_host(device) || !charge_take_pages(view, index + HAMI_DEVICES, pages, HAMI_COLUMN_DATA)) {
        hami_region_refused(view, HAMI_REASON_OVER_LIMIT, (unsigned)index, bytes);
        return false;
    }
    *charge = (struct hami_charge){index + HAMI_DEVICES, pages};
    return true;
}

/* ---- changing a charge ---- */

bool hami_charge_within(const struct hami_charge *charge) {
    const struct hami_region_view *view = charge_region(charge);
    (void)hami_state_limits(); /* reads the limits again if their file has changed */
    return view == NULL ||
           hami_ledger_sum(view->region, (unsigned)charge->device) <= hami_charge_limit((unsigned)charge->device);
}

bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes) {
    struct hami_region_view *view = charge_region(charge);
    uint64_t pages = charge_pages_of(bytes);
    if (charge->device < 0) {
        return true;
    }
    bool fits = view != NULL && (bytes == 0 ? hami_charge_within(charge)
                                            : charge_take_pages(view, charge->device, pages, HAMI_COLUMN_DATA));
    if (fits) {
        charge->pages += pages;
    } else if (view != NULL) {
        hami_region_refused(view, HAMI_REASON_OVER_LIMIT, (unsigned)charge->device, bytes);
    }
    return fits;
}

bool hami_charge_try(struct hami_charge *charge, uint64_t bytes) {
    struct hami_region_view *view = charge_region(charge);
    const struct request r = {(unsigned)charge->device, charge_pages_of(bytes), HAMI_COLUMN_DATA};
    (void)hami_state_limits(); /* reads the limits again if their file has changed */
    bool fits = view != NULL && charge_try(view, &r);
    charge->pages += fits ? r.pages : 0;
    return fits;
}

void hami_charge_found(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages) {
    int index = hami_charge_counted(device);
    struct hami_region_view *view = index < 0 ? NULL : hami_state_region(NULL);
    if (view != NULL && hami_region_charge(view, (unsigned)index, pages, HAMI_UNLIMITED, column)) {
        charge->device = index;
        charge->pages += pages;
    }
}

bool hami_charge_resize(CUdevice device, enum hami_column column, struct hami_charge *charge, uint64_t pages) {
    struct hami_charge more = {-1, 0};
    if (pages <= charge->pages) {
        hami_charge_lower(charge, column, pages);
        return true;
    }
    if (!hami_charge_take(device, (pages - charge->pages) << HAMI_PAGE_SHIFT, column, &more)) {
        return false;
    }
    if (more.device >= 0) { /* negative: limits were turned off meanwhile, and the charge stays as it is */
        *charge = (struct hami_charge){more.device, pages};
    }
    return true;
}

HAMI_HOT void hami_charge_lower(struct hami_charge *charge, enum hami_column column, uint64_t pages) {
    if (charge->pages > pages) {
        struct hami_charge rest = {charge->device, charge->pages - pages};
        hami_charge_give_back(&rest, column);
        charge->pages = pages;
    }
}

HAMI_HOT void hami_charge_give_back(const struct hami_charge *charge, enum hami_column column) {
    struct hami_region_view *view = charge_region(charge);
    if (view != NULL) {
        hami_region_release(view, (unsigned)charge->device, charge->pages, column);
    }
}
