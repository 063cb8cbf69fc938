/* What belongs to contexts and memory in other forms: green contexts, attachments, memory of other APIs. */
#include "cuda_impl.h"
#include "driver.h"

struct sim_green {
    struct sim_object object;
    CUdevice ordinal;
    struct sim_context *view; /* a context by a handle of its own, in which everything is the primary one's */
};

/* A green context holds the primary one; which part of the device it is for makes no difference here. */
CUresult sim_cuGreenCtxCreate(CUgreenCtx *phCtx, void *desc, CUdevice dev, unsigned flags) {
    struct sim_context *primary = NULL;
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (phCtx == NULL || desc == NULL || flags != 1) { /* CU_GREEN_CTX_DEFAULT_STREAM is obligatory */
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult error = sim_cuDevicePrimaryCtxRetain(&primary, dev);
    if (error != CUDA_SUCCESS) {
        return error;
    }
    struct sim_green *green = sim_object_new(SIM_TAG_GREEN, sizeof *green);
    struct sim_context *view = green == NULL ? NULL : sim_view_new(primary);
    if (view == NULL) {
        if (green != NULL) {
            sim_object_delete(green);
        }
        (void)sim_cuDevicePrimaryCtxRelease_v2(dev);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    green->ordinal = dev;
    green->view = view;
    *phCtx = green;
    return CUDA_SUCCESS;
}

CUresult sim_cuGreenCtxDestroy(CUgreenCtx hCtx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(hCtx, SIM_TAG_GREEN)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    CUdevice ordinal = hCtx->ordinal;
    sim_object_delete(hCtx->view);
    sim_object_delete(hCtx);
    return sim_cuDevicePrimaryCtxRelease_v2(ordinal);
}

CUresult sim_cuCtxFromGreenCtx(CUcontext *pContext, CUgreenCtx hCtx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (pContext == NULL || !sim_is(hCtx, SIM_TAG_GREEN)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pContext = hCtx->view;
    return CUDA_SUCCESS;
}

/* References beyond the creator's; primary contexts have a count of their own. */
CUresult sim_cuCtxAttach(CUcontext *pctx, unsigned flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL || pctx == NULL || flags != 0) {
        return context == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    atomic_fetch_add(&context->retained, 1);
    *pctx = context;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDetach(CUcontext ctx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(ctx, SIM_TAG_CONTEXT) || ctx->primary) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    return atomic_fetch_sub(&ctx->retained, 1) > 0 ? CUDA_SUCCESS : sim_cuCtxDestroy_v2(ctx);
}

/* The other API pays for its memory; here it takes nothing. Any descriptor will do. */
CUresult sim_cuImportExternalMemory(CUexternalMemory *extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *handleDesc) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    if (extMem_out == NULL || handleDesc == NULL || handleDesc->size == 0 || handleDesc->type < 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *extMem_out = sim_object_new(SIM_TAG_EXTERNAL, sizeof(struct sim_external));
    return *extMem_out == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sim_cuDestroyExternalMemory(CUexternalMemory extMem) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(extMem, SIM_TAG_EXTERNAL)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    sim_object_delete(extMem);
    return CUDA_SUCCESS;
}

/* The 32-bit forms of array creation. */
CUresult sim_cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray) {
    if (pAllocateArray == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_ARRAY_DESCRIPTOR shape = {pAllocateArray->Width, pAllocateArray->Height, pAllocateArray->Format,
                                   pAllocateArray->NumChannels};
    return sim_cuArrayCreate_v2(pHandle, &shape);
}

CUresult sim_cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray) {
    if (pAllocateArray == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_ARRAY3D_DESCRIPTOR shape = {pAllocateArray->Width,  pAllocateArray->Height,      pAllocateArray->Depth,
                                     pAllocateArray->Format, pAllocateArray->NumChannels, pAllocateArray->Flags};
    return sim_cuArray3DCreate_v2(pHandle, &shape);
}
