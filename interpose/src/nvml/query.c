/*
 * How much memory a device has, for programs that ask CUDA or NVML: the container's slice of it. Called through the
 * generated wrappers, which fill the driver's answer in first.
 *
 * The slice is the limit in force and what all processes of the container use. Where the administrator scales memory,
 * the part of the limit in host memory is added to both.
 */
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/contexts.h"
#include "memory/devices.h"
#include "policies.h"

/* The container's part of one device, in bytes. */
struct slice {
    bool known; /* false: the driver's own answer stands */
    uint64_t limit, used;
    uint64_t host_limit, host_used;
};

/* Where limits could not be read all is denied: an empty slice. A divided card is made up of the slices of its parts.
 */
HAMI_COLD static struct slice slice_not_listed(const struct hami_limits *limits, int device) {
    bool denied = limits->mode == HAMI_MODE_ENFORCE && limits->denied != HAMI_REASON_NONE;
    return (struct slice){.known = denied && device != HAMI_DEVICE_DIVIDED};
}

/* `device` is an index in the limits, or why there is none. Without a region all of the limit is in use. */
static struct slice slice_of(const struct hami_limits *limits, int device) {
    bool listed = device >= 0 && (uint32_t)device < limits->device_count;
    if (!HAMI_LIKELY(listed)) {
        return slice_not_listed(limits, device);
    }
    const struct hami_device_limit *limit = &limits->devices[device];
    if (limits->mode != HAMI_MODE_ENFORCE || limit->memory_bytes == 0) {
        return (struct slice){0};
    }
    struct hami_region_view *view = hami_state_region(NULL);
    struct slice slice = {true, limit->device_bytes, limit->device_bytes, limit->host_bytes, limit->host_bytes};
    if (view != NULL) {
        slice.used = hami_region_used_now(view, (unsigned)device) << HAMI_PAGE_SHIFT;
        if (!HAMI_LIKELY(slice.host_limit == 0)) {
            slice.host_used = hami_ledger_sum(view->region, (unsigned)device + HAMI_DEVICES) << HAMI_PAGE_SHIFT;
        }
    }
    return slice;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- CUDA ---- */

/* Free memory is what is left of the slice, or of the device if neighbours have taken more than theirs. */
static void slice_narrow(const struct slice *slice, uint64_t *free_bytes, uint64_t *total) {
    *free_bytes = smaller(*free_bytes, slice->limit - smaller(slice->used, slice->limit));
    *total = smaller(*total, slice->limit);
    *free_bytes += slice->host_limit - smaller(slice->host_used, slice->host_limit);
    *total += slice->host_limit;
}

/* A size in a caller's memory: 64 bits, or in the first versions of some functions 32, where the most that fits is
 * shown. */
static uint64_t size_load(const void *at, bool wide) {
    return at == NULL ? 0 : wide ? *(const uint64_t *)at : *(const uint32_t *)at;
}

static void size_store(void *at, uint64_t bytes, bool wide) {
    if (at != NULL && wide) {
        *(uint64_t *)at = bytes;
    } else if (at != NULL) {
        *(uint32_t *)at = (uint32_t)smaller(bytes, UINT32_MAX);
    }
}

static struct slice slice_current(void) {
    const struct hami_limits *limits = hami_state_limits();
    struct hami_context context;
    if (limits->mode != HAMI_MODE_ENFORCE || !hami_context_current(&context)) {
        return (struct slice){0};
    }
    return slice_of(limits, hami_device_of_cuda(limits, context.device));
}

/* A caller may leave out either of the two. */
int32_t hami_mem_get_info(enum hami_hook hook, void *free_bytes, void *total) {
    CUresult (*driver)(void *, void *) = hami_driver_function(hook);
    bool wide = hook != HAMI_cuMemGetInfo;
    CUresult status = driver(free_bytes, total);
    struct slice slice = status == CUDA_SUCCESS ? slice_current() : (struct slice){0};
    if (slice.known) {
        uint64_t shown_free = size_load(free_bytes, wide), shown_total = size_load(total, wide);
        slice_narrow(&slice, &shown_free, &shown_total);
        size_store(free_bytes, shown_free, wide);
        size_store(total, shown_total, wide);
    }
    return status;
}

int32_t hami_total_mem(enum hami_hook hook, void *bytes, int32_t device) {
    CUresult (*driver)(void *, CUdevice) = hami_driver_function(hook);
    bool wide = hook != HAMI_cuDeviceTotalMem;
    CUresult status = driver(bytes, device);
    if (status == CUDA_SUCCESS && bytes != NULL) {
        const struct hami_limits *limits = hami_state_limits();
        struct slice slice = slice_of(limits, hami_device_of_cuda(limits, device));
        uint64_t total = size_load(bytes, wide), unused = 0;
        if (slice.known) {
            slice_narrow(&slice, &unused, &total);
            size_store(bytes, total, wide);
        }
    }
    return status;
}

/* ---- NVML ---- */

static void slice_show(const struct slice *slice, struct nvml_memory *memory) {
    memory->total = smaller(memory->total, slice->limit) + slice->host_limit;
    memory->used = smaller(slice->used + slice->host_used, memory->total);
    memory->free = memory->total - memory->used;
}

static struct nvml_memory query_driver(nvmlDevice device) {
    struct nvml_memory memory = {0};
    nvmlReturn (*driver)(nvmlDevice, struct nvml_memory *) = hami_driver_function(HAMI_nvmlDeviceGetMemoryInfo);
    return driver(device, &memory) == NVML_SUCCESS ? memory : (struct nvml_memory){0};
}

/* For a card of which the container has MIG devices: they are all that it sees of the card. */
HAMI_COLD static void query_divided(const struct hami_limits *limits, nvmlDevice card, struct nvml_memory *memory) {
    struct hami_listed_device parts[HAMI_DEVICES];
    unsigned count = hami_device_mig_of(limits, card, parts);
    struct nvml_memory sum = {0};
    for (unsigned i = 0; i < count; i++) {
        struct nvml_memory part = query_driver(parts[i].handle);
        struct slice slice = slice_of(limits, (int)parts[i].index);
        if (slice.known) {
            slice_show(&slice, &part);
        }
        sum.total += part.total;
        sum.used += part.used;
    }
    memory->total = smaller(memory->total, sum.total);
    memory->used = smaller(sum.used, memory->total);
    memory->free = memory->total - memory->used;
}

/* Changes the driver's answer to what the container sees. False: it stays as it is. */
static bool query_show(nvmlDevice device, struct nvml_memory *memory) {
    nvmlReturn asked = NVML_SUCCESS;
    const struct hami_limits *limits = hami_state_limits();
    int index = hami_device_of_nvml(limits, device, &asked);
    struct slice slice = slice_of(limits, index);
    bool divided = index == HAMI_DEVICE_DIVIDED && limits->mode == HAMI_MODE_ENFORCE;
    if (slice.known) {
        slice_show(&slice, memory);
    } else if (divided) {
        query_divided(limits, device, memory);
    }
    return slice.known || divided;
}

int32_t hami_nvml_memory_info(enum hami_hook hook, nvmlDevice device, struct nvml_memory *memory) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_memory *) = hami_driver_function(hook);
    nvmlReturn status = driver(device, memory);
    if (status == NVML_SUCCESS) {
        (void)query_show(device, memory);
    }
    return status;
}

/* Version 2 shows what the driver reserves for itself apart. Nothing of that is the container's. */
int32_t hami_nvml_memory_info_v2(enum hami_hook hook, nvmlDevice device, struct nvml_memory_v2 *memory) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_memory_v2 *) = hami_driver_function(hook);
    nvmlReturn status = driver(device, memory);
    if (status == NVML_SUCCESS) {
        struct nvml_memory shown = {memory->total, memory->free, memory->used};
        if (query_show(device, &shown)) {
            *memory = (struct nvml_memory_v2){memory->version, memory->pad, shown.total, 0, shown.free, shown.used};
        }
    }
    return status;
}
