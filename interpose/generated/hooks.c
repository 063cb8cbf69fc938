/* Made by gen/emit.py from spec/; do not edit. */
#include "compute/compute.h"
#include "memory/around.h"
#include "memory/graph.h"
#include "memory/records.h"
#include "memory/stream_pool.h"
#include "policies.h"

HAMI_EXPORT int32_t cuArray3DCreate(void **pHandle, const void *pAllocateArray);
int32_t cuArray3DCreate(void **pHandle, const void *pAllocateArray) {
    int32_t (*driver)(void **, const void *) = hami_driver_function(HAMI_cuArray3DCreate);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, hami_array_bytes(HAMI_cuArray3DCreate, pAllocateArray, 1), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pHandle, pAllocateArray);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuArrayDestroy);
}

HAMI_EXPORT int32_t cuArray3DCreate_v2(void **pHandle, const struct hami_array3d_descriptor *pAllocateArray);
int32_t cuArray3DCreate_v2(void **pHandle, const struct hami_array3d_descriptor *pAllocateArray) {
    int32_t (*driver)(void **, const struct hami_array3d_descriptor *) = hami_driver_function(HAMI_cuArray3DCreate_v2);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, hami_array_bytes(HAMI_cuArray3DCreate_v2, pAllocateArray, 1), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pHandle, pAllocateArray);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuArrayDestroy);
}

HAMI_EXPORT int32_t cuArrayCreate(void **pHandle, const void *pAllocateArray);
int32_t cuArrayCreate(void **pHandle, const void *pAllocateArray) {
    int32_t (*driver)(void **, const void *) = hami_driver_function(HAMI_cuArrayCreate);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, hami_array_bytes(HAMI_cuArrayCreate, pAllocateArray, 1), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pHandle, pAllocateArray);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuArrayDestroy);
}

HAMI_EXPORT int32_t cuArrayCreate_v2(void **pHandle, const void *pAllocateArray);
int32_t cuArrayCreate_v2(void **pHandle, const void *pAllocateArray) {
    int32_t (*driver)(void **, const void *) = hami_driver_function(HAMI_cuArrayCreate_v2);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, hami_array_bytes(HAMI_cuArrayCreate_v2, pAllocateArray, 1), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pHandle, pAllocateArray);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuArrayDestroy);
}

HAMI_EXPORT int32_t cuArrayDestroy(void *hArray);
int32_t cuArrayDestroy(void *hArray) {
    return hami_array_destroy(HAMI_cuArrayDestroy, hArray);
}

HAMI_EXPORT int32_t cuCheckpointOperationComplete(void *handle);
int32_t cuCheckpointOperationComplete(void *handle) {
    return hami_checkpoint_complete(HAMI_cuCheckpointOperationComplete, handle);
}

HAMI_EXPORT int32_t cuCheckpointProcessCheckpoint(int32_t pid, void *args);
int32_t cuCheckpointProcessCheckpoint(int32_t pid, void *args) {
    return hami_checkpoint_leave(HAMI_cuCheckpointProcessCheckpoint, pid, args);
}

HAMI_EXPORT int32_t cuCheckpointProcessRestore(int32_t pid, void *args);
int32_t cuCheckpointProcessRestore(int32_t pid, void *args) {
    return hami_checkpoint_return(HAMI_cuCheckpointProcessRestore, pid, args);
}

HAMI_EXPORT int32_t cuCheckpointProcessUnlock(int32_t pid, void *args);
int32_t cuCheckpointProcessUnlock(int32_t pid, void *args) {
    return hami_checkpoint_unlock(HAMI_cuCheckpointProcessUnlock, pid, args);
}

HAMI_EXPORT int32_t cuCtxAttach(void **pctx, uint32_t flags);
int32_t cuCtxAttach(void **pctx, uint32_t flags) {
    return hami_ctx_attach(HAMI_cuCtxAttach, pctx, flags);
}

HAMI_EXPORT int32_t cuCtxCreate(void **pctx, uint32_t flags, int32_t dev);
int32_t cuCtxCreate(void **pctx, uint32_t flags, int32_t dev) {
    int32_t (*driver)(void **, uint32_t, int32_t) = hami_driver_function(HAMI_cuCtxCreate);
    struct hami_making m;
    if (!hami_making_begin(&m, dev, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pctx, flags, dev);
    return hami_making_end(&m, status, pctx);
}

HAMI_EXPORT int32_t cuCtxCreate_v2(void **pctx, uint32_t flags, int32_t dev);
int32_t cuCtxCreate_v2(void **pctx, uint32_t flags, int32_t dev) {
    int32_t (*driver)(void **, uint32_t, int32_t) = hami_driver_function(HAMI_cuCtxCreate_v2);
    struct hami_making m;
    if (!hami_making_begin(&m, dev, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pctx, flags, dev);
    return hami_making_end(&m, status, pctx);
}

HAMI_EXPORT int32_t cuCtxCreate_v3(void **pctx, void *paramsArray, int32_t numParams, uint32_t flags, int32_t dev);
int32_t cuCtxCreate_v3(void **pctx, void *paramsArray, int32_t numParams, uint32_t flags, int32_t dev) {
    int32_t (*driver)(void **, void *, int32_t, uint32_t, int32_t) = hami_driver_function(HAMI_cuCtxCreate_v3);
    struct hami_making m;
    if (!hami_making_begin(&m, dev, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pctx, paramsArray, numParams, flags, dev);
    return hami_making_end(&m, status, pctx);
}

HAMI_EXPORT int32_t cuCtxCreate_v4(void **pctx, void *ctxCreateParams, uint32_t flags, int32_t dev);
int32_t cuCtxCreate_v4(void **pctx, void *ctxCreateParams, uint32_t flags, int32_t dev) {
    int32_t (*driver)(void **, void *, uint32_t, int32_t) = hami_driver_function(HAMI_cuCtxCreate_v4);
    struct hami_making m;
    if (!hami_making_begin(&m, dev, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pctx, ctxCreateParams, flags, dev);
    return hami_making_end(&m, status, pctx);
}

HAMI_EXPORT int32_t cuCtxDestroy(void *ctx);
int32_t cuCtxDestroy(void *ctx) {
    return hami_ctx_destroy(HAMI_cuCtxDestroy, ctx);
}

HAMI_EXPORT int32_t cuCtxDestroy_v2(void *ctx);
int32_t cuCtxDestroy_v2(void *ctx) {
    return hami_ctx_destroy(HAMI_cuCtxDestroy_v2, ctx);
}

HAMI_EXPORT int32_t cuCtxDetach(void *ctx);
int32_t cuCtxDetach(void *ctx) {
    return hami_ctx_detach(HAMI_cuCtxDetach, ctx);
}

HAMI_EXPORT int32_t cuCtxSetLimit(int32_t limit, uint64_t value);
int32_t cuCtxSetLimit(int32_t limit, uint64_t value) {
    return hami_ctx_set_limit(HAMI_cuCtxSetLimit, limit, value);
}

HAMI_EXPORT int32_t cuCtxSynchronize(void);
int32_t cuCtxSynchronize(void) {
    int32_t (*driver)(void) = hami_driver_function(HAMI_cuCtxSynchronize);
    uint64_t frees = hami_wait_begin();
    int32_t status = driver();
    return hami_pools_waited(status, HAMI_ALL_STREAMS, frees);
}

HAMI_EXPORT int32_t cuCtxSynchronize_v2(void *ctx);
int32_t cuCtxSynchronize_v2(void *ctx) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuCtxSynchronize_v2);
    uint64_t frees = hami_wait_begin();
    int32_t status = driver(ctx);
    return hami_pools_waited(status, HAMI_ALL_STREAMS, frees);
}

HAMI_EXPORT int32_t cuDestroyExternalMemory(void *extMem);
int32_t cuDestroyExternalMemory(void *extMem) {
    return hami_array_destroy(HAMI_cuDestroyExternalMemory, extMem);
}

HAMI_EXPORT int32_t cuDeviceGraphMemTrim(int32_t device);
int32_t cuDeviceGraphMemTrim(int32_t device) {
    int32_t (*driver)(int32_t) = hami_driver_function(HAMI_cuDeviceGraphMemTrim);
    int32_t status = driver(device);
    return hami_graph_trimmed(status, device);
}

HAMI_EXPORT int32_t cuDevicePrimaryCtxRelease(int32_t dev);
int32_t cuDevicePrimaryCtxRelease(int32_t dev) {
    return hami_primary_release(HAMI_cuDevicePrimaryCtxRelease, dev);
}

HAMI_EXPORT int32_t cuDevicePrimaryCtxRelease_v2(int32_t dev);
int32_t cuDevicePrimaryCtxRelease_v2(int32_t dev) {
    return hami_primary_release(HAMI_cuDevicePrimaryCtxRelease_v2, dev);
}

HAMI_EXPORT int32_t cuDevicePrimaryCtxReset(int32_t dev);
int32_t cuDevicePrimaryCtxReset(int32_t dev) {
    return hami_primary_release(HAMI_cuDevicePrimaryCtxReset, dev);
}

HAMI_EXPORT int32_t cuDevicePrimaryCtxReset_v2(int32_t dev);
int32_t cuDevicePrimaryCtxReset_v2(int32_t dev) {
    return hami_primary_release(HAMI_cuDevicePrimaryCtxReset_v2, dev);
}

HAMI_EXPORT int32_t cuDevicePrimaryCtxRetain(void **pctx, int32_t dev);
int32_t cuDevicePrimaryCtxRetain(void **pctx, int32_t dev) {
    int32_t (*driver)(void **, int32_t) = hami_driver_function(HAMI_cuDevicePrimaryCtxRetain);
    struct hami_making m;
    if (!hami_making_begin(&m, dev, true)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pctx, dev);
    return hami_making_end(&m, status, pctx);
}

HAMI_EXPORT int32_t cuDeviceTotalMem(uint32_t *bytes, int32_t dev);
int32_t cuDeviceTotalMem(uint32_t *bytes, int32_t dev) {
    return hami_total_mem(HAMI_cuDeviceTotalMem, bytes, dev);
}

HAMI_EXPORT int32_t cuDeviceTotalMem_v2(size_t *bytes, int32_t dev);
int32_t cuDeviceTotalMem_v2(size_t *bytes, int32_t dev) {
    return hami_total_mem(HAMI_cuDeviceTotalMem_v2, bytes, dev);
}

HAMI_EXPORT int32_t cuEventSynchronize(void *hEvent);
int32_t cuEventSynchronize(void *hEvent) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuEventSynchronize);
    uint64_t frees = hami_wait_begin();
    int32_t status = driver(hEvent);
    return hami_pools_waited(status, HAMI_NO_STREAM, frees);
}

