/* Implements boot.h. */
#include "compute/boot.h"

#include "compute/tuning.h"
#include "compute/wait.h"
#include "fault.h"
#include "ledger/ledger.h"
#include "memory/identity.h"

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
    if (atomic_load(&device->zero) != 0) {
        atomic_store(&device->zero, 0);
        hami_step();
    }
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

void boot_check(struct hami_region *region) {
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
