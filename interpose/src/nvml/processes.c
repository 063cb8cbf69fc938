/*
 * NVML's lists of the processes on a device: the container's processes, with the memory that the ledger counts for
 * them. The driver is only asked whether it would answer. The generated wrappers call these functions.
 */
#include "ledger/state.h"
#include "memory/devices.h"
#include "nvml/container.h"
#include "policies.h"

#include <stdlib.h>
#include <string.h>

#define WHOLE_CARD UINT32_MAX

/* The id of a MIG device's GPU instance or compute instance, by the NVML call `get`; WHOLE_CARD for other devices. */
static uint32_t processes_instance(const struct hami_listed_device *device, nvmlReturn (*get)(nvmlDevice, unsigned *)) {
    unsigned id = 0;
    bool mig = hami_limits_mig(&hami_state_known_limits()->devices[device->index]);
    return mig && get(device->handle, &id) == NVML_SUCCESS ? id : WHOLE_CARD;
}

/* Appends the processes on a device to the `found` entries of `users`. Returns the new number of entries. */
static uint32_t processes_add(const struct hami_region_view *view, const struct hami_listed_device *device,
                              struct nvml_process *users, uint32_t found) {
    uint32_t gpu_instance = processes_instance(device, hami_call_nvmlDeviceGetGpuInstanceId);
    uint32_t compute_instance = processes_instance(device, hami_call_nvmlDeviceGetComputeInstanceId);
    unsigned slots = hami_ledger_slots(view->region);
    for (unsigned slot = 0; slot < slots && found < HAMI_PROCESSES; slot++) {
        uint32_t pid = (uint32_t)hami_region_slot_pid(view, slot);
        uint64_t pages = hami_region_slot_used(view, slot, device->index) +
                         hami_region_slot_used(view, slot, device->index + HAMI_DEVICES);
        if (pid != 0 && pages != 0) {
            users[found++] = (struct nvml_process){pid, 0, pages << HAMI_PAGE_SHIFT, gpu_instance, compute_instance};
        }
    }
    return found;
}

/*
 * Lists the processes on the container's device. If that is a card of which the container has MIG devices, lists those
 * on the MIG devices. Returns the number of processes.
 */
static uint32_t processes_find(const struct hami_container *container, nvmlDevice handle, struct nvml_process *users) {
    struct hami_listed_device devices[HAMI_DEVICES] = {{(unsigned)container->device, handle}};
    bool divided = container->device == HAMI_DEVICE_DIVIDED;
    unsigned count = divided ? hami_device_mig_of(hami_state_known_limits(), handle, devices) : 1;
    uint32_t found = 0;
    if (container->view == NULL) {
        return 0;
    }
    (void)hami_region_sweep(container->view);
    for (unsigned i = 0; i < count; i++) {
        found = processes_add(container->view, &devices[i], users, found);
    }
    return found;
}

/*
 * Fills a program's list of compute processes; a list of other processes stays empty. An entry begins with the fields
 * of struct nvml_process. An entry of version 1 ends after the first three; an entry of a detail list has one more,
 * which gets 0.
 */
static nvmlReturn processes_fill(const struct hami_container *container, nvmlDevice device, bool compute,
                                 uint32_t *count, void *list, size_t entry_bytes) {
    struct nvml_process *users = malloc(HAMI_PROCESSES * sizeof *users);
    if (users == NULL) {
        return NVML_ERROR_MEMORY;
    }
    uint32_t found = compute ? processes_find(container, device, users) : 0;
    nvmlReturn status = hami_container_fit(count, found, list != NULL);
    for (uint32_t i = 0; status == NVML_SUCCESS && i < found; i++) {
        char *entry = (char *)list + i * entry_bytes;
        memset(entry, 0, entry_bytes);
        memcpy(entry, &users[i], entry_bytes < sizeof *users ? entry_bytes : sizeof *users);
    }
    free(users);
    return status;
}

/* Serves the lists of compute, graphics and MPS processes, each in versions 1 to 3. The function's name tells which. */
int32_t hami_nvml_processes(enum hami_hook hook, nvmlDevice device, uint32_t *count, void *list) {
    const char *name = hami_hooks[hook].name;
    bool compute = strncmp(name, "nvmlDeviceGetCompute", 20) == 0;
    bool version_1 = strchr(name, '_') == NULL;
    struct hami_container container = hami_container_of(device);
    uint32_t no_room = 0;
    if (count == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return hami_call_nvml_processes(hook, device, count, list);
    }
    /* A call with no room gets the driver's errors, and shows no other container's processes. */
    nvmlReturn status = hami_call_nvml_processes(hook, device, &no_room, NULL);
    bool answers = status == NVML_SUCCESS || status == NVML_ERROR_INSUFFICIENT_SIZE;
    size_t entry_bytes = version_1 ? offsetof(struct nvml_process, gpu_instance) : sizeof(struct nvml_process);
    return answers ? processes_fill(&container, device, compute, count, list, entry_bytes) : status;
}

int32_t hami_nvml_process_details(enum hami_hook hook, nvmlDevice device, struct nvml_process_details *details) {
    struct hami_container container = hami_container_of(device);
    if (details == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return hami_call_nvml_process_details(hook, device, details);
    }
    bool known = details->version == NVML_STRUCT_VERSION(struct nvml_process_details, 1);
    size_t head = offsetof(struct nvml_process_details, count);
    nvmlReturn status = hami_container_ask_empty(hook, device, details, head, known);
    bool compute = details->mode == NVML_PROCESS_MODE_COMPUTE;
    return status != NVML_SUCCESS
               ? status
               : processes_fill(&container, device, compute, &details->count, details->list, sizeof *details->list);
}
