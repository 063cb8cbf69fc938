/* Made by gen/emit.py from spec/; do not edit. */
/*
 * The functions that the generated wrappers call: one for each policy of spec/. A policy gets the hook that it was
 * called through and the wrapped function's arguments. It calls the driver's function of that hook once and returns the
 * driver's answer, or it refuses with CUDA_ERROR_OUT_OF_MEMORY. hami_call_<policy> calls the
 * driver's function of a hook.
 */
#ifndef HAMI_GENERATED_POLICIES_H
#define HAMI_GENERATED_POLICIES_H

#include "doors/calls.h"
#include "doors/hook.h"

int32_t hami_array_destroy(enum hami_hook hook, void *hArray);
static inline int32_t hami_call_array_destroy(enum hami_hook hook, void *hArray) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(hArray);
}

int32_t hami_checkpoint_complete(enum hami_hook hook, void *handle);
static inline int32_t hami_call_checkpoint_complete(enum hami_hook hook, void *handle) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(handle);
}

int32_t hami_checkpoint_leave(enum hami_hook hook, int32_t pid, void *args);
static inline int32_t hami_call_checkpoint_leave(enum hami_hook hook, int32_t pid, void *args) {
    int32_t (*driver)(int32_t, void *) = hami_driver_function(hook);
    return driver(pid, args);
}

int32_t hami_checkpoint_return(enum hami_hook hook, int32_t pid, void *args);
static inline int32_t hami_call_checkpoint_return(enum hami_hook hook, int32_t pid, void *args) {
    int32_t (*driver)(int32_t, void *) = hami_driver_function(hook);
    return driver(pid, args);
}

int32_t hami_checkpoint_unlock(enum hami_hook hook, int32_t pid, void *args);
static inline int32_t hami_call_checkpoint_unlock(enum hami_hook hook, int32_t pid, void *args) {
    int32_t (*driver)(int32_t, void *) = hami_driver_function(hook);
    return driver(pid, args);
}

int32_t hami_ctx_attach(enum hami_hook hook, void **pctx, uint32_t flags);
static inline int32_t hami_call_ctx_attach(enum hami_hook hook, void **pctx, uint32_t flags) {
    int32_t (*driver)(void **, uint32_t) = hami_driver_function(hook);
    return driver(pctx, flags);
}

int32_t hami_ctx_destroy(enum hami_hook hook, void *ctx);
static inline int32_t hami_call_ctx_destroy(enum hami_hook hook, void *ctx) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(ctx);
}

int32_t hami_ctx_detach(enum hami_hook hook, void *ctx);
static inline int32_t hami_call_ctx_detach(enum hami_hook hook, void *ctx) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(ctx);
}

int32_t hami_ctx_set_limit(enum hami_hook hook, int32_t limit, uint64_t value);
static inline int32_t hami_call_ctx_set_limit(enum hami_hook hook, int32_t limit, uint64_t value) {
    int32_t (*driver)(int32_t, uint64_t) = hami_driver_function(hook);
    return driver(limit, value);
}

int32_t hami_primary_release(enum hami_hook hook, int32_t dev);
static inline int32_t hami_call_primary_release(enum hami_hook hook, int32_t dev) {
    int32_t (*driver)(int32_t) = hami_driver_function(hook);
    return driver(dev);
}

int32_t hami_total_mem(enum hami_hook hook, void *bytes, int32_t dev);
static inline int32_t hami_call_total_mem(enum hami_hook hook, void *bytes, int32_t dev) {
    int32_t (*driver)(void *, int32_t) = hami_driver_function(hook);
    return driver(bytes, dev);
}

int32_t hami_get_proc_address(enum hami_hook hook, const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags);
static inline int32_t hami_call_get_proc_address(enum hami_hook hook, const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags) {
    int32_t (*driver)(const char *, void **, int32_t, uint64_t) = hami_driver_function(hook);
    return driver(symbol, pfn, cudaVersion, flags);
}

int32_t hami_get_proc_address_v2(enum hami_hook hook, const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags, void *symbolStatus);
static inline int32_t hami_call_get_proc_address_v2(enum hami_hook hook, const char *symbol, void **pfn, int32_t cudaVersion, uint64_t flags, void *symbolStatus) {
    int32_t (*driver)(const char *, void **, int32_t, uint64_t, void *) = hami_driver_function(hook);
    return driver(symbol, pfn, cudaVersion, flags, symbolStatus);
}

