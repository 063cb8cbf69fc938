/*
 * How much memory a device has, for programs that ask CUDA or NVML. The answer is the container's slice: the limit in
 * force, and the memory that all processes of the container use. If the administrator scales memory, host memory is
 * added to both. The generated wrappers call these functions. Each gets the driver's answer first, then changes it.
 */
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/contexts.h"
#include "memory/devices.h"
#include "nvml/container.h"
#include "policies.h"

/* The container's part of one device, in bytes. */
struct slice {
    bool known; /* false: the driver's answer is shown unchanged */
    uint64_t limit, used;
    uint64_t host_limit, host_used;
};

/* The slice of a device, by its index in the limits or HAMI_DEVICE_... Without a region, all of it counts as used. */
static struct slice slice_of(const struct hami_limits *limits, int device) {
    bool listed = device >= 0 && (uint32_t)device < limits->device_count;
    if (!listed) { /* if no limits could be read, every device shows 0 bytes */
        bool denied = limits->mode == HAMI_MODE_ENFORCE && limits->denied != HAMI_REASON_NONE;
        return (struct slice){.known = denied && device != HAMI_DEVICE_DIVIDED};
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

/* Reads a size from a program's memory. With `short_form` it has 32 bits, as in the functions of CUDA before 3.2. */
static uint64_t size_load(const void *at, bool short_form) {
    return at == NULL ? 0 : short_form ? *(const uint32_t *)at : *(const uint64_t *)at;
}

/* Writes a size into a program's memory. If it does not fit into 32 bits, writes the largest number. */
static void size_store(void *at, uint64_t bytes, bool short_form) {
    if (at != NULL && short_form) {
        *(uint32_t *)at = (uint32_t)smaller(bytes, UINT32_MAX);
    } else if (at != NULL) {
        *(uint64_t *)at = bytes;
    }
}

/*
 * Changes the driver's answer to the slice; each pointer may be NULL. The free memory is what is left of the slice, or
 * of the device if that is less because other containers use more than their limits.
 */
static void slice_show_cuda(struct slice slice, void *free_bytes, void *total, bool short_form) {
    if (slice.known) {
        uint64_t left = smaller(size_load(free_bytes, short_form), slice.limit - smaller(slice.used, slice.limit));
        uint64_t size = smaller(size_load(total, short_form), slice.limit);
        uint64_t host_left = slice.host_limit - smaller(slice.host_used, slice.host_limit);
        size_store(free_bytes, left + host_left, short_form);
        size_store(total, size + slice.host_limit, short_form);
    }
}

int32_t hami_mem_get_info(enum hami_hook hook, void *free_bytes, void *total) {
    CUresult status = hami_call_mem_get_info(hook, free_bytes, total);
    const struct hami_limits *limits = status == CUDA_SUCCESS ? hami_state_limits() : NULL;
    struct hami_context context;
    if (limits != NULL && limits->mode == HAMI_MODE_ENFORCE && hami_context_current(&context)) {
        struct slice slice = slice_of(limits, hami_device_of_cuda(limits, context.device));
        slice_show_cuda(slice, free_bytes, total, hook == HAMI_cuMemGetInfo);
    }
    return status;
}

int32_t hami_total_mem(enum hami_hook hook, void *bytes, int32_t device) {
    CUresult status = hami_call_total_mem(hook, bytes, device);
    if (status == CUDA_SUCCESS) {
        const struct hami_limits *limits = hami_state_limits();
        struct slice slice = slice_of(limits, hami_device_of_cuda(limits, device));
        slice_show_cuda(slice, NULL, bytes, hook == HAMI_cuDeviceTotalMem);
    }
    return status;
}

/* ---- NVML ---- */

static void slice_show_nvml(const struct slice *slice, struct nvml_memory *memory) {
    memory->total = smaller(memory->total, slice->limit) + slice->host_limit;
    memory->used = smaller(slice->used + slice->host_used, memory->total);
    memory->free = memory->total - memory->used;
}

/* The slice of a card of which the container has MIG devices: the sum of the slices of these devices. */
HAMI_COLD static struct slice slice_divided(const struct hami_limits *limits, nvmlDevice card) {
    struct hami_listed_device parts[HAMI_DEVICES];
    unsigned count = hami_device_mig_of(limits, card, parts);
    struct slice sum = {.known = true};
    for (unsigned i = 0; i < count; i++) {
        struct nvml_memory part = {0};
        struct slice slice = slice_of(limits, (int)parts[i].index);
        (void)hami_call_nvmlDeviceGetMemoryInfo(parts[i].handle, &part);
        if (slice.known) {
            slice_show_nvml(&slice, &part);
        }
        sum.limit += part.total;
        sum.used += part.used;
    }
    return sum;
}

/* Changes the driver's answer to the container's slice. Returns false if the answer stays as it is. */
static bool query_show(nvmlDevice device, struct nvml_memory *memory) {
    int index = hami_container_of(device).device;
    const struct hami_limits *limits = hami_state_known_limits();
    struct slice slice = index == HAMI_DEVICE_DIVIDED ? slice_divided(limits, device) : slice_of(limits, index);
    if (slice.known) {
        slice_show_nvml(&slice, memory);
    }
    return slice.known;
}

int32_t hami_nvml_memory_info(enum hami_hook hook, nvmlDevice device, struct nvml_memory *memory) {
    nvmlReturn status = hami_call_nvml_memory_info(hook, device, memory);
    if (status == NVML_SUCCESS) {
        (void)query_show(device, memory);
    }
    return status;
}

/* Version 2 has a field for memory that the driver reserves. It is 0 here, since no container is charged for that. */
int32_t hami_nvml_memory_info_v2(enum hami_hook hook, nvmlDevice device, struct nvml_memory_v2 *memory) {
    nvmlReturn status = hami_call_nvml_memory_info_v2(hook, device, memory);
    if (status == NVML_SUCCESS) {
        struct nvml_memory shown = {memory->total, memory->free, memory->used};
        if (query_show(device, &shown)) {
            *memory = (struct nvml_memory_v2){memory->version, memory->pad, shown.total, 0, shown.free, shown.used};
        }
    }
    return status;
}
