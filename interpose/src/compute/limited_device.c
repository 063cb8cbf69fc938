/* Implements limited_device.h. */
#include "compute/limited_device.h"

#include "compute/suspend.h"
#include "compute/tuning.h"
#include "compute/wait.h"
#include "fault.h"
#include "ledger/ledger.h"
#include "ledger/state.h"
#include "memory/devices.h"
#include "memory/identity.h"

#include <string.h>

_Atomic int compute_state = COMPUTE_FRESH;
_Atomic uint32_t limited_device_epoch = 1;

static struct limited_device devices[HAMI_DEVICES];
static _Atomic(const struct hami_limits *) limits_seen;

void limited_device_end_epoch(void) {
    if (atomic_fetch_add(&limited_device_epoch, 1) == UINT32_MAX) {
        atomic_store(&limited_device_epoch, 1);
    }
}

/* ---- the share ---- */

/* Percent, or 0 where nothing limits: HAMi's core policy and its monitor's switch may lift the limit. */
static uint32_t device_share_of(const struct hami_limits *limits, const struct hami_region_view *view, unsigned index) {
    if (limits->mode != HAMI_MODE_ENFORCE || index >= limits->device_count) {
        return 0;
    }
    uint32_t cores = limits->devices[index].cores;
    /* The switch says that no other container is there. An agent that is gone cannot say when one comes. */
    bool off = limits->core_policy == HAMI_CORE_DISABLE ||
               (limits->core_policy == HAMI_CORE_DEFAULT && view->region->v1.utilization_switch == 0 &&
                !suspend_agent_is_gone(view));
    return off || cores >= 100 ? 0 : cores;
}

/*
 * A debt is device time, but `zero` holds it as time of the clock. When the share changes, the first process that sees
 * it converts the debt. Example: 20 ms of debt at 40 % put `zero` 50 ms ahead; at 20 % that becomes 100 ms.
 */
static void device_convert_debt(struct limited_device *d, uint32_t share) {
    uint64_t before = atomic_load(&d->shared->share);
    if (share == 0 || before == share || !atomic_compare_exchange_strong(&d->shared->share, &before, share) ||
        before == 0) {
        return;
    }
    int64_t now = (int64_t)compute_now(), zero = atomic_load(&d->shared->zero);
    while (zero > now && !atomic_compare_exchange_weak(
                             &d->shared->zero, &zero, now + (int64_t)((double)(zero - now) * (double)before / share))) {
    }
}

static void device_set_share(struct limited_device *d, uint32_t share) {
    if (load_relaxed(&d->share) != share) {
        store_relaxed(&d->share, share);
        limited_device_end_epoch();
        device_convert_debt(d, share);
    }
}

int limited_devices_refresh(void) {
    const struct hami_limits *limits = hami_state_limits();
    struct hami_region_view *view = limits->mode == HAMI_MODE_OFF ? NULL : hami_state_region(NULL);
    int state = COMPUTE_OFF;
    if (load_relaxed(&limits_seen) != limits) {
        store_relaxed(&limits_seen, limits);
        limited_device_end_epoch();
    }
    if (view != NULL) {
        /* Release, here and below: a thread that reads the word also sees the region mapped, the device set up. */
        atomic_store_explicit(&suspend_word, &view->region->v1.recent_kernel, memory_order_release);
        for (unsigned i = 0; i < HAMI_DEVICES; i++) {
            uint32_t share = device_share_of(limits, view, i);
            state = share != 0 ? COMPUTE_ON : state;
            if (limited_device_at(i) != NULL) {
                device_set_share(&devices[i], share);
            }
        }
    }
    if (load_relaxed(&compute_state) != state) {
        atomic_store_explicit(&compute_state, state, memory_order_release);
    }
    return state;
}

/* ---- times that are older than the start of this system ---- */

static void boot_clear(_Atomic uint64_t *time) {
    if (atomic_load(time) != 0) {
        atomic_store(time, 0);
        hami_step();
    }
}

