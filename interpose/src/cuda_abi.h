/*
 * Types and constants of the CUDA driver API (cuda.h) and of NVML (nvml.h), as far as our code reads or writes them.
 * All other types are `void *` or integers here. Structures have the layout of NVIDIA's headers; their fields may have
 * other names.
 */
#ifndef HAMI_CUDA_ABI_H
#define HAMI_CUDA_ABI_H

#include <stddef.h>
#include <stdint.h>

typedef int32_t CUresult;
typedef int32_t CUdevice;
typedef uint64_t CUdeviceptr;
typedef uint32_t CUdeviceptr_v1;
typedef uint64_t CUmemHandle;
typedef void *CUcontext;
typedef void *CUstream;
typedef void *CUarray;
typedef void *CUmemoryPool;

enum {
    CUDA_SUCCESS = 0,
    CUDA_ERROR_INVALID_VALUE = 1,
    CUDA_ERROR_OUT_OF_MEMORY = 2,
    CUDA_ERROR_NOT_INITIALIZED = 3,
    CUDA_ERROR_DEINITIALIZED = 4,
    CUDA_ERROR_NO_DEVICE = 100,
    CUDA_ERROR_INVALID_DEVICE = 101,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
    CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
};

enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };

/* The two default streams. The stream NULL is the per-thread one in functions whose names end in _ptsz or _ptds. */
#define CU_STREAM_LEGACY ((CUstream)(uintptr_t)1)
#define CU_STREAM_PER_THREAD ((CUstream)(uintptr_t)2)

enum { CU_DEVICE_CPU = -1 };
enum { CU_MEM_ADVISE_SET_PREFERRED_LOCATION = 3, CU_MEM_ADVISE_SET_ACCESSED_BY = 5 };
enum { CU_MEM_ALLOCATION_TYPE_MANAGED = 2 };
enum { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9 };
enum { CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD = 1 };

/* Values of CUmemAllocationHandleType, and the size of CUmemFabricHandle. */
enum { CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1, CU_MEM_HANDLE_TYPE_FABRIC = 8, HAMI_FABRIC_HANDLE_BYTES = 64 };

enum { CU_GRAPH_NODE_TYPE_GRAPH = 4, CU_GRAPH_NODE_TYPE_MEM_ALLOC = 10, CU_GRAPH_NODE_TYPE_MEM_FREE = 11 };
enum { CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT = 0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT = 2 };
enum { CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH = 1, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD = 2 };

/* Values of CUprocessState. */
enum { CU_PROCESS_STATE_CHECKPOINTED = 2, CU_PROCESS_STATE_CHECKPOINTING = 4, CU_PROCESS_STATE_RESTORING = 5 };

enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 };

enum {
    CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,
    CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,
    CU_MEMPOOL_ATTR_USED_MEM_CURRENT = 7,
};

enum { CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM = 2 };

enum {
    CUDA_ARRAY3D_LAYERED = 0x01,
    CUDA_ARRAY3D_CUBEMAP = 0x04,
    CUDA_ARRAY3D_SPARSE = 0x40,
    CUDA_ARRAY3D_DEFERRED_MAPPING = 0x80
};

/* Values of CUlimit. The limits 0 to HAMI_CONTEXT_LIMITS - 1 set sizes of buffers in device memory. */
enum {
    CU_LIMIT_STACK_SIZE = 0,
    CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH = 3,
    CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT = 4,
    HAMI_CONTEXT_LIMITS = 5
};

enum {
    CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
    CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
    CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS = 89
};

/* A structure of 8 bytes that a function takes by value: CUmemLocation. */
struct hami_bytes8 {
    uint32_t words[2];
};

/* A structure of 64 bytes that a function takes by value: CUipcMemHandle or CUipcEventHandle. */
struct hami_bytes64 {
    char bytes[64];
};

struct hami_uuid {
    uint8_t bytes[16];
};

struct hami_mem_location {
    int32_t type;
    int32_t id;
};

/* CUmemAllocationProp. CUmemPoolProps begins with the first four of its fields. */
struct hami_allocation_prop {
    int32_t type;
    int32_t handle_types;
    struct hami_mem_location location;
    void *win32;
    uint8_t flags[8];
};

/* CUDA_MEM_ALLOC_NODE_PARAMS. The fields before `access` are a CUmemPoolProps. */
struct hami_alloc_node_params {
    int32_t type, handle_types;
    struct hami_mem_location location;
    uint8_t rest_of_pool[72];
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr address;
};
_Static_assert(sizeof(struct hami_alloc_node_params) == 120, "CUDA_MEM_ALLOC_NODE_PARAMS");

/* The first fields of CUcheckpointRestoreArgs: for each device its UUID before the checkpoint and after the restore. */
struct hami_restore_args {
    const struct {
        struct hami_uuid from, to;
    } *pairs;
    uint32_t count;
};

/* The layout of CUDA_ARRAY3D_DESCRIPTOR in cuda.h. */
struct hami_array3d_descriptor {
    size_t width, height, depth;
    int32_t format;
    uint32_t channels;
    uint32_t flags;
};

