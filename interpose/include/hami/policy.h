/*
 * What the generated wrappers call: one function per policy of spec/, with the hook it was called through first and
 * then the wrapped function's own arguments. Each calls the driver's function of that hook exactly once (free on
 * the way back from a refused allocation aside) and returns what it returns, or CUDA_ERROR_OUT_OF_MEMORY.
 */
#ifndef HAMI_POLICY_H
#define HAMI_POLICY_H

#include "hami/cuda_abi.h"
#include "hami/hook.h"
#include "hami/kinds.h"

/* entry.c */
int32_t hami_get_proc_address(enum hami_hook hook, const char *symbol, void **function, int32_t version,
                              uint64_t flags);
int32_t hami_get_proc_address_v2(enum hami_hook hook, const char *symbol, void **function, int32_t version,
                                 uint64_t flags, void *query);

/* context.c */
int32_t hami_primary_retain(enum hami_hook hook, CUcontext *context, int32_t device);
int32_t hami_primary_release(enum hami_hook hook, int32_t device);
int32_t hami_primary_reset(enum hami_hook hook, int32_t device);
int32_t hami_ctx_create(enum hami_hook hook, CUcontext *context, uint32_t flags, int32_t device);
int32_t hami_ctx_create_v3(enum hami_hook hook, CUcontext *context, void *affinity, int32_t count, uint32_t flags,
                           int32_t device);
int32_t hami_ctx_create_v4(enum hami_hook hook, CUcontext *context, void *params, uint32_t flags, int32_t device);
int32_t hami_ctx_create_vdpau(enum hami_hook hook, CUcontext *context, uint32_t flags, int32_t device,
                              uint32_t vdpau_device, void *get_proc_address);
int32_t hami_ctx_attach(enum hami_hook hook, CUcontext *context, uint32_t flags);
int32_t hami_ctx_detach(enum hami_hook hook, CUcontext context);
int32_t hami_green_create(enum hami_hook hook, void **green, void *resources, int32_t device, uint32_t flags);
int32_t hami_green_destroy(enum hami_hook hook, void *green);
int32_t hami_ctx_destroy(enum hami_hook hook, CUcontext context);

/* checkpoint.c */
int32_t hami_checkpoint_leave(enum hami_hook hook, int32_t pid, void *args);
int32_t hami_checkpoint_return(enum hami_hook hook, int32_t pid, void *args);
int32_t hami_checkpoint_unlock(enum hami_hook hook, int32_t pid, void *args);
int32_t hami_checkpoint_complete(enum hami_hook hook, void *handle);

/* context_limits.c */
int32_t hami_ctx_set_limit(enum hami_hook hook, int32_t limit, uint64_t value);

/* memory.c */
int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes);
int32_t hami_mem_alloc_v1(enum hami_hook hook, CUdeviceptr_v1 *address, uint32_t bytes);
int32_t hami_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *address, size_t *pitch, uint64_t width, uint64_t height,
                             uint32_t element);
int32_t hami_mem_alloc_pitch_v1(enum hami_hook hook, CUdeviceptr_v1 *address, uint32_t *pitch, uint32_t width,
                                uint32_t height, uint32_t element);
int32_t hami_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, uint32_t flags);
int32_t hami_mem_free(enum hami_hook hook, CUdeviceptr address);
int32_t hami_mem_free_v1(enum hami_hook hook, CUdeviceptr_v1 address);
int32_t hami_array_create(enum hami_hook hook, CUarray *array, const void *wanted);
int32_t hami_external_import(enum hami_hook hook, void **memory, const struct hami_external_memory *wanted);
int32_t hami_mipmapped_create(enum hami_hook hook, CUarray *array, const struct hami_array3d_descriptor *wanted,
                              uint32_t levels);
int32_t hami_array_destroy(enum hami_hook hook, CUarray array);

/* pool.c */
int32_t hami_mem_alloc_async(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, CUstream stream);
int32_t hami_mem_alloc_from_pool(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, CUmemoryPool pool,
                                 CUstream stream);
