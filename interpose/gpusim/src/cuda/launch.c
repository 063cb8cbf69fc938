/* Launches and occupancy. A kernel takes its time on the device and computes nothing. */
#include "cuda_impl.h"
#include "driver.h"

/* Bytes move and host functions run when the work is queued; only time is simulated. */
static CUresult effect(struct sim_stream *stream, const struct sim_work *work) {
    switch (work->type) {
    case SIM_WORK_COPY:
        return sim_move(work->target, work->source, work->size);
    case SIM_WORK_SET:
        return sim_fill(work->target, work->value, work->width, work->size);
    case SIM_WORK_HOST:
        sim_stream_wait(stream);
        work->host(work->closure);
        return CUDA_SUCCESS;
    default:
        return CUDA_SUCCESS;
    }
}

CUresult sim_do(struct sim_stream *stream, const struct sim_work *work) {
    if (__builtin_expect(stream->capture != NULL, 0)) {
        return sim_capture(stream, work);
    }
    CUresult error = work->type == SIM_WORK_KERNEL ? CUDA_SUCCESS : effect(stream, work);
    if (error == CUDA_SUCCESS && work->duration != 0) {
        bool copy = work->type == SIM_WORK_COPY || work->type == SIM_WORK_SET || work->type == SIM_WORK_EMPTY;
        sim_submit(stream, copy ? SIM_OP_COPY : SIM_OP_KERNEL, sim_jittered(work->duration, work->sigma), work->weight);
    }
    return error;
}

static CUresult launch(struct sim_function *function, const CUlaunchConfig *shape, void **params, void **extra) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(shape->hStream, &error);
    if (stream == NULL) {
        return error;
    }
    if (!sim_is(function, SIM_TAG_FUNCTION)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    unsigned long long threads = (unsigned long long)shape->blockDimX * shape->blockDimY * shape->blockDimZ;
    unsigned long long blocks = (unsigned long long)shape->gridDimX * shape->gridDimY * shape->gridDimZ;
    if (threads == 0 || threads > 1024 || blocks == 0 || shape->gridDimY > 65535 || shape->gridDimZ > 65535) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (__builtin_expect(stream->capture == NULL, 1)) {
        uint64_t duration = sim_jittered(sim_kernel_duration(function), function->sigma);
        sim_submit(stream, SIM_OP_KERNEL, duration, function->weight);
        return CUDA_SUCCESS;
    }
    struct sim_work work = sim_kernel_work(function);
    work.kernel = (CUDA_KERNEL_NODE_PARAMS){function,
                                            shape->gridDimX,
                                            shape->gridDimY,
                                            shape->gridDimZ,
                                            shape->blockDimX,
                                            shape->blockDimY,
                                            shape->blockDimZ,
                                            shape->sharedMemBytes,
                                            params,
                                            extra,
                                            NULL,
                                            NULL};
    return sim_capture(stream, &work);
}

CUresult sim_cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX,
                            unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream,
                            void **kernelParams, void **extra) {
    CUlaunchConfig shape = {gridDimX,  gridDimY,       gridDimZ, blockDimX, blockDimY,
                            blockDimZ, sharedMemBytes, hStream,  NULL,      0};
    return launch(f, &shape, kernelParams, extra);
}

CUresult sim_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
    return config == NULL ? CUDA_ERROR_INVALID_VALUE : launch(f, config, kernelParams, extra);
}

/* Per-thread streams reach this one through the configuration. */
CUresult sim_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra) {
    if (config == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUlaunchConfig shape = *config;
    shape.hStream = shape.hStream != NULL ? shape.hStream : CU_STREAM_PER_THREAD;
    return launch(f, &shape, kernelParams, extra);
}

CUresult sim_cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                                       unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,
                                       unsigned sharedMemBytes, CUstream hStream, void **kernelParams) {
    CUlaunchConfig shape = {gridDimX,  gridDimY,       gridDimZ, blockDimX, blockDimY,
                            blockDimZ, sharedMemBytes, hStream,  NULL,      0};
    return launch(f, &shape, kernelParams, NULL);
}