HAMI_EXPORT int32_t cuFuncLoad(void *function);
int32_t cuFuncLoad(void *function) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuFuncLoad);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(function);
    return hami_loading_stays(&loading, status, hami_call_cuFuncGetModule, function);
}

HAMI_EXPORT int32_t cuGLCtxCreate(void **pCtx, uint32_t Flags, int32_t device);
int32_t cuGLCtxCreate(void **pCtx, uint32_t Flags, int32_t device) {
    int32_t (*driver)(void **, uint32_t, int32_t) = hami_driver_function(HAMI_cuGLCtxCreate);
    struct hami_making m;
    if (!hami_making_begin(&m, device, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pCtx, Flags, device);
    return hami_making_end(&m, status, pCtx);
}

HAMI_EXPORT int32_t cuGLCtxCreate_v2(void **pCtx, uint32_t Flags, int32_t device);
int32_t cuGLCtxCreate_v2(void **pCtx, uint32_t Flags, int32_t device) {
    int32_t (*driver)(void **, uint32_t, int32_t) = hami_driver_function(HAMI_cuGLCtxCreate_v2);
    struct hami_making m;
    if (!hami_making_begin(&m, device, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pCtx, Flags, device);
    return hami_making_end(&m, status, pCtx);
}

HAMI_EXPORT int32_t cuGetProcAddress(const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags);
int32_t cuGetProcAddress(const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags) {
    return hami_get_proc_address(HAMI_cuGetProcAddress, symbol, pfn, cudaVersion, flags);
}

HAMI_EXPORT int32_t cuGetProcAddress_v2(const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags, void *symbolStatus);
int32_t cuGetProcAddress_v2(const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags, void *symbolStatus) {
    return hami_get_proc_address_v2(HAMI_cuGetProcAddress_v2, symbol, pfn, cudaVersion, flags, symbolStatus);
}

HAMI_EXPORT int32_t cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags, void *symbolStatus);
int32_t cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags, void *symbolStatus) {
    return hami_get_proc_address_v2(HAMI_cuGetProcAddress_v2_ptsz, symbol, pfn, cudaVersion, flags, symbolStatus);
}

HAMI_EXPORT int32_t cuGraphExecDestroy(void *hGraphExec);
int32_t cuGraphExecDestroy(void *hGraphExec) {
    return hami_graph_exec_destroy(HAMI_cuGraphExecDestroy, hGraphExec);
}

HAMI_EXPORT int32_t cuGraphInstantiate(void **phGraphExec, void *hGraph, void *phErrorNode, char *logBuffer, uint64_t bufferSize);
int32_t cuGraphInstantiate(void **phGraphExec, void *hGraph, void *phErrorNode, char *logBuffer, uint64_t bufferSize) {
    int32_t (*driver)(void **, void *, void *, char *, uint64_t) = hami_driver_function(HAMI_cuGraphInstantiate);
    int32_t status = driver(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
    return hami_graph_instantiated(status, phGraphExec, hGraph, 0);
}

HAMI_EXPORT int32_t cuGraphInstantiateWithFlags(void **phGraphExec, void *hGraph, uint64_t flags);
int32_t cuGraphInstantiateWithFlags(void **phGraphExec, void *hGraph, uint64_t flags) {
    int32_t (*driver)(void **, void *, uint64_t) = hami_driver_function(HAMI_cuGraphInstantiateWithFlags);
    int32_t status = driver(phGraphExec, hGraph, flags);
    return hami_graph_instantiated(status, phGraphExec, hGraph, flags);
}

HAMI_EXPORT int32_t cuGraphInstantiateWithParams(void **phGraphExec, void *hGraph, void *instantiateParams);
int32_t cuGraphInstantiateWithParams(void **phGraphExec, void *hGraph, void *instantiateParams) {
    return hami_graph_instantiate_params(HAMI_cuGraphInstantiateWithParams, phGraphExec, hGraph, instantiateParams);
}

HAMI_EXPORT int32_t cuGraphInstantiateWithParams_ptsz(void **phGraphExec, void *hGraph, void *instantiateParams);
int32_t cuGraphInstantiateWithParams_ptsz(void **phGraphExec, void *hGraph, void *instantiateParams) {
    return hami_graph_instantiate_params(HAMI_cuGraphInstantiateWithParams_ptsz, phGraphExec, hGraph, instantiateParams);
}

HAMI_EXPORT int32_t cuGraphInstantiate_v2(void **phGraphExec, void *hGraph, void *phErrorNode, char *logBuffer, uint64_t bufferSize);
int32_t cuGraphInstantiate_v2(void **phGraphExec, void *hGraph, void *phErrorNode, char *logBuffer, uint64_t bufferSize) {
    int32_t (*driver)(void **, void *, void *, char *, uint64_t) = hami_driver_function(HAMI_cuGraphInstantiate_v2);
    int32_t status = driver(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
    return hami_graph_instantiated(status, phGraphExec, hGraph, 0);
}

HAMI_EXPORT int32_t cuGraphLaunch(void *hGraph, void *hStream);
int32_t cuGraphLaunch(void *hGraph, void *hStream) {
    return hami_graph_start(HAMI_cuGraphLaunch, hGraph, hStream);
}

HAMI_EXPORT int32_t cuGraphLaunch_ptsz(void *hGraphExec, void *hStream);
int32_t cuGraphLaunch_ptsz(void *hGraphExec, void *hStream) {
    return hami_graph_start(HAMI_cuGraphLaunch_ptsz, hGraphExec, hStream);
}

HAMI_EXPORT int32_t cuGraphUpload(void *hGraph, void *hStream);
int32_t cuGraphUpload(void *hGraph, void *hStream) {
    return hami_graph_upload(HAMI_cuGraphUpload, hGraph, hStream);
}

HAMI_EXPORT int32_t cuGraphUpload_ptsz(void *hGraphExec, void *hStream);
int32_t cuGraphUpload_ptsz(void *hGraphExec, void *hStream) {
    return hami_graph_upload(HAMI_cuGraphUpload_ptsz, hGraphExec, hStream);
}

HAMI_EXPORT int32_t cuGreenCtxCreate(void **phCtx, void *desc, int32_t dev, uint32_t flags);
int32_t cuGreenCtxCreate(void **phCtx, void *desc, int32_t dev, uint32_t flags) {
    int32_t (*driver)(void **, void *, int32_t, uint32_t) = hami_driver_function(HAMI_cuGreenCtxCreate);
    struct hami_making m;
    if (!hami_making_begin(&m, dev, true)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(phCtx, desc, dev, flags);
    return hami_green_made(&m, status, phCtx);
}

HAMI_EXPORT int32_t cuGreenCtxDestroy(void *hCtx);
int32_t cuGreenCtxDestroy(void *hCtx) {
    return hami_green_destroy(HAMI_cuGreenCtxDestroy, hCtx);
}

HAMI_EXPORT int32_t cuImportExternalMemory(void **extMem_out, const struct hami_external_memory *memHandleDesc);
int32_t cuImportExternalMemory(void **extMem_out, const struct hami_external_memory *memHandleDesc) {
    return hami_external_import(HAMI_cuImportExternalMemory, extMem_out, memHandleDesc);
}

HAMI_EXPORT int32_t cuIpcCloseMemHandle(uint64_t dptr);
int32_t cuIpcCloseMemHandle(uint64_t dptr) {
    return hami_ipc_close(HAMI_cuIpcCloseMemHandle, dptr);
}

HAMI_EXPORT int32_t cuIpcGetMemHandle(void *pHandle, uint64_t dptr);
int32_t cuIpcGetMemHandle(void *pHandle, uint64_t dptr) {
    return hami_ipc_get(HAMI_cuIpcGetMemHandle, pHandle, dptr);
}

HAMI_EXPORT int32_t cuIpcOpenMemHandle(CUdeviceptr *pdptr, struct hami_bytes64 handle, uint32_t Flags);
int32_t cuIpcOpenMemHandle(CUdeviceptr *pdptr, struct hami_bytes64 handle, uint32_t Flags) {
    return hami_ipc_open(HAMI_cuIpcOpenMemHandle, pdptr, handle, Flags);
}

HAMI_EXPORT int32_t cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, struct hami_bytes64 handle, uint32_t Flags);
int32_t cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, struct hami_bytes64 handle, uint32_t Flags) {
    return hami_ipc_open(HAMI_cuIpcOpenMemHandle_v2, pdptr, handle, Flags);
}

HAMI_EXPORT int32_t cuKernelGetFunction(void **pFunc, void *kernel);
int32_t cuKernelGetFunction(void **pFunc, void *kernel) {
    int32_t (*driver)(void **, void *) = hami_driver_function(HAMI_cuKernelGetFunction);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(pFunc, kernel);
    return hami_loading_stays(&loading, status, hami_call_cuKernelGetLibrary, kernel);
}

HAMI_EXPORT int32_t cuLaunch(void *f);
int32_t cuLaunch(void *f) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuLaunch);
    struct hami_pass pass = hami_launch_begin(f, 1, 1, NULL, false);
    int32_t status = driver(f);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchCooperativeKernel(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams);
