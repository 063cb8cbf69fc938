/* Linear memory and arrays: reserve, call, keep or give back. */
#include "hami/account.h"
#include "hami/context.h"
#include "hami/hook.h"
#include "hami/identity.h"
#include "hami/oversubscribe.h"
#include "hami/policy.h"
#include "hami/shared.h"
#include "hami/vmm.h"

enum { ROW_STEP = 512 };

static CUresult free_and_refuse(CUdeviceptr address) {
    CUresult (*driver)(CUdeviceptr) = hami_driver_function(HAMI_cuMemFree_v2);
    (void)driver(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* a * b, or the largest number there is. */
static uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static uint64_t row(uint64_t bytes) {
    return bytes > UINT64_MAX - ROW_STEP ? UINT64_MAX : (bytes + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
}

/* The share of the device does not hold what it was thought to hold. */
HAMI_COLD static CUresult move_to_host(CUdeviceptr *address, uint64_t bytes) {
    (void)free_and_refuse(*address);
    return hami_allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL);
}

/* The driver refused: the device may be full before the container's share is. */
HAMI_COLD static CUresult refused(struct hami_allocation *a, CUresult status, CUdeviceptr *address, uint64_t bytes) {
    hami_allocation_cancel(a);
    bool full = status == CUDA_ERROR_OUT_OF_MEMORY;
    return full ? hami_allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL) : status;
}

HAMI_FLAT int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes) {
    CUresult (*driver)(CUdeviceptr *, size_t) = hami_driver_function(hook);
    struct hami_allocation a;
    if (address == NULL || bytes == 0) {
        return driver(address, bytes);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        return hami_allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL);
    }
    CUresult status = driver(address, bytes);
    if (status != CUDA_SUCCESS) {
        return refused(&a, status, address, bytes);
    }
    return hami_allocation_end(&a, *address, bytes, false) ? status : move_to_host(address, bytes);
}

int32_t hami_mem_alloc_v1(enum hami_hook hook, CUdeviceptr_v1 *address, uint32_t bytes) {
    CUresult (*driver)(CUdeviceptr_v1 *, uint32_t) = hami_driver_function(hook);
    struct hami_allocation a;
    if (address == NULL || bytes == 0) {
        return driver(address, bytes);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(address, bytes);
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(&a);
        return status;
    }
    return hami_allocation_end(&a, *address, bytes, false) ? status : free_and_refuse(*address);
}

int32_t hami_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *address, size_t *pitch, uint64_t width, uint64_t height,
                             uint32_t element) {
    CUresult (*driver)(CUdeviceptr *, size_t *, size_t, size_t, uint32_t) = hami_driver_function(hook);
    struct hami_allocation a;
    uint64_t bytes = product(row(width), height);
    bool sensible = element == 4 || element == 8 || element == 16;
    if (address == NULL || pitch == NULL || width == 0 || height == 0 || !sensible) {
        return driver(address, pitch, width, height, element);
    }
    CUresult status = CUDA_SUCCESS;
    size_t padded = row(width); /* as it will be in the host */
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        status = hami_allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL);
    } else if ((status = driver(address, &padded, width, height, element)) != CUDA_SUCCESS) {
        padded = row(width);
        status = refused(&a, status, address, bytes);
    } else if (!hami_allocation_end(&a, *address, product(padded, height), false)) {
        padded = row(width);
        status = move_to_host(address, bytes);
    }
    if (status == CUDA_SUCCESS) {
        *pitch = padded;
    }
    return status;
}

int32_t hami_mem_alloc_pitch_v1(enum hami_hook hook, CUdeviceptr_v1 *address, uint32_t *pitch, uint32_t width,
                                uint32_t height, uint32_t element) {
    CUresult (*driver)(CUdeviceptr_v1 *, uint32_t *, uint32_t, uint32_t, uint32_t) = hami_driver_function(hook);
    struct hami_allocation a;
    if (address == NULL || pitch == NULL || width == 0 || height == 0) {
        return driver(address, pitch, width, height, element);
    }
    if (!hami_allocation_begin(&a, product(row(width), height), HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(address, pitch, width, height, element);
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(&a);
        return status;
    }
    return hami_allocation_end(&a, *address, product(*pitch, height), false) ? status : free_and_refuse(*address);
}

/*
 * Managed memory may come to lie on the device whole, at any time and without a call: it is charged whole. Beyond the
 * device's share it is asked to stay in the host.
 */
int32_t hami_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    CUresult (*driver)(CUdeviceptr *, size_t, uint32_t) = hami_driver_function(hook);
    struct hami_allocation a;
    bool sensible = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (address == NULL || bytes == 0 || !sensible) {
        return driver(address, bytes, flags);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE | HAMI_OR_HOST)) {
        return hami_allocate_in_host(address, bytes, flags);
    }
    CUresult status = driver(address, bytes, flags);
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(&a);
        return status;
    }
    return hami_allocation_end(&a, *address, bytes, true) ? status : free_and_refuse(*address);
}

