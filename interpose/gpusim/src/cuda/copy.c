/*
 * Copies and sets. Bytes move at once, in the calling thread; the stream's time goes on by what the transfer would
 * take. Writes beyond the shadow's limit (HAMI_SIM_SHADOW_MIB) are dropped and read back as zeros.
 */
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"

#define HOST_BYTES_PER_NS 25u     /* PCIe */
#define DEVICE_BYTES_PER_NS 1000u /* device memory */

/* Where the bytes of an address are: *bytes for a device address, the address itself for a host one. */
static bool locate(uint64_t address, uint64_t size, void **bytes) {
    struct sim_allocation found;
    *bytes = sim_bytes_at(address);
    if (*bytes == NULL) {
        *bytes = (void *)(uintptr_t)address;
        return address != 0;
    }
    struct sim_span *span = sim_span_at(address);
    if (span != NULL && span->kind == SIM_KIND_RESERVED) {
        return sim_mapped(span, address, size);
    }
    return sim_find(address, &found) && size <= found.size - (address - found.base);
}

CUresult sim_move(uint64_t target, uint64_t source, uint64_t size) {
    void *to = NULL, *from = NULL;
    if (size == 0) {
        return CUDA_SUCCESS;
    }
    if (!locate(target, size, &to) || !locate(source, size, &from)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_touch(target, size)) {
        memmove(to, from, size);
    }
    return CUDA_SUCCESS;
}

static void fill_bytes(unsigned char *to, unsigned value, unsigned width, uint64_t count) {
    if (width == 1) {
        memset(to, (int)value, count);
        return;
    }
    for (uint64_t i = 0; i < count; i++) {
        memcpy(to + i * width, &value, width);
    }
}

CUresult sim_fill(uint64_t target, unsigned value, unsigned width, uint64_t count) {
    void *to = NULL;
    uint64_t size = 0;
    if (count == 0) {
        return CUDA_SUCCESS;
    }
    if (__builtin_mul_overflow(count, width, &size) || target % width != 0 || !locate(target, size, &to)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_touch(target, size)) {
        fill_bytes(to, value, width, count);
    }
    return CUDA_SUCCESS;
}

static uint64_t copy_time(uint64_t target, uint64_t source, uint64_t size) {
    bool on_device = sim_bytes_at(target) != NULL && sim_bytes_at(source) != NULL;
    return 1000 + size / (on_device ? DEVICE_BYTES_PER_NS : HOST_BYTES_PER_NS);
}

static CUresult copy_async(uint64_t target, uint64_t source, uint64_t size, CUstream handle) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(handle, &error);
    if (stream == NULL) {
        return error;
    }
    return sim_do(stream, &(struct sim_work){.type = SIM_WORK_COPY,
                                             .duration = copy_time(target, source, size),
                                             .target = target,
                                             .source = source,
                                             .size = size});
}

/* A copy without a stream comes after the work of the default stream. */
static CUresult copy(uint64_t target, uint64_t source, uint64_t size) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    sim_stream_wait(context->default_stream);
    return sim_move(target, source, size);
}

/* A device address is asked for: a host one is an error. */
static bool on_device(CUdeviceptr address, size_t size) {
    return size == 0 || sim_bytes_at(address) != NULL || sim_registered(address, NULL, NULL);
}

CUresult sim_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount) {
    return copy(dst, src, ByteCount);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream) {
    return copy_async(dst, src, ByteCount, hStream);
}

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    return on_device(dstDevice, ByteCount) ? copy(dstDevice, (uintptr_t)srcHost, ByteCount) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    return on_device(srcDevice, ByteCount) ? copy((uintptr_t)dstHost, srcDevice, ByteCount) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    bool both = on_device(dstDevice, ByteCount) && on_device(srcDevice, ByteCount);
    return both ? copy(dstDevice, srcDevice, ByteCount) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream) {
    return copy_async(dstDevice, (uintptr_t)srcHost, ByteCount, hStream);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return copy_async((uintptr_t)dstHost, srcDevice, ByteCount, hStream);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream) {
    return copy_async(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult sim_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                          size_t ByteCount) {
    if (!sim_is(dstContext, SIM_TAG_CONTEXT) || !sim_is(srcContext, SIM_TAG_CONTEXT)) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_CONTEXT;
    }
    return copy(dstDevice, srcDevice, ByteCount);
}