static void boot_clear_times(struct hami_compute_device *device) {
    _Atomic uint64_t *const times[] = {
        &device->frontier,       &device->spanned_to,        &device->spanned_from,        &device->last_grant_at,
        &device->served_at,      &device->last_wait_at,      &device->turns_off_until,     &device->turn_since,
        &device->turn_forfeited, &device->turn_forfeited_at, &device->turn_uncontested_at, &device->turn_alone_at,
    };
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {
        boot_clear(times[i]);
    }
    boot_clear((_Atomic uint64_t *)&device->zero);
}

/* Slots of dead processes were swept; the helper's last beat is the only time that stays in them. */
static void boot_clear_beats(struct hami_region *region, uint64_t now) {
    struct hami_compute *compute = hami_compute_of(region);
    unsigned count = hami_ledger_slots(region);
    for (unsigned i = 0; i < count * HAMI_DEVICES; i++) {
        _Atomic uint64_t *beat = &compute->processes[i / HAMI_DEVICES][i % HAMI_DEVICES].beat;
        if (load_relaxed(beat) > now) {
            boot_clear(beat);
        }
    }
}

/* Charged work has ended, so a frontier well in the future is of an earlier start. */
static bool boot_frontier_is_ahead(const struct hami_compute *compute, uint64_t now) {
    bool found = false;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        uint64_t frontier = atomic_load(&compute->devices[i].frontier);
        found = found || (frontier > now && frontier - now > WAIT_MOST_NS);
    }
    return found;
}

/*
 * Before anything believes a time in the region; several processes may do it at once. CLOCK_MONOTONIC starts anew with
 * the system, but the region's file stays. Its old times would lie in the future, and would hold launches, or let them
 * go, until the clock reached them again.
 */
static void boot_check(struct hami_region *region) {
    struct hami_compute *compute = hami_compute_of(region);
    uint64_t boot = hami_identity_of_boot(), now = compute_now();
    /* 0: the kernel does not say which start this is. */
    if (boot != 0 ? atomic_load(&compute->boot) == boot : !boot_frontier_is_ahead(compute, now)) {
        return;
    }
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        boot_clear_times(&compute->devices[i]);
    }
    boot_clear_beats(region, now);
    atomic_store(&compute->boot, boot);
    hami_step();
}

/* ---- the table ---- */

void limited_device_open_page(struct limited_device *d, const char *uuid) {
    char path[4096];
    atomic_store(&d->page_sought_at, compute_now());
    if (hami_state_turn_path(uuid, path)) {
        page_open(&d->page, path);
    }
}

static void device_set_up(struct limited_device *d, unsigned index, struct hami_region_view *view, const char *uuid) {
    struct hami_compute *compute = hami_compute_of(view->region);
    d->index = index;
    d->view = view;
    d->charge_ratio = 1;
    d->shared = &compute->devices[index];
    d->own = &compute->processes[view->slot][index];
    int64_t never = 0;
    boot_check(view->region);
    (void)atomic_compare_exchange_strong(&d->shared->zero, &never, (int64_t)compute_now());
    limited_device_open_page(d, uuid);
    atomic_store_explicit(&d->ready, true, memory_order_release);
}

struct limited_device *limited_device_of(CUdevice device) {
    const struct hami_limits *limits = hami_state_known_limits();
    int index = hami_device_of_cuda(limits, device);
    if (index < 0 || (unsigned)index >= limits->device_count) {
        return NULL;
    }
    struct limited_device *d = &devices[index];
    if (limited_device_at((unsigned)index) == NULL) {
        struct hami_region_view *view = hami_state_region(NULL);
        if (view == NULL) {
            return NULL;
        }
        compute_lock();
        if (!load_relaxed(&d->ready)) {
            device_set_up(d, (unsigned)index, view, limits->devices[index].uuid);
        }
        compute_unlock();
        (void)limited_devices_refresh();
    }
    return d;
}

/* Acquire: a device that is seen ready is seen set up. */
struct limited_device *limited_device_at(unsigned index) {
    bool ready = index < HAMI_DEVICES && atomic_load_explicit(&devices[index].ready, memory_order_acquire);
    return ready ? &devices[index] : NULL;
}

void limited_devices_after_fork(void) {
    atomic_store(&compute_state, COMPUTE_FRESH);
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        page_after_fork(&devices[i].page);
    }
    memset(devices, 0, sizeof devices);
}