/* The record leaves before the memory does: afterwards another thread may be given the same address. */
HAMI_FLAT int32_t hami_mem_free(enum hami_hook hook, CUdeviceptr address) {
    CUresult (*driver)(CUdeviceptr) = hami_driver_function(hook);
    uint64_t record = hami_record_take(address);
    CUresult status = driver(address);
    if (status != CUDA_SUCCESS) {
        hami_record_restore(address, record);
    } else if (record != 0) {
        hami_record_release(address, record);
    }
    return status;
}

int32_t hami_mem_free_v1(enum hami_hook hook, CUdeviceptr_v1 address) {
    CUresult (*driver)(CUdeviceptr_v1) = hami_driver_function(hook);
    uint64_t record = hami_record_take(address);
    CUresult status = driver(address);
    if (status != CUDA_SUCCESS) {
        hami_record_restore(address, record);
    } else if (record != 0) {
        hami_record_release(address, record);
    }
    return status;
}

/* ---- arrays ---- */

/* Bytes of one channel; formats are numbered by kind in the high and width in the low bits. */
static uint64_t channel_bytes(int32_t format) {
    switch (format) {
    case 0x02: /* unsigned and signed 16-bit integers, half */
    case 0x09:
    case 0x10:
        return 2;
    case 0x03: /* 32-bit integers, float */
    case 0x0a:
    case 0x20:
        return 4;
    default: /* 8-bit integers; block-compressed and video formats take less than 4 bytes a texel and channel */
        return format == 0x01 || format == 0x08 ? 1 : 4;
    }
}

