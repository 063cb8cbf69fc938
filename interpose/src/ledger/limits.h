/*
 * The limits of this container: what its processes may take of each device. They come from the file "limits" of the
 * mounted folder or, only where no folder is mounted, from HAMi's environment variables. A folder without a valid file
 * denies everything: the limits then name the reason. Called by state.c, and read by every room above.
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
    char uuid[HAMI_UUID_BYTES]; /* as NVML prints it; empty when limits come from the environment */
    uint64_t memory_bytes;      /* 0 = no limit */
    uint64_t physical_bytes;    /* memory / scaling, as the agent wrote it */
    uint64_t device_bytes;      /* the part on the device: physical_bytes if memory is scaled, else all */
    uint64_t host_bytes;        /* the rest, in host memory */
    uint32_t cores;             /* percent; 0 or 100 = no limit */
};

/* Whether this is a MIG device, a part of a card. */
static inline bool hami_limits_mig(const struct hami_device_limit *device) {
    return strncasecmp(device->uuid, "MIG-", 4) == 0;
}

struct hami_limits {
    uint64_t generation;
    enum hami_mode mode;
    enum hami_core_policy core_policy;
    uint32_t priority;
    uint32_t device_count;
    enum hami_reason denied; /* not NONE: every allocation is denied */
    bool from_environment;   /* devices are numbered as NVML does, and have no UUID */
    struct hami_device_limit devices[HAMI_DEVICES];
};

/* Where the limits of this process come from. */
struct hami_limits_source {
    bool file;              /* false: environment */
    char limits_path[4096]; /* empty when not from a file */
    char region_path[4096]; /* empty: memory of this process alone */
};

/* Finds the source: the mounted folder, else the folder HAMI_VGPU_ROOT, else the environment. */
void hami_limits_locate(struct hami_limits_source *source);

/* Reads the limits. On any fault `limits` denies and names the reason. */
void hami_limits_load(const struct hami_limits_source *source, struct hami_limits *limits);

/* Index of the device with this UUID, or -1. CUDA and NVML differ in the first letters, "GPU-" or "MIG-". */
int hami_limits_index(const struct hami_limits *limits, const char *uuid);

#endif