CUresult sim_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice, CUcontext srcContext,
                               size_t ByteCount, CUstream hStream) {
    if (!sim_is(dstContext, SIM_TAG_CONTEXT) || !sim_is(srcContext, SIM_TAG_CONTEXT)) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_CONTEXT;
    }
    return copy_async(dstDevice, srcDevice, ByteCount, hStream);
}

/* Sets. */

static CUresult set_async(CUdeviceptr target, unsigned value, unsigned width, size_t count, CUstream handle) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(handle, &error);
    if (stream == NULL) {
        return error;
    }
    return sim_do(stream, &(struct sim_work){.type = SIM_WORK_SET,
                                             .duration = 1000 + count * width / DEVICE_BYTES_PER_NS,
                                             .target = target,
                                             .value = value,
                                             .width = width,
                                             .size = count});
}

static CUresult set_2d(CUdeviceptr target, size_t pitch, unsigned value, unsigned width, size_t columns, size_t rows,
                       CUstream handle) {
    CUresult error = CUDA_SUCCESS;
    if (rows > 1 && pitch < columns * width) {
        error = CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t row = 0; row < rows && error == CUDA_SUCCESS; row++) {
        error = set_async(target + row * pitch, value, width, columns, handle);
    }
    return error;
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N) {
    return set_async(dstDevice, uc, 1, N, NULL);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N) {
    return set_async(dstDevice, us, 2, N, NULL);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned ui, size_t N) {
    return set_async(dstDevice, ui, 4, N, NULL);
}

CUresult sim_cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream) {
    return set_async(dstDevice, uc, 1, N, hStream);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream) {
    return set_async(dstDevice, us, 2, N, hStream);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr dstDevice, unsigned ui, size_t N, CUstream hStream) {
    return set_async(dstDevice, ui, 4, N, hStream);
}

CUresult sim_cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height) {
    return set_2d(dstDevice, dstPitch, uc, 1, Width, Height, NULL);
}

CUresult sim_cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height) {
    return set_2d(dstDevice, dstPitch, us, 2, Width, Height, NULL);
}

CUresult sim_cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height) {
    return set_2d(dstDevice, dstPitch, ui, 4, Width, Height, NULL);
}

CUresult sim_cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
                               CUstream hStream) {
    return set_2d(dstDevice, dstPitch, uc, 1, Width, Height, hStream);
}

CUresult sim_cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
                                CUstream hStream) {
    return set_2d(dstDevice, dstPitch, us, 2, Width, Height, hStream);
}

CUresult sim_cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned ui, size_t Width, size_t Height,
                                CUstream hStream) {
    return set_2d(dstDevice, dstPitch, ui, 4, Width, Height, hStream);
}

/* Rectangles and boxes, row by row. */

struct side {
    uint64_t base;
    size_t pitch, height;
};

static bool side_of(int type, const void *host, CUdeviceptr device, CUarray array, size_t pitch, size_t height,
                    size_t width, struct side *side) {
    if (type == CU_MEMORYTYPE_ARRAY) {
        if (!sim_is(array, SIM_TAG_ARRAY)) {
            return false;
        }
        *side = (struct side){array->base, array->pitch, array->shape.Height != 0 ? array->shape.Height : 1};
        return true;
    }
    uint64_t base = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host : device;
    *side = (struct side){base, pitch != 0 ? pitch : width, height != 0 ? height : 1};
    return (type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE || type == CU_MEMORYTYPE_UNIFIED) && base != 0;
}

