/* Made by gen/emit.py from spec/; do not edit. */
#ifndef HAMI_GENERATED_CALLS_H
#define HAMI_GENERATED_CALLS_H

#include "cuda_abi.h"

/*
 * Each function calls the driver's own function of its name. Where the driver has none, it answers
 * CUDA_ERROR_NOT_SUPPORTED or NVML_ERROR_FUNCTION_NOT_FOUND.
 */
int32_t hami_call_cuArrayDestroy(void *hArray);
int32_t hami_call_cuCtxDestroy_v2(void *ctx);
int32_t hami_call_cuCtxFromGreenCtx(void **pContext, void *hCtx);
int32_t hami_call_cuCtxGetCurrent(void **pctx);
int32_t hami_call_cuCtxGetDevice(void *device);
int32_t hami_call_cuCtxGetLimit(size_t *pvalue, int32_t limit);
int32_t hami_call_cuCtxPopCurrent_v2(void **pctx);
int32_t hami_call_cuCtxPushCurrent_v2(void *ctx);
int32_t hami_call_cuCtxSetCurrent(void *ctx);
int32_t hami_call_cuDestroyExternalMemory(void *extMem);
int32_t hami_call_cuDeviceGetAttribute(void *pi, int32_t attrib, int32_t dev);
int32_t hami_call_cuDeviceGetCount(void *count);
int32_t hami_call_cuDeviceGetDefaultMemPool(void **pool_out, int32_t dev);
int32_t hami_call_cuDeviceGetGraphMemAttribute(int32_t device, int32_t attr, void *value);
int32_t hami_call_cuDeviceGetMemPool(void **pool, int32_t dev);
int32_t hami_call_cuDeviceGetPCIBusId(char *pciBusId, int32_t len, int32_t dev);
int32_t hami_call_cuDeviceGetUuid(void *uuid, int32_t dev);
int32_t hami_call_cuDeviceGetUuid_v2(void *uuid, int32_t dev);
int32_t hami_call_cuDeviceGraphMemTrim(int32_t device);
int32_t hami_call_cuDevicePrimaryCtxGetState(int32_t dev, uint32_t *flags, void *active);
int32_t hami_call_cuDevicePrimaryCtxRelease_v2(int32_t dev);
int32_t hami_call_cuDevicePrimaryCtxRetain(void **pctx, int32_t dev);
int32_t hami_call_cuDeviceSetMemPool(int32_t dev, void *pool);
int32_t hami_call_cuEventCreate(void *phEvent, uint32_t Flags);
int32_t hami_call_cuEventDestroy_v2(void *hEvent);
int32_t hami_call_cuEventElapsedTime(void *pMilliseconds, void *hStart, void *hEnd);
int32_t hami_call_cuEventQuery(void *hEvent);
int32_t hami_call_cuEventRecord(void *hEvent, void *hStream);
int32_t hami_call_cuFuncGetModule(void **hmod, void *hfunc);
int32_t hami_call_cuGraphChildGraphNodeGetGraph(void *hNode, void **phGraph);
int32_t hami_call_cuGraphExecDestroy(void *hGraphExec);
int32_t hami_call_cuGraphGetNodes(void *hGraph, void *nodes, size_t *numNodes);
int32_t hami_call_cuGraphMemAllocNodeGetParams(void *hNode, void *params_out);
int32_t hami_call_cuGraphMemFreeNodeGetParams(void *hNode, CUdeviceptr *dptr_out);
int32_t hami_call_cuGraphNodeGetType(void *hNode, void *type);
int32_t hami_call_cuGreenCtxDestroy(void *hCtx);
int32_t hami_call_cuIpcCloseMemHandle(uint64_t dptr);
int32_t hami_call_cuKernelGetLibrary(void **pLib, void *kernel);
int32_t hami_call_cuLibraryUnload(void *library);
int32_t hami_call_cuMemAdvise(uint64_t devPtr, uint64_t count, int32_t advice, int32_t device);
int32_t hami_call_cuMemAllocManaged(CUdeviceptr *dptr, uint64_t bytesize, uint32_t flags);
int32_t hami_call_cuMemFreeAsync(uint64_t dptr, void *hStream);
int32_t hami_call_cuMemFreeAsync_ptsz(uint64_t dptr, void *hStream);
int32_t hami_call_cuMemFree_v2(uint64_t dptr);
int32_t hami_call_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, uint64_t dptr);
int32_t hami_call_cuMemGetAllocationPropertiesFromHandle(struct hami_allocation_prop *prop, uint64_t handle);
int32_t hami_call_cuMemGetInfo_v2(size_t *free, size_t *total);
int32_t hami_call_cuMemPoolDestroy(void *pool);
int32_t hami_call_cuMemPoolGetAttribute(void *pool, int32_t attr, void *value);
int32_t hami_call_cuMemPoolTrimTo(void *pool, uint64_t minBytesToKeep);
int32_t hami_call_cuMemRelease(uint64_t handle);
int32_t hami_call_cuMemUnmap(uint64_t ptr, uint64_t size);
int32_t hami_call_cuMipmappedArrayDestroy(void *hMipmappedArray);
int32_t hami_call_cuModuleUnload(void *hmod);
int32_t hami_call_cuPointerGetAttribute(void *data, int32_t attribute, uint64_t ptr);
int32_t hami_call_cuStreamGetCtx(void *hStream, void **pctx);
int32_t hami_call_cuStreamGetDevice(void *hStream, void *device);
int32_t hami_call_cuStreamIsCapturing(void *hStream, void *captureStatus);
int32_t hami_call_cuStreamQuery(void *hStream);
int32_t hami_call_cuThreadExchangeStreamCaptureMode(void *mode);
int32_t hami_call_nvmlDeviceGetComputeInstanceId(void *device, uint32_t *id);
int32_t hami_call_nvmlDeviceGetComputeRunningProcesses_v3(void *device, uint32_t *infoCount, struct nvml_process *infos);
int32_t hami_call_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *migDevice, void *device);
int32_t hami_call_nvmlDeviceGetGpuInstanceId(void *device, uint32_t *id);
int32_t hami_call_nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, void *device);
int32_t hami_call_nvmlDeviceGetHandleByUUID(const char *uuid, void *device);
int32_t hami_call_nvmlDeviceGetIndex(void *device, uint32_t *index);
int32_t hami_call_nvmlDeviceGetMemoryInfo(void *device, struct nvml_memory *memory);
int32_t hami_call_nvmlDeviceGetUUID(void *device, char *uuid, uint32_t length);
int32_t hami_call_nvmlDeviceIsMigDeviceHandle(void *device, uint32_t *isMigDevice);
int32_t hami_call_nvmlInit_v2(void);
int32_t hami_call_nvmlShutdown(void);

#endif