int32_t hami_mem_free_async(enum hami_hook hook, CUdeviceptr address, CUstream stream);
int32_t hami_pool_create(enum hami_hook hook, CUmemoryPool *pool, const struct hami_pool_props *props);
int32_t hami_pool_get(enum hami_hook hook, CUmemoryPool *pool, const struct hami_mem_location *location, int32_t type);
int32_t hami_pool_trim(enum hami_hook hook, CUmemoryPool pool, uint64_t keep);
int32_t hami_pool_export(enum hami_hook hook, void *shareable, CUmemoryPool pool, int32_t type, uint64_t flags);
int32_t hami_pool_import(enum hami_hook hook, CUmemoryPool *pool, void *shareable, int32_t type, uint64_t flags);
int32_t hami_pool_import_pointer(enum hami_hook hook, CUdeviceptr *address, CUmemoryPool pool, const void *data);
int32_t hami_pool_destroy(enum hami_hook hook, CUmemoryPool pool);

/* vmm.c */
int32_t hami_mem_create(enum hami_hook hook, CUmemHandle *handle, uint64_t bytes,
                        const struct hami_allocation_prop *prop, uint64_t flags);
int32_t hami_mem_release(enum hami_hook hook, CUmemHandle handle);
int32_t hami_mem_map(enum hami_hook hook, CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle,
                     uint64_t flags);
int32_t hami_mem_unmap(enum hami_hook hook, CUdeviceptr address, uint64_t bytes);
int32_t hami_array_map(enum hami_hook hook, struct hami_array_map *list, uint32_t count, CUstream stream);
int32_t hami_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *address);
int32_t hami_mem_export(enum hami_hook hook, void *shareable, CUmemHandle handle, int32_t type, uint64_t flags);
int32_t hami_mem_import(enum hami_hook hook, CUmemHandle *handle, void *shareable, int32_t type);
int32_t hami_multicast_create(enum hami_hook hook, CUmemHandle *handle, const void *prop);
int32_t hami_multicast_bind(enum hami_hook hook, CUmemHandle handle, uint64_t offset, CUmemHandle memory,
                            uint64_t memory_offset, uint64_t bytes, uint64_t flags);
int32_t hami_multicast_bind_v2(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                               CUmemHandle memory, uint64_t memory_offset, uint64_t bytes, uint64_t flags);
int32_t hami_multicast_bind_address(enum hami_hook hook, CUmemHandle handle, uint64_t offset, CUdeviceptr address,
                                    uint64_t bytes, uint64_t flags);
int32_t hami_multicast_bind_address_v2(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                                       CUdeviceptr address, uint64_t bytes, uint64_t flags);
int32_t hami_multicast_unbind(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset, uint64_t bytes);

/* ipc.c */
int32_t hami_ipc_get(enum hami_hook hook, void *handle, CUdeviceptr address);
int32_t hami_ipc_open(enum hami_hook hook, CUdeviceptr *address, struct hami_bytes64 handle, uint32_t flags);
int32_t hami_ipc_close(enum hami_hook hook, CUdeviceptr address);

/* graph.c */
int32_t hami_graph_instantiate(enum hami_hook hook, void **exec, void *graph, void *error_node, char *log,
                               uint64_t bytes);
int32_t hami_graph_instantiate_flags(enum hami_hook hook, void **exec, void *graph, uint64_t flags);
int32_t hami_graph_instantiate_params(enum hami_hook hook, void **exec, void *graph, void *params);
int32_t hami_graph_exec_destroy(enum hami_hook hook, void *exec);
int32_t hami_graph_upload(enum hami_hook hook, void *exec, CUstream stream);
int32_t hami_graph_trim(enum hami_hook hook, int32_t device);

/* module.c */
int32_t hami_module_load(enum hami_hook hook, void **module, const void *image);
int32_t hami_module_load_ex(enum hami_hook hook, void **module, const void *image, uint32_t count, void *options,
                            void *values);
int32_t hami_library_load(enum hami_hook hook, void **library, const void *code, void *options, void *values,
                          uint32_t count, void *library_options, void *library_values, uint32_t library_count);
