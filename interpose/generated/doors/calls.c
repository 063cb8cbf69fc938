/* Made by gen/emit.py from spec/; do not edit. */
#include "doors/calls.h"

#include "doors/hook.h"

int32_t hami_call_cuArrayDestroy(void *hArray) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuArrayDestroy);
    return driver(hArray);
}

int32_t hami_call_cuCtxDestroy_v2(void *ctx) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuCtxDestroy_v2);
    return driver(ctx);
}

int32_t hami_call_cuCtxFromGreenCtx(void **pContext, void *hCtx) {
    int32_t (*driver)(void **, void *) = hami_cuda_function("cuCtxFromGreenCtx");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pContext, hCtx);
}

int32_t hami_call_cuCtxGetCurrent(void **pctx) {
    int32_t (*driver)(void **) = hami_cuda_function("cuCtxGetCurrent");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pctx);
}

int32_t hami_call_cuCtxGetDevice(void *device) {
    int32_t (*driver)(void *) = hami_cuda_function("cuCtxGetDevice");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(device);
}

int32_t hami_call_cuCtxGetLimit(size_t *pvalue, int32_t limit) {
    int32_t (*driver)(size_t *, int32_t) = hami_cuda_function("cuCtxGetLimit");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pvalue, limit);
}

int32_t hami_call_cuCtxPopCurrent_v2(void **pctx) {
    int32_t (*driver)(void **) = hami_cuda_function("cuCtxPopCurrent_v2");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pctx);
}

int32_t hami_call_cuCtxPushCurrent_v2(void *ctx) {
    int32_t (*driver)(void *) = hami_cuda_function("cuCtxPushCurrent_v2");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(ctx);
}

int32_t hami_call_cuCtxSetCurrent(void *ctx) {
    int32_t (*driver)(void *) = hami_cuda_function("cuCtxSetCurrent");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(ctx);
}

int32_t hami_call_cuDestroyExternalMemory(void *extMem) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuDestroyExternalMemory);
    return driver(extMem);
}

int32_t hami_call_cuDeviceGetAttribute(void *pi, int32_t attrib, int32_t dev) {
    int32_t (*driver)(void *, int32_t, int32_t) = hami_cuda_function("cuDeviceGetAttribute");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pi, attrib, dev);
}

int32_t hami_call_cuDeviceGetCount(void *count) {
    int32_t (*driver)(void *) = hami_cuda_function("cuDeviceGetCount");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(count);
}

int32_t hami_call_cuDeviceGetDefaultMemPool(void **pool_out, int32_t dev) {
    int32_t (*driver)(void **, int32_t) = hami_cuda_function("cuDeviceGetDefaultMemPool");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pool_out, dev);
}

int32_t hami_call_cuDeviceGetGraphMemAttribute(int32_t device, int32_t attr, void *value) {
    int32_t (*driver)(int32_t, int32_t, void *) = hami_cuda_function("cuDeviceGetGraphMemAttribute");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(device, attr, value);
}

int32_t hami_call_cuDeviceGetMemPool(void **pool, int32_t dev) {
    int32_t (*driver)(void **, int32_t) = hami_cuda_function("cuDeviceGetMemPool");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pool, dev);
}

int32_t hami_call_cuDeviceGetPCIBusId(char *pciBusId, int32_t len, int32_t dev) {
    int32_t (*driver)(char *, int32_t, int32_t) = hami_cuda_function("cuDeviceGetPCIBusId");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pciBusId, len, dev);
}

int32_t hami_call_cuDeviceGetUuid(void *uuid, int32_t dev) {
    int32_t (*driver)(void *, int32_t) = hami_cuda_function("cuDeviceGetUuid");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(uuid, dev);
}

int32_t hami_call_cuDeviceGetUuid_v2(void *uuid, int32_t dev) {
    int32_t (*driver)(void *, int32_t) = hami_cuda_function("cuDeviceGetUuid_v2");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(uuid, dev);
}

int32_t hami_call_cuDeviceGraphMemTrim(int32_t device) {
    int32_t (*driver)(int32_t) = hami_driver_function(HAMI_cuDeviceGraphMemTrim);
    return driver(device);
}