/* One after the other; none is started where one of the handles is wrong. */
CUresult sim_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList, unsigned numDevices,
                                                  unsigned flags) {
    CUresult error = launchParamsList == NULL || numDevices == 0 || flags > 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    for (unsigned i = 0; i < numDevices && error == CUDA_SUCCESS; i++) {
        const CUDA_LAUNCH_PARAMS *at = &launchParamsList[i];
        if (at->hStream == NULL || at->hStream == CU_STREAM_LEGACY || at->hStream == CU_STREAM_PER_THREAD) {
            error = CUDA_ERROR_INVALID_VALUE;
        } else if (sim_stream_or_error(at->hStream, &error) != NULL && !sim_is(at->function, SIM_TAG_FUNCTION)) {
            error = CUDA_ERROR_INVALID_HANDLE;
        }
    }
    for (unsigned i = 0; i < numDevices && error == CUDA_SUCCESS; i++) {
        const CUDA_LAUNCH_PARAMS *at = &launchParamsList[i];
        CUlaunchConfig shape = {at->gridDimX,  at->gridDimY,       at->gridDimZ, at->blockDimX, at->blockDimY,
                                at->blockDimZ, at->sharedMemBytes, at->hStream,  NULL,          0};
        error = launch(at->function, &shape, at->kernelParams, NULL);
    }
    return error;
}

/* The first launch functions: the block's shape was set before. */

CUresult sim_cuLaunch(CUfunction f) {
    CUlaunchConfig shape = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 0};
    return launch(f, &shape, NULL, NULL);
}

CUresult sim_cuLaunchGrid(CUfunction f, int grid_width, int grid_height) {
    CUlaunchConfig shape = {(unsigned)grid_width, (unsigned)grid_height, 1, 1, 1, 1, 0, NULL, NULL, 0};
    return grid_width <= 0 || grid_height <= 0 ? CUDA_ERROR_INVALID_VALUE : launch(f, &shape, NULL, NULL);
}

CUresult sim_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream) {
    CUlaunchConfig shape = {(unsigned)grid_width, (unsigned)grid_height, 1, 1, 1, 1, 0, hStream, NULL, 0};
    return grid_width <= 0 || grid_height <= 0 ? CUDA_ERROR_INVALID_VALUE : launch(f, &shape, NULL, NULL);
}

/* Occupancy, from threads and shared memory alone. */

static CUresult blocks_per_sm(int *numBlocks, const struct sim_function *function, int blockSize, size_t shared) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (numBlocks == NULL || blockSize <= 0 || !sim_is(function, SIM_TAG_FUNCTION)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const int32_t *model = sim_books->devices[context->device].attributes;
    int warps = (blockSize + 31) / 32, count = model[39] / 32 / warps;
    count = count > model[106] ? model[106] : count;
    if (shared > 0 && (size_t)model[81] / shared < (size_t)count) {
        count = (int)((size_t)model[81] / shared);
    }
    *numBlocks = blockSize > 1024 ? 0 : count;
    return CUDA_SUCCESS;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                         size_t dynamicSMemSize) {
    return blocks_per_sm(numBlocks, func, blockSize, dynamicSMemSize);
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func, int blockSize,
                                                                  size_t dynamicSMemSize, unsigned flags) {
    return flags > 1 ? CUDA_ERROR_INVALID_VALUE : blocks_per_sm(numBlocks, func, blockSize, dynamicSMemSize);
}

typedef size_t (*CUoccupancyB2DSize)(int blockSize);

CUresult sim_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                       void *blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                                       int blockSizeLimit, unsigned flags) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (minGridSize == NULL || blockSize == NULL || flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int size = blockSizeLimit > 0 && blockSizeLimit < 1024 ? blockSizeLimit : 1024, count = 0;
    size_t shared = dynamicSMemSize;
    if (blockSizeToDynamicSMemSize != NULL) {
        shared = ((CUoccupancyB2DSize)(uintptr_t)blockSizeToDynamicSMemSize)(size);
    }
    error = blocks_per_sm(&count, func, size, shared);
    if (error == CUDA_SUCCESS) {
        *blockSize = size;
        *minGridSize = count * sim_books->devices[context->device].attributes[16];
    }
    return error;
}

CUresult sim_cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                              void *blockSizeToDynamicSMemSize, size_t dynamicSMemSize,
                                              int blockSizeLimit) {
    return sim_cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize,
                                                         dynamicSMemSize, blockSizeLimit, 0);
}

CUresult sim_cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func, int numBlocks,
                                                     int blockSize) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (dynamicSmemSize == NULL || numBlocks <= 0 || blockSize <= 0 || !sim_is(func, SIM_TAG_FUNCTION)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *dynamicSmemSize = (size_t)sim_books->devices[context->device].attributes[81] / (size_t)numBlocks;
    return CUDA_SUCCESS;
}
