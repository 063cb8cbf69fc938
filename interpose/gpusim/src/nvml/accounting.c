/*
 * Accounting, where it is turned on: of the processes that live, since the books remember no others. A process's peak
 * is what it has now, its utilization that of the last half second.
 */
#include <string.h>

#include "nvml_impl.h"
#include "nvml_library.h"

/* The card if accounting is on there. */
static struct sim_device *accounted(nvmlDevice_t device, nvmlReturn_t *error) {
    struct sim_device *model = sim_nvml_card(device, error);
    if (model != NULL && atomic_load(&model->accounting) == 0) {
        *error = NVML_ERROR_NOT_SUPPORTED;
        return NULL;
    }
    return model;
}

nvmlReturn_t sim_nvmlDeviceSetAccountingMode(nvmlDevice_t device, int mode) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || mode < 0 || mode > 1) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    atomic_store(&model->accounting, (uint32_t)mode);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned *bufferSize) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (accounted(device, &error) == NULL || bufferSize == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *bufferSize = SIM_MAX_SLOTS;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned *count, unsigned *pids) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = NVML_SUCCESS;
    if (accounted(device, &error) == NULL || count == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned room = pids == NULL ? 0 : *count;
    *count = sim_nvml_users(device, found);
    for (unsigned i = 0; *count <= room && i < *count; i++) {
        pids[i] = (unsigned)found[i].pid;
    }
    return *count <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t sim_nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = NVML_SUCCESS;
    if (accounted(device, &error) == NULL || stats == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned count = sim_nvml_users(device, found);
    for (unsigned i = 0; i < count; i++) {
        if ((unsigned)found[i].pid == stats->pid) {
            unsigned percent = sim_nvml_slot_utilization(found[i].device, found[i].slot);
            *stats = (nvmlAccountingStats_v2_t){.pid = stats->pid,
                                                .isRunning = 1,
                                                .gpuUtilization = percent,
                                                .memoryUtilization = percent / 3,
                                                .maxMemoryUsage = found[i].bytes};
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned pid, nvmlAccountingStats_t *stats) {
    nvmlAccountingStats_v2_t found = {.pid = pid};
    nvmlReturn_t error = sim_nvmlDeviceGetAccountingStats_v2(device, stats == NULL ? NULL : &found);
    if (error == NVML_SUCCESS) {
        *stats = (nvmlAccountingStats_t){.gpuUtilization = found.gpuUtilization,
                                         .memoryUtilization = found.memoryUtilization,
                                         .maxMemoryUsage = found.maxMemoryUsage,
                                         .isRunning = found.isRunning};
    }
    return error;
}