int32_t hami_call_cuDevicePrimaryCtxGetState(int32_t dev, uint32_t *flags, void *active) {
    int32_t (*driver)(int32_t, uint32_t *, void *) = hami_cuda_function("cuDevicePrimaryCtxGetState");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(dev, flags, active);
}

int32_t hami_call_cuDevicePrimaryCtxRelease_v2(int32_t dev) {
    int32_t (*driver)(int32_t) = hami_driver_function(HAMI_cuDevicePrimaryCtxRelease_v2);
    return driver(dev);
}

int32_t hami_call_cuDevicePrimaryCtxRetain(void **pctx, int32_t dev) {
    int32_t (*driver)(void **, int32_t) = hami_driver_function(HAMI_cuDevicePrimaryCtxRetain);
    return driver(pctx, dev);
}

int32_t hami_call_cuDeviceSetMemPool(int32_t dev, void *pool) {
    int32_t (*driver)(int32_t, void *) = hami_cuda_function("cuDeviceSetMemPool");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(dev, pool);
}

int32_t hami_call_cuEventCreate(void *phEvent, uint32_t Flags) {
    int32_t (*driver)(void *, uint32_t) = hami_cuda_function("cuEventCreate");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(phEvent, Flags);
}

int32_t hami_call_cuEventDestroy_v2(void *hEvent) {
    int32_t (*driver)(void *) = hami_cuda_function("cuEventDestroy_v2");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hEvent);
}

int32_t hami_call_cuEventElapsedTime(void *pMilliseconds, void *hStart, void *hEnd) {
    int32_t (*driver)(void *, void *, void *) = hami_cuda_function("cuEventElapsedTime");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pMilliseconds, hStart, hEnd);
}

int32_t hami_call_cuEventQuery(void *hEvent) {
    int32_t (*driver)(void *) = hami_cuda_function("cuEventQuery");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hEvent);
}

int32_t hami_call_cuEventRecord(void *hEvent, void *hStream) {
    int32_t (*driver)(void *, void *) = hami_cuda_function("cuEventRecord");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hEvent, hStream);
}

int32_t hami_call_cuFuncGetModule(void **hmod, void *hfunc) {
    int32_t (*driver)(void **, void *) = hami_cuda_function("cuFuncGetModule");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hmod, hfunc);
}

int32_t hami_call_cuGraphChildGraphNodeGetGraph(void *hNode, void **phGraph) {
    int32_t (*driver)(void *, void **) = hami_cuda_function("cuGraphChildGraphNodeGetGraph");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hNode, phGraph);
}

int32_t hami_call_cuGraphExecDestroy(void *hGraphExec) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuGraphExecDestroy);
    return driver(hGraphExec);
}

int32_t hami_call_cuGraphGetNodes(void *hGraph, void *nodes, size_t *numNodes) {
    int32_t (*driver)(void *, void *, size_t *) = hami_cuda_function("cuGraphGetNodes");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hGraph, nodes, numNodes);
}

int32_t hami_call_cuGraphMemAllocNodeGetParams(void *hNode, void *params_out) {
    int32_t (*driver)(void *, void *) = hami_cuda_function("cuGraphMemAllocNodeGetParams");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hNode, params_out);
}

int32_t hami_call_cuGraphMemFreeNodeGetParams(void *hNode, CUdeviceptr *dptr_out) {
    int32_t (*driver)(void *, CUdeviceptr *) = hami_cuda_function("cuGraphMemFreeNodeGetParams");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hNode, dptr_out);
}

int32_t hami_call_cuGraphNodeGetType(void *hNode, void *type) {
    int32_t (*driver)(void *, void *) = hami_cuda_function("cuGraphNodeGetType");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hNode, type);
}

int32_t hami_call_cuGreenCtxDestroy(void *hCtx) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuGreenCtxDestroy);
    return driver(hCtx);
}

int32_t hami_call_cuIpcCloseMemHandle(uint64_t dptr) {
    int32_t (*driver)(uint64_t) = hami_driver_function(HAMI_cuIpcCloseMemHandle);
    return driver(dptr);
}

