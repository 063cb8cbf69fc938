/* Linear memory and arrays: reserve, call, keep or give back. */
#include "memory/memory.h"

#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/account.h"
#include "memory/context.h"
#include "memory/identity.h"
#include "memory/shared.h"
#include "policies.h"

enum { ROW_STEP = 512 };
enum { SET_PREFERRED_LOCATION = 3, SET_ACCESSED_BY = 5 }; /* CUmem_advise */
enum { HOST = -1 };                                       /* CU_DEVICE_CPU */

/* a * b, or the largest number there is. */
static uint64_t product(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static uint64_t row(uint64_t bytes) {
    return bytes > UINT64_MAX - ROW_STEP ? UINT64_MAX : (bytes + ROW_STEP - 1) / ROW_STEP * ROW_STEP;
}

/* ---- host memory in place of the device's ---- */

/* Without this the driver would move pages to the device that touches them, past its share, and others' away. */
static bool keep_in_host(CUdeviceptr address, uint64_t bytes, CUdevice device) {
    CUresult (*advise)(CUdeviceptr, size_t, int, CUdevice) = hami_cuda_function("cuMemAdvise");
    return advise != NULL && advise(address, bytes, SET_PREFERRED_LOCATION, HOST) == CUDA_SUCCESS &&
           advise(address, bytes, SET_ACCESSED_BY, device) == CUDA_SUCCESS;
}

/* The allocation stands: recorded, and told to whoever reads the region. */
static bool record_placed(CUdeviceptr address, const struct hami_charge *charge, unsigned context) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || !hami_record_large(address, charge, context)) {
        return false;
    }
    struct hami_device *host = &view->region->block.devices[charge->device];
    (void)atomic_fetch_add_explicit(&host->placed, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&host->placed_bytes, charge->pages << HAMI_PAGE_SHIFT, memory_order_relaxed);
    return true;
}

/*
 * Where the administrator scales memory beyond the device: managed memory that is kept in the host, which the device
 * reads and writes over its link (docs/explanation/oversubscription.md). `flags` are those of cuMemAllocManaged.
 * CUDA_ERROR_OUT_OF_MEMORY: the limits offer none, or it is used up.
 */
HAMI_COLD static CUresult allocate_in_host(CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    CUresult (*allocate)(CUdeviceptr *, size_t, uint32_t) = hami_driver_function(HAMI_cuMemAllocManaged);
    CUresult (*free_it)(CUdeviceptr) = hami_driver_function(HAMI_cuMemFree_v2);
    struct hami_context context;
    struct hami_charge charge;
    CUdeviceptr made = 0;
    if (!hami_context_current(&context) || !hami_charge_take_host(context.device, bytes, &charge)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = allocate(&made, bytes, flags);
    if (status != CUDA_SUCCESS) {
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        return status == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : status;
    }
    if (!keep_in_host(made, bytes, context.device) || !record_placed(made, &charge, context.id)) {
        (void)free_it(made);
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = made;
    return CUDA_SUCCESS;
}

/* The share of the device does not hold what it was thought to hold. */
HAMI_COLD static CUresult move_to_host(CUdeviceptr *address, uint64_t bytes) {
    CUresult (*driver)(CUdeviceptr) = hami_driver_function(HAMI_cuMemFree_v2);
    (void)driver(*address);
    return allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL);
}

/* The driver refused: the device may be full before the container's share is. */
HAMI_COLD static CUresult refused(struct hami_allocation *a, CUresult status, CUdeviceptr *address, uint64_t bytes) {
    hami_allocation_cancel(a);
    bool full = status == CUDA_ERROR_OUT_OF_MEMORY;
    return full ? allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL) : status;
}

/* ---- linear memory ---- */

/*
 * After the driver's call: keeps what was taken at `address`, by a pointer or handle, or gives the reserve back. What
 * does not fit after all is freed with `destroy`.
 */
