/* Made by gen/emit.py from spec/; do not edit. */
#include "memory/around.h"

#include "policies.h"

int32_t hami_array_create(enum hami_hook hook, void **pHandle, const void *pAllocateArray) {
    struct hami_allocation state;
    if (!hami_allocation_begin(&state, hami_array_bytes(hook, pAllocateArray, 1), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_array_create(hook, pHandle, pAllocateArray);
    return hami_allocation_end(&state, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuArrayDestroy);
}

int32_t hami_ctx_create(enum hami_hook hook, void **pctx, uint32_t flags, int32_t dev) {
    struct hami_making state;
    if (!hami_making_begin(&state, dev)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_ctx_create(hook, pctx, flags, dev);
    return hami_making_end(&state, status, pctx);
}

int32_t hami_ctx_create_v3(enum hami_hook hook, void **pctx, void *paramsArray, int32_t numParams, uint32_t flags, int32_t dev) {
    struct hami_making state;
    if (!hami_making_begin(&state, dev)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_ctx_create_v3(hook, pctx, paramsArray, numParams, flags, dev);
    return hami_making_end(&state, status, pctx);
}

int32_t hami_ctx_create_v4(enum hami_hook hook, void **pctx, void *ctxCreateParams, uint32_t flags, int32_t dev) {
    struct hami_making state;
    if (!hami_making_begin(&state, dev)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_ctx_create_v4(hook, pctx, ctxCreateParams, flags, dev);
    return hami_making_end(&state, status, pctx);
}

int32_t hami_ctx_create_vdpau(enum hami_hook hook, void **pCtx, uint32_t flags, int32_t device, uint32_t vdpDevice, void *vdpGetProcAddress) {
    struct hami_making state;
    if (!hami_making_begin(&state, device)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_ctx_create_vdpau(hook, pCtx, flags, device, vdpDevice, vdpGetProcAddress);
    return hami_making_end(&state, status, pCtx);
}

int32_t hami_library_load(enum hami_hook hook, void **library, const void *code, void *jitOptions, void **jitOptionsValues, uint32_t numJitOptions, void *libraryOptions, void **libraryOptionValues, uint32_t numLibraryOptions) {
    struct hami_loading state;
    if (!hami_loading_begin(&state, HAMI_cuLibraryUnload)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_library_load(hook, library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions);
    return hami_loading_end(&state, status, library);
}

int32_t hami_mem_alloc_pitch_v1(enum hami_hook hook, CUdeviceptr_v1 *dptr, uint32_t *pPitch, uint32_t WidthInBytes, uint32_t Height, uint32_t ElementSizeBytes) {
    struct hami_allocation state;
    if (!hami_allocation_begin(&state, hami_product(hami_row(WidthInBytes), Height), HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_mem_alloc_pitch_v1(hook, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    return hami_allocation_end(&state, status, HAMI_WRITTEN(dptr), hami_product(HAMI_WRITTEN(pPitch), Height), HAMI_cuMemFree_v2);
}

int32_t hami_mem_alloc_v1(enum hami_hook hook, CUdeviceptr_v1 *dptr, uint32_t bytesize) {
    struct hami_allocation state;
    if (!hami_allocation_begin(&state, bytesize, HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_mem_alloc_v1(hook, dptr, bytesize);
    return hami_allocation_end(&state, status, HAMI_WRITTEN(dptr), bytesize, HAMI_cuMemFree_v2);
}

int32_t hami_mipmapped_create(enum hami_hook hook, void **pHandle, const struct hami_array3d_descriptor *pMipmappedArrayDesc, uint32_t numMipmapLevels) {
    struct hami_allocation state;
    if (!hami_allocation_begin(&state, hami_array_bytes(hook, pMipmappedArrayDesc, numMipmapLevels), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_mipmapped_create(hook, pHandle, pMipmappedArrayDesc, numMipmapLevels);
    return hami_allocation_end(&state, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuMipmappedArrayDestroy);
}

int32_t hami_module_load(enum hami_hook hook, void **module, const void *fname) {
    struct hami_loading state;
    if (!hami_loading_begin(&state, HAMI_cuModuleUnload)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_module_load(hook, module, fname);
    return hami_loading_end(&state, status, module);
}

int32_t hami_module_load_ex(enum hami_hook hook, void **module, const void *image, uint32_t numOptions, void *options, void **optionValues) {
    struct hami_loading state;
    if (!hami_loading_begin(&state, HAMI_cuModuleUnload)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_module_load_ex(hook, module, image, numOptions, options, optionValues);
    return hami_loading_end(&state, status, module);
}

int32_t hami_multicast_bind(enum hami_hook hook, uint64_t mcHandle, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset, uint64_t size, uint64_t flags) {
    struct hami_bind state;
    if (!hami_bind_begin(&state, mcHandle, memHandle, 0)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_multicast_bind(hook, mcHandle, mcOffset, memHandle, memOffset, size, flags);
    return hami_bind_end(&state, status, mcOffset);
}

int32_t hami_multicast_bind_address(enum hami_hook hook, uint64_t mcHandle, uint64_t mcOffset, uint64_t memptr, uint64_t size, uint64_t flags) {
    struct hami_bind state;
    if (!hami_bind_begin(&state, mcHandle, 0, memptr)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_multicast_bind_address(hook, mcHandle, mcOffset, memptr, size, flags);
    return hami_bind_end(&state, status, mcOffset);
}

int32_t hami_multicast_bind_address_v2(enum hami_hook hook, uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t memptr, uint64_t size, uint64_t flags) {
    struct hami_bind state;
    if (!hami_bind_begin(&state, mcHandle, 0, memptr)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_multicast_bind_address_v2(hook, mcHandle, dev, mcOffset, memptr, size, flags);
    return hami_bind_end(&state, status, mcOffset);
}

int32_t hami_multicast_bind_v2(enum hami_hook hook, uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset, uint64_t size, uint64_t flags) {
    struct hami_bind state;
    if (!hami_bind_begin(&state, mcHandle, memHandle, 0)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = hami_call_multicast_bind_v2(hook, mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
    return hami_bind_end(&state, status, mcOffset);
}
