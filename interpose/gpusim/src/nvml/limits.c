/*
 * The driver's memory limits of cgroups, since driver 615. HAMI_SIM_MEMORY_LIMITS says which backend the driver has:
 * "dmem" is the kernel's, and wants a file dmem.max in the cgroup's folder; "misc" is the driver's own. Without the
 * variable the driver has none, as before 615.
 *
 * Structures: nvml.h of CUDA 13.4. Behaviour of "misc": memacct.c of NVIDIA's open kernel modules 615. Of "dmem": the
 * kernel's controller, and NVIDIA's guide "MPS v3 memory partitioning". NVML's codes are guesses, except NOT_SUPPORTED
 * of "misc" for a cgroup without a limit, and NOT_FOUND of "dmem" for one without dmem.max.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nvml_impl.h"
#include "nvml_library.h"

static bool has_dmem(void) {
    const char *backend = getenv("HAMI_SIM_MEMORY_LIMITS");
    return backend != NULL && strcmp(backend, "dmem") == 0;
}

static bool has_file(const char *folder, const char *name) {
    char file[4096];
    return snprintf(file, sizeof file, "%s/%s", folder, name) < (int)sizeof file && access(file, F_OK) == 0;
}

/* Looks up the cgroup behind a path, and those above it. */
static nvmlReturn_t limitable(nvmlDevice_t device, const char *path, uint64_t levels[SIM_CGROUP_LEVELS]) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct stat status;
    const char *backend = getenv("HAMI_SIM_MEMORY_LIMITS");
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL) {
        return error;
    }
    if (backend == NULL || (!has_dmem() && strcmp(backend, "misc") != 0) || atomic_load(&model->mig_mode) != 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    if (path == NULL || path[0] != '/') {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (stat(path, &status) != 0 || !S_ISDIR(status.st_mode)) {
        return NVML_ERROR_NOT_FOUND;
    }
    sim_cgroup_levels(path, levels);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits) {
    uint64_t levels[SIM_CGROUP_LEVELS];
    nvmlReturn_t error = limitable(device, limits == NULL ? NULL : limits->nameSpace, levels);
    if (error != NVML_SUCCESS) {
        return error;
    }
    if (geteuid() != 0) {
        return NVML_ERROR_NO_PERMISSION;
    }
    if (has_dmem() && !has_file(limits->nameSpace, "dmem.max")) {
        return NVML_ERROR_NOT_FOUND;
    }
    if (limits->softLimit > limits->hardLimit) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    struct sim_limit *limit = sim_limit_for((unsigned)sim_nvml_device_of(device), levels[0], has_dmem());
    if (limit == NULL) {
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    if (!has_dmem() && sim_limit_used(limit) > limits->hardLimit) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    atomic_store(&limit->soft, limits->softLimit);
    atomic_store(&limit->hard, limits->hardLimit);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits) {
    uint64_t levels[SIM_CGROUP_LEVELS];
    nvmlReturn_t error = limitable(device, limits == NULL ? NULL : limits->nameSpace, levels);
    if (error != NVML_SUCCESS) {
        return error;
    }
    unsigned card = (unsigned)sim_nvml_device_of(device);
    const struct sim_limit *limit = sim_limit_of(card, levels[0]);
    /* A cgroup without dmem.max, and each one with "misc", tells the limit of the nearest one above. */
    bool inherits = !has_dmem() || !has_file(limits->nameSpace, "dmem.max");
    for (unsigned level = 1; inherits && limit == NULL && level < SIM_CGROUP_LEVELS; level++) {
        limit = sim_limit_of(card, levels[level]);
    }
    if (limit == NULL && !has_dmem()) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    limits->softLimit = limit == NULL ? 0 : atomic_load(&limit->soft);
    limits->hardLimit = limit == NULL ? UINT64_MAX : atomic_load(&limit->hard);
    limits->currentUsed = limit == NULL ? sim_cgroup_used(card, levels[0]) : sim_limit_used(limit);
    return NVML_SUCCESS;
}