static CUresult copy_box(const CUDA_MEMCPY3D *box, CUstream handle, bool async) {
    struct side from, to;
    CUresult error = CUDA_SUCCESS;
    if (box == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!side_of(box->srcMemoryType, box->srcHost, box->srcDevice, box->srcArray, box->srcPitch, box->srcHeight,
                 box->WidthInBytes, &from) ||
        !side_of(box->dstMemoryType, box->dstHost, box->dstDevice, box->dstArray, box->dstPitch, box->dstHeight,
                 box->WidthInBytes, &to)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t z = 0; z < box->Depth && error == CUDA_SUCCESS; z++) {
        for (size_t y = 0; y < box->Height && error == CUDA_SUCCESS; y++) {
            uint64_t source =
                from.base + ((box->srcZ + z) * from.height + box->srcY + y) * from.pitch + box->srcXInBytes;
            uint64_t target = to.base + ((box->dstZ + z) * to.height + box->dstY + y) * to.pitch + box->dstXInBytes;
            error =
                async ? copy_async(target, source, box->WidthInBytes, handle) : copy(target, source, box->WidthInBytes);
        }
    }
    return error;
}

static CUresult copy_rectangle(const CUDA_MEMCPY2D *flat, CUstream handle, bool async) {
    if (flat == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_MEMCPY3D box = {.srcXInBytes = flat->srcXInBytes,
                         .srcY = flat->srcY,
                         .srcMemoryType = flat->srcMemoryType,
                         .srcHost = flat->srcHost,
                         .srcDevice = flat->srcDevice,
                         .srcArray = flat->srcArray,
                         .srcPitch = flat->srcPitch,
                         .dstXInBytes = flat->dstXInBytes,
                         .dstY = flat->dstY,
                         .dstMemoryType = flat->dstMemoryType,
                         .dstHost = flat->dstHost,
                         .dstDevice = flat->dstDevice,
                         .dstArray = flat->dstArray,
                         .dstPitch = flat->dstPitch,
                         .WidthInBytes = flat->WidthInBytes,
                         .Height = flat->Height,
                         .Depth = 1};
    return copy_box(&box, handle, async);
}

CUresult sim_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy) {
    return copy_rectangle(pCopy, NULL, false);
}

CUresult sim_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy) {
    return copy_rectangle(pCopy, NULL, false);
}

CUresult sim_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream) {
    return copy_rectangle(pCopy, hStream, true);
}

CUresult sim_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy) {
    return copy_box(pCopy, NULL, false);
}

CUresult sim_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream) {
    return copy_box(pCopy, hStream, true);
}

/* One-dimensional copies with arrays. */

static CUresult array_address(CUarray array, size_t offset, size_t size, uint64_t *address) {
    if (!sim_is(array, SIM_TAG_ARRAY) || offset > array->row || size > array->row - offset) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *address = array->base + offset;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount) {
    uint64_t target = 0;
    CUresult error = array_address(dstArray, dstOffset, ByteCount, &target);
    return error != CUDA_SUCCESS ? error : copy(target, (uintptr_t)srcHost, ByteCount);
}

CUresult sim_cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    uint64_t source = 0;
    CUresult error = array_address(srcArray, srcOffset, ByteCount, &source);
    return error != CUDA_SUCCESS ? error : copy((uintptr_t)dstHost, source, ByteCount);
}

CUresult sim_cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice, size_t ByteCount) {
    uint64_t target = 0;
    CUresult error = array_address(dstArray, dstOffset, ByteCount, &target);
    return error != CUDA_SUCCESS ? error : copy(target, srcDevice, ByteCount);
}

CUresult sim_cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset, size_t ByteCount) {
    uint64_t source = 0;
    CUresult error = array_address(srcArray, srcOffset, ByteCount, &source);
    return error != CUDA_SUCCESS ? error : copy(dstDevice, source, ByteCount);
}