static uint64_t level_bytes(const struct hami_array3d_descriptor *d, unsigned level) {
    uint64_t width = d->width >> level;
    uint64_t height = d->height >> level;
    bool layered = (d->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    uint64_t depth = layered ? d->depth : d->depth >> level;
    uint64_t bytes = row(product(width == 0 ? 1 : width, channel_bytes(d->format) * d->channels));
    return product(product(bytes, height == 0 ? 1 : height), depth == 0 ? 1 : depth);
}

/* Bytes of an array of `levels` levels; sparse and deferred arrays take nothing by themselves. */
static uint64_t array_bytes(const struct hami_array3d_descriptor *d, unsigned levels) {
    uint64_t sum = 0;
    if ((d->flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) != 0) {
        return 0;
    }
    for (unsigned level = 0; level < levels && level < 32; level++) {
        if (__builtin_add_overflow(sum, level_bytes(d, level), &sum)) {
            return UINT64_MAX;
        }
    }
    return sum;
}

/* Keeps or gives back what is known by a handle: arrays, imports. */
static CUresult array_created(struct hami_allocation *a, CUresult status, const CUarray *array, uint64_t bytes,
                              enum hami_hook destroy) {
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(a);
        return status;
    }
    if (hami_allocation_end(a, (uint64_t)(uintptr_t)*array, bytes, true)) {
        return status;
    }
    CUresult (*driver)(CUarray) = hami_driver_function(destroy);
    (void)driver(*array);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Descriptors of four kinds lead here; `d` says what `wanted` does, which is the driver's kind. */
static CUresult create_array(enum hami_hook hook, CUarray *array, const void *wanted,
                             const struct hami_array3d_descriptor *d) {
    CUresult (*driver)(CUarray *, const void *) = hami_driver_function(hook);
    struct hami_allocation a;
    if (array == NULL || wanted == NULL) {
        return driver(array, wanted);
    }
    uint64_t bytes = array_bytes(d, 1);
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return array_created(&a, driver(array, wanted), array, bytes, HAMI_cuArrayDestroy);
}

int32_t hami_array_create(enum hami_hook hook, CUarray *array, const struct hami_array_descriptor *wanted) {
    struct hami_array3d_descriptor d = {0};
    if (wanted != NULL) {
        d = (struct hami_array3d_descriptor){wanted->width, wanted->height, 0, wanted->format, wanted->channels, 0};
    }
    return create_array(hook, array, wanted, &d);
}

int32_t hami_array3d_create(enum hami_hook hook, CUarray *array, const struct hami_array3d_descriptor *wanted) {
    return create_array(hook, array, wanted, wanted);
}

int32_t hami_array_create_v1(enum hami_hook hook, CUarray *array, const struct hami_array_descriptor_v1 *wanted) {
    struct hami_array3d_descriptor d = {0};
    if (wanted != NULL) {
        d = (struct hami_array3d_descriptor){wanted->width, wanted->height, 0, wanted->format, wanted->channels, 0};
    }
    return create_array(hook, array, wanted, &d);
}

int32_t hami_array3d_create_v1(enum hami_hook hook, CUarray *array, const struct hami_array3d_descriptor_v1 *wanted) {
    struct hami_array3d_descriptor d = {0};
    if (wanted != NULL) {
        d = (struct hami_array3d_descriptor){wanted->width,  wanted->height,   wanted->depth,
                                             wanted->format, wanted->channels, wanted->flags};
    }
    return create_array(hook, array, wanted, &d);
}

/* What a process of the container has imported already. It outlives neither the import nor its context. */
static CUresult hold_external(void **memory, const struct hami_external_memory *wanted, hami_share share,
                              CUresult (*driver)(void **, const struct hami_external_memory *)) {
    struct hami_context context;
    unsigned id = hami_context_current(&context) ? context.id : HAMI_CONTEXT_UNKNOWN;
    CUresult status = driver(memory, wanted);
    if (status == CUDA_SUCCESS && !hami_record_held((uint64_t)(uintptr_t)*memory, share, id)) {
        CUresult (*destroy)(void *) = hami_driver_function(HAMI_cuDestroyExternalMemory);
        (void)destroy(*memory);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status != CUDA_SUCCESS) {
        hami_shared_close(share);
    }
    return status;
}

/*
 * Memory that another API took on the device: nobody counts it yet, unless a process of the container has imported the
 * same, which descriptors tell. The driver takes those over, so they are asked before.
 */
int32_t hami_external_import(enum hami_hook hook, void **memory, const struct hami_external_memory *wanted) {
    enum { OPAQUE_FD = 1 }; /* CUexternalMemoryHandleType */
    CUresult (*driver)(void **, const struct hami_external_memory *) = hami_driver_function(hook);
    struct hami_allocation a;
    if (memory == NULL || wanted == NULL || wanted->bytes == 0) {
        return driver(memory, wanted);
    }
    uint64_t bytes = wanted->bytes, identity = wanted->type == OPAQUE_FD ? hami_identity_of(wanted->fd) : 0;
    hami_share share = -1;
    if (!hami_shared_take_up(identity, hami_large(bytes) >> HAMI_PAGE_SHIFT, &share)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (share >= 0) {
        return hold_external(memory, wanted, share, driver);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = array_created(&a, driver(memory, wanted), memory, bytes, HAMI_cuDestroyExternalMemory);
    if (status == CUDA_SUCCESS && identity != 0) {
        hami_record_share((uint64_t)(uintptr_t)*memory, identity);
    }
    return status;
}

int32_t hami_mipmapped_create(enum hami_hook hook, CUarray *array, const struct hami_array3d_descriptor *wanted,
                              uint32_t levels) {
    CUresult (*driver)(CUarray *, const struct hami_array3d_descriptor *, uint32_t) = hami_driver_function(hook);
    struct hami_allocation a;
    if (array == NULL || wanted == NULL) {
        return driver(array, wanted, levels);
    }
    uint64_t bytes = array_bytes(wanted, levels == 0 ? 1 : levels);
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return array_created(&a, driver(array, wanted, levels), array, bytes, HAMI_cuMipmappedArrayDestroy);
}

int32_t hami_array_destroy(enum hami_hook hook, CUarray array) {
    CUresult (*driver)(CUarray) = hami_driver_function(hook);
    uint64_t key = (uint64_t)(uintptr_t)array;
    uint64_t record = hami_object_take(array);
    CUresult status = driver(array);
    if (status != CUDA_SUCCESS) {
        hami_record_restore(key, record);
    } else {
        hami_record_release(key, record);
        hami_vmm_array_gone(array);
    }
    return status;
}
