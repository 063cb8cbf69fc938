/*
 * The driver's memory limits of cgroups, since driver 615. HAMI_SIM_MEMORY_LIMITS says which backend the driver has:
 * "dmem" is the kernel's, and wants a file dmem.max in the cgroup's folder; "misc" is the driver's own. Without the
 * variable the driver has none, as before 615.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvml_impl.h"
#include "nvml_library.h"

/* The cgroup behind a path, and the card; 0 with *error set if the driver can't limit it. */
static uint64_t limitable(nvmlDevice_t device, const char *path, nvmlReturn_t *error) {
    char file[4096];
    struct stat status;
    const char *backend = getenv("HAMI_SIM_MEMORY_LIMITS");
    const struct sim_device *model = sim_nvml_card(device, error);
    if (model == NULL) {
        return 0;
    }
    bool dmem = backend != NULL && strcmp(backend, "dmem") == 0;
    if ((!dmem && (backend == NULL || strcmp(backend, "misc") != 0)) || atomic_load(&model->mig_mode) != 0) {
        *error = NVML_ERROR_NOT_SUPPORTED;
        return 0;
    }
    if (path == NULL || path[0] != '/') {
        *error = NVML_ERROR_INVALID_ARGUMENT;
        return 0;
    }
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode) ||
        (dmem && (snprintf(file, sizeof file, "%s/dmem.max", path) >= (int)sizeof file || access(file, F_OK) != 0))) {
        *error = NVML_ERROR_NOT_FOUND;
        return 0;
    }
    return (uint64_t)status.st_ino;
}

nvmlReturn_t sim_nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits) {
    nvmlReturn_t error = NVML_SUCCESS;
    uint64_t cgroup = limitable(device, limits == NULL ? NULL : limits->nameSpace, &error);
    if (cgroup == 0) {
        return error;
    }
    if (geteuid() != 0) {
        return NVML_ERROR_NO_PERMISSION;
    }
    if (limits->softLimit > limits->hardLimit) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    struct sim_limit *limit = sim_limit_for((unsigned)sim_nvml_device_of(device), cgroup);
    if (limit == NULL) {
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    atomic_store(&limit->soft, limits->softLimit);
    atomic_store(&limit->hard, limits->hardLimit);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits) {
    nvmlReturn_t error = NVML_SUCCESS;
    uint64_t cgroup = limitable(device, limits == NULL ? NULL : limits->nameSpace, &error);
    if (cgroup == 0) {
        return error;
    }
    unsigned card = (unsigned)sim_nvml_device_of(device);
    const struct sim_limit *limit = sim_limit_of(card, cgroup);
    if (limit == NULL && strcmp(getenv("HAMI_SIM_MEMORY_LIMITS"), "misc") == 0) {
        return NVML_ERROR_NOT_SUPPORTED; /* so answers driver 615 for a cgroup that never had a limit */
    }
    limits->softLimit = limit == NULL ? 0 : atomic_load(&limit->soft);
    limits->hardLimit = limit == NULL ? UINT64_MAX : atomic_load(&limit->hard);
    limits->currentUsed = sim_cgroup_used(card, cgroup);
    return NVML_SUCCESS;
}