int32_t hami_graph_exec_destroy(enum hami_hook hook, void *hGraphExec);
static inline int32_t hami_call_graph_exec_destroy(enum hami_hook hook, void *hGraphExec) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(hGraphExec);
}

int32_t hami_graph_instantiate_params(enum hami_hook hook, void **phGraphExec, void *hGraph, void *instantiateParams);
static inline int32_t hami_call_graph_instantiate_params(enum hami_hook hook, void **phGraphExec, void *hGraph, void *instantiateParams) {
    int32_t (*driver)(void **, void *, void *) = hami_driver_function(hook);
    return driver(phGraphExec, hGraph, instantiateParams);
}

int32_t hami_graph_start(enum hami_hook hook, void *hGraph, void *hStream);
static inline int32_t hami_call_graph_start(enum hami_hook hook, void *hGraph, void *hStream) {
    int32_t (*driver)(void *, void *) = hami_driver_function(hook);
    return driver(hGraph, hStream);
}

int32_t hami_graph_upload(enum hami_hook hook, void *hGraph, void *hStream);
static inline int32_t hami_call_graph_upload(enum hami_hook hook, void *hGraph, void *hStream) {
    int32_t (*driver)(void *, void *) = hami_driver_function(hook);
    return driver(hGraph, hStream);
}

int32_t hami_green_destroy(enum hami_hook hook, void *hCtx);
static inline int32_t hami_call_green_destroy(enum hami_hook hook, void *hCtx) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(hCtx);
}

int32_t hami_external_import(enum hami_hook hook, void **extMem_out, const struct hami_external_memory *memHandleDesc);
static inline int32_t hami_call_external_import(enum hami_hook hook, void **extMem_out, const struct hami_external_memory *memHandleDesc) {
    int32_t (*driver)(void **, const struct hami_external_memory *) = hami_driver_function(hook);
    return driver(extMem_out, memHandleDesc);
}

int32_t hami_ipc_close(enum hami_hook hook, uint64_t dptr);
static inline int32_t hami_call_ipc_close(enum hami_hook hook, uint64_t dptr) {
    int32_t (*driver)(uint64_t) = hami_driver_function(hook);
    return driver(dptr);
}

int32_t hami_ipc_get(enum hami_hook hook, void *pHandle, uint64_t dptr);
static inline int32_t hami_call_ipc_get(enum hami_hook hook, void *pHandle, uint64_t dptr) {
    int32_t (*driver)(void *, uint64_t) = hami_driver_function(hook);
    return driver(pHandle, dptr);
}

int32_t hami_ipc_open(enum hami_hook hook, CUdeviceptr *pdptr, struct hami_bytes64 handle, uint32_t Flags);
static inline int32_t hami_call_ipc_open(enum hami_hook hook, CUdeviceptr *pdptr, struct hami_bytes64 handle, uint32_t Flags) {
    int32_t (*driver)(CUdeviceptr *, struct hami_bytes64, uint32_t) = hami_driver_function(hook);
    return driver(pdptr, handle, Flags);
}

int32_t hami_launch_multi_device(enum hami_hook hook, struct hami_launch_params *launchParamsList, uint32_t numDevices, uint32_t flags);
static inline int32_t hami_call_launch_multi_device(enum hami_hook hook, struct hami_launch_params *launchParamsList, uint32_t numDevices, uint32_t flags) {
    int32_t (*driver)(struct hami_launch_params *, uint32_t, uint32_t) = hami_driver_function(hook);
    return driver(launchParamsList, numDevices, flags);
}

int32_t hami_launch_kernel(enum hami_hook hook, void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams, void **extra);
static inline int32_t hami_call_launch_kernel(enum hami_hook hook, void *f, uint32_t gridDimX, uint32_t gridDimY, uint32_t gridDimZ, uint32_t blockDimX, uint32_t blockDimY, uint32_t blockDimZ, uint32_t sharedMemBytes, void *hStream, void **kernelParams, void **extra) {
    int32_t (*driver)(void *, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, void *, void **, void **) = hami_driver_function(hook);
    return driver(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes, hStream, kernelParams, extra);
}

int32_t hami_module_unload(enum hami_hook hook, void *library);
static inline int32_t hami_call_module_unload(enum hami_hook hook, void *library) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(library);
}

int32_t hami_mem_alloc_async(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize, void *hStream);
static inline int32_t hami_call_mem_alloc_async(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize, void *hStream) {
    int32_t (*driver)(CUdeviceptr *, uint64_t, void *) = hami_driver_function(hook);
    return driver(dptr, bytesize, hStream);
}

