/*
 * Policies of linear memory: reserve, call the driver, keep or give back. Where the limits offer host memory, it stands
 * in for what does not fit on the device. Hooks with 32-bit addresses, of CUDA 3.1 and before, do the same without
 * that.
 */
#include "memory/allocation.h"
#include "memory/records.h"
#include "memory/sizes.h"
#include "policies.h"

/* What the driver padded an allocation to does not fit: host memory in its place. */
HAMI_COLD static CUresult allocate_moved_to_host(CUdeviceptr *address, uint64_t bytes) {
    (void)hami_call_cuMemFree_v2(*address);
    return hami_host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL);
}

/* The driver refused: the device may be full before the container's share is. */
HAMI_COLD static CUresult allocate_refused(struct hami_allocation *a, CUresult status, CUdeviceptr *address,
                                           uint64_t bytes) {
    hami_allocation_cancel(a);
    bool full = status == CUDA_ERROR_OUT_OF_MEMORY;
    return full ? hami_host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL) : status;
}

HAMI_FLAT int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes) {
    struct hami_allocation a;
    if (address == NULL || bytes == 0) {
        return hami_call_mem_alloc(hook, address, bytes);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        return hami_host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL);
    }
    CUresult status = hami_call_mem_alloc(hook, address, bytes);
    if (status != CUDA_SUCCESS) {
        return allocate_refused(&a, status, address, bytes);
    }
    return hami_allocation_end(&a, *address, bytes) ? status : allocate_moved_to_host(address, bytes);
}

int32_t hami_mem_alloc_v1(enum hami_hook hook, CUdeviceptr_v1 *address, uint32_t bytes) {
    struct hami_allocation a;
    if (address == NULL || bytes == 0) {
        return hami_call_mem_alloc_v1(hook, address, bytes);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_mem_alloc_v1(hook, address, bytes);
    return hami_allocation_kept(&a, status, *address, bytes, HAMI_cuMemFree_v2);
}

int32_t hami_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *address, size_t *pitch, uint64_t width, uint64_t height,
                             uint32_t element) {
    struct hami_allocation a;
    uint64_t bytes = hami_product(hami_row(width), height);
    bool sensible = element == 4 || element == 8 || element == 16;
    if (address == NULL || pitch == NULL || width == 0 || height == 0 || !sensible) {
        return hami_call_mem_alloc_pitch(hook, address, pitch, width, height, element);
    }
    CUresult status = CUDA_SUCCESS;
    size_t padded = hami_row(width); /* as it will be in the host */
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        status = hami_host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL);
    } else if ((status = hami_call_mem_alloc_pitch(hook, address, &padded, width, height, element)) != CUDA_SUCCESS) {
        padded = hami_row(width);
        status = allocate_refused(&a, status, address, bytes);
    } else if (!hami_allocation_end(&a, *address, hami_product(padded, height))) {
        padded = hami_row(width);
        status = allocate_moved_to_host(address, bytes);
    }
    if (status == CUDA_SUCCESS) {
        *pitch = padded;
    }
    return status;
}

int32_t hami_mem_alloc_pitch_v1(enum hami_hook hook, CUdeviceptr_v1 *address, uint32_t *pitch, uint32_t width,
                                uint32_t height, uint32_t element) {
    struct hami_allocation a;
    if (address == NULL || pitch == NULL || width == 0 || height == 0) {
        return hami_call_mem_alloc_pitch_v1(hook, address, pitch, width, height, element);
    }
    if (!hami_allocation_begin(&a, hami_product(hami_row(width), height), HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_mem_alloc_pitch_v1(hook, address, pitch, width, height, element);
    return hami_allocation_kept(&a, status, *address, hami_product(*pitch, height), HAMI_cuMemFree_v2);
}

/*
 * Managed memory may come to lie on the device whole, at any time and without a call, so it is charged whole. Beyond
 * the device's share it is asked to stay in the host.
 */
int32_t hami_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    struct hami_allocation a;
    bool sensible = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (address == NULL || bytes == 0 || !sensible) {
        return hami_call_mem_alloc_managed(hook, address, bytes, flags);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE | HAMI_OR_HOST)) {
        return hami_host_allocate(address, bytes, flags);
    }
    CUresult status = hami_call_mem_alloc_managed(hook, address, bytes, flags);
    return hami_allocation_kept(&a, status, *address, bytes, HAMI_cuMemFree_v2);
}

HAMI_FLAT int32_t hami_mem_free(enum hami_hook hook, CUdeviceptr address) {
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, hami_call_mem_free(hook, address));
}

int32_t hami_mem_free_v1(enum hami_hook hook, CUdeviceptr_v1 address) {
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, hami_call_mem_free_v1(hook, address));
}
