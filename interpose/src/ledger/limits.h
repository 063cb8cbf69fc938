/*
 * The limits of this container: how much its processes may take of each device. They come from the file "limits" in the
 * folder that the agent mounts. Without such a folder they come from HAMi's environment variables. If the folder has no
 * valid file, the limits deny every allocation and name the reason. state.c reads the limits; memory/, compute/ and
 * nvml/ use them.
 */
#ifndef HAMI_LIMITS_H
#define HAMI_LIMITS_H

#include "abi.h"

#include <stdbool.h>
#include <strings.h>

enum hami_mode { HAMI_MODE_OFF, HAMI_MODE_OBSERVE, HAMI_MODE_ENFORCE };
enum hami_core_policy { HAMI_CORE_DEFAULT, HAMI_CORE_FORCE, HAMI_CORE_DISABLE };

enum { HAMI_LIMITS_FILE_MAX = 65536 };

struct hami_device_limit {
    char uuid[HAMI_UUID_BYTES]; /* as NVML prints it; empty if the limits come from the environment */
    uint64_t memory_bytes;      /* limit of device and host memory together; 0: no limit */
    uint64_t physical_bytes;    /* from the limits file: memory_bytes divided by the administrator's memory scaling */
    uint64_t device_bytes;      /* limit of device memory: physical_bytes if memory is scaled, else memory_bytes */
    uint64_t host_bytes;        /* limit of host memory in place of device memory: memory_bytes - device_bytes */
    uint32_t cores;             /* limit of compute time in percent; 0 or 100: no limit */
};

/* Whether the device is a MIG device, which is a part of a card. */
static inline bool hami_limits_mig(const struct hami_device_limit *device) {
    return strncasecmp(device->uuid, "MIG-", 4) == 0;
}

struct hami_limits {
    uint64_t generation;
    enum hami_mode mode;
    enum hami_core_policy core_policy;
    uint32_t priority;
    uint32_t device_count;
    enum hami_reason denied; /* HAMI_REASON_NONE, or why every allocation is refused */
    bool from_environment;   /* the devices have no UUIDs; NVML's index is the index here */
    struct hami_device_limit devices[HAMI_DEVICES];
};

/* Where the limits and the region of this process are. */
struct hami_limits_source {
    bool file;              /* true: a limits file; false: environment variables */
    char limits_path[4096]; /* path of the limits file; empty if there is none */
    char region_path[4096]; /* path of the region's file; empty: the region is private memory of this process */
};

/* Finds the source: the folder that the agent mounts, else the folder in $HAMI_VGPU_ROOT, else the environment. */
void hami_limits_locate(struct hami_limits_source *source);

/* Reads the limits. If that fails, `limits` denies every allocation and names the reason. */
void hami_limits_load(const struct hami_limits_source *source, struct hami_limits *limits);

/* Index of the device with this UUID, or -1. Ignores the prefix: CUDA writes "GPU-" where NVML writes "MIG-". */
int hami_limits_index(const struct hami_limits *limits, const char *uuid);

#endif