/* The layout of CUlaunchConfig in cuda.h. */
struct hami_launch_config {
    uint32_t grid[3], block[3], shared;
    CUstream stream;
    void *attributes;
    uint32_t attribute_count;
};

/* The layout of CUDA_LAUNCH_PARAMS in cuda.h. */
struct hami_launch_params {
    void *function;
    uint32_t grid[3], block[3], shared;
    CUstream stream;
    void **params;
};

/* Values of `kind` and `operation` in CUarrayMapInfo, which maps or unmaps memory of a part of a sparse array. */
enum { CU_ARRAY_MIPTAIL = 1, CU_MEM_OPERATION_MAP = 1 };

struct hami_array_part {
    CUarray array;
    int32_t kind;
    union {
        struct {
            uint32_t level, layer, offset[3], extent[3];
        } box;
        struct {
            uint32_t layer;
            uint64_t offset, bytes;
        } tail;
    };
};

struct hami_array_map {
    int32_t resource_type;
    struct hami_array_part part;
    int32_t operation, handle_type;
    CUmemHandle handle;
    uint64_t offset;
    uint32_t devices, flags, reserved[2];
};
_Static_assert(offsetof(struct hami_array_map, operation) == 56, "CUarrayMapInfo");
_Static_assert(sizeof(struct hami_array_map) == 96, "CUarrayMapInfo");

/* The layout of CUDA_EXTERNAL_MEMORY_HANDLE_DESC in cuda.h. */
struct hami_external_memory {
    int32_t type;
    union {
        int32_t fd;
        const void *handle[2];
    };
    uint64_t bytes;
    uint32_t flags;
    uint32_t reserved[16];
};
_Static_assert(offsetof(struct hami_external_memory, bytes) == 24, "CUDA_EXTERNAL_MEMORY_HANDLE_DESC");

typedef int32_t nvmlReturn;
typedef void *nvmlDevice;

enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
    NVML_ERROR_MEMORY = 20,
    NVML_ERROR_ARGUMENT_VERSION_MISMATCH = 25,
};

/* The value of the field `version` of an NVML structure: its size, and the version number in the highest byte. */
#define NVML_STRUCT_VERSION(type, number) ((uint32_t)(sizeof(type) | (number) << 24))

enum { NVML_PROCESS_MODE_COMPUTE = 0 };

struct nvml_memory {
    uint64_t total, free, used;
};

struct nvml_memory_v2 {
    uint32_t version;
    uint32_t pad;
    uint64_t total, reserved, free, used;
};

/* nvmlProcessInfo_t. nvmlProcessInfo_v1_t ends before gpu_instance. */
struct nvml_process {
    uint32_t pid;
    uint32_t pad;
    uint64_t used;
    uint32_t gpu_instance;
    uint32_t compute_instance;
};

/* The layout of nvmlProcessDetail_v1_t in nvml.h. */
struct nvml_process_detail {
    struct nvml_process process;
    uint64_t used_protected;
};

/* The layout of nvmlProcessDetailList_v1_t in nvml.h. */
struct nvml_process_details {
    uint32_t version;
    uint32_t mode;
    uint32_t count;
    struct nvml_process_detail *list;
};

/* The layout of nvmlProcessUtilizationSample_t in nvml.h. */
struct nvml_utilization_sample {
    uint32_t pid;
    uint64_t time;
    uint32_t sm, memory, encoder, decoder;
};

/* The layout of nvmlProcessUtilizationInfo_v1_t in nvml.h. */
struct nvml_utilization_info {
    uint64_t time;
    uint32_t pid, sm, memory, encoder, decoder, jpeg, optical_flow;
};

/* The layout of nvmlProcessesUtilizationInfo_v1_t in nvml.h. */
struct nvml_utilization_infos {
    uint32_t version;
    uint32_t count;
    uint64_t since;
    struct nvml_utilization_info *list;
};

/* The layout of nvmlAccountingStats_t in nvml.h. */
struct nvml_accounting {
    uint32_t gpu, memory;
    uint64_t most_used, time, start;
    uint32_t running, reserved[5];
};

/* nvmlAccountingStats_v2_t. It contains the pid, which nvmlDeviceGetAccountingStats takes as an argument. */
struct nvml_accounting_v2 {
    uint32_t pid, running, gpu, memory;
    uint64_t most_used;
    uint32_t samples;
    uint64_t gpu_sum, memory_sum, time, start;
};
_Static_assert(sizeof(struct nvml_process_detail) == 32, "nvmlProcessDetail_v1_t");
_Static_assert(sizeof(struct nvml_process_details) == 24, "nvmlProcessDetailList_v1_t");
_Static_assert(sizeof(struct nvml_utilization_sample) == 32, "nvmlProcessUtilizationSample_t");
_Static_assert(sizeof(struct nvml_utilization_info) == 40, "nvmlProcessUtilizationInfo_v1_t");
_Static_assert(sizeof(struct nvml_utilization_infos) == 24, "nvmlProcessesUtilizationInfo_v1_t");
_Static_assert(sizeof(struct nvml_accounting) == 56, "nvmlAccountingStats_t");
_Static_assert(sizeof(struct nvml_accounting_v2) == 64, "nvmlAccountingStats_v2_t");

#endif