int32_t hami_call_cuKernelGetLibrary(void **pLib, void *kernel) {
    int32_t (*driver)(void **, void *) = hami_cuda_function("cuKernelGetLibrary");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pLib, kernel);
}

int32_t hami_call_cuLibraryUnload(void *library) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuLibraryUnload);
    return driver(library);
}

int32_t hami_call_cuMemAdvise(uint64_t devPtr, uint64_t count, int32_t advice, int32_t device) {
    int32_t (*driver)(uint64_t, uint64_t, int32_t, int32_t) = hami_cuda_function("cuMemAdvise");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(devPtr, count, advice, device);
}

int32_t hami_call_cuMemAllocManaged(CUdeviceptr *dptr, uint64_t bytesize, uint32_t flags) {
    int32_t (*driver)(CUdeviceptr *, uint64_t, uint32_t) = hami_driver_function(HAMI_cuMemAllocManaged);
    return driver(dptr, bytesize, flags);
}

int32_t hami_call_cuMemFreeAsync(uint64_t dptr, void *hStream) {
    int32_t (*driver)(uint64_t, void *) = hami_driver_function(HAMI_cuMemFreeAsync);
    return driver(dptr, hStream);
}

int32_t hami_call_cuMemFreeAsync_ptsz(uint64_t dptr, void *hStream) {
    int32_t (*driver)(uint64_t, void *) = hami_driver_function(HAMI_cuMemFreeAsync_ptsz);
    return driver(dptr, hStream);
}

int32_t hami_call_cuMemFree_v2(uint64_t dptr) {
    int32_t (*driver)(uint64_t) = hami_driver_function(HAMI_cuMemFree_v2);
    return driver(dptr);
}

int32_t hami_call_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, uint64_t dptr) {
    int32_t (*driver)(CUdeviceptr *, size_t *, uint64_t) = hami_cuda_function("cuMemGetAddressRange_v2");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pbase, psize, dptr);
}

int32_t hami_call_cuMemGetAllocationPropertiesFromHandle(struct hami_allocation_prop *prop, uint64_t handle) {
    int32_t (*driver)(struct hami_allocation_prop *, uint64_t) = hami_cuda_function("cuMemGetAllocationPropertiesFromHandle");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(prop, handle);
}

int32_t hami_call_cuMemGetInfo_v2(size_t *free, size_t *total) {
    int32_t (*driver)(size_t *, size_t *) = hami_driver_function(HAMI_cuMemGetInfo_v2);
    return driver(free, total);
}

int32_t hami_call_cuMemPoolDestroy(void *pool) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuMemPoolDestroy);
    return driver(pool);
}

int32_t hami_call_cuMemPoolGetAttribute(void *pool, int32_t attr, void *value) {
    int32_t (*driver)(void *, int32_t, void *) = hami_cuda_function("cuMemPoolGetAttribute");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(pool, attr, value);
}

int32_t hami_call_cuMemPoolTrimTo(void *pool, uint64_t minBytesToKeep) {
    int32_t (*driver)(void *, uint64_t) = hami_driver_function(HAMI_cuMemPoolTrimTo);
    return driver(pool, minBytesToKeep);
}

int32_t hami_call_cuMemRelease(uint64_t handle) {
    int32_t (*driver)(uint64_t) = hami_driver_function(HAMI_cuMemRelease);
    return driver(handle);
}

int32_t hami_call_cuMemUnmap(uint64_t ptr, uint64_t size) {
    int32_t (*driver)(uint64_t, uint64_t) = hami_driver_function(HAMI_cuMemUnmap);
    return driver(ptr, size);
}

int32_t hami_call_cuMipmappedArrayDestroy(void *hMipmappedArray) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuMipmappedArrayDestroy);
    return driver(hMipmappedArray);
}

int32_t hami_call_cuModuleUnload(void *hmod) {
    int32_t (*driver)(void *) = hami_driver_function(HAMI_cuModuleUnload);
    return driver(hmod);
}