int32_t cuLaunchCooperativeKernel(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams) {
    int32_t (*driver)(void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, void *, void **) = hami_driver_function(HAMI_cuLaunchCooperativeKernel);
    struct hami_pass pass = hami_launch_begin(f, (uint64_t)gridDimX * gridDimY * gridDimZ, (uint64_t)blockDimX * blockDimY * blockDimZ, hStream, false);
    int32_t status = driver(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchCooperativeKernelMultiDevice(struct hami_launch_params *launchParamsList, uint32_t numDevices, uint32_t flags);
int32_t cuLaunchCooperativeKernelMultiDevice(struct hami_launch_params *launchParamsList, uint32_t numDevices, uint32_t flags) {
    return hami_launch_multi_device(HAMI_cuLaunchCooperativeKernelMultiDevice, launchParamsList, numDevices, flags);
}

HAMI_EXPORT int32_t cuLaunchCooperativeKernel_ptsz(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams);
int32_t cuLaunchCooperativeKernel_ptsz(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams) {
    int32_t (*driver)(void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, void *, void **) = hami_driver_function(HAMI_cuLaunchCooperativeKernel_ptsz);
    struct hami_pass pass = hami_launch_begin(f, (uint64_t)gridDimX * gridDimY * gridDimZ, (uint64_t)blockDimX * blockDimY * blockDimZ, hStream, true);
    int32_t status = driver(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchGrid(void *f, int32_t grid_width, int32_t grid_height);
int32_t cuLaunchGrid(void *f, int32_t grid_width, int32_t grid_height) {
    int32_t (*driver)(void *, int32_t, int32_t) = hami_driver_function(HAMI_cuLaunchGrid);
    struct hami_pass pass = hami_launch_begin(f, (uint64_t)(uint32_t)grid_width * (uint32_t)grid_height, 1, NULL, false);
    int32_t status = driver(f, grid_width, grid_height);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchGridAsync(void *f, int32_t grid_width, int32_t grid_height, void *hStream);
int32_t cuLaunchGridAsync(void *f, int32_t grid_width, int32_t grid_height, void *hStream) {
    int32_t (*driver)(void *, int32_t, int32_t, void *) = hami_driver_function(HAMI_cuLaunchGridAsync);
    struct hami_pass pass = hami_launch_begin(f, (uint64_t)(uint32_t)grid_width * (uint32_t)grid_height, 1, hStream, false);
    int32_t status = driver(f, grid_width, grid_height, hStream);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchKernel(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams, void **extra);
int32_t cuLaunchKernel(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams, void **extra) {
    return hami_launch_kernel(HAMI_cuLaunchKernel, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}

HAMI_EXPORT int32_t cuLaunchKernelEx(const struct hami_launch_config *config, void *f, void **kernelParams, void **extra);
int32_t cuLaunchKernelEx(const struct hami_launch_config *config, void *f, void **kernelParams, void **extra) {
    int32_t (*driver)(const struct hami_launch_config *, void *, void **, void **) = hami_driver_function(HAMI_cuLaunchKernelEx);
    struct hami_pass pass = hami_launch_begin_config(config, f, false);
    int32_t status = driver(config, f, kernelParams, extra);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchKernelEx_ptsz(const struct hami_launch_config *config, void *f, void **kernelParams, void **extra);
int32_t cuLaunchKernelEx_ptsz(const struct hami_launch_config *config, void *f, void **kernelParams, void **extra) {
    int32_t (*driver)(const struct hami_launch_config *, void *, void **, void **) = hami_driver_function(HAMI_cuLaunchKernelEx_ptsz);
    struct hami_pass pass = hami_launch_begin_config(config, f, true);
    int32_t status = driver(config, f, kernelParams, extra);
    return hami_launch_end(&pass, status);
}

HAMI_EXPORT int32_t cuLaunchKernel_ptsz(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams, void **extra);
int32_t cuLaunchKernel_ptsz(void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams, void **extra) {
    return hami_launch_kernel(HAMI_cuLaunchKernel_ptsz, f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}

HAMI_EXPORT int32_t cuLibraryGetModule(void **pMod, void *library);
int32_t cuLibraryGetModule(void **pMod, void *library) {
    int32_t (*driver)(void **, void *) = hami_driver_function(HAMI_cuLibraryGetModule);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(pMod, library);
    return hami_loading_stays(&loading, status, NULL, library);
}

HAMI_EXPORT int32_t cuLibraryLoadData(void **library, const void *code, void *jitOptions, void **jitOptionsValues, uint32_t numJitOptions, void *libraryOptions, void **libraryOptionValues, uint32_t numLibraryOptions);
int32_t cuLibraryLoadData(void **library, const void *code, void *jitOptions, void **jitOptionsValues, uint32_t numJitOptions, void *libraryOptions, void **libraryOptionValues, uint32_t numLibraryOptions) {
    int32_t (*driver)(void **, const void *, void *, void **, uint32_t, void *, void **, uint32_t) = hami_driver_function(HAMI_cuLibraryLoadData);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(library, code, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions);
    return hami_loading_end(&loading, status, library, HAMI_cuLibraryUnload);
}

HAMI_EXPORT int32_t cuLibraryLoadFromFile(void **library, const char *fileName, void *jitOptions, void **jitOptionsValues, uint32_t numJitOptions, void *libraryOptions, void **libraryOptionValues, uint32_t numLibraryOptions);
int32_t cuLibraryLoadFromFile(void **library, const char *fileName, void *jitOptions, void **jitOptionsValues, uint32_t numJitOptions, void *libraryOptions, void **libraryOptionValues, uint32_t numLibraryOptions) {
    int32_t (*driver)(void **, const char *, void *, void **, uint32_t, void *, void **, uint32_t) = hami_driver_function(HAMI_cuLibraryLoadFromFile);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(library, fileName, jitOptions, jitOptionsValues, numJitOptions, libraryOptions, libraryOptionValues, numLibraryOptions);
    return hami_loading_end(&loading, status, library, HAMI_cuLibraryUnload);
}

HAMI_EXPORT int32_t cuLibraryUnload(void *library);
int32_t cuLibraryUnload(void *library) {
    return hami_module_unload(HAMI_cuLibraryUnload, library);
}

HAMI_EXPORT int32_t cuMemAlloc(CUdeviceptr_v1 *dptr, uint32_t bytesize);
int32_t cuMemAlloc(CUdeviceptr_v1 *dptr, uint32_t bytesize) {
    int32_t (*driver)(CUdeviceptr_v1 *, uint32_t) = hami_driver_function(HAMI_cuMemAlloc);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, bytesize, HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(dptr, bytesize);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(dptr), bytesize, HAMI_cuMemFree_v2);
}

HAMI_EXPORT int32_t cuMemAllocAsync(CUdeviceptr *dptr, uint64_t bytesize, void *hStream);
int32_t cuMemAllocAsync(CUdeviceptr *dptr, uint64_t bytesize, void *hStream) {
    return hami_mem_alloc_async(HAMI_cuMemAllocAsync, dptr, bytesize, hStream);
}

HAMI_EXPORT int32_t cuMemAllocAsync_ptsz(CUdeviceptr *dptr, uint64_t bytesize, void *hStream);
int32_t cuMemAllocAsync_ptsz(CUdeviceptr *dptr, uint64_t bytesize, void *hStream) {
    return hami_mem_alloc_async(HAMI_cuMemAllocAsync_ptsz, dptr, bytesize, hStream);
}

HAMI_EXPORT int32_t cuMemAllocFromPoolAsync(CUdeviceptr *dptr, uint64_t bytesize, void *pool, void *hStream);
int32_t cuMemAllocFromPoolAsync(CUdeviceptr *dptr, uint64_t bytesize, void *pool, void *hStream) {
    return hami_mem_alloc_from_pool(HAMI_cuMemAllocFromPoolAsync, dptr, bytesize, pool, hStream);
}

HAMI_EXPORT int32_t cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, uint64_t bytesize, void *pool, void *hStream);
int32_t cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, uint64_t bytesize, void *pool, void *hStream) {
    return hami_mem_alloc_from_pool(HAMI_cuMemAllocFromPoolAsync_ptsz, dptr, bytesize, pool, hStream);
}

HAMI_EXPORT int32_t cuMemAllocManaged(CUdeviceptr *dptr, uint64_t bytesize, uint32_t flags);
int32_t cuMemAllocManaged(CUdeviceptr *dptr, uint64_t bytesize, uint32_t flags) {
    return hami_mem_alloc_managed(HAMI_cuMemAllocManaged, dptr, bytesize, flags);
}

HAMI_EXPORT int32_t cuMemAllocPitch(CUdeviceptr_v1 *dptr, uint32_t *pPitch, uint32_t WidthInBytes, uint32_t Height, uint32_t ElementSizeBytes);
int32_t cuMemAllocPitch(CUdeviceptr_v1 *dptr, uint32_t *pPitch, uint32_t WidthInBytes, uint32_t Height, uint32_t ElementSizeBytes) {
    int32_t (*driver)(CUdeviceptr_v1 *, uint32_t *, uint32_t, uint32_t, uint32_t) = hami_driver_function(HAMI_cuMemAllocPitch);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, hami_product(hami_row(WidthInBytes), Height), HAMI_PACKED)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(dptr), hami_product(HAMI_WRITTEN(pPitch), Height), HAMI_cuMemFree_v2);
}

HAMI_EXPORT int32_t cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, uint64_t WidthInBytes, uint64_t Height, uint32_t ElementSizeBytes);
int32_t cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, uint64_t WidthInBytes, uint64_t Height, uint32_t ElementSizeBytes) {
    return hami_mem_alloc_pitch(HAMI_cuMemAllocPitch_v2, dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
}

HAMI_EXPORT int32_t cuMemAlloc_v2(CUdeviceptr *dptr, uint64_t bytesize);
int32_t cuMemAlloc_v2(CUdeviceptr *dptr, uint64_t bytesize) {
    return hami_mem_alloc(HAMI_cuMemAlloc_v2, dptr, bytesize);
}

HAMI_EXPORT int32_t cuMemCreate(CUmemHandle *handle, uint64_t size, const struct hami_allocation_prop *prop, uint64_t flags);
int32_t cuMemCreate(CUmemHandle *handle, uint64_t size, const struct hami_allocation_prop *prop, uint64_t flags) {
    return hami_mem_create(HAMI_cuMemCreate, handle, size, prop, flags);
}

HAMI_EXPORT int32_t cuMemExportToShareableHandle(void *shareableHandle, uint64_t handle, int32_t handleType, uint64_t flags);
int32_t cuMemExportToShareableHandle(void *shareableHandle, uint64_t handle, int32_t handleType, uint64_t flags) {
    return hami_mem_export(HAMI_cuMemExportToShareableHandle, shareableHandle, handle, handleType, flags);
}

HAMI_EXPORT int32_t cuMemFree(uint32_t dptr);
int32_t cuMemFree(uint32_t dptr) {
    int32_t (*driver)(uint32_t) = hami_driver_function(HAMI_cuMemFree);
    uint64_t record = hami_record_take(dptr);
    int32_t status = driver(dptr);
    return hami_record_freed(dptr, record, status);
}

HAMI_EXPORT int32_t cuMemFreeAsync(uint64_t dptr, void *hStream);
int32_t cuMemFreeAsync(uint64_t dptr, void *hStream) {
    return hami_mem_free_async(HAMI_cuMemFreeAsync, dptr, hStream);
}

HAMI_EXPORT int32_t cuMemFreeAsync_ptsz(uint64_t dptr, void *hStream);
int32_t cuMemFreeAsync_ptsz(uint64_t dptr, void *hStream) {
    return hami_mem_free_async(HAMI_cuMemFreeAsync_ptsz, dptr, hStream);
}

HAMI_EXPORT int32_t cuMemFree_v2(uint64_t dptr);
int32_t cuMemFree_v2(uint64_t dptr) {
    return hami_mem_free(HAMI_cuMemFree_v2, dptr);
}

HAMI_EXPORT int32_t cuMemGetDefaultMemPool(void **pool_out, const struct hami_mem_location *location, int32_t type);
int32_t cuMemGetDefaultMemPool(void **pool_out, const struct hami_mem_location *location, int32_t type) {
    return hami_pool_get(HAMI_cuMemGetDefaultMemPool, pool_out, location, type);
}

HAMI_EXPORT int32_t cuMemGetInfo(uint32_t *free, uint32_t *total);
int32_t cuMemGetInfo(uint32_t *free, uint32_t *total) {
    return hami_mem_get_info(HAMI_cuMemGetInfo, free, total);
}

HAMI_EXPORT int32_t cuMemGetInfo_v2(size_t *free, size_t *total);
int32_t cuMemGetInfo_v2(size_t *free, size_t *total) {
    return hami_mem_get_info(HAMI_cuMemGetInfo_v2, free, total);
}

HAMI_EXPORT int32_t cuMemGetMemPool(void **pool, const struct hami_mem_location *location, int32_t type);
int32_t cuMemGetMemPool(void **pool, const struct hami_mem_location *location, int32_t type) {
    return hami_pool_get(HAMI_cuMemGetMemPool, pool, location, type);
}

HAMI_EXPORT int32_t cuMemImportFromShareableHandle(CUmemHandle *handle, void *osHandle, int32_t shHandleType);
int32_t cuMemImportFromShareableHandle(CUmemHandle *handle, void *osHandle, int32_t shHandleType) {
    return hami_mem_import(HAMI_cuMemImportFromShareableHandle, handle, osHandle, shHandleType);
}

HAMI_EXPORT int32_t cuMemMap(uint64_t ptr, uint64_t size, uint64_t offset, uint64_t handle, uint64_t flags);
int32_t cuMemMap(uint64_t ptr, uint64_t size, uint64_t offset, uint64_t handle, uint64_t flags) {
    return hami_mem_map(HAMI_cuMemMap, ptr, size, offset, handle, flags);
}

HAMI_EXPORT int32_t cuMemMapArrayAsync(struct hami_array_map *mapInfoList, uint32_t count, void *hStream);
int32_t cuMemMapArrayAsync(struct hami_array_map *mapInfoList, uint32_t count, void *hStream) {
    return hami_array_map(HAMI_cuMemMapArrayAsync, mapInfoList, count, hStream);
}

HAMI_EXPORT int32_t cuMemMapArrayAsync_ptsz(struct hami_array_map *mapInfoList, uint32_t count, void *hStream);
int32_t cuMemMapArrayAsync_ptsz(struct hami_array_map *mapInfoList, uint32_t count, void *hStream) {
    return hami_array_map(HAMI_cuMemMapArrayAsync_ptsz, mapInfoList, count, hStream);
}

HAMI_EXPORT int32_t cuMemPoolCreate(void **pool, const struct hami_allocation_prop *poolProps);
int32_t cuMemPoolCreate(void **pool, const struct hami_allocation_prop *poolProps) {
    return hami_pool_create(HAMI_cuMemPoolCreate, pool, poolProps);
}

HAMI_EXPORT int32_t cuMemPoolDestroy(void *pool);
int32_t cuMemPoolDestroy(void *pool) {
    return hami_pool_destroy(HAMI_cuMemPoolDestroy, pool);
}

HAMI_EXPORT int32_t cuMemPoolExportToShareableHandle(void *handle_out, void *pool, int32_t handleType, uint64_t flags);
int32_t cuMemPoolExportToShareableHandle(void *handle_out, void *pool, int32_t handleType, uint64_t flags) {
    return hami_pool_export(HAMI_cuMemPoolExportToShareableHandle, handle_out, pool, handleType, flags);
}

HAMI_EXPORT int32_t cuMemPoolImportFromShareableHandle(void **pool_out, void *handle, int32_t handleType, uint64_t flags);
int32_t cuMemPoolImportFromShareableHandle(void **pool_out, void *handle, int32_t handleType, uint64_t flags) {
    return hami_pool_import(HAMI_cuMemPoolImportFromShareableHandle, pool_out, handle, handleType, flags);
}

HAMI_EXPORT int32_t cuMemPoolImportPointer(CUdeviceptr *ptr_out, void *pool, const void *shareData);
int32_t cuMemPoolImportPointer(CUdeviceptr *ptr_out, void *pool, const void *shareData) {
    return hami_pool_import_pointer(HAMI_cuMemPoolImportPointer, ptr_out, pool, shareData);
}

HAMI_EXPORT int32_t cuMemPoolTrimTo(void *pool, uint64_t minBytesToKeep);
int32_t cuMemPoolTrimTo(void *pool, uint64_t minBytesToKeep) {
    return hami_pool_trim(HAMI_cuMemPoolTrimTo, pool, minBytesToKeep);
}

HAMI_EXPORT int32_t cuMemRelease(uint64_t handle);
int32_t cuMemRelease(uint64_t handle) {
    return hami_mem_release(HAMI_cuMemRelease, handle);
}

HAMI_EXPORT int32_t cuMemRetainAllocationHandle(CUmemHandle *handle, void *addr);
int32_t cuMemRetainAllocationHandle(CUmemHandle *handle, void *addr) {
    return hami_mem_retain(HAMI_cuMemRetainAllocationHandle, handle, addr);
}

HAMI_EXPORT int32_t cuMemUnmap(uint64_t ptr, uint64_t size);
int32_t cuMemUnmap(uint64_t ptr, uint64_t size) {
    return hami_mem_unmap(HAMI_cuMemUnmap, ptr, size);
}

HAMI_EXPORT int32_t cuMipmappedArrayCreate(void **pHandle, const struct hami_array3d_descriptor *pMipmappedArrayDesc, uint32_t numMipmapLevels);
int32_t cuMipmappedArrayCreate(void **pHandle, const struct hami_array3d_descriptor *pMipmappedArrayDesc, uint32_t numMipmapLevels) {
    int32_t (*driver)(void **, const struct hami_array3d_descriptor *, uint32_t) = hami_driver_function(HAMI_cuMipmappedArrayCreate);
    struct hami_allocation a;
    if (!hami_allocation_begin(&a, hami_array_bytes(HAMI_cuMipmappedArrayCreate, pMipmappedArrayDesc, numMipmapLevels), HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pHandle, pMipmappedArrayDesc, numMipmapLevels);
    return hami_allocation_end(&a, status, HAMI_WRITTEN(pHandle), 0, HAMI_cuMipmappedArrayDestroy);
}

HAMI_EXPORT int32_t cuMipmappedArrayDestroy(void *hMipmappedArray);
int32_t cuMipmappedArrayDestroy(void *hMipmappedArray) {
    return hami_array_destroy(HAMI_cuMipmappedArrayDestroy, hMipmappedArray);
}

HAMI_EXPORT int32_t cuModuleLoad(void **module, const char *fname);
int32_t cuModuleLoad(void **module, const char *fname) {
    int32_t (*driver)(void **, const char *) = hami_driver_function(HAMI_cuModuleLoad);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(module, fname);
    return hami_loading_end(&loading, status, module, HAMI_cuModuleUnload);
}

HAMI_EXPORT int32_t cuModuleLoadData(void **module, const void *image);
int32_t cuModuleLoadData(void **module, const void *image) {
    int32_t (*driver)(void **, const void *) = hami_driver_function(HAMI_cuModuleLoadData);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(module, image);
    return hami_loading_end(&loading, status, module, HAMI_cuModuleUnload);
}

HAMI_EXPORT int32_t cuModuleLoadDataEx(void **module, const void *image, uint32_t numOptions, void *options, void **optionValues);
int32_t cuModuleLoadDataEx(void **module, const void *image, uint32_t numOptions, void *options, void **optionValues) {
    int32_t (*driver)(void **, const void *, uint32_t, void *, void **) = hami_driver_function(HAMI_cuModuleLoadDataEx);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(module, image, numOptions, options, optionValues);
    return hami_loading_end(&loading, status, module, HAMI_cuModuleUnload);
}

HAMI_EXPORT int32_t cuModuleLoadFatBinary(void **module, const void *fatCubin);
int32_t cuModuleLoadFatBinary(void **module, const void *fatCubin) {
    int32_t (*driver)(void **, const void *) = hami_driver_function(HAMI_cuModuleLoadFatBinary);
    struct hami_loading loading = hami_loading_begin();
    int32_t status = driver(module, fatCubin);
    return hami_loading_end(&loading, status, module, HAMI_cuModuleUnload);
}

HAMI_EXPORT int32_t cuModuleUnload(void *hmod);
int32_t cuModuleUnload(void *hmod) {
    return hami_module_unload(HAMI_cuModuleUnload, hmod);
}

HAMI_EXPORT int32_t cuMulticastBindAddr(uint64_t mcHandle, uint64_t mcOffset, uint64_t memptr, uint64_t size, uint64_t flags);
int32_t cuMulticastBindAddr(uint64_t mcHandle, uint64_t mcOffset, uint64_t memptr, uint64_t size, uint64_t flags) {
    int32_t (*driver)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = hami_driver_function(HAMI_cuMulticastBindAddr);
    struct hami_bind bind;
    if (!hami_bind_begin(&bind, mcHandle, 0, memptr)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(mcHandle, mcOffset, memptr, size, flags);
    return hami_bind_end(&bind, status, mcOffset);
}

HAMI_EXPORT int32_t cuMulticastBindAddr_v2(uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t memptr, uint64_t size, uint64_t flags);
int32_t cuMulticastBindAddr_v2(uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t memptr, uint64_t size, uint64_t flags) {
    int32_t (*driver)(uint64_t, int32_t, uint64_t, uint64_t, uint64_t, uint64_t) = hami_driver_function(HAMI_cuMulticastBindAddr_v2);
    struct hami_bind bind;
    if (!hami_bind_begin(&bind, mcHandle, 0, memptr)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(mcHandle, dev, mcOffset, memptr, size, flags);
    return hami_bind_end(&bind, status, mcOffset);
}

HAMI_EXPORT int32_t cuMulticastBindMem(uint64_t mcHandle, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset, uint64_t size, uint64_t flags);
int32_t cuMulticastBindMem(uint64_t mcHandle, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset, uint64_t size, uint64_t flags) {
    int32_t (*driver)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = hami_driver_function(HAMI_cuMulticastBindMem);
    struct hami_bind bind;
    if (!hami_bind_begin(&bind, mcHandle, memHandle, 0)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(mcHandle, mcOffset, memHandle, memOffset, size, flags);
    return hami_bind_end(&bind, status, mcOffset);
}

HAMI_EXPORT int32_t cuMulticastBindMem_v2(uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset, uint64_t size, uint64_t flags);
int32_t cuMulticastBindMem_v2(uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t memHandle, uint64_t memOffset, uint64_t size, uint64_t flags) {
    int32_t (*driver)(uint64_t, int32_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = hami_driver_function(HAMI_cuMulticastBindMem_v2);
    struct hami_bind bind;
    if (!hami_bind_begin(&bind, mcHandle, memHandle, 0)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags);
    return hami_bind_end(&bind, status, mcOffset);
}

HAMI_EXPORT int32_t cuMulticastCreate(CUmemHandle *mcHandle, const void *prop);
int32_t cuMulticastCreate(CUmemHandle *mcHandle, const void *prop) {
    return hami_multicast_create(HAMI_cuMulticastCreate, mcHandle, prop);
}

HAMI_EXPORT int32_t cuMulticastUnbind(uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t size);
int32_t cuMulticastUnbind(uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t size) {
    return hami_multicast_unbind(HAMI_cuMulticastUnbind, mcHandle, dev, mcOffset, size);
}

HAMI_EXPORT int32_t cuStreamBeginCapture(void *hStream);
int32_t cuStreamBeginCapture(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamBeginCapture);
    hami_close_grants();
    int32_t status = driver(hStream);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCaptureToCig(void *hStream, void *streamCigCaptureParams);
int32_t cuStreamBeginCaptureToCig(void *hStream, void *streamCigCaptureParams) {
    int32_t (*driver)(void *, void *) = hami_driver_function(HAMI_cuStreamBeginCaptureToCig);
    hami_close_grants();
    int32_t status = driver(hStream, streamCigCaptureParams);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCaptureToCig_ptsz(void *hStream, void *streamCigCaptureParams);
int32_t cuStreamBeginCaptureToCig_ptsz(void *hStream, void *streamCigCaptureParams) {
    int32_t (*driver)(void *, void *) = hami_driver_function(HAMI_cuStreamBeginCaptureToCig_ptsz);
    hami_close_grants();
    int32_t status = driver(hStream, streamCigCaptureParams);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCaptureToGraph(void *hStream, void *hGraph, const void *dependencies, const void *dependencyData, uint64_t numDependencies, int32_t mode);
int32_t cuStreamBeginCaptureToGraph(void *hStream, void *hGraph, const void *dependencies, const void *dependencyData, uint64_t numDependencies, int32_t mode) {
    int32_t (*driver)(void *, void *, const void *, const void *, uint64_t, int32_t) = hami_driver_function(HAMI_cuStreamBeginCaptureToGraph);
    hami_close_grants();
    int32_t status = driver(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCaptureToGraph_ptsz(void *hStream, void *hGraph, const void *dependencies, const void *dependencyData, uint64_t numDependencies, int32_t mode);
int32_t cuStreamBeginCaptureToGraph_ptsz(void *hStream, void *hGraph, const void *dependencies, const void *dependencyData, uint64_t numDependencies, int32_t mode) {
    int32_t (*driver)(void *, void *, const void *, const void *, uint64_t, int32_t) = hami_driver_function(HAMI_cuStreamBeginCaptureToGraph_ptsz);
    hami_close_grants();
    int32_t status = driver(hStream, hGraph, dependencies, dependencyData, numDependencies, mode);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCapture_ptsz(void *hStream);
int32_t cuStreamBeginCapture_ptsz(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamBeginCapture_ptsz);
    hami_close_grants();
    int32_t status = driver(hStream);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCapture_v2(void *hStream, int32_t mode);
int32_t cuStreamBeginCapture_v2(void *hStream, int32_t mode) {
    int32_t (*driver)(void *, int32_t) = hami_driver_function(HAMI_cuStreamBeginCapture_v2);
    hami_close_grants();
    int32_t status = driver(hStream, mode);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamBeginCapture_v2_ptsz(void *hStream, int32_t mode);
int32_t cuStreamBeginCapture_v2_ptsz(void *hStream, int32_t mode) {
    int32_t (*driver)(void *, int32_t) = hami_driver_function(HAMI_cuStreamBeginCapture_v2_ptsz);
    hami_close_grants();
    int32_t status = driver(hStream, mode);
    return hami_capture_began(status);
}

HAMI_EXPORT int32_t cuStreamDestroy(void *hStream);
int32_t cuStreamDestroy(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamDestroy);
    hami_stream_ending(hStream);
    int32_t status = driver(hStream);
    return status;
}

HAMI_EXPORT int32_t cuStreamDestroy_v2(void *hStream);
int32_t cuStreamDestroy_v2(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamDestroy_v2);
    hami_stream_ending(hStream);
    int32_t status = driver(hStream);
    return status;
}

HAMI_EXPORT int32_t cuStreamEndCapture(void *hStream, void **phGraph);
int32_t cuStreamEndCapture(void *hStream, void **phGraph) {
    int32_t (*driver)(void *, void **) = hami_driver_function(HAMI_cuStreamEndCapture);
    int32_t status = driver(hStream, phGraph);
    return hami_capture_ended(status);
}

HAMI_EXPORT int32_t cuStreamEndCaptureToCig(void *hStream);
int32_t cuStreamEndCaptureToCig(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamEndCaptureToCig);
    int32_t status = driver(hStream);
    return hami_capture_ended(status);
}

HAMI_EXPORT int32_t cuStreamEndCaptureToCig_ptsz(void *hStream);
int32_t cuStreamEndCaptureToCig_ptsz(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamEndCaptureToCig_ptsz);
    int32_t status = driver(hStream);
    return hami_capture_ended(status);
}

HAMI_EXPORT int32_t cuStreamEndCapture_ptsz(void *hStream, void **phGraph);
int32_t cuStreamEndCapture_ptsz(void *hStream, void **phGraph) {
    int32_t (*driver)(void *, void **) = hami_driver_function(HAMI_cuStreamEndCapture_ptsz);
    int32_t status = driver(hStream, phGraph);
    return hami_capture_ended(status);
}

HAMI_EXPORT int32_t cuStreamSynchronize(void *hStream);
int32_t cuStreamSynchronize(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamSynchronize);
    uint64_t frees = hami_wait_begin();
    int32_t status = driver(hStream);
    return hami_pools_waited(status, hami_stream_named(hStream, false), frees);
}

HAMI_EXPORT int32_t cuStreamSynchronize_ptsz(void *hStream);
int32_t cuStreamSynchronize_ptsz(void *hStream) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuStreamSynchronize_ptsz);
    uint64_t frees = hami_wait_begin();
    int32_t status = driver(hStream);
    return hami_pools_waited(status, hami_stream_named(hStream, true), frees);
}

HAMI_EXPORT int32_t cuVDPAUCtxCreate(void **pCtx, uint32_t flags, int32_t device, uint32_t vdpDevice, void *vdpGetProcAddress);
int32_t cuVDPAUCtxCreate(void **pCtx, uint32_t flags, int32_t device, uint32_t vdpDevice, void *vdpGetProcAddress) {
    int32_t (*driver)(void **, uint32_t, int32_t, uint32_t, void *) = hami_driver_function(HAMI_cuVDPAUCtxCreate);
    struct hami_making m;
    if (!hami_making_begin(&m, device, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pCtx, flags, device, vdpDevice, vdpGetProcAddress);
    return hami_making_end(&m, status, pCtx);
}

HAMI_EXPORT int32_t cuVDPAUCtxCreate_v2(void **pCtx, uint32_t flags, int32_t device, uint32_t vdpDevice, void *vdpGetProcAddress);
int32_t cuVDPAUCtxCreate_v2(void **pCtx, uint32_t flags, int32_t device, uint32_t vdpDevice, void *vdpGetProcAddress) {
    int32_t (*driver)(void **, uint32_t, int32_t, uint32_t, void *) = hami_driver_function(HAMI_cuVDPAUCtxCreate_v2);
    struct hami_making m;
    if (!hami_making_begin(&m, device, false)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int32_t status = driver(pCtx, flags, device, vdpDevice, vdpGetProcAddress);
    return hami_making_end(&m, status, pCtx);
}

HAMI_EXPORT int32_t nvmlDeviceGetAccountingPids(void *device, uint32_t *count, uint32_t *pids);
int32_t nvmlDeviceGetAccountingPids(void *device, uint32_t *count, uint32_t *pids) {
    return hami_nvml_accounting_pids(HAMI_nvmlDeviceGetAccountingPids, device, count, pids);
}

HAMI_EXPORT int32_t nvmlDeviceGetAccountingStats(void *device, uint32_t pid, struct nvml_accounting *stats);
int32_t nvmlDeviceGetAccountingStats(void *device, uint32_t pid, struct nvml_accounting *stats) {
    return hami_nvml_accounting(HAMI_nvmlDeviceGetAccountingStats, device, pid, stats);
}

HAMI_EXPORT int32_t nvmlDeviceGetAccountingStats_v2(void *device, struct nvml_accounting_v2 *stats);
int32_t nvmlDeviceGetAccountingStats_v2(void *device, struct nvml_accounting_v2 *stats) {
    return hami_nvml_accounting_v2(HAMI_nvmlDeviceGetAccountingStats_v2, device, stats);
}

HAMI_EXPORT int32_t nvmlDeviceGetComputeRunningProcesses(void *device, uint32_t *infoCount, void *infos);
int32_t nvmlDeviceGetComputeRunningProcesses(void *device, uint32_t *infoCount, void *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetComputeRunningProcesses, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetComputeRunningProcesses_v2(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t nvmlDeviceGetComputeRunningProcesses_v2(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetComputeRunningProcesses_v2, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetComputeRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t nvmlDeviceGetComputeRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetComputeRunningProcesses_v3, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetConfComputeProtectedMemoryUsage(void *device, struct nvml_memory *memory);
int32_t nvmlDeviceGetConfComputeProtectedMemoryUsage(void *device, struct nvml_memory *memory) {
    return hami_nvml_memory_info(HAMI_nvmlDeviceGetConfComputeProtectedMemoryUsage, device, memory);
}

HAMI_EXPORT int32_t nvmlDeviceGetGraphicsRunningProcesses(void *device, uint32_t *infoCount, void *infos);
int32_t nvmlDeviceGetGraphicsRunningProcesses(void *device, uint32_t *infoCount, void *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetGraphicsRunningProcesses, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t nvmlDeviceGetGraphicsRunningProcesses_v2(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetGraphicsRunningProcesses_v2, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t nvmlDeviceGetGraphicsRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetGraphicsRunningProcesses_v3, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetMPSComputeRunningProcesses(void *device, uint32_t *infoCount, void *infos);
int32_t nvmlDeviceGetMPSComputeRunningProcesses(void *device, uint32_t *infoCount, void *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetMPSComputeRunningProcesses, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetMPSComputeRunningProcesses_v2(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t nvmlDeviceGetMPSComputeRunningProcesses_v2(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetMPSComputeRunningProcesses_v2, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t nvmlDeviceGetMPSComputeRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    return hami_nvml_processes(HAMI_nvmlDeviceGetMPSComputeRunningProcesses_v3, device, infoCount, infos);
}

HAMI_EXPORT int32_t nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
int32_t nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory) {
    return hami_nvml_memory_info(HAMI_nvmlDeviceGetMemoryInfo, device, memory);
}

HAMI_EXPORT int32_t nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory);
int32_t nvmlDeviceGetMemoryInfo_v2(void *device, struct nvml_memory_v2 *memory) {
    return hami_nvml_memory_info_v2(HAMI_nvmlDeviceGetMemoryInfo_v2, device, memory);
}

HAMI_EXPORT int32_t nvmlDeviceGetProcessUtilization(void *device, struct nvml_utilization_sample *utilization, uint32_t *processSamplesCount, uint64_t lastSeenTimeStamp);
int32_t nvmlDeviceGetProcessUtilization(void *device, struct nvml_utilization_sample *utilization, uint32_t *processSamplesCount, uint64_t lastSeenTimeStamp) {
    return hami_nvml_utilization(HAMI_nvmlDeviceGetProcessUtilization, device, utilization, processSamplesCount, lastSeenTimeStamp);
}

HAMI_EXPORT int32_t nvmlDeviceGetProcessesUtilizationInfo(void *device, struct nvml_utilization_infos *procesesUtilInfo);
int32_t nvmlDeviceGetProcessesUtilizationInfo(void *device, struct nvml_utilization_infos *procesesUtilInfo) {
    return hami_nvml_utilization_infos(HAMI_nvmlDeviceGetProcessesUtilizationInfo, device, procesesUtilInfo);
}

HAMI_EXPORT int32_t nvmlDeviceGetRunningProcessDetailList(void *device, struct nvml_process_details *plist);
int32_t nvmlDeviceGetRunningProcessDetailList(void *device, struct nvml_process_details *plist) {
    return hami_nvml_process_details(HAMI_nvmlDeviceGetRunningProcessDetailList, device, plist);
}

HAMI_EXPORT int32_t nvmlSystemGetProcessName(uint32_t pid, char *name, uint32_t length);
int32_t nvmlSystemGetProcessName(uint32_t pid, char *name, uint32_t length) {
    return hami_nvml_process_name(HAMI_nvmlSystemGetProcessName, pid, name, length);
}

const struct hami_hook_entry hami_hooks[HAMI_HOOKS] = {
    {"cuArray3DCreate", "cuArray3DCreate", (void *)cuArray3DCreate, 2000, false},
    {"cuArray3DCreate_v2", "cuArray3DCreate", (void *)cuArray3DCreate_v2, 3020, false},
    {"cuArrayCreate", "cuArrayCreate", (void *)cuArrayCreate, 2000, false},
    {"cuArrayCreate_v2", "cuArrayCreate", (void *)cuArrayCreate_v2, 3020, false},
    {"cuArrayDestroy", "cuArrayDestroy", (void *)cuArrayDestroy, 2000, false},
    {"cuCheckpointOperationComplete", "cuCheckpointOperationComplete", (void *)cuCheckpointOperationComplete, 13040, false},
    {"cuCheckpointProcessCheckpoint", "cuCheckpointProcessCheckpoint", (void *)cuCheckpointProcessCheckpoint, 12080, false},
    {"cuCheckpointProcessRestore", "cuCheckpointProcessRestore", (void *)cuCheckpointProcessRestore, 12080, false},
    {"cuCheckpointProcessUnlock", "cuCheckpointProcessUnlock", (void *)cuCheckpointProcessUnlock, 12080, false},
    {"cuCtxAttach", "cuCtxAttach", (void *)cuCtxAttach, 2000, false},
    {"cuCtxCreate", "cuCtxCreate", (void *)cuCtxCreate, 2000, false},
    {"cuCtxCreate_v2", "cuCtxCreate", (void *)cuCtxCreate_v2, 3020, false},
    {"cuCtxCreate_v3", "cuCtxCreate", (void *)cuCtxCreate_v3, 11040, false},
    {"cuCtxCreate_v4", "cuCtxCreate", (void *)cuCtxCreate_v4, 12050, false},
    {"cuCtxDestroy", "cuCtxDestroy", (void *)cuCtxDestroy, 2000, false},
    {"cuCtxDestroy_v2", "cuCtxDestroy", (void *)cuCtxDestroy_v2, 4000, false},
    {"cuCtxDetach", "cuCtxDetach", (void *)cuCtxDetach, 2000, false},
    {"cuCtxSetLimit", "cuCtxSetLimit", (void *)cuCtxSetLimit, 3010, false},
    {"cuCtxSynchronize", "cuCtxSynchronize", (void *)cuCtxSynchronize, 2000, false},
    {"cuCtxSynchronize_v2", "cuCtxSynchronize", (void *)cuCtxSynchronize_v2, 13000, false},
    {"cuDestroyExternalMemory", "cuDestroyExternalMemory", (void *)cuDestroyExternalMemory, 10000, false},
    {"cuDeviceGraphMemTrim", "cuDeviceGraphMemTrim", (void *)cuDeviceGraphMemTrim, 11040, false},
    {"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease, 7000, false},
    {"cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxRelease", (void *)cuDevicePrimaryCtxRelease_v2, 11000, false},
    {"cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", (void *)cuDevicePrimaryCtxReset, 7000, false},
    {"cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxReset", (void *)cuDevicePrimaryCtxReset_v2, 11000, false},
    {"cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", (void *)cuDevicePrimaryCtxRetain, 7000, false},
    {"cuDeviceTotalMem", "cuDeviceTotalMem", (void *)cuDeviceTotalMem, 2000, false},
    {"cuDeviceTotalMem_v2", "cuDeviceTotalMem", (void *)cuDeviceTotalMem_v2, 3020, false},
    {"cuEventSynchronize", "cuEventSynchronize", (void *)cuEventSynchronize, 2000, false},
    {"cuFuncLoad", "cuFuncLoad", (void *)cuFuncLoad, 12040, false},
    {"cuGLCtxCreate", "cuGLCtxCreate", (void *)cuGLCtxCreate, 2000, false},
    {"cuGLCtxCreate_v2", "cuGLCtxCreate", (void *)cuGLCtxCreate_v2, 3020, false},
    {"cuGetProcAddress", "cuGetProcAddress", (void *)cuGetProcAddress, 11030, false},
    {"cuGetProcAddress_v2", "cuGetProcAddress", (void *)cuGetProcAddress_v2, 12000, false},
    {"cuGetProcAddress_v2_ptsz", "cuGetProcAddress", (void *)cuGetProcAddress_v2_ptsz, 0, true},
    {"cuGraphExecDestroy", "cuGraphExecDestroy", (void *)cuGraphExecDestroy, 10000, false},
    {"cuGraphInstantiate", "cuGraphInstantiate", (void *)cuGraphInstantiate, 10000, false},
    {"cuGraphInstantiateWithFlags", "cuGraphInstantiateWithFlags", (void *)cuGraphInstantiateWithFlags, 11040, false},
    {"cuGraphInstantiateWithParams", "cuGraphInstantiateWithParams", (void *)cuGraphInstantiateWithParams, 12000, false},
    {"cuGraphInstantiateWithParams_ptsz", "cuGraphInstantiateWithParams", (void *)cuGraphInstantiateWithParams_ptsz, 12000, true},
    {"cuGraphInstantiate_v2", "cuGraphInstantiate", (void *)cuGraphInstantiate_v2, 11000, false},
    {"cuGraphLaunch", "cuGraphLaunch", (void *)cuGraphLaunch, 10000, false},
    {"cuGraphLaunch_ptsz", "cuGraphLaunch", (void *)cuGraphLaunch_ptsz, 10000, true},
    {"cuGraphUpload", "cuGraphUpload", (void *)cuGraphUpload, 11010, false},
    {"cuGraphUpload_ptsz", "cuGraphUpload", (void *)cuGraphUpload_ptsz, 11010, true},
    {"cuGreenCtxCreate", "cuGreenCtxCreate", (void *)cuGreenCtxCreate, 12040, false},
    {"cuGreenCtxDestroy", "cuGreenCtxDestroy", (void *)cuGreenCtxDestroy, 12040, false},
    {"cuImportExternalMemory", "cuImportExternalMemory", (void *)cuImportExternalMemory, 10000, false},
    {"cuIpcCloseMemHandle", "cuIpcCloseMemHandle", (void *)cuIpcCloseMemHandle, 4010, false},
    {"cuIpcGetMemHandle", "cuIpcGetMemHandle", (void *)cuIpcGetMemHandle, 4010, false},
    {"cuIpcOpenMemHandle", "cuIpcOpenMemHandle", (void *)cuIpcOpenMemHandle, 4010, false},
    {"cuIpcOpenMemHandle_v2", "cuIpcOpenMemHandle", (void *)cuIpcOpenMemHandle_v2, 11000, false},
    {"cuKernelGetFunction", "cuKernelGetFunction", (void *)cuKernelGetFunction, 12000, false},
    {"cuLaunch", "cuLaunch", (void *)cuLaunch, 2000, false},
    {"cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel", (void *)cuLaunchCooperativeKernel, 9000, false},
    {"cuLaunchCooperativeKernelMultiDevice", "cuLaunchCooperativeKernelMultiDevice", (void *)cuLaunchCooperativeKernelMultiDevice, 9000, false},
    {"cuLaunchCooperativeKernel_ptsz", "cuLaunchCooperativeKernel", (void *)cuLaunchCooperativeKernel_ptsz, 9000, true},
    {"cuLaunchGrid", "cuLaunchGrid", (void *)cuLaunchGrid, 2000, false},
    {"cuLaunchGridAsync", "cuLaunchGridAsync", (void *)cuLaunchGridAsync, 2000, false},
    {"cuLaunchKernel", "cuLaunchKernel", (void *)cuLaunchKernel, 4000, false},
    {"cuLaunchKernelEx", "cuLaunchKernelEx", (void *)cuLaunchKernelEx, 11060, false},
    {"cuLaunchKernelEx_ptsz", "cuLaunchKernelEx", (void *)cuLaunchKernelEx_ptsz, 11060, true},
    {"cuLaunchKernel_ptsz", "cuLaunchKernel", (void *)cuLaunchKernel_ptsz, 7000, true},
    {"cuLibraryGetModule", "cuLibraryGetModule", (void *)cuLibraryGetModule, 12000, false},
    {"cuLibraryLoadData", "cuLibraryLoadData", (void *)cuLibraryLoadData, 12000, false},
    {"cuLibraryLoadFromFile", "cuLibraryLoadFromFile", (void *)cuLibraryLoadFromFile, 12000, false},
    {"cuLibraryUnload", "cuLibraryUnload", (void *)cuLibraryUnload, 12000, false},
    {"cuMemAlloc", "cuMemAlloc", (void *)cuMemAlloc, 2000, false},
    {"cuMemAllocAsync", "cuMemAllocAsync", (void *)cuMemAllocAsync, 11020, false},
    {"cuMemAllocAsync_ptsz", "cuMemAllocAsync", (void *)cuMemAllocAsync_ptsz, 11020, true},
    {"cuMemAllocFromPoolAsync", "cuMemAllocFromPoolAsync", (void *)cuMemAllocFromPoolAsync, 11020, false},
    {"cuMemAllocFromPoolAsync_ptsz", "cuMemAllocFromPoolAsync", (void *)cuMemAllocFromPoolAsync_ptsz, 11020, true},
    {"cuMemAllocManaged", "cuMemAllocManaged", (void *)cuMemAllocManaged, 6000, false},
    {"cuMemAllocPitch", "cuMemAllocPitch", (void *)cuMemAllocPitch, 2000, false},
    {"cuMemAllocPitch_v2", "cuMemAllocPitch", (void *)cuMemAllocPitch_v2, 3020, false},
    {"cuMemAlloc_v2", "cuMemAlloc", (void *)cuMemAlloc_v2, 3020, false},
    {"cuMemCreate", "cuMemCreate", (void *)cuMemCreate, 10020, false},
    {"cuMemExportToShareableHandle", "cuMemExportToShareableHandle", (void *)cuMemExportToShareableHandle, 10020, false},
    {"cuMemFree", "cuMemFree", (void *)cuMemFree, 2000, false},
    {"cuMemFreeAsync", "cuMemFreeAsync", (void *)cuMemFreeAsync, 11020, false},
    {"cuMemFreeAsync_ptsz", "cuMemFreeAsync", (void *)cuMemFreeAsync_ptsz, 11020, true},
    {"cuMemFree_v2", "cuMemFree", (void *)cuMemFree_v2, 3020, false},
    {"cuMemGetDefaultMemPool", "cuMemGetDefaultMemPool", (void *)cuMemGetDefaultMemPool, 13000, false},
    {"cuMemGetInfo", "cuMemGetInfo", (void *)cuMemGetInfo, 2000, false},
    {"cuMemGetInfo_v2", "cuMemGetInfo", (void *)cuMemGetInfo_v2, 3020, false},
    {"cuMemGetMemPool", "cuMemGetMemPool", (void *)cuMemGetMemPool, 13000, false},
    {"cuMemImportFromShareableHandle", "cuMemImportFromShareableHandle", (void *)cuMemImportFromShareableHandle, 10020, false},
    {"cuMemMap", "cuMemMap", (void *)cuMemMap, 10020, false},
    {"cuMemMapArrayAsync", "cuMemMapArrayAsync", (void *)cuMemMapArrayAsync, 11010, false},
    {"cuMemMapArrayAsync_ptsz", "cuMemMapArrayAsync", (void *)cuMemMapArrayAsync_ptsz, 11010, true},
    {"cuMemPoolCreate", "cuMemPoolCreate", (void *)cuMemPoolCreate, 11020, false},
    {"cuMemPoolDestroy", "cuMemPoolDestroy", (void *)cuMemPoolDestroy, 11020, false},
    {"cuMemPoolExportToShareableHandle", "cuMemPoolExportToShareableHandle", (void *)cuMemPoolExportToShareableHandle, 11020, false},
    {"cuMemPoolImportFromShareableHandle", "cuMemPoolImportFromShareableHandle", (void *)cuMemPoolImportFromShareableHandle, 11020, false},
    {"cuMemPoolImportPointer", "cuMemPoolImportPointer", (void *)cuMemPoolImportPointer, 11020, false},
    {"cuMemPoolTrimTo", "cuMemPoolTrimTo", (void *)cuMemPoolTrimTo, 11020, false},
    {"cuMemRelease", "cuMemRelease", (void *)cuMemRelease, 10020, false},
    {"cuMemRetainAllocationHandle", "cuMemRetainAllocationHandle", (void *)cuMemRetainAllocationHandle, 11000, false},
    {"cuMemUnmap", "cuMemUnmap", (void *)cuMemUnmap, 10020, false},
    {"cuMipmappedArrayCreate", "cuMipmappedArrayCreate", (void *)cuMipmappedArrayCreate, 5000, false},
    {"cuMipmappedArrayDestroy", "cuMipmappedArrayDestroy", (void *)cuMipmappedArrayDestroy, 5000, false},
    {"cuModuleLoad", "cuModuleLoad", (void *)cuModuleLoad, 2000, false},
    {"cuModuleLoadData", "cuModuleLoadData", (void *)cuModuleLoadData, 2000, false},
    {"cuModuleLoadDataEx", "cuModuleLoadDataEx", (void *)cuModuleLoadDataEx, 2010, false},
    {"cuModuleLoadFatBinary", "cuModuleLoadFatBinary", (void *)cuModuleLoadFatBinary, 2000, false},
    {"cuModuleUnload", "cuModuleUnload", (void *)cuModuleUnload, 2000, false},
    {"cuMulticastBindAddr", "cuMulticastBindAddr", (void *)cuMulticastBindAddr, 12010, false},
    {"cuMulticastBindAddr_v2", "cuMulticastBindAddr", (void *)cuMulticastBindAddr_v2, 13010, false},
    {"cuMulticastBindMem", "cuMulticastBindMem", (void *)cuMulticastBindMem, 12010, false},
    {"cuMulticastBindMem_v2", "cuMulticastBindMem", (void *)cuMulticastBindMem_v2, 13010, false},
    {"cuMulticastCreate", "cuMulticastCreate", (void *)cuMulticastCreate, 12010, false},
    {"cuMulticastUnbind", "cuMulticastUnbind", (void *)cuMulticastUnbind, 12010, false},
    {"cuStreamBeginCapture", "cuStreamBeginCapture", (void *)cuStreamBeginCapture, 10000, false},
    {"cuStreamBeginCaptureToCig", "cuStreamBeginCaptureToCig", (void *)cuStreamBeginCaptureToCig, 13010, false},
    {"cuStreamBeginCaptureToCig_ptsz", "cuStreamBeginCaptureToCig", (void *)cuStreamBeginCaptureToCig_ptsz, 13010, true},
    {"cuStreamBeginCaptureToGraph", "cuStreamBeginCaptureToGraph", (void *)cuStreamBeginCaptureToGraph, 12030, false},
    {"cuStreamBeginCaptureToGraph_ptsz", "cuStreamBeginCaptureToGraph", (void *)cuStreamBeginCaptureToGraph_ptsz, 12030, true},
    {"cuStreamBeginCapture_ptsz", "cuStreamBeginCapture", (void *)cuStreamBeginCapture_ptsz, 10000, true},
    {"cuStreamBeginCapture_v2", "cuStreamBeginCapture", (void *)cuStreamBeginCapture_v2, 10010, false},
    {"cuStreamBeginCapture_v2_ptsz", "cuStreamBeginCapture", (void *)cuStreamBeginCapture_v2_ptsz, 10010, true},
    {"cuStreamDestroy", "cuStreamDestroy", (void *)cuStreamDestroy, 2000, false},
    {"cuStreamDestroy_v2", "cuStreamDestroy", (void *)cuStreamDestroy_v2, 4000, false},
    {"cuStreamEndCapture", "cuStreamEndCapture", (void *)cuStreamEndCapture, 10000, false},
    {"cuStreamEndCaptureToCig", "cuStreamEndCaptureToCig", (void *)cuStreamEndCaptureToCig, 13010, false},
    {"cuStreamEndCaptureToCig_ptsz", "cuStreamEndCaptureToCig", (void *)cuStreamEndCaptureToCig_ptsz, 13010, true},
    {"cuStreamEndCapture_ptsz", "cuStreamEndCapture", (void *)cuStreamEndCapture_ptsz, 10000, true},
    {"cuStreamSynchronize", "cuStreamSynchronize", (void *)cuStreamSynchronize, 2000, false},
    {"cuStreamSynchronize_ptsz", "cuStreamSynchronize", (void *)cuStreamSynchronize_ptsz, 7000, true},
    {"cuVDPAUCtxCreate", "cuVDPAUCtxCreate", (void *)cuVDPAUCtxCreate, 3010, false},
    {"cuVDPAUCtxCreate_v2", "cuVDPAUCtxCreate", (void *)cuVDPAUCtxCreate_v2, 3020, false},
    {"nvmlDeviceGetAccountingPids", "nvmlDeviceGetAccountingPids", (void *)nvmlDeviceGetAccountingPids, 0, false},
    {"nvmlDeviceGetAccountingStats", "nvmlDeviceGetAccountingStats", (void *)nvmlDeviceGetAccountingStats, 0, false},
    {"nvmlDeviceGetAccountingStats_v2", "nvmlDeviceGetAccountingStats", (void *)nvmlDeviceGetAccountingStats_v2, 0, false},
    {"nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses", (void *)nvmlDeviceGetComputeRunningProcesses, 0, false},
    {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses", (void *)nvmlDeviceGetComputeRunningProcesses_v2, 0, false},
    {"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses", (void *)nvmlDeviceGetComputeRunningProcesses_v3, 0, false},
    {"nvmlDeviceGetConfComputeProtectedMemoryUsage", "nvmlDeviceGetConfComputeProtectedMemoryUsage", (void *)nvmlDeviceGetConfComputeProtectedMemoryUsage, 0, false},
    {"nvmlDeviceGetGraphicsRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses", (void *)nvmlDeviceGetGraphicsRunningProcesses, 0, false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses", (void *)nvmlDeviceGetGraphicsRunningProcesses_v2, 0, false},
    {"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses", (void *)nvmlDeviceGetGraphicsRunningProcesses_v3, 0, false},
    {"nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMPSComputeRunningProcesses", (void *)nvmlDeviceGetMPSComputeRunningProcesses, 0, false},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses", (void *)nvmlDeviceGetMPSComputeRunningProcesses_v2, 0, false},
    {"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses", (void *)nvmlDeviceGetMPSComputeRunningProcesses_v3, 0, false},
    {"nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo", (void *)nvmlDeviceGetMemoryInfo, 0, false},
    {"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo", (void *)nvmlDeviceGetMemoryInfo_v2, 0, false},
    {"nvmlDeviceGetProcessUtilization", "nvmlDeviceGetProcessUtilization", (void *)nvmlDeviceGetProcessUtilization, 0, false},
    {"nvmlDeviceGetProcessesUtilizationInfo", "nvmlDeviceGetProcessesUtilizationInfo", (void *)nvmlDeviceGetProcessesUtilizationInfo, 0, false},
    {"nvmlDeviceGetRunningProcessDetailList", "nvmlDeviceGetRunningProcessDetailList", (void *)nvmlDeviceGetRunningProcessDetailList, 0, false},
    {"nvmlSystemGetProcessName", "nvmlSystemGetProcessName", (void *)nvmlSystemGetProcessName, 0, false},
};
