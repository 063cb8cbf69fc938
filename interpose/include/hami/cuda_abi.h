/*
 * The few types and constants of the CUDA driver API and NVML that the policies touch, written from their
 * documentation. Everything else stays an opaque pointer or integer.
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
    CUDA_ERROR_ILLEGAL_STATE = 401,
    CUDA_ERROR_NOT_READY = 600,
    CUDA_ERROR_NOT_SUPPORTED = 801,
};

enum { CU_MEM_LOCATION_TYPE_DEVICE = 1 };

enum { CU_MEM_ATTACH_GLOBAL = 1, CU_MEM_ATTACH_HOST = 2 };

enum {
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

struct hami_uuid {
    uint8_t bytes[16];
};

struct hami_mem_location {
    int32_t type;
    int32_t id;
};

struct hami_allocation_prop {
    int32_t type;
    int32_t handle_types;
    struct hami_mem_location location;
    void *win32;
    uint8_t flags[8];
};

struct hami_array_descriptor {
    size_t width, height;
    int32_t format;
    uint32_t channels;
};

struct hami_array3d_descriptor {
    size_t width, height, depth;
    int32_t format;
    uint32_t channels;
    uint32_t flags;
};

/* CUlaunchConfig */
struct hami_launch_config {
    uint32_t grid[3], block[3], shared;
    CUstream stream;
    void *attributes;
    uint32_t attribute_count;
};

/* CUDA_LAUNCH_PARAMS */
struct hami_launch_params {
    void *function;
    uint32_t grid[3], block[3], shared;
    CUstream stream;
    void **params;
};

struct hami_array_descriptor_v1 {
    uint32_t width, height;
    int32_t format;
    uint32_t channels;
};

struct hami_array3d_descriptor_v1 {
    uint32_t width, height, depth;
    int32_t format;
    uint32_t channels;
    uint32_t flags;
};

/* CUarrayMapInfo: memory into, or out of, a part of a sparse array. */
enum { CU_ARRAY_SPARSE_LEVEL = 0, CU_ARRAY_MIPTAIL = 1, CU_MEM_OPERATION_MAP = 1 };

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

/* CUDA_EXTERNAL_MEMORY_HANDLE_DESC */
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
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_FUNCTION_NOT_FOUND = 13,
};

struct nvml_memory {
    uint64_t total, free, used;
};

struct nvml_memory_v2 {
    uint32_t version;
    uint32_t pad;
    uint64_t total, reserved, free, used;
};

struct nvml_process_v1 {
    uint32_t pid;
    uint32_t pad;
    uint64_t used;
};

struct nvml_process {
    uint32_t pid;
    uint32_t pad;
    uint64_t used;
    uint32_t gpu_instance;
    uint32_t compute_instance;
};

#endif
