/* Reads which devices have a core limit, and keeps the table of limited devices (limited_device.h). */
#include "compute/limited_device.h"

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
    (void)atomic_fetch_add(&limited_device_epoch, 2); /* the number stays odd, so it is never 0 */
}

/* ---- the share ---- */

/* The device's share in percent. 0: no limit, or HAMi's core policy or its monitor's switch lifts the limit now. */
static uint32_t device_share_of(const struct hami_limits *limits, const struct hami_region_view *view, unsigned index) {
    if (limits->mode != HAMI_MODE_ENFORCE || index >= limits->device_count) {
        return 0;
    }
    uint32_t cores = limits->devices[index].cores;
    /*
     * While no other container of this or a higher priority is active, the agent sets utilization_switch to 0. Once the
     * agent is dead, a 0 does not count: nobody would set it to 1 again.
     */
    bool off = limits->core_policy == HAMI_CORE_DISABLE ||
               (limits->core_policy == HAMI_CORE_DEFAULT && view->region->v1.utilization_switch == 0 &&
                !suspend_agent_is_gone(view));
    return off || cores >= 100 ? 0 : cores;
}

/*
 * A debt of device time is kept as clock time, in `zero`. When the share changes, the first process that sees the new
 * share converts the debt. Example: a debt of 20 ms puts `zero` 50 ms after now at 40 %, and 100 ms at 20 %.
 */
static void device_convert_debt(struct limited_device *d, uint32_t share) {
    uint64_t before = share == 0 ? 0 : atomic_exchange(&d->shared->share, share);
    if (before == 0 || before == share) {
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
        /* Release order, also for compute_state below: a thread that reads the new value sees the mapped region. */
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

/* ---- times from before a reboot ---- */

static void boot_clear_times(struct hami_compute_device *device) {
    _Atomic uint64_t *const times[] = {
        &device->frontier,       &device->spanned_to,        &device->spanned_from,        &device->last_grant_at,
        &device->served_at,      &device->last_wait_at,      &device->turns_off_until,     &device->turn_since,
        &device->turn_forfeited, &device->turn_forfeited_at, &device->turn_uncontested_at, &device->turn_alone_at,
    };
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {
        if (atomic_load(times[i]) != 0) {
            atomic_store(times[i], 0);
            hami_step();
        }
    }
    atomic_store(&device->zero, 0);
    hami_step();
}

/* True: a frontier is over 100 ms in the future. Charged work has ended, so such a time is from before a reboot. */
static bool boot_frontier_is_ahead(const struct hami_compute *compute, uint64_t now) {
    bool found = false;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        uint64_t frontier = atomic_load(&compute->devices[i].frontier);
        found = found || (frontier > now && frontier - now > WAIT_MOST_NS);
    }
    return found;
}

/*
 * Clears the times in the region if they are from before a reboot: CLOCK_MONOTONIC starts at 0 again, but the region's
 * file stays. Until the clock reached the old times, launches would wait for them or would not be charged. Each process
 * calls this before it uses a time of the region, and several may do so at once. The records of processes hold no old
 * times: each record was zeroed when its slot was swept or claimed.
 */
static void boot_check(struct hami_region *region) {
    struct hami_compute *compute = hami_compute_of(region);
    uint64_t boot = hami_identity_of_boot(), now = compute_now();
    /* `boot` is 0 if the kernel does not give its boot ID. Then only a frontier in the future shows a reboot. */
    if (boot != 0 ? atomic_load(&compute->boot) == boot : !boot_frontier_is_ahead(compute, now)) {
        return;
    }
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        boot_clear_times(&compute->devices[i]);
    }
    atomic_store(&compute->boot, boot);
    hami_step();
}

/* ---- the table ---- */

void limited_device_open_page(struct limited_device *d) {
    const struct hami_limits *limits = hami_state_known_limits();
    char path[4096];
    atomic_store(&d->page_sought_at, compute_now());
    if (d->index < limits->device_count && hami_state_turn_path(limits->devices[d->index].uuid, path)) {
        page_open(&d->page, path);
    }
}

static void device_set_up(struct limited_device *d, unsigned index, struct hami_region_view *view) {
    struct hami_compute *compute = hami_compute_of(view->region);
    d->index = index;
    d->view = view;
    d->charge_ratio = 1;
    d->shared = &compute->devices[index];
    d->own = &compute->processes[view->slot][index];
    int64_t never = 0;
    boot_check(view->region);
    (void)atomic_compare_exchange_strong(&d->shared->zero, &never, (int64_t)compute_now());
    limited_device_open_page(d);
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
            device_set_up(d, (unsigned)index, view);
        }
        compute_unlock();
        (void)limited_devices_refresh();
    }
    return d;
}

/* Acquire: a thread that sees `ready` also sees the fields that were set before it. */
struct limited_device *limited_device_at(unsigned index) {
    bool ready = index < HAMI_DEVICES && atomic_load_explicit(&devices[index].ready, memory_order_acquire);
    return ready ? &devices[index] : NULL;
}

/*
 * The child never uses or closes the page descriptors and mappings that it inherits. They cannot pile up: CUDA does not
 * work in the child of a process that used CUDA, so the child opens no pages that its own children would inherit.
 */
void limited_devices_after_fork(void) {
    atomic_store(&compute_state, COMPUTE_FRESH);
    memset(devices, 0, sizeof devices);
}