static CUresult kept(struct hami_allocation *a, CUresult status, uint64_t address, uint64_t actual,
                     enum hami_hook destroy) {
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(a);
        return status;
    }
    if (hami_allocation_end(a, address, actual)) {
        return status;
    }
    CUresult (*driver)(uint64_t) = hami_driver_function(destroy);
    (void)driver(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

HAMI_FLAT int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes) {
    CUresult (*driver)(CUdeviceptr *, size_t) = hami_driver_function(hook);
    struct hami_allocation a;
    if (address == NULL || bytes == 0) {
        return driver(address, bytes);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        return allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL);
    }
    CUresult status = driver(address, bytes);
    if (status != CUDA_SUCCESS) {
        return refused(&a, status, address, bytes);
    }
    return hami_allocation_end(&a, *address, bytes) ? status : move_to_host(address, bytes);
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
    return kept(&a, status, *address, bytes, HAMI_cuMemFree_v2);
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
        status = allocate_in_host(address, bytes, CU_MEM_ATTACH_GLOBAL);
    } else if ((status = driver(address, &padded, width, height, element)) != CUDA_SUCCESS) {
        padded = row(width);
        status = refused(&a, status, address, bytes);
    } else if (!hami_allocation_end(&a, *address, product(padded, height))) {
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
    return kept(&a, status, *address, product(*pitch, height), HAMI_cuMemFree_v2);
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
        return allocate_in_host(address, bytes, flags);
    }
    CUresult status = driver(address, bytes, flags);
    return kept(&a, status, *address, bytes, HAMI_cuMemFree_v2);
}

/* The record leaves before the memory does: afterwards another thread may be given the same address. */
HAMI_FLAT int32_t hami_mem_free(enum hami_hook hook, CUdeviceptr address) {
    CUresult (*driver)(CUdeviceptr) = hami_driver_function(hook);
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, driver(address));
}

int32_t hami_mem_free_v1(enum hami_hook hook, CUdeviceptr_v1 address) {
    CUresult (*driver)(CUdeviceptr_v1) = hami_driver_function(hook);
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, driver(address));
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

static uint64_t handle_of(void *const *made, CUresult status) {
    return status == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*made : 0;
}

/* What the descriptor of any of the four calls says; 32-bit and two-dimensional forms say less. */
static struct hami_array3d_descriptor described(enum hami_hook hook, const void *wanted) {
    const struct hami_array_descriptor_v1 *narrow = wanted;
    const struct hami_array3d_descriptor_v1 *narrow3d = wanted;
    const struct hami_array_descriptor *flat = wanted;
    switch (hook) {
    case HAMI_cuArrayCreate:
        return (struct hami_array3d_descriptor){narrow->width, narrow->height, 0, narrow->format, narrow->channels, 0};
    case HAMI_cuArrayCreate_v2:
        return (struct hami_array3d_descriptor){flat->width, flat->height, 0, flat->format, flat->channels, 0};
    case HAMI_cuArray3DCreate:
        return (struct hami_array3d_descriptor){narrow3d->width,  narrow3d->height,   narrow3d->depth,
                                                narrow3d->format, narrow3d->channels, narrow3d->flags};
    default:
        return *(const struct hami_array3d_descriptor *)wanted;
    }
}

int32_t hami_array_create(enum hami_hook hook, CUarray *array, const void *wanted) {
    CUresult (*driver)(CUarray *, const void *) = hami_driver_function(hook);
    struct hami_allocation a;
    if (array == NULL || wanted == NULL) {
        return driver(array, wanted);
    }
    struct hami_array3d_descriptor d = described(hook, wanted);
    uint64_t bytes = array_bytes(&d, 1);
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(array, wanted);
    return kept(&a, status, handle_of(array, status), bytes, HAMI_cuArrayDestroy);
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
    CUresult status = driver(memory, wanted);
    status = kept(&a, status, handle_of(memory, status), bytes, HAMI_cuDestroyExternalMemory);
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
    CUresult status = driver(array, wanted, levels);
    return kept(&a, status, handle_of(array, status), bytes, HAMI_cuMipmappedArrayDestroy);
}

int32_t hami_array_destroy(enum hami_hook hook, CUarray array) {
    CUresult (*driver)(CUarray) = hami_driver_function(hook);
    uint64_t key = (uint64_t)(uintptr_t)array;
    uint64_t record = hami_object_take(key);
    CUresult status = hami_record_freed(key, record, driver(array));
    if (status == CUDA_SUCCESS) {
        hami_vmm_array_gone(array);
    }
    return status;
}
