/* Measures what the first context of a process takes (context_reserve.h). */
#include "memory/context_reserve.h"

#include "doors/calls.h"
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/devices.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define RESERVE_MAX_BYTES (UINT64_C(8) << 30)
#define GUESS_MAX_BYTES (UINT64_C(1) << 30)
#define GUESS_MIN_BYTES (UINT64_C(128) << 20)   /* a lower figure shows that others gave memory back */
#define GUESS_BLIND_BYTES (UINT64_C(512) << 20) /* if NVML tells nothing: what a context takes on the largest cards */

/* ---- what NVML says ---- */

/* Looks a MIG device up by UUID: its bus id is the whole card's, whose figures may be closed to the container. */
static nvmlDevice reserve_nvml_device(CUdevice device) {
    char bus[32];
    nvmlDevice handle = NULL;
    const struct hami_limits *limits = hami_state_known_limits();
    int index = hami_device_of_cuda(limits, device);
    if (index >= 0 && (uint32_t)index < limits->device_count && hami_limits_mig(&limits->devices[index])) {
        const char *uuid = limits->devices[index].uuid;
        return hami_call_nvmlDeviceGetHandleByUUID(uuid, &handle) == NVML_SUCCESS ? handle : NULL;
    }
    bool found = hami_call_cuDeviceGetPCIBusId(bus, sizeof bus, device) == CUDA_SUCCESS &&
                 hami_call_nvmlDeviceGetHandleByPciBusId_v2(bus, &handle) == NVML_SUCCESS;
    return found ? handle : NULL;
}

/* The container's charges in bytes, without contexts. The sum may wrap: any process can write to the region. */
static uint64_t reserve_charged_otherwise(CUdevice device) {
    struct hami_region_view *view = hami_state_region(NULL);
    int index = view == NULL ? -1 : hami_device_of_cuda(hami_state_known_limits(), device);
    if (index < 0) {
        return 0;
    }
    uint64_t bytes = hami_ledger_sum(view->region, (unsigned)index) << HAMI_PAGE_SHIFT;
    for (unsigned slot = hami_ledger_slots(view->region); slot-- > 0;) {
        bytes -= atomic_load(&view->region->v1.processes[slot].used[index].context);
    }
    return bytes;
}

/* Takes the largest of three figures: one is too low while an allocation is charged and not yet on the device. */
static void sample_uncharged(CUdevice device, nvmlDevice handle, struct hami_reserve_sample *s) {
    enum { LOOKS = 3 };
    struct nvml_memory memory;
    for (unsigned i = 0; i < LOOKS && hami_call_nvmlDeviceGetMemoryInfo(handle, &memory) == NVML_SUCCESS; i++) {
        int64_t now = (int64_t)(memory.used - reserve_charged_otherwise(device));
        s->uncharged = s->told && s->uncharged > now ? s->uncharged : now;
        s->told = true;
    }
}

static void sample_take(CUdevice device, struct hami_reserve_sample *s) {
    memset(s, 0, sizeof *s);
    if (hami_call_nvmlInit_v2() != NVML_SUCCESS) {
        return;
    }
    nvmlDevice handle = reserve_nvml_device(device);
    if (handle != NULL) {
        sample_uncharged(device, handle, s);
        unsigned count = HAMI_SAMPLE_PROCESSES;
        s->listed = hami_call_nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, s->processes) == NVML_SUCCESS &&
                    count <= HAMI_SAMPLE_PROCESSES;
        s->count = s->listed ? count : 0;
    }
    (void)hami_call_nvmlShutdown();
}

static bool sample_lists(const struct hami_reserve_sample *s, uint32_t pid) {
    for (unsigned i = 0; i < s->count; i++) {
        if (s->processes[i].pid == pid) {
            return true;
        }
    }
    return false;
}

/* ---- the measurement ---- */

/*
 * The reserve in bytes, from NVML's samples before and after the context was made. 0: they show nothing new.
 *
 * If NVML newly lists our pid, that figure is sure. NVML may list pids of the host's namespace, so a pid equal to ours
 * that was listed before is another process's. Without our pid, this process is one of those newly listed; the least
 * of their figures is nearest. If no process is newly listed, the guess is the growth of `uncharged`, which includes
 * what other containers took and gave back meanwhile.
 */
