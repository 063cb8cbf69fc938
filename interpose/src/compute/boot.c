/*
 * A region's file may be older than this start of the machine, with which CLOCK_MONOTONIC began anew: what the
 * container owed and when things were seen is of a time that was, and would hold launches, or let them go, until it
 * came again.
 */
#include "compute/machine.h"

#include "fault.h"
#include "memory/identity.h"

static void forget(_Atomic uint64_t *time) {
    if (atomic_load(time) != 0) {
        atomic_store(time, 0);
        hami_step();
    }
}

static void forget_times(struct hami_compute_device *device) {
    _Atomic uint64_t *const times[] = {
        &device->frontier,  &device->spanned_to,   &device->spanned_from, &device->last_grant,
        &device->served,    &device->last_wait,    &device->turns_off,    &device->turn_got,
        &device->turn_lost, &device->turn_lost_at, &device->turn_free,    &device->turn_alone,
    };
    for (unsigned i = 0; i < sizeof times / sizeof *times; i++) {
        forget(times[i]);
    }
    if (atomic_load(&device->zero) != 0) {
        atomic_store(&device->zero, 0);
        hami_step();
    }
}

/* Of processes that are gone, their slots were swept and keep no more than when they were last seen. */
static void forget_beats(const struct machine *m, uint64_t now) {
    struct hami_compute *compute = hami_compute_of(m->view->region);
    unsigned count = hami_ledger_slots(m->view->region);
    for (unsigned i = 0; i < count * HAMI_DEVICES; i++) {
        _Atomic uint64_t *beat = &compute->processes[i / HAMI_DEVICES][i % HAMI_DEVICES].beat;
        if (load_relaxed(beat) > now) {
            forget(beat);
        }
    }
}

/* Work that is charged has ended; where the kernel does not say which start this is, that tells. */
static bool ended_later(const struct hami_compute *compute, uint64_t now) {
    bool found = false;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        uint64_t frontier = atomic_load(&compute->devices[i].frontier);
        found = found || (frontier > now && frontier - now > PATIENCE);
    }
    return found;
}

/* By whoever comes first; by several at once it does no harm. */
void boot_check(const struct machine *m) {
    struct hami_compute *compute = hami_compute_of(m->view->region);
    uint64_t boot = hami_identity_of_boot(), now = compute_now();
    if (boot != 0 ? atomic_load(&compute->boot) == boot : !ended_later(compute, now)) {
        return;
    }
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        forget_times(&compute->devices[i]);
    }
    forget_beats(m, now);
    atomic_store(&compute->boot, boot);
    hami_step();
}