int32_t hami_mem_alloc_from_pool(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize, void *pool, void *hStream);
static inline int32_t hami_call_mem_alloc_from_pool(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize, void *pool, void *hStream) {
    int32_t (*driver)(CUdeviceptr *, uint64_t, void *, void *) = hami_driver_function(hook);
    return driver(dptr, bytesize, pool, hStream);
}

int32_t hami_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize, uint32_t flags);
static inline int32_t hami_call_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize, uint32_t flags) {
    int32_t (*driver)(CUdeviceptr *, uint64_t, uint32_t) = hami_driver_function(hook);
    return driver(dptr, bytesize, flags);
}

int32_t hami_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *dptr, size_t *pPitch, uint64_t WidthInBytes, uint64_t Height, uint32_t ElementSizeBytes);
static inline int32_t hami_call_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *dptr, size_t *pPitch, uint64_t WidthInBytes, uint64_t Height, uint32_t ElementSizeBytes) {
    int32_t (*driver)(CUdeviceptr *, size_t *, uint64_t, uint64_t, uint32_t) = hami_driver_function(hook);
    return driver(dptr, pPitch, WidthInBytes, Height, ElementSizeBytes);
}

int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize);
static inline int32_t hami_call_mem_alloc(enum hami_hook hook, CUdeviceptr *dptr, uint64_t bytesize) {
    int32_t (*driver)(CUdeviceptr *, uint64_t) = hami_driver_function(hook);
    return driver(dptr, bytesize);
}

int32_t hami_mem_create(enum hami_hook hook, CUmemHandle *handle, uint64_t size, const struct hami_allocation_prop *prop, uint64_t flags);
static inline int32_t hami_call_mem_create(enum hami_hook hook, CUmemHandle *handle, uint64_t size, const struct hami_allocation_prop *prop, uint64_t flags) {
    int32_t (*driver)(CUmemHandle *, uint64_t, const struct hami_allocation_prop *, uint64_t) = hami_driver_function(hook);
    return driver(handle, size, prop, flags);
}

int32_t hami_mem_export(enum hami_hook hook, void *shareableHandle, uint64_t handle, int32_t handleType, uint64_t flags);
static inline int32_t hami_call_mem_export(enum hami_hook hook, void *shareableHandle, uint64_t handle, int32_t handleType, uint64_t flags) {
    int32_t (*driver)(void *, uint64_t, int32_t, uint64_t) = hami_driver_function(hook);
    return driver(shareableHandle, handle, handleType, flags);
}

int32_t hami_mem_free_async(enum hami_hook hook, uint64_t dptr, void *hStream);
static inline int32_t hami_call_mem_free_async(enum hami_hook hook, uint64_t dptr, void *hStream) {
    int32_t (*driver)(uint64_t, void *) = hami_driver_function(hook);
    return driver(dptr, hStream);
}

int32_t hami_mem_free(enum hami_hook hook, uint64_t dptr);
static inline int32_t hami_call_mem_free(enum hami_hook hook, uint64_t dptr) {
    int32_t (*driver)(uint64_t) = hami_driver_function(hook);
    return driver(dptr);
}

int32_t hami_pool_get(enum hami_hook hook, void **pool_out, const struct hami_mem_location *location, int32_t type);
static inline int32_t hami_call_pool_get(enum hami_hook hook, void **pool_out, const struct hami_mem_location *location, int32_t type) {
    int32_t (*driver)(void **, const struct hami_mem_location *, int32_t) = hami_driver_function(hook);
    return driver(pool_out, location, type);
}

int32_t hami_mem_get_info(enum hami_hook hook, void *free, void *total);
static inline int32_t hami_call_mem_get_info(enum hami_hook hook, void *free, void *total) {
    int32_t (*driver)(void *, void *) = hami_driver_function(hook);
    return driver(free, total);
}

int32_t hami_mem_import(enum hami_hook hook, CUmemHandle *handle, void *osHandle, int32_t shHandleType);
static inline int32_t hami_call_mem_import(enum hami_hook hook, CUmemHandle *handle, void *osHandle, int32_t shHandleType) {
    int32_t (*driver)(CUmemHandle *, void *, int32_t) = hami_driver_function(hook);
    return driver(handle, osHandle, shHandleType);
}