int32_t hami_module_unload(enum hami_hook hook, void *module);
int32_t hami_library_module(enum hami_hook hook, void **module, void *library);
int32_t hami_kernel_function(enum hami_hook hook, void **function, void *kernel);
int32_t hami_function_load(enum hami_hook hook, void *function);

/* query.c */
int32_t hami_mem_get_info(enum hami_hook hook, size_t *free_bytes, size_t *total);
int32_t hami_mem_get_info_v1(enum hami_hook hook, uint32_t *free_bytes, uint32_t *total);
int32_t hami_total_mem(enum hami_hook hook, size_t *bytes, int32_t device);
int32_t hami_total_mem_v1(enum hami_hook hook, uint32_t *bytes, int32_t device);
int32_t hami_nvml_memory_info(enum hami_hook hook, nvmlDevice device, struct nvml_memory *memory);
int32_t hami_nvml_memory_info_v2(enum hami_hook hook, nvmlDevice device, struct nvml_memory_v2 *memory);

/* processes.c */
int32_t hami_nvml_processes_v1(enum hami_hook hook, nvmlDevice device, uint32_t *count, struct nvml_process_v1 *infos);
int32_t hami_nvml_processes(enum hami_hook hook, nvmlDevice device, uint32_t *count, struct nvml_process *infos);
int32_t hami_nvml_process_details(enum hami_hook hook, nvmlDevice device, struct nvml_process_details *details);
int32_t hami_nvml_utilization(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_sample *samples,
                              uint32_t *count, uint64_t since);
int32_t hami_nvml_utilization_infos(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_infos *infos);
int32_t hami_nvml_accounting_pids(enum hami_hook hook, nvmlDevice device, uint32_t *count, uint32_t *pids);
int32_t hami_nvml_accounting(enum hami_hook hook, nvmlDevice device, uint32_t pid, struct nvml_accounting *stats);
int32_t hami_nvml_accounting_v2(enum hami_hook hook, nvmlDevice device, struct nvml_accounting_v2 *stats);
int32_t hami_nvml_process_name(enum hami_hook hook, uint32_t pid, char *name, uint32_t length);

/* compute/launch.c */
int32_t hami_launch_kernel(enum hami_hook hook, void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
                           uint32_t by, uint32_t bz, uint32_t shared, CUstream stream, void **params, void **extra);
int32_t hami_launch_kernel_ex(enum hami_hook hook, const struct hami_launch_config *config, void *function,
                              void **params, void **extra);
int32_t hami_launch_cooperative(enum hami_hook hook, void *function, uint32_t gx, uint32_t gy, uint32_t gz, uint32_t bx,
                                uint32_t by, uint32_t bz, uint32_t shared, CUstream stream, void **params);
int32_t hami_launch_multi_device(enum hami_hook hook, struct hami_launch_params *list, uint32_t count, uint32_t flags);
int32_t hami_launch_legacy(enum hami_hook hook, void *function);
int32_t hami_launch_grid(enum hami_hook hook, void *function, int32_t width, int32_t height);
int32_t hami_launch_grid_async(enum hami_hook hook, void *function, int32_t width, int32_t height, CUstream stream);
int32_t hami_graph_start(enum hami_hook hook, void *graph, CUstream stream);
int32_t hami_stream_sync(enum hami_hook hook, CUstream stream);
int32_t hami_ctx_sync(enum hami_hook hook);
int32_t hami_ctx_sync_v2(enum hami_hook hook, CUcontext context);
int32_t hami_event_sync(enum hami_hook hook, void *event);
int32_t hami_stream_destroy(enum hami_hook hook, CUstream stream);
int32_t hami_capture_begin_v1(enum hami_hook hook, CUstream stream);
int32_t hami_capture_begin(enum hami_hook hook, CUstream stream, int32_t mode);
int32_t hami_capture_begin_graph(enum hami_hook hook, CUstream stream, void *graph, const void *dependencies,
                                 const void *data, uint64_t count, int32_t mode);
int32_t hami_capture_begin_cig(enum hami_hook hook, CUstream stream, void *params);
int32_t hami_capture_end(enum hami_hook hook, CUstream stream, void **graph);
int32_t hami_capture_end_cig(enum hami_hook hook, CUstream stream);

#endif