int32_t hami_call_cuPointerGetAttribute(void *data, int32_t attribute, uint64_t ptr) {
    int32_t (*driver)(void *, int32_t, uint64_t) = hami_cuda_function("cuPointerGetAttribute");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(data, attribute, ptr);
}

int32_t hami_call_cuStreamGetCtx(void *hStream, void **pctx) {
    int32_t (*driver)(void *, void **) = hami_cuda_function("cuStreamGetCtx");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hStream, pctx);
}

int32_t hami_call_cuStreamGetDevice(void *hStream, void *device) {
    int32_t (*driver)(void *, void *) = hami_cuda_function("cuStreamGetDevice");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hStream, device);
}

int32_t hami_call_cuStreamIsCapturing(void *hStream, void *captureStatus) {
    int32_t (*driver)(void *, void *) = hami_cuda_function("cuStreamIsCapturing");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hStream, captureStatus);
}

int32_t hami_call_cuStreamQuery(void *hStream) {
    int32_t (*driver)(void *) = hami_cuda_function("cuStreamQuery");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(hStream);
}

int32_t hami_call_cuThreadExchangeStreamCaptureMode(void *mode) {
    int32_t (*driver)(void *) = hami_cuda_function("cuThreadExchangeStreamCaptureMode");
    return driver == NULL ? CUDA_ERROR_NOT_SUPPORTED : driver(mode);
}

int32_t hami_call_nvmlDeviceGetComputeInstanceId(void *device, uint32_t *id) {
    int32_t (*driver)(void *, uint32_t *) = hami_nvml_function("nvmlDeviceGetComputeInstanceId");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(device, id);
}

int32_t hami_call_nvmlDeviceGetComputeRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos) {
    int32_t (*driver)(void *, uint32_t *, struct nvml_process *) = hami_driver_function(HAMI_nvmlDeviceGetComputeRunningProcesses_v3);
    return driver(device, infoCount, infos);
}

int32_t hami_call_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *migDevice, void *device) {
    int32_t (*driver)(void *, void *) = hami_nvml_function("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(migDevice, device);
}

int32_t hami_call_nvmlDeviceGetGpuInstanceId(void *device, uint32_t *id) {
    int32_t (*driver)(void *, uint32_t *) = hami_nvml_function("nvmlDeviceGetGpuInstanceId");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(device, id);
}

int32_t hami_call_nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, void *device) {
    int32_t (*driver)(const char *, void *) = hami_nvml_function("nvmlDeviceGetHandleByPciBusId_v2");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(pciBusId, device);
}

int32_t hami_call_nvmlDeviceGetHandleByUUID(const char *uuid, void *device) {
    int32_t (*driver)(const char *, void *) = hami_nvml_function("nvmlDeviceGetHandleByUUID");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(uuid, device);
}

int32_t hami_call_nvmlDeviceGetIndex(void *device, uint32_t *index) {
    int32_t (*driver)(void *, uint32_t *) = hami_nvml_function("nvmlDeviceGetIndex");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(device, index);
}

int32_t hami_call_nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory) {
    int32_t (*driver)(void *, struct nvml_memory *) = hami_driver_function(HAMI_nvmlDeviceGetMemoryInfo);
    return driver(device, memory);
}

int32_t hami_call_nvmlDeviceGetUUID(void *device, char *uuid, uint32_t length) {
    int32_t (*driver)(void *, char *, uint32_t) = hami_nvml_function("nvmlDeviceGetUUID");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(device, uuid, length);
}

int32_t hami_call_nvmlDeviceIsMigDeviceHandle(void *device, uint32_t *isMigDevice) {
    int32_t (*driver)(void *, uint32_t *) = hami_nvml_function("nvmlDeviceIsMigDeviceHandle");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver(device, isMigDevice);
}

int32_t hami_call_nvmlInit_v2(void) {
    int32_t (*driver)(void) = hami_nvml_function("nvmlInit_v2");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver();
}

int32_t hami_call_nvmlShutdown(void) {
    int32_t (*driver)(void) = hami_nvml_function("nvmlShutdown");
    return driver == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : driver();
}
