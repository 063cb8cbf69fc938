/* Memory, processes, utilization: what the books say about use. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "engine.h"
#include "nvml_impl.h"
#include "nvml_library.h"
#include "shared.h"

#define WINDOW_NS 250000000ull
#define WHOLE_CARD 0xffffffffu
enum { PROCESS_MODE_COMPUTE = 0, PROCESS_MODE_MPS = 2 };

static void read_memory(unsigned device, uint64_t *total, uint64_t *reserved, uint64_t *used) {
    const struct sim_device *model = &sim_books->devices[device];
    *total = model->memory_total;
    *reserved = model->memory_reserved;
    *used = sim_device_used(device);
}

static nvmlReturn_t mig_memory(const struct sim_nvml_device *handle, uint64_t *total) {
    const struct sim_device *model = &sim_books->devices[handle->device];
    const struct sim_mig_instance *instance = &model->mig_instances[handle->instance];
    if (atomic_load(&instance->state) == 0) {
        return NVML_ERROR_NOT_FOUND;
    }
    *total = model->mig_profiles[instance->profile_row].memory_mib << 20;
    return NVML_SUCCESS;
}

/* Version 1 has no field for the firmware's reserve and counts it as used. */
nvmlReturn_t sim_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlReturn_t error = NVML_SUCCESS;
    uint64_t total = 0, reserved = 0, used = 0;
    if (sim_nvml_model(device, &error) == NULL || memory == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (device->instance >= 0) {
        error = mig_memory(device, &total);
    } else {
        read_memory(device->device, &total, &reserved, &used);
    }
    if (error == NVML_SUCCESS) {
        *memory = (nvmlMemory_t){.total = total, .free = total - reserved - used, .used = reserved + used};
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    nvmlReturn_t error = NVML_SUCCESS;
    uint64_t total = 0, reserved = 0, used = 0;
    if (sim_nvml_model(device, &error) == NULL || memory == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (memory->version != SIM_NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (device->instance >= 0) {
        error = mig_memory(device, &total);
    } else {
        read_memory(device->device, &total, &reserved, &used);
    }
    if (error == NVML_SUCCESS) {
        memory->total = total;
        memory->reserved = reserved;
        memory->used = used;
        memory->free = total - reserved - used;
    }
    return error;
}

/* Cards are simulated outside of confidential computing; HAMI_SIM_CONFIDENTIAL=1 puts all of their memory inside. */
nvmlReturn_t sim_nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory) {
    const char *inside = getenv("HAMI_SIM_CONFIDENTIAL");
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || memory == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    return inside != NULL && strcmp(inside, "1") == 0 ? sim_nvmlDeviceGetMemoryInfo(device, memory)
                                                      : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t sim_nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || bar1Memory == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    uint64_t used = 2u << 20;
    *bar1Memory = (nvmlBAR1Memory_t){model->bar1_total, model->bar1_total - used, used};
    return NVML_SUCCESS;
}

/* As NVML tells the process of a slot. Drivers that know no pid namespaces tell the host's pids: see README.md. */
static int pid_of(unsigned slot) {
    const char *base = getenv("HAMI_SIM_NVML_PID_BASE");
    int here = sim_slot_pid(slot), on_host = sim_books->slots[slot].host_pid;
    if (here != 0 && on_host != 0 && getenv("HAMI_SIM_HOST_PROC") != NULL) {
        return on_host;
    }
    return here > 0 && base != NULL ? here + atoi(base) : here;
}

unsigned sim_nvml_users(unsigned device, struct sim_nvml_user found[SIM_MAX_SLOTS]) {
    unsigned count = 0, limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    for (unsigned slot = 0; slot < limit; slot++) {
        uint64_t bytes = atomic_load(&sim_books->used[device][slot]) + sim_share_shown(device, slot);
        int pid = bytes != 0 ? pid_of(slot) : 0;
        if (pid > 0) {
            found[count++] = (struct sim_nvml_user){pid, slot, bytes};
        }
    }
    return count;
}

/* The count's protocol: in, the room; out, how many there are. Without enough room nothing is written. */
static nvmlReturn_t list_users(nvmlDevice_t device, unsigned *infoCount, bool room_given, struct sim_nvml_user *found) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(device, &error) == NULL || infoCount == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned room = *infoCount, count = device->instance >= 0 ? 0 : sim_nvml_users(device->device, found);
    *infoCount = count;
    if (count > room) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return count > 0 && !room_given ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
                                                         nvmlProcessInfo_t *infos) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = list_users(device, infoCount, infos != NULL, found);
    for (unsigned i = 0; error == NVML_SUCCESS && i < *infoCount; i++) {
        infos[i] = (nvmlProcessInfo_t){(unsigned)found[i].pid, found[i].bytes, WHOLE_CARD, WHOLE_CARD};
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
                                                         nvmlProcessInfo_t *infos) {
    return sim_nvmlDeviceGetComputeRunningProcesses_v3(device, infoCount, infos);
}

nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
                                                      nvmlProcessInfo_v1_t *infos) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = list_users(device, infoCount, infos != NULL, found);
    for (unsigned i = 0; error == NVML_SUCCESS && i < *infoCount; i++) {
        infos[i] = (nvmlProcessInfo_v1_t){(unsigned)found[i].pid, found[i].bytes};
    }
    return error;
}