int32_t hami_mem_map(enum hami_hook hook, uint64_t ptr, uint64_t size, uint64_t offset, uint64_t handle, uint64_t flags);
static inline int32_t hami_call_mem_map(enum hami_hook hook, uint64_t ptr, uint64_t size, uint64_t offset, uint64_t handle, uint64_t flags) {
    int32_t (*driver)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t) = hami_driver_function(hook);
    return driver(ptr, size, offset, handle, flags);
}

int32_t hami_array_map(enum hami_hook hook, struct hami_array_map *mapInfoList, uint32_t count, void *hStream);
static inline int32_t hami_call_array_map(enum hami_hook hook, struct hami_array_map *mapInfoList, uint32_t count, void *hStream) {
    int32_t (*driver)(struct hami_array_map *, uint32_t, void *) = hami_driver_function(hook);
    return driver(mapInfoList, count, hStream);
}

int32_t hami_pool_create(enum hami_hook hook, void **pool, const struct hami_allocation_prop *poolProps);
static inline int32_t hami_call_pool_create(enum hami_hook hook, void **pool, const struct hami_allocation_prop *poolProps) {
    int32_t (*driver)(void **, const struct hami_allocation_prop *) = hami_driver_function(hook);
    return driver(pool, poolProps);
}

int32_t hami_pool_destroy(enum hami_hook hook, void *pool);
static inline int32_t hami_call_pool_destroy(enum hami_hook hook, void *pool) {
    int32_t (*driver)(void *) = hami_driver_function(hook);
    return driver(pool);
}

int32_t hami_pool_export(enum hami_hook hook, void *handle_out, void *pool, int32_t handleType, uint64_t flags);
static inline int32_t hami_call_pool_export(enum hami_hook hook, void *handle_out, void *pool, int32_t handleType, uint64_t flags) {
    int32_t (*driver)(void *, void *, int32_t, uint64_t) = hami_driver_function(hook);
    return driver(handle_out, pool, handleType, flags);
}

int32_t hami_pool_import(enum hami_hook hook, void **pool_out, void *handle, int32_t handleType, uint64_t flags);
static inline int32_t hami_call_pool_import(enum hami_hook hook, void **pool_out, void *handle, int32_t handleType, uint64_t flags) {
    int32_t (*driver)(void **, void *, int32_t, uint64_t) = hami_driver_function(hook);
    return driver(pool_out, handle, handleType, flags);
}

int32_t hami_pool_import_pointer(enum hami_hook hook, CUdeviceptr *ptr_out, void *pool, const void *shareData);
static inline int32_t hami_call_pool_import_pointer(enum hami_hook hook, CUdeviceptr *ptr_out, void *pool, const void *shareData) {
    int32_t (*driver)(CUdeviceptr *, void *, const void *) = hami_driver_function(hook);
    return driver(ptr_out, pool, shareData);
}

int32_t hami_pool_trim(enum hami_hook hook, void *pool, uint64_t minBytesToKeep);
static inline int32_t hami_call_pool_trim(enum hami_hook hook, void *pool, uint64_t minBytesToKeep) {
    int32_t (*driver)(void *, uint64_t) = hami_driver_function(hook);
    return driver(pool, minBytesToKeep);
}

int32_t hami_mem_release(enum hami_hook hook, uint64_t handle);
static inline int32_t hami_call_mem_release(enum hami_hook hook, uint64_t handle) {
    int32_t (*driver)(uint64_t) = hami_driver_function(hook);
    return driver(handle);
}

int32_t hami_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *addr);
static inline int32_t hami_call_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *addr) {
    int32_t (*driver)(CUmemHandle *, void *) = hami_driver_function(hook);
    return driver(handle, addr);
}

int32_t hami_mem_unmap(enum hami_hook hook, uint64_t ptr, uint64_t size);
static inline int32_t hami_call_mem_unmap(enum hami_hook hook, uint64_t ptr, uint64_t size) {
    int32_t (*driver)(uint64_t, uint64_t) = hami_driver_function(hook);
    return driver(ptr, size);
}

int32_t hami_multicast_create(enum hami_hook hook, CUmemHandle *mcHandle, const void *prop);
static inline int32_t hami_call_multicast_create(enum hami_hook hook, CUmemHandle *mcHandle, const void *prop) {
    int32_t (*driver)(CUmemHandle *, const void *) = hami_driver_function(hook);
    return driver(mcHandle, prop);
}

