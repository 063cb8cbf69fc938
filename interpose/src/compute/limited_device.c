/* Implements limited_device.h. */
#include "compute/limited_device.h"

#include "compute/boot.h"
#include "compute/suspend.h"
#include "compute/wait.h"
#include "ledger/state.h"
#include "memory/devices.h"

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

static bool device_any_is_limited(const struct hami_limits *limits, const struct hami_region_view *view) {
    for (unsigned i = 0; i < limits->device_count; i++) {
        if (device_share_of(limits, view, i) != 0) {
            return true;
        }
    }
    return false;
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
            if (limited_device_at(i) != NULL) {
                device_set_share(&devices[i], device_share_of(limits, view, i));
            }
        }
        state = device_any_is_limited(limits, view) ? COMPUTE_ON : COMPUTE_OFF;
    }
    if (load_relaxed(&compute_state) != state) {
        atomic_store_explicit(&compute_state, state, memory_order_release);
    }
    return state;
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
    d->charge_ratio = d->span_ratio = 1;
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
    return load_relaxed(&d->share) != 0 ? d : NULL;
}

bool limited_device_is_free(CUdevice device) {
    int index = hami_device_of_cuda(hami_state_known_limits(), device);
    const struct limited_device *d = index < 0 ? NULL : limited_device_at((unsigned)index);
    return d != NULL && load_relaxed(&d->share) == 0;
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
