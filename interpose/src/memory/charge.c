/* Charges; see charge.h. */
#include "memory/charge.h"

#include "doors/calls.h"
#include "ledger/state.h"
#include "memory/devices.h"
#include "parts.h"
#include "threads.h"

#include <sched.h>
#include <time.h>

uint64_t hami_large(uint64_t bytes) {
    return bytes > UINT64_MAX - HAMI_LARGE_STEP ? UINT64_MAX : (bytes + HAMI_LARGE_STEP - 1) & ~(HAMI_LARGE_STEP - 1);
}

static uint64_t charge_pages_of(uint64_t bytes) {
    return (bytes >> HAMI_PAGE_SHIFT) + ((bytes & ((1u << HAMI_PAGE_SHIFT) - 1)) != 0);
}

uint64_t hami_charge_limit(const struct hami_limits *limits, int device) {
    uint64_t bytes = limits->devices[device].device_bytes;
    if (limits->denied != HAMI_REASON_NONE || (uint32_t)device >= limits->device_count) {
        return limits->mode == HAMI_MODE_ENFORCE ? 0 : UINT64_MAX;
    }
    return limits->mode == HAMI_MODE_ENFORCE && bytes != 0 ? bytes >> HAMI_PAGE_SHIFT : UINT64_MAX;
}

HAMI_COLD static void charge_refused(int device, uint64_t bytes) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view != NULL && device >= 0) {
        hami_region_refused(view, HAMI_REASON_OVER_LIMIT, (unsigned)device, bytes);
    }
}

/* ---- requests that do not fit at once ---- */

enum { RETRY_MS = 10, YIELDS = 4, FIRST_NAP_NS = 50000 };

static atomic_flag retrying = ATOMIC_FLAG_INIT; /* a thread of this process is */

void hami_charge_after_fork(void) {
    atomic_flag_clear(&retrying);
}

static int64_t charge_now_ns(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Lets a process run that is about to subtract what did not fit. Naps of 50, 100, 200 µs … after the first yields. */
static void charge_pause(unsigned times) {
    if (times < YIELDS) {
        (void)sched_yield();
    } else {
        const struct timespec nap = {0, FIRST_NAP_NS << (times - YIELDS)};
        (void)nanosleep(&nap, NULL);
    }
}

/*
 * One thread of one process in the container retries at a time. Otherwise two requests, of which either one fits, could
 * both add their pages, see too large a sum and subtract them, again and again. Without the lock the request is tried
 * once more and then refused. A sum that is the same twice is memory in use, so the request is refused.
 */
static bool charge_retry_locked(struct hami_region_view *view, hami_attempt *attempt, void *of, int64_t until) {
    uint64_t before = 0;
    for (unsigned times = 0; times == 0 || charge_now_ns() < until; times++) {
        if (times > 0) {
            charge_pause(times - 1);
        }
        (void)hami_region_sweep(view);
        HAMI_TELL(awake, view);
        uint64_t in_the_way = attempt(view, of);
        if (in_the_way == 0 || in_the_way == before) {
            return in_the_way == 0;
        }
        before = in_the_way;
    }
    return false;
}

bool hami_charge_retry(struct hami_region_view *view, hami_attempt *attempt, void *of) {
    HAMI_UNCANCELLED;
    HAMI_TELL(memory_short);
    (void)hami_state_reload();
    if (hami_state_known_limits()->denied != HAMI_REASON_NONE) {
        return false;
    }
    int64_t until = charge_now_ns() + RETRY_MS * INT64_C(1000000);
    bool locked = hami_region_lock(view, &retrying, HAMI_LOCK_RETRY, RETRY_MS);
    bool fits = charge_retry_locked(view, attempt, of, locked ? until : 0);
    if (locked) {
        hami_region_unlock(view, &retrying, HAMI_LOCK_RETRY);
    }
    return fits;
}

bool hami_charge_attempt(struct hami_region_view *view, int device, uint64_t bytes, hami_attempt *attempt, void *of) {
    bool fits = attempt(view, of) == 0 || hami_charge_retry(view, attempt, of);
    if (!fits) {
        charge_refused(device, bytes);
    }
    return fits;
}

/* Pages to be added to what this process holds of a counter. */
struct request {
    unsigned counter;
    uint64_t pages;
    enum hami_column column;
};

static uint64_t charge_limit_of(unsigned counter) {
    const struct hami_limits *limits = hami_state_known_limits();
    return counter < HAMI_DEVICES ? hami_charge_limit(limits, (int)counter)
                                  : limits->devices[counter - HAMI_DEVICES].host_bytes >> HAMI_PAGE_SHIFT;
}

HAMI_HOT static bool charge_try(struct hami_region_view *view, const struct request *r) {
    return hami_region_charge(view, r->counter, r->pages, charge_limit_of(r->counter), r->column);
}

static uint64_t charge_attempt(struct hami_region_view *view, void *of) {
    const struct request *r = of;
    return charge_try(view, r) ? 0 : hami_ledger_sum(view->region, r->counter) + r->pages;
}

/* Charges under the limit in force. */
HAMI_HOT static bool charge_take_pages(struct hami_region_view *view, int counter, uint64_t pages,
                                       enum hami_column column) {
    struct request r = {(unsigned)counter, pages, column};
    return HAMI_LIKELY(charge_try(view, &r)) || hami_charge_retry(view, charge_attempt, &r);
}

/* Refuses in enforce mode and says why; in observe mode lets the call go uncounted. */
HAMI_COLD static bool charge_cannot_count(const struct hami_limits *limits, enum hami_reason reason, uint64_t bytes) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view != NULL) {
        hami_region_refused(view, reason, HAMI_DEVICES, bytes);
    }
    return limits->mode == HAMI_MODE_OBSERVE;
}