int32_t hami_multicast_unbind(enum hami_hook hook, uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t size);
static inline int32_t hami_call_multicast_unbind(enum hami_hook hook, uint64_t mcHandle, int32_t dev, uint64_t mcOffset, uint64_t size) {
    int32_t (*driver)(uint64_t, int32_t, uint64_t, uint64_t) = hami_driver_function(hook);
    return driver(mcHandle, dev, mcOffset, size);
}

int32_t hami_nvml_accounting_pids(enum hami_hook hook, void *device, uint32_t *count, uint32_t *pids);
static inline int32_t hami_call_nvml_accounting_pids(enum hami_hook hook, void *device, uint32_t *count, uint32_t *pids) {
    int32_t (*driver)(void *, uint32_t *, uint32_t *) = hami_driver_function(hook);
    return driver(device, count, pids);
}

int32_t hami_nvml_accounting(enum hami_hook hook, void *device, uint32_t pid, struct nvml_accounting *stats);
static inline int32_t hami_call_nvml_accounting(enum hami_hook hook, void *device, uint32_t pid, struct nvml_accounting *stats) {
    int32_t (*driver)(void *, uint32_t, struct nvml_accounting *) = hami_driver_function(hook);
    return driver(device, pid, stats);
}

int32_t hami_nvml_accounting_v2(enum hami_hook hook, void *device, struct nvml_accounting_v2 *stats);
static inline int32_t hami_call_nvml_accounting_v2(enum hami_hook hook, void *device, struct nvml_accounting_v2 *stats) {
    int32_t (*driver)(void *, struct nvml_accounting_v2 *) = hami_driver_function(hook);
    return driver(device, stats);
}

int32_t hami_nvml_processes(enum hami_hook hook, void *device, uint32_t *infoCount, void *infos);
static inline int32_t hami_call_nvml_processes(enum hami_hook hook, void *device, uint32_t *infoCount, void *infos) {
    int32_t (*driver)(void *, uint32_t *, void *) = hami_driver_function(hook);
    return driver(device, infoCount, infos);
}

int32_t hami_nvml_memory_info(enum hami_hook hook, void *device, struct nvml_memory *memory);
static inline int32_t hami_call_nvml_memory_info(enum hami_hook hook, void *device, struct nvml_memory *memory) {
    int32_t (*driver)(void *, struct nvml_memory *) = hami_driver_function(hook);
    return driver(device, memory);
}

int32_t hami_nvml_memory_info_v2(enum hami_hook hook, void *device, struct nvml_memory_v2 *memory);
static inline int32_t hami_call_nvml_memory_info_v2(enum hami_hook hook, void *device, struct nvml_memory_v2 *memory) {
    int32_t (*driver)(void *, struct nvml_memory_v2 *) = hami_driver_function(hook);
    return driver(device, memory);
}

int32_t hami_nvml_utilization(enum hami_hook hook, void *device, struct nvml_utilization_sample *utilization, uint32_t *processSamplesCount, uint64_t lastSeenTimeStamp);
static inline int32_t hami_call_nvml_utilization(enum hami_hook hook, void *device, struct nvml_utilization_sample *utilization, uint32_t *processSamplesCount, uint64_t lastSeenTimeStamp) {
    int32_t (*driver)(void *, struct nvml_utilization_sample *, uint32_t *, uint64_t) = hami_driver_function(hook);
    return driver(device, utilization, processSamplesCount, lastSeenTimeStamp);
}

int32_t hami_nvml_utilization_infos(enum hami_hook hook, void *device, struct nvml_utilization_infos *procesesUtilInfo);
static inline int32_t hami_call_nvml_utilization_infos(enum hami_hook hook, void *device, struct nvml_utilization_infos *procesesUtilInfo) {
    int32_t (*driver)(void *, struct nvml_utilization_infos *) = hami_driver_function(hook);
    return driver(device, procesesUtilInfo);
}

int32_t hami_nvml_process_details(enum hami_hook hook, void *device, struct nvml_process_details *plist);
static inline int32_t hami_call_nvml_process_details(enum hami_hook hook, void *device, struct nvml_process_details *plist) {
    int32_t (*driver)(void *, struct nvml_process_details *) = hami_driver_function(hook);
    return driver(device, plist);
}

int32_t hami_nvml_process_name(enum hami_hook hook, uint32_t pid, char *name, uint32_t length);
static inline int32_t hami_call_nvml_process_name(enum hami_hook hook, uint32_t pid, char *name, uint32_t length) {
    int32_t (*driver)(uint32_t, char *, uint32_t) = hami_driver_function(hook);
    return driver(pid, name, length);
}

#endif