/* No process draws, and none runs under MPS. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *infoCount) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(device, &error) == NULL || infoCount == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *infoCount = 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
                                                          nvmlProcessInfo_t *infos) {
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t sim_nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount,
                                                          nvmlProcessInfo_t *infos) {
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t sim_nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *infoCount,
                                                       nvmlProcessInfo_v1_t *infos) {
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t sim_nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
                                                            nvmlProcessInfo_t *infos) {
    (void)infos;
    return no_processes(device, infoCount);
}

nvmlReturn_t sim_nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *plist) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    if (plist == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (plist->version != SIM_NVML_STRUCT_VERSION(nvmlProcessDetailList_t, 1u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    if (plist->mode > PROCESS_MODE_MPS) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    nvmlReturn_t error = plist->mode == PROCESS_MODE_COMPUTE
                             ? list_users(device, &plist->numProcArrayEntries, plist->procArray != NULL, found)
                             : no_processes(device, &plist->numProcArrayEntries);
    for (unsigned i = 0; error == NVML_SUCCESS && i < plist->numProcArrayEntries; i++) {
        plist->procArray[i] = (nvmlProcessDetail_t){(unsigned)found[i].pid, found[i].bytes, WHOLE_CARD, WHOLE_CARD, 0};
    }
    return error;
}

unsigned sim_nvml_slot_utilization(unsigned device, unsigned slot) {
    struct sim_engine_page *page = &sim_books->engines[device][slot];
    sim_engine_refresh(device);
    uint64_t now = sim_now(), start = atomic_load(&page->window_start);
    if (start > now || now - start >= 2 * WINDOW_NS) { /* none for long */
        return 0;
    }
    uint64_t busy = atomic_load(&page->window_busy), span = now - start;
    if (span < WINDOW_NS) {
        busy += atomic_load(&page->window_previous);
        span += WINDOW_NS;
    }
    uint64_t percent = (busy * 100 + span / 2) / span;
    return percent > 100 ? 100 : (unsigned)percent;
}

unsigned sim_nvml_utilization(unsigned device) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    unsigned count = sim_nvml_users(device, found), sum = 0;
    for (unsigned i = 0; i < count; i++) {
        sum += sim_nvml_slot_utilization(device, found[i].slot);
    }
    return sum > 100 ? 100 : sum;
}

static unsigned memory_utilization(unsigned device) {
    return sim_nvml_utilization(device) / 3;
}

nvmlReturn_t sim_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || utilization == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *utilization = (nvmlUtilization_t){sim_nvml_utilization(device->device), memory_utilization(device->device)};
    return NVML_SUCCESS;
}

static unsigned long long microseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (unsigned long long)now.tv_sec * 1000000ull + (unsigned long long)now.tv_nsec / 1000ull;
}

nvmlReturn_t sim_nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization,
                                                 unsigned *processSamplesCount, unsigned long long lastSeenTimeStamp) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = NVML_SUCCESS;
    (void)lastSeenTimeStamp;
    if (sim_nvml_card(device, &error) == NULL || processSamplesCount == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned room = *processSamplesCount, count = sim_nvml_users(device->device, found);
    *processSamplesCount = count;
    if (count == 0) {
        return NVML_ERROR_NOT_FOUND;
    }
    if (utilization == NULL || count > room) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned percent = sim_nvml_slot_utilization(device->device, found[i].slot);
        utilization[i] =
            (nvmlProcessUtilizationSample_t){(unsigned)found[i].pid, microseconds(), percent, percent / 3, 0, 0};
    }
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device,
                                                       nvmlProcessesUtilizationInfo_t *procesesUtilInfo) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || procesesUtilInfo == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (procesesUtilInfo->version != SIM_NVML_STRUCT_VERSION(nvmlProcessesUtilizationInfo_t, 1u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    unsigned room = procesesUtilInfo->processSamplesCount, count = sim_nvml_users(device->device, found);
    procesesUtilInfo->processSamplesCount = count;
    if (count == 0) {
        return NVML_ERROR_NOT_FOUND;
    }
    if (count > room || (count > 0 && procesesUtilInfo->procUtilArray == NULL)) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < count; i++) {
        unsigned percent = sim_nvml_slot_utilization(device->device, found[i].slot);
        procesesUtilInfo->procUtilArray[i] =
            (nvmlProcessUtilizationInfo_t){microseconds(), (unsigned)found[i].pid, percent, percent / 3, 0, 0, 0, 0};
    }
    return NVML_SUCCESS;
}
