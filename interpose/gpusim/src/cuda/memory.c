/* Device, managed and pinned allocations; see README.md for what each takes on the device. */
#include <stdlib.h>
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"
#include "shared.h"

#define PITCH_ALIGNMENT 512u

CUresult sim_allocate(struct sim_heap *heap, uint64_t size, CUdeviceptr *address) {
    if (size < SIM_SMALL_LIMIT) {
        *address = sim_small_allocate(heap, size);
        return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint64_t taken = sim_round_up(size, SIM_GRANULE);
    if (taken < size || !sim_heap_charge(heap, taken)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_DEVICE, size, 0);
    if (span == NULL) {
        sim_heap_discharge(heap, taken);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    span->charged = taken;
    span->device = heap->device;
    span->context = heap->context;
    span->pool = heap->pool;
    *address = span->base;
    return CUDA_SUCCESS;
}

static void give_back(struct sim_span *span) {
    if (span->shared != 0) {
        sim_share_drop(span->shared - 1);
    } else if (span->charged != 0 && span->pool != NULL) {
        sim_pool_return(span->pool, span->charged);
    } else if (span->charged != 0) {
        sim_discharge(span->device, span->charged);
    }
}

/* Frees what cuMemFree may free; one thread wins if several try. */
CUresult sim_release(CUdeviceptr address) {
    struct sim_span *span = sim_span_at(address);
    if (span == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (span->kind == SIM_KIND_BLOCK) {
        return sim_small_release(span, address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (span->kind == SIM_KIND_DEVICE && span->graph && span->base == address) { /* the address stays the graph's */
        uint64_t charged = span->charged;
        span->charged = 0;
        sim_pool_return(span->pool, charged);
        return charged != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    bool freeable = span->imported == 0 && (span->kind == SIM_KIND_DEVICE || span->kind == SIM_KIND_MANAGED) &&
                    span->base == address;
    if (!freeable || atomic_exchange(&span->live, 0) == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    give_back(span);
    sim_span_delete(span);
    return CUDA_SUCCESS;
}

bool sim_find(uint64_t address, struct sim_allocation *found) {
    struct sim_span *span = sim_span_at(address);
    if (span == NULL) {
        return false;
    }
    *found = (struct sim_allocation){.base = span->base,
                                     .size = span->size,
                                     .device = span->device,
                                     .id = span->id,
                                     .kind = span->kind,
                                     .flags = span->flags,
                                     .context = span->context,
                                     .pool = span->pool};
    if (span->kind == SIM_KIND_BLOCK) {
        found->kind = SIM_KIND_DEVICE;
        return sim_small_find(span, address, &found->base, &found->size, &found->id);
    }
    return address - span->base < span->size;
}

static bool forget_if_owned(struct sim_span *span, void *closure) {
    if (span->context != closure || span->pool != NULL || span->kind == SIM_KIND_RESERVED) {
        return true;
    }
    if (span->kind == SIM_KIND_BLOCK) {
        sim_block_forget(span->block);
    } else {
        give_back(span);
    }
    sim_span_delete(span);
    return true;
}

/* Addresses that are reserved, or belong to pools, outlive contexts. */
void sim_release_context_memory(struct sim_context *context) {
    sim_span_each(forget_if_owned, context);
}

CUresult sim_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (dptr == NULL || bytesize == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return sim_allocate(&context->heap, bytesize, dptr);
}

CUresult sim_cuMemFree_v2(CUdeviceptr dptr) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    error = dptr == 0 ? CUDA_SUCCESS : sim_release(dptr);
    sim_pools_end_free();
    return error;
}

CUresult sim_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                                unsigned ElementSizeBytes) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    bool size_ok = ElementSizeBytes == 4 || ElementSizeBytes == 8 || ElementSizeBytes == 16;
    if (dptr == NULL || pPitch == NULL || WidthInBytes == 0 || Height == 0 || !size_ok) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t pitch = sim_round_up(WidthInBytes, PITCH_ALIGNMENT), total = 0;
    if (pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &total)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    error = sim_allocate(&context->heap, total, dptr);
    if (error == CUDA_SUCCESS) {
        *pPitch = pitch;
    }
    return error;
}

CUresult sim_cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (dptr == NULL || bytesize == 0 || (flags != 1 && flags != 2)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_MANAGED, bytesize, 0);
    if (span == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    span->device = context->device;
    span->context = context;
    span->flags = flags;
    *dptr = span->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo_v2(size_t *free, size_t *total) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    uint64_t capacity = sim_device_capacity(&sim_books->devices[context->device]);
    if (total != NULL) {
        *total = capacity;
    }
    if (free != NULL) { /* NVIDIA's driver lets callers leave either out */
        *free = capacity - sim_device_used(context->device);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemGetInfo(unsigned *free, unsigned *total) {
    size_t whole_free = 0, whole = 0;
    CUresult error = sim_cuMemGetInfo_v2(&whole_free, &whole);
    if (error == CUDA_SUCCESS && free != NULL) {
        *free = whole_free < UINT32_MAX ? (unsigned)whole_free : UINT32_MAX;
    }
    if (error == CUDA_SUCCESS && total != NULL) {
        *total = whole < UINT32_MAX ? (unsigned)whole : UINT32_MAX;
    }
    return error;
}

CUresult sim_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr) {
    CUresult error = CUDA_SUCCESS;
    struct sim_allocation found;
    if (sim_current(&error) == NULL) {
        return error;
    }
    if (!sim_find(dptr, &found)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    if (pbase != NULL) {
        *pbase = found.base;
    }
    if (psize != NULL) {
        *psize = found.size;
    }
    return CUDA_SUCCESS;
}
