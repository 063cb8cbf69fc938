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

/* What its MIG devices use is the card's as well; to ask for the sum takes rights that a container lacks. */
static bool may_ask(const struct sim_nvml_device *handle) {
    return handle->instance >= 0 || atomic_load(&sim_books->devices[handle->device].mig_mode) == 0 || sim_mig_monitor();
}

static void read_memory(const struct sim_nvml_device *handle, uint64_t *total, uint64_t *reserved, uint64_t *used) {
    const struct sim_device *model = &sim_books->devices[sim_nvml_pool(handle)];
    *total = model->memory_total;
    *reserved = model->memory_reserved;
    *used = sim_device_used(sim_nvml_pool(handle));
    for (unsigned row = 0; handle->instance < 0 && row < SIM_MAX_MIG_INSTANCES; row++) {
        bool there = atomic_load(&model->mig_instances[row].state) == SIM_INSTANCE_THERE;
        *used += there ? sim_device_used(sim_mig_device(handle->device, row)) : 0;
    }
}

/* Version 1 has no field for the firmware's reserve and counts it as used. */
nvmlReturn_t sim_nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    nvmlReturn_t error = NVML_SUCCESS;
    uint64_t total = 0, reserved = 0, used = 0;
    if (sim_nvml_model(device, &error) == NULL || memory == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (!may_ask(device)) {
        return NVML_ERROR_NO_PERMISSION;
    }
    read_memory(device, &total, &reserved, &used);
    *memory = (nvmlMemory_t){.total = total, .free = total - reserved - used, .used = reserved + used};
    return NVML_SUCCESS;
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
    if (!may_ask(device)) {
        return NVML_ERROR_NO_PERMISSION;
    }
    read_memory(device, &total, &reserved, &used);
    memory->total = total;
    memory->reserved = reserved;
    memory->used = used;
    memory->free = total - reserved - used;
    return NVML_SUCCESS;
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
    if (sim_nvml_model(device, &error) == NULL || bar1Memory == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    /* A MIG device has as much of the card's window as of its memory; nvidia-smi shows both. */
    const struct sim_device *card = &sim_books->devices[device->device];
    const struct sim_device *part = &sim_books->devices[sim_nvml_pool(device)];
    uint64_t total = card->bar1_total / (card->memory_total >> 20) * (part->memory_total >> 20), used = 2u << 20;
    total = device->instance < 0 ? card->bar1_total : total >> 20 << 20;
    *bar1Memory = (nvmlBAR1Memory_t){total, total - used, used};
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

/* Adds the users of one device in the books to those found already; `compute` -1: of all of its compute instances. */
static unsigned add_users(unsigned device, int compute, struct sim_nvml_user found[SIM_MAX_SLOTS], unsigned count) {
    unsigned limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    for (unsigned slot = 0; slot < limit && count < SIM_MAX_SLOTS; slot++) {
        uint64_t bytes = atomic_load(&sim_books->used[device][slot]) + sim_share_shown(device, slot);
        int pid = bytes != 0 ? pid_of(slot) : 0;
        unsigned part = (unsigned)atomic_load(&sim_books->engines[device][slot].compute_instance);
        if (pid > 0 && (compute < 0 || part == (unsigned)compute)) {
            bool mig = sim_is_mig(device);
            found[count++] = (struct sim_nvml_user){
                pid, slot, device, bytes, mig ? sim_instance_of(device) + 1 : WHOLE_CARD, mig ? part : WHOLE_CARD};
        }
    }
    return count;
}

unsigned sim_nvml_users(const struct sim_nvml_device *handle, struct sim_nvml_user found[SIM_MAX_SLOTS]) {
    unsigned count = add_users(sim_nvml_pool(handle), handle->compute, found, 0);
    const struct sim_mig_instance *instances = sim_books->devices[handle->device].mig_instances;
    for (unsigned row = 0; handle->instance < 0 && row < SIM_MAX_MIG_INSTANCES; row++) {
        if (atomic_load(&instances[row].state) == 1) {
            count = add_users(sim_mig_device(handle->device, row), -1, found, count);
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
    if (!may_ask(device)) {
        return NVML_ERROR_NO_PERMISSION;
    }
    unsigned room = *infoCount, count = sim_nvml_users(device, found);
    *infoCount = count;
    if (count > room) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    return count > 0 && !room_given ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

/* HAMI_SIM_NVML_USE=none: what a process uses is not available (NVML_VALUE_NOT_AVAILABLE), as on some platforms. */
static unsigned long long shown(uint64_t bytes) {
    const char *use = getenv("HAMI_SIM_NVML_USE");
    return use != NULL && strcmp(use, "none") == 0 ? UINT64_MAX : bytes;
}

nvmlReturn_t sim_nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount,
                                                         nvmlProcessInfo_t *infos) {
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    nvmlReturn_t error = list_users(device, infoCount, infos != NULL, found);
    for (unsigned i = 0; error == NVML_SUCCESS && i < *infoCount; i++) {
        infos[i] = (nvmlProcessInfo_t){(unsigned)found[i].pid, shown(found[i].bytes), found[i].gpu_instance,
                                       found[i].compute_instance};
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
        infos[i] = (nvmlProcessInfo_v1_t){(unsigned)found[i].pid, shown(found[i].bytes)};
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
        plist->procArray[i] = (nvmlProcessDetail_t){(unsigned)found[i].pid, found[i].bytes, found[i].gpu_instance,
                                                    found[i].compute_instance, 0};
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

unsigned sim_nvml_utilization(unsigned card) {
    const int multiprocessors = 16; /* CUdevice_attribute */
    struct sim_nvml_user found[SIM_MAX_SLOTS];
    const struct sim_nvml_device handle = {card, -1, -1};
    int all = sim_books->devices[card].attributes[multiprocessors];
    unsigned count = sim_nvml_users(&handle, found), sum = 0;
    for (unsigned i = 0; i < count; i++) {
        int part = sim_books->devices[found[i].device].attributes[multiprocessors];
        sum += sim_nvml_slot_utilization(found[i].device, found[i].slot) * (unsigned)part / (unsigned)all;
    }
    return sum > 100 ? 100 : sum;
}

static unsigned memory_utilization(unsigned card) {
    return sim_nvml_utilization(card) / 3;
}

/* A card whose utilization can be asked: in MIG mode the driver tells none, neither of the card nor of its parts. */
static struct sim_device *measured(nvmlDevice_t device, nvmlReturn_t *error) {
    struct sim_device *model = sim_nvml_card(device, error);
    if (model != NULL && atomic_load(&model->mig_mode) != 0) {
        *error = NVML_ERROR_NOT_SUPPORTED;
        return NULL;
    }
    return model;
}

nvmlReturn_t sim_nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (measured(device, &error) == NULL || utilization == NULL) {
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
    if (measured(device, &error) == NULL || processSamplesCount == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned room = *processSamplesCount, count = sim_nvml_users(device, found);
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
    if (measured(device, &error) == NULL || procesesUtilInfo == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (procesesUtilInfo->version != SIM_NVML_STRUCT_VERSION(nvmlProcessesUtilizationInfo_t, 1u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    unsigned room = procesesUtilInfo->processSamplesCount, count = sim_nvml_users(device, found);
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
