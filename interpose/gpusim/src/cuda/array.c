/* Arrays and mipmapped arrays: rows rounded up to 512 bytes in one device allocation. */
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"

#define ROW_ALIGNMENT 512u

static unsigned element_bytes(int format) {
    switch (format) {
    case 0x01:
    case 0x08:
        return 1;
    case 0x02:
    case 0x09:
    case 0x10:
        return 2;
    case 0x03:
    case 0x0a:
    case 0x20:
        return 4;
    default:
        return 0;
    }
}

/* An array without memory yet; `total` gets the bytes that it needs. */
static CUresult array_shaped(const CUDA_ARRAY3D_DESCRIPTOR *shape, struct sim_array **made, size_t *total) {
    unsigned element = element_bytes(shape->Format) * shape->NumChannels;
    bool channels = shape->NumChannels == 1 || shape->NumChannels == 2 || shape->NumChannels == 4;
    size_t rows = 0;
    if (element == 0 || !channels || shape->Width == 0 || shape->Width > 1u << 17) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t row = shape->Width * element, pitch = sim_round_up(row, ROW_ALIGNMENT);
    if (__builtin_mul_overflow(shape->Height != 0 ? shape->Height : 1, shape->Depth != 0 ? shape->Depth : 1, &rows) ||
        __builtin_mul_overflow(rows, pitch, total)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *made = sim_object_new(SIM_TAG_ARRAY, sizeof **made);
    if (*made == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    (*made)->shape = *shape;
    (*made)->row = row;
    (*made)->pitch = pitch;
    return CUDA_SUCCESS;
}

/* Memory of a sparse array is mapped into it, tile by tile. */
static bool is_sparse(const CUDA_ARRAY3D_DESCRIPTOR *shape) {
    enum { SPARSE = 0x40 };
    return (shape->Flags & SPARSE) != 0;
}

static CUresult array_new(const CUDA_ARRAY3D_DESCRIPTOR *shape, struct sim_context *context, struct sim_array **made) {
    struct sim_array *array = NULL;
    size_t total = 0;
    CUresult error = array_shaped(shape, &array, &total);
    if (error != CUDA_SUCCESS) {
        return error;
    }
    error = is_sparse(shape) ? CUDA_SUCCESS : sim_allocate(&context->heap, total, &array->base);
    if (error == CUDA_SUCCESS) {
        *made = array;
    } else {
        sim_object_delete(array);
    }
    return error;
}

CUresult sim_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    return pHandle == NULL || pAllocateArray == NULL ? CUDA_ERROR_INVALID_VALUE
                                                     : array_new(pAllocateArray, context, pHandle);
}

CUresult sim_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
    if (pAllocateArray == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_ARRAY3D_DESCRIPTOR shape = {pAllocateArray->Width,  pAllocateArray->Height,      0,
                                     pAllocateArray->Format, pAllocateArray->NumChannels, 0};
    return sim_cuArray3DCreate_v2(pHandle, &shape);
}

static CUresult array_check(CUarray array, const void *output) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(array, SIM_TAG_ARRAY)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    return output != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A level of a mipmapped array goes with the whole. */
CUresult sim_cuArrayDestroy(CUarray hArray) {
    CUresult error = array_check(hArray, hArray);
    if (error == CUDA_SUCCESS && hArray->is_level) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (error == CUDA_SUCCESS) {
        (void)sim_release(hArray->base);
        sim_tiles_forget(hArray);
        sim_object_delete(hArray);
    }
    return error;
}

CUresult sim_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    CUresult error = array_check(hArray, pArrayDescriptor);
    if (error == CUDA_SUCCESS) {
        *pArrayDescriptor = hArray->shape;
    }
    return error;
}

CUresult sim_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
    CUresult error = array_check(hArray, pArrayDescriptor);
    if (error == CUDA_SUCCESS) {
        const CUDA_ARRAY3D_DESCRIPTOR *shape = &hArray->shape;
        *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){shape->Width, shape->Height, shape->Format, shape->NumChannels};
    }
    return error;
}

static size_t halved(size_t extent, unsigned level) {
    size_t size = extent >> level;
    return extent == 0 ? 0 : size == 0 ? 1 : size;
}

static void levels_delete(struct sim_array *array) {
    for (unsigned i = 0; i < array->levels; i++) {
        sim_object_delete(array->level[i]);
    }
    sim_object_delete(array);
}

CUresult sim_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
    CUresult error = array_check(hMipmappedArray, hMipmappedArray);
    if (error == CUDA_SUCCESS) {
        (void)sim_release(hMipmappedArray->base);
        sim_tiles_forget(hMipmappedArray);
        levels_delete(hMipmappedArray);
    }
    return error;
}

/* Makes the levels, without memory; `total` gets the bytes of all. */
static CUresult levels_new(struct sim_array *array, unsigned count, size_t *total) {
    CUresult error = CUDA_SUCCESS;
    *total = 0;
    for (unsigned i = 0; i < count && i < 16 && error == CUDA_SUCCESS; i++) {
        CUDA_ARRAY3D_DESCRIPTOR shape = array->shape;
        size_t bytes = 0;
        shape.Width = halved(shape.Width, i);
        shape.Height = halved(shape.Height, i);
        shape.Depth = halved(shape.Depth, i);
        error = array_shaped(&shape, &array->level[i], &bytes);
        if (error == CUDA_SUCCESS) {
            array->level[i]->is_level = true;
            array->level[i]->base = *total; /* from the start, so far */
            array->levels++;
            *total += bytes;
        }
    }
    return error;
}

CUresult sim_cuMipmappedArrayCreate(CUmipmappedArray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                    unsigned numMipmapLevels) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    size_t total = 0;
    if (context == NULL) {
        return error;
    }
    if (pHandle == NULL || pMipmappedArrayDesc == NULL || numMipmapLevels == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_array *array = sim_object_new(SIM_TAG_ARRAY, sizeof *array);
    if (array == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    array->shape = *pMipmappedArrayDesc;
    error = levels_new(array, numMipmapLevels, &total);
    if (error == CUDA_SUCCESS && !is_sparse(&array->shape)) {
        error = sim_allocate(&context->heap, total, &array->base);
    }
    if (error != CUDA_SUCCESS) {
        levels_delete(array);
        return error;
    }
    for (unsigned i = 0; i < array->levels; i++) {
        array->level[i]->base += array->base;
    }
    *pHandle = array;
    return CUDA_SUCCESS;
}

CUresult sim_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level) {
    CUresult error = array_check(hMipmappedArray, pLevelArray);
    if (error != CUDA_SUCCESS || level >= hMipmappedArray->levels) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *pLevelArray = hMipmappedArray->level[level];
    return CUDA_SUCCESS;
}