static uint64_t reserve_measured(const struct hami_reserve_sample *before, const struct hami_reserve_sample *after,
                                 bool *sure) {
    const uint64_t not_available = UINT64_MAX;
    uint64_t least = UINT64_MAX;
    *sure = false;
    for (unsigned i = 0; before->listed && i < after->count; i++) {
        const struct nvml_process *at = &after->processes[i];
        if (at->used == 0 || at->used == not_available || sample_lists(before, at->pid)) {
            continue;
        }
        if (at->pid == (uint32_t)getpid()) {
            *sure = true;
            return at->used < RESERVE_MAX_BYTES ? at->used : RESERVE_MAX_BYTES;
        }
        least = at->used < least ? at->used : least;
    }
    if (least == UINT64_MAX && before->told && after->told && after->uncharged > before->uncharged) {
        least = (uint64_t)after->uncharged - (uint64_t)before->uncharged;
    }
    return least == UINT64_MAX       ? 0
           : least < GUESS_MIN_BYTES ? GUESS_MIN_BYTES
           : least < GUESS_MAX_BYTES ? least
                                     : GUESS_MAX_BYTES;
}

/* Stores a measurement in the region, if it is better than the stored one. Returns the reserve in force, in pages. */
static uint64_t reserve_agree(struct hami_device *device, uint64_t bytes, bool sure) {
    uint64_t pages = bytes >> HAMI_PAGE_SHIFT, known = atomic_load(&device->context_pages);
    if (sure) {
        atomic_store(&device->context_pages, pages);
        atomic_store(&device->context_guessed, 0);
        return pages;
    }
    if (known == 0 || (atomic_load(&device->context_guessed) != 0 && pages != 0 && pages < known)) {
        uint64_t guess = pages != 0 ? pages : GUESS_BLIND_BYTES >> HAMI_PAGE_SHIFT;
        atomic_store(&device->context_guessed, 1);
        known = atomic_compare_exchange_strong(&device->context_pages, &known, guess) ? guess : known;
    } /* if another process has stored a figure meanwhile, that figure stays: it may be sure */
    return known;
}

static bool reserve_is_unsure(const struct hami_device *device, uint64_t pages) {
    return device != NULL && (pages == 0 || atomic_load(&device->context_guessed) != 0);
}

static uint64_t reserve_known(const struct hami_device *device) {
    return device == NULL ? 0 : atomic_load(&device->context_pages);
}

void hami_reserve_prepare(struct hami_reserve *r, CUdevice device) {
    const struct hami_limits *limits = hami_state_limits();
    struct hami_region_view *view = limits->mode == HAMI_MODE_OFF ? NULL : hami_state_region(NULL);
    int index = view == NULL ? -1 : hami_device_of_cuda(limits, device);
    r->device = device;
    r->counted = index < 0 ? NULL : &view->region->block.devices[index];
    if (reserve_is_unsure(r->counted, reserve_known(r->counted))) {
        hami_driver_load(HAMI_NVML);
    }
}

bool hami_reserve_take(struct hami_reserve *r, struct hami_charge *charge) {
    uint64_t pages = reserve_known(r->counted);
    if (!hami_charge_take(r->device, pages << HAMI_PAGE_SHIFT, HAMI_COLUMN_CONTEXT, charge)) {
        return false;
    }
    r->measure = reserve_is_unsure(r->counted, pages);
    if (r->measure) {
        sample_take(r->device, &r->before);
    }
    return true;
}

bool hami_reserve_charge_measured(struct hami_reserve *r, struct hami_charge *charge) {
    struct hami_reserve_sample after;
    bool sure = false;
    if (!r->measure) {
        return true;
    }
    sample_take(r->device, &after);
    uint64_t bytes = reserve_measured(&r->before, &after, &sure);
    return hami_charge_resize(r->device, HAMI_COLUMN_CONTEXT, charge, reserve_agree(r->counted, bytes, sure));
}

void hami_reserve_give_back(struct hami_charge *charge) {
    hami_charge_give_back(charge, HAMI_COLUMN_CONTEXT);
    *charge = (struct hami_charge){-1, 0};
}