HAMI_HOT static bool charge_take(CUdevice device, uint64_t bytes, enum hami_column column, bool or_host,
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
    if (index == -2) {
        return true; /* the driver's answer says so */
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
            charge_refused(index, bytes);
        }
        return false;
    }
    *charge = (struct hami_charge){index, charge_pages_of(bytes)};
    return true;
}

HAMI_HOT bool hami_charge_take(CUdevice device, uint64_t bytes, enum hami_column column, struct hami_charge *charge) {
    return charge_take(device, bytes, column, false, charge);
}

HAMI_HOT bool hami_charge_take_data(CUdevice device, uint64_t bytes, bool or_host, struct hami_charge *charge) {
    return charge_take(device, bytes, HAMI_COLUMN_DATA, or_host, charge);
}

HAMI_HOT int hami_charge_counted(CUdevice device) {
    const struct hami_limits *limits = hami_state_known_limits();
    bool counted = limits->mode != HAMI_MODE_OFF && limits->denied == HAMI_REASON_NONE;
    int index = counted ? hami_device_of_cuda(limits, device) : -1;
    return index >= 0 && (uint32_t)index < limits->device_count ? index : -1;
}

/* Whether a device can access managed memory that stays in the host. */
static bool charge_reaches_host(CUdevice device) {
    int can = 0;
    CUresult status = hami_call_cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
    return status == CUDA_SUCCESS && can != 0;
}

bool hami_charge_take_host(CUdevice device, uint64_t bytes, struct hami_charge *charge) {
    const struct hami_limits *limits = hami_state_known_limits();
    int index = limits->mode == HAMI_MODE_ENFORCE ? hami_charge_counted(device) : -1;
    struct hami_region_view *view = index < 0 ? NULL : hami_state_region(NULL);
    if (view == NULL || limits->devices[index].host_bytes == 0) {
        return false; /* the refusal is counted already */
    }
    uint64_t taken = bytes > UINT64_MAX - HAMI_HOST_STEP ? UINT64_MAX : (bytes + HAMI_HOST_STEP - 1) & -HAMI_HOST_STEP;
    if (!charge_reaches_host(device) ||
        !charge_take_pages(view, index + HAMI_DEVICES, charge_pages_of(taken), HAMI_COLUMN_DATA)) {
        charge_refused(index, bytes);
        return false;
    }
    *charge = (struct hami_charge){index + HAMI_DEVICES, charge_pages_of(taken)};
    return true;
}

bool hami_charge_within(const struct hami_charge *charge) {
    struct hami_region_view *view = charge->device < 0 ? NULL : hami_state_region(NULL);
    uint64_t limit = view == NULL ? 0 : hami_charge_limit(hami_state_limits(), charge->device);
    return view == NULL || hami_ledger_sum(view->region, (unsigned)charge->device) <= limit;
}

bool hami_charge_grow(struct hami_charge *charge, uint64_t bytes) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (charge->device < 0) {
        return true;
    }
    bool fits = view != NULL &&
                (bytes == 0 ? hami_charge_within(charge)
                            : charge_take_pages(view, charge->device, charge_pages_of(bytes), HAMI_COLUMN_DATA));
    if (!fits) {
        charge_refused(charge->device, bytes);
        return false;
    }
    charge->pages += charge_pages_of(bytes);
    return true;
}

bool hami_charge_try(struct hami_charge *charge, uint64_t bytes) {
    struct hami_region_view *view = charge->device < 0 ? NULL : hami_state_region(NULL);
    uint64_t pages = charge_pages_of(bytes);
    if (view == NULL || !hami_region_charge(view, (unsigned)charge->device, pages,
                                            hami_charge_limit(hami_state_limits(), charge->device), HAMI_COLUMN_DATA)) {
        return false;
    }
    charge->pages += pages;
    return true;
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
    if (more.device >= 0) { /* below 0: limits were turned off meanwhile, and the charge stays as it is */
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
    struct hami_region_view *view = charge->device < 0 ? NULL : hami_state_region(NULL);
    if (view != NULL) {
        hami_region_release(view, (unsigned)charge->device, charge->pages, column);
    }
}
