/* Finds which devices and processes belong to the container, and translates pids. container.h has the rules. */
#include "nvml/container.h"

#include "doors/calls.h"
#include "ledger/state.h"
#include "memory/devices.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { LISTED_MAX = 1024, TRIES = 4, VERSIONED_BYTES_MAX = 4096 };

struct hami_container hami_container_of(nvmlDevice device) {
    struct hami_container container = {NULL, HAMI_DEVICE_UNNAMED, true};
    const struct hami_limits *limits = hami_state_limits();
    if (limits->mode == HAMI_MODE_ENFORCE) {
        nvmlReturn asked = NVML_SUCCESS;
        container.view = hami_state_region(NULL);
        container.device = hami_device_of_nvml(limits, device, &asked);
    }
    return container;
}

/*
 * The driver uses pids of our pid namespace if each process that it lists on the device exists there. Tries several
 * times, since a process may end just after the driver has listed it.
 */
void hami_container_find_pids(struct hami_container *container, nvmlDevice device) {
    struct nvml_process *processes = malloc(LISTED_MAX * sizeof *processes);
    container->our_pids = false;
    for (unsigned try = 0; processes != NULL && !container->our_pids && try < TRIES; try++) {
        uint32_t count = LISTED_MAX, i = 0;
        if (hami_call_nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes) != NVML_SUCCESS) {
            break;
        }
        while (i < count && (kill((pid_t)processes[i].pid, 0) == 0 || errno == EPERM)) {
            i++;
        }
        container->our_pids = i == count;
    }
    free(processes);
    if (container->view != NULL) {
        (void)hami_region_sweep(container->view);
    }
}

/* The pid by which the driver knows the owner of a slot; 0: the slot is free, or its host pid is not known yet. */
static uint32_t container_driver_pid(const struct hami_container *container, unsigned slot) {
    int32_t pid = hami_region_slot_pid(container->view, slot);
    const struct hami_v1_process *shown = &container->view->region->v1.processes[slot];
    return (uint32_t)(pid == 0 || container->our_pids ? pid : atomic_load(&shown->host_pid));
}

uint32_t hami_container_pid(const struct hami_container *container, uint32_t pid, enum hami_pid_of of) {
    unsigned slots = container->view == NULL || pid == 0 ? 0 : hami_ledger_slots(container->view->region);
    for (unsigned slot = 0; slot < slots; slot++) {
        uint32_t inside = (uint32_t)hami_region_slot_pid(container->view, slot);
        uint32_t of_driver = container_driver_pid(container, slot);
        if ((of == HAMI_PID_INSIDE ? of_driver : inside) == pid) {
            return of == HAMI_PID_INSIDE ? inside : of_driver;
        }
    }
    return 0;
}

nvmlReturn hami_container_fit(uint32_t *count, uint32_t found, bool has_list) {
    uint32_t room = has_list ? *count : 0;
    *count = found;
    return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn hami_container_ask_empty(enum hami_hook hook, nvmlDevice device, const void *asked, size_t head,
                                    bool known) {
    nvmlReturn (*driver)(nvmlDevice, void *) = hami_driver_function(hook);
    void *empty = calloc(1, VERSIONED_BYTES_MAX); /* the program's stack may be too small for it */
    if (empty == NULL) {
        return NVML_ERROR_MEMORY;
    }
    memcpy(empty, asked, head);
    nvmlReturn status = driver(device, empty);
    free(empty);
    bool answered = status == NVML_SUCCESS || status == NVML_ERROR_INSUFFICIENT_SIZE || status == NVML_ERROR_NOT_FOUND;
    return !answered ? status : known ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}
