/*
 * Policies of linear memory. Where the limits offer host memory, it stands in for what does not fit on the device. The
 * policies of the 32-bit calls of CUDA 3.1 and before, which have no such stand-in, are generated (spec/cuda.toml).
 */
#include "memory/allocation.h"

#include "ledger/state.h"
#include "memory/contexts.h"
#include "memory/records.h"
#include "memory/sizes.h"
#include "policies.h"

/* ---- host memory: managed memory that stays in the host (docs/explanation/oversubscription.md) ---- */

/* Without this advice the driver would move pages to the device that touches them, beyond the container's share. */
static bool host_keep(CUdeviceptr address, uint64_t bytes, CUdevice device) {
    return hami_call_cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU) == CUDA_SUCCESS &&
           hami_call_cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device) == CUDA_SUCCESS;
}

/* Records the allocation, and adds it to the figures in the region that people read. */
static bool host_record(CUdeviceptr address, const struct hami_charge *charge, unsigned context) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || !hami_record_large(address, charge, context)) {
        return false;
    }
    struct hami_device *host = &view->region->block.devices[charge->device];
    (void)atomic_fetch_add_explicit(&host->placed, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&host->placed_bytes, charge->pages << HAMI_PAGE_SHIFT, memory_order_relaxed);
    return true;
}

/* `flags` are those of cuMemAllocManaged. CUDA_ERROR_OUT_OF_MEMORY: the limits offer no host memory, or too little. */
HAMI_COLD static CUresult host_allocate(CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    struct hami_context context;
    struct hami_charge charge;
    CUdeviceptr made = 0;
    if (!hami_context_current(&context) || !hami_charge_take_host(context.device, bytes, &charge)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_cuMemAllocManaged(&made, bytes, flags);
    if (status == CUDA_SUCCESS &&
        (!host_keep(made, bytes, context.device) || !host_record(made, &charge, context.id))) {
        (void)hami_call_cuMemFree_v2(made);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status == CUDA_SUCCESS) {
        *address = made;
    } else {
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
    }
    return status == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : status;
}

/* ---- policies ---- */

HAMI_FLAT int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes) {
    struct hami_allocation a;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    if (address == NULL || bytes == 0) {
        return hami_call_mem_alloc(hook, address, bytes);
    }
    if (hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        status = hami_call_mem_alloc(hook, address, bytes);
        status = hami_allocation_end(&a, status, *address, bytes, HAMI_cuMemFree_v2);
    }
    bool full = status == CUDA_ERROR_OUT_OF_MEMORY; /* the container's share, or the device itself */
    return full ? host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL) : status;
}

int32_t hami_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *address, size_t *pitch, uint64_t width, uint64_t height,
                             uint32_t element) {
    struct hami_allocation a;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    size_t padded = hami_row(width);
    uint64_t bytes = hami_product(padded, height);
    bool sensible = element == 4 || element == 8 || element == 16;
    if (address == NULL || pitch == NULL || width == 0 || height == 0 || !sensible) {
        return hami_call_mem_alloc_pitch(hook, address, pitch, width, height, element);
    }
    if (hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        status = hami_call_mem_alloc_pitch(hook, address, &padded, width, height, element);
        status = hami_allocation_end(&a, status, *address, hami_product(padded, height), HAMI_cuMemFree_v2);
    }
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
        padded = hami_row(width);
        status = host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL);
    }
    *pitch = status == CUDA_SUCCESS ? padded : *pitch;
    return status;
}

/*
 * The driver may move managed memory to the device at any time and without a call, so all of it is charged. Beyond the
 * device's share it is asked to stay in the host.
 */
int32_t hami_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    struct hami_allocation a;
    bool sensible = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (address == NULL || bytes == 0 || !sensible) {
        return hami_call_mem_alloc_managed(hook, address, bytes, flags);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE | HAMI_OR_HOST)) {
        return host_allocate(address, bytes, flags);
    }
    CUresult status = hami_call_mem_alloc_managed(hook, address, bytes, flags);
    return hami_allocation_end(&a, status, *address, 0, HAMI_cuMemFree_v2);
}

HAMI_FLAT int32_t hami_mem_free(enum hami_hook hook, CUdeviceptr address) {
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, hami_call_mem_free(hook, address));
}

int32_t hami_mem_free_v1(enum hami_hook hook, CUdeviceptr_v1 address) {
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, hami_call_mem_free_v1(hook, address));
}
