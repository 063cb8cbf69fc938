/* Answers about the device, given for the container's slice of it. */
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/charge.h"
#include "memory/context.h"
#include "memory/devices.h"
#include "policy.h"

/*
 * The slice of one device; `known` is unset where the driver's own answer stands, `scaled` is set where the host may
 * add to it.
 */
struct slice {
    bool known;
    bool scaled;
    unsigned device;
    uint64_t limit;
    uint64_t used;
};

static const struct slice unknown_slice;

/* Without limits that could be read nobody knows of a slice: there is nothing. Of a card's parts each has its own. */
HAMI_COLD static struct slice not_listed(const struct hami_limits *limits, int device) {
    bool denied = limits->mode == HAMI_MODE_ENFORCE && limits->denied != HAMI_REASON_NONE;
    return denied && device != HAMI_DEVICE_DIVIDED ? (struct slice){.known = true} : unknown_slice;
}

static struct slice slice_of(const struct hami_limits *limits, int device) {
    struct slice slice = unknown_slice;
    bool listed = device >= 0 && (uint32_t)device < limits->device_count;
    if (!HAMI_LIKELY(listed)) {
        return not_listed(limits, device);
    }
    if (limits->mode != HAMI_MODE_ENFORCE || limits->devices[device].memory_bytes == 0) {
        return slice;
    }
    struct hami_region_view *view = hami_state_region(NULL);
    slice.known = true;
    slice.device = (unsigned)device;
    slice.limit = limits->devices[device].device_bytes;
    slice.used = view == NULL ? slice.limit : hami_region_used_now(view, (unsigned)device) << HAMI_PAGE_SHIFT;
    slice.scaled = limits->devices[device].host_bytes != 0;
    return slice;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* The first versions of some functions have 32 bits; more is shown as the most that these hold. */
static uint32_t in_32_bits(uint64_t bytes) {
    return (uint32_t)smaller(bytes, UINT32_MAX);
}

/* Host memory that stands in for the device's. */
struct host {
    uint64_t limit, used;
};

HAMI_COLD static struct host host_of(const struct slice *slice) {
    const struct hami_limits *limits = hami_state_known_limits();
    struct hami_region_view *view = hami_state_region(NULL);
    struct host host = {0, 0};
    if (slice->device < limits->device_count) {
        host.limit = limits->devices[slice->device].host_bytes;
        unsigned counter = slice->device + HAMI_DEVICES;
        host.used = view == NULL ? host.limit : hami_ledger_sum(view->region, counter) << HAMI_PAGE_SHIFT;
    }
    return host;
}

/* What is left of the slice, and of the device where neighbours have taken more than they should. */
static void narrow(const struct slice *slice, uint64_t *free_bytes, uint64_t *total) {
    uint64_t left = slice->used < slice->limit ? slice->limit - slice->used : 0;
    *free_bytes = smaller(*free_bytes, left);
    *total = smaller(*total, slice->limit);
    if (!HAMI_LIKELY(!slice->scaled)) {
        struct host host = host_of(slice);
        *free_bytes += host.limit - smaller(host.used, host.limit);
        *total += host.limit;
    }
}

static struct slice current_slice(void) {
    const struct hami_limits *limits = hami_state_limits();
    struct hami_context context;
    if (limits->mode != HAMI_MODE_ENFORCE || !hami_context_current(&context)) {
        return unknown_slice;
    }
    return slice_of(limits, hami_device_of_cuda(limits, context.device));
}

/* False: the driver's answer stands. A caller that leaves one output out gets the other narrowed all the same. */
static bool narrow_current(CUresult status, uint64_t *free_bytes, uint64_t *total) {
    struct slice slice = status == CUDA_SUCCESS ? current_slice() : unknown_slice;
    if (slice.known) {
        narrow(&slice, free_bytes, total);
    }
    return slice.known;
}

int32_t hami_mem_get_info(enum hami_hook hook, size_t *free_bytes, size_t *total) {
    CUresult (*driver)(size_t *, size_t *) = hami_driver_function(hook);
    CUresult status = driver(free_bytes, total);
    uint64_t seen_free = free_bytes == NULL ? 0 : *free_bytes, seen_total = total == NULL ? 0 : *total;
    if (narrow_current(status, &seen_free, &seen_total)) {
        *(free_bytes == NULL ? &seen_free : free_bytes) = seen_free;
        *(total == NULL ? &seen_total : total) = seen_total;
    }
    return status;
}

int32_t hami_mem_get_info_v1(enum hami_hook hook, uint32_t *free_bytes, uint32_t *total) {
    CUresult (*driver)(uint32_t *, uint32_t *) = hami_driver_function(hook);
    CUresult status = driver(free_bytes, total);
    uint64_t seen_free = free_bytes == NULL ? 0 : *free_bytes, seen_total = total == NULL ? 0 : *total;
    uint32_t unseen = 0;
    if (narrow_current(status, &seen_free, &seen_total)) {
        *(free_bytes == NULL ? &unseen : free_bytes) = in_32_bits(seen_free);
        *(total == NULL ? &unseen : total) = in_32_bits(seen_total);
    }
    return status;
}

/* The size of a device of `bytes`, as the container sees it. */
static uint64_t shown_size(CUdevice device, uint64_t bytes) {
    const struct hami_limits *limits = hami_state_limits();
    struct slice slice = slice_of(limits, hami_device_of_cuda(limits, device));
    uint64_t unused = 0;
    if (slice.known) {
        narrow(&slice, &unused, &bytes);
    }
    return bytes;
}

int32_t hami_total_mem(enum hami_hook hook, size_t *bytes, int32_t device) {
    CUresult (*driver)(size_t *, CUdevice) = hami_driver_function(hook);
    CUresult status = driver(bytes, device);
    if (status == CUDA_SUCCESS && bytes != NULL) {
        *bytes = shown_size(device, *bytes);
    }
    return status;
}

int32_t hami_total_mem_v1(enum hami_hook hook, uint32_t *bytes, int32_t device) {
    CUresult (*driver)(uint32_t *, CUdevice) = hami_driver_function(hook);
    CUresult status = driver(bytes, device);
    if (status == CUDA_SUCCESS && bytes != NULL) {
        *bytes = in_32_bits(shown_size(device, *bytes));
    }
    return status;
}

/* ---- NVML ---- */

static void show_use(const struct slice *slice, uint64_t *total, uint64_t *used, uint64_t *free_bytes) {
    *total = smaller(*total, slice->limit);
    *used = slice->used;
    if (!HAMI_LIKELY(!slice->scaled)) {
        struct host host = host_of(slice);
        *total += host.limit;
        *used += host.used;
    }
    *used = smaller(*used, *total);
    *free_bytes = *total - *used;
}

/* The driver's memory of a device, where the limits have none for it. */
static struct nvml_memory whole(nvmlDevice device) {
    struct nvml_memory memory = {0};
    nvmlReturn (*driver)(nvmlDevice, struct nvml_memory *) = hami_driver_function(HAMI_nvmlDeviceGetMemoryInfo);
    return driver(device, &memory) == NVML_SUCCESS ? memory : (struct nvml_memory){0};
}

/* A card of which MIG devices are the container's: they are the card to it. */
HAMI_COLD static void show_parts(const struct hami_limits *limits, nvmlDevice card, uint64_t *total, uint64_t *used,
                                 uint64_t *free_bytes) {
    struct hami_listed_device parts[HAMI_DEVICES];
    unsigned count = hami_device_mig_of(limits, card, parts);
    struct nvml_memory sum = {0};
    for (unsigned i = 0; i < count; i++) {
        struct nvml_memory part = whole(parts[i].handle);
        struct slice slice = slice_of(limits, (int)parts[i].index);
        if (slice.known) {
            show_use(&slice, &part.total, &part.used, &part.free);
        }
        sum.total += part.total;
        sum.used += part.used;
    }
    *total = smaller(*total, sum.total);
    *used = smaller(sum.used, *total);
    *free_bytes = *total - *used;
}

static bool is_divided(const struct hami_limits *limits, int index) {
    return index == HAMI_DEVICE_DIVIDED && limits->mode == HAMI_MODE_ENFORCE;
}

/* What NVML shows of a device. False: the driver's answer stands. */
static bool show_memory(nvmlDevice device, uint64_t *total, uint64_t *used, uint64_t *free_bytes) {
    nvmlReturn asked = NVML_SUCCESS;
    const struct hami_limits *limits = hami_state_limits();
    int index = hami_device_of_nvml(limits, device, &asked);
    struct slice slice = slice_of(limits, index);
    if (slice.known) {
        show_use(&slice, total, used, free_bytes);
    } else if (is_divided(limits, index)) {
        show_parts(limits, device, total, used, free_bytes);
    }
    return slice.known || is_divided(limits, index);
}

int32_t hami_nvml_memory_info(enum hami_hook hook, nvmlDevice device, struct nvml_memory *memory) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_memory *) = hami_driver_function(hook);
    nvmlReturn status = driver(device, memory);
    if (status == NVML_SUCCESS) {
        (void)show_memory(device, &memory->total, &memory->used, &memory->free);
    }
    return status;
}

/* Version 2 has what the driver keeps for itself apart; that is no part of a slice. */
int32_t hami_nvml_memory_info_v2(enum hami_hook hook, nvmlDevice device, struct nvml_memory_v2 *memory) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_memory_v2 *) = hami_driver_function(hook);
    nvmlReturn status = driver(device, memory);
    if (status == NVML_SUCCESS && show_memory(device, &memory->total, &memory->used, &memory->free)) {
        memory->reserved = 0;
    }
    return status;
}
