/* Event sets. Events are in each device's ring in the books; a set remembers how far it has read. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "nvml_impl.h"
#include "nvml_library.h"

#define SUPPORTED 0xfull /* single and double bit ECC, P-state, Xid */
#define POLL_US 2000

struct sim_event_set {
    uint32_t magic;
    pthread_mutex_t lock;
    uint64_t types[SIM_MAX_DEVICES]; /* 0: not registered */
    uint64_t seen[SIM_MAX_DEVICES];
};
enum { MAGIC = 0x45565453 };

nvmlReturn_t sim_nvmlEventSetCreate(nvmlEventSet_t *set) {
    if (sim_nvml_ready() != NVML_SUCCESS || set == NULL) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    struct sim_event_set *made = calloc(1, sizeof *made);
    if (made == NULL) {
        return NVML_ERROR_MEMORY;
    }
    made->magic = MAGIC;
    pthread_mutex_init(&made->lock, NULL);
    *set = made;
    return NVML_SUCCESS;
}

static bool is_set(nvmlEventSet_t set) {
    return set != NULL && set->magic == MAGIC;
}

int sim_nvml_device_of_event_set(nvmlEventSet_t handle) {
    int found = -1;
    for (unsigned device = 0; is_set(handle) && device < SIM_MAX_DEVICES; device++) {
        if (handle->types[device] != 0) {
            if (found >= 0) {
                return -1;
            }
            found = (int)device;
        }
    }
    return found;
}

nvmlReturn_t sim_nvmlEventSetFree(nvmlEventSet_t set) {
    if (sim_nvml_ready() != NVML_SUCCESS || !is_set(set)) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    set->magic = 0;
    free(set);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || eventTypes == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *eventTypes = SUPPORTED;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || !is_set(set)) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if ((eventTypes & ~SUPPORTED) != 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    pthread_mutex_lock(&set->lock);
    if (set->types[device->device] == 0) {
        set->seen[device->device] = atomic_load(&model->event_count);
    }
    set->types[device->device] |= eventTypes;
    pthread_mutex_unlock(&set->lock);
    return NVML_SUCCESS;
}

/* The next unread event of a device that the set asked for. */
static bool next_event(struct sim_event_set *set, unsigned device, nvmlEventData_t *data) {
    struct sim_device *model = &sim_books->devices[device];
    uint64_t count = atomic_load(&model->event_count);
    if (count > set->seen[device] + SIM_EVENT_RING) {
        set->seen[device] = count - SIM_EVENT_RING; /* overwritten ones are lost */
    }
    while (set->seen[device] < count) {
        uint64_t sequence = ++set->seen[device];
        const struct sim_event *event = &model->events[sequence % SIM_EVENT_RING];
        if (atomic_load(&event->sequence) == sequence && (event->type & set->types[device]) != 0) {
            *data = (nvmlEventData_t){sim_nvml_card_of(device), event->type, event->data, event->gpu_instance,
                                      event->compute_instance};
            return true;
        }
    }
    return false;
}

static bool poll_set(struct sim_event_set *set, nvmlEventData_t *data) {
    bool found = false;
    pthread_mutex_lock(&set->lock);
    for (unsigned device = 0; device < sim_books->device_count && !found; device++) {
        found = set->types[device] != 0 && next_event(set, device, data);
    }
    pthread_mutex_unlock(&set->lock);
    return found;
}

nvmlReturn_t sim_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms) {
    if (sim_nvml_ready() != NVML_SUCCESS || !is_set(set) || data == NULL) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    uint64_t deadline = sim_now() + timeoutms * 1000000ull;
    while (!poll_set(set, data)) {
        if (sim_now() >= deadline) {
            return NVML_ERROR_TIMEOUT;
        }
        usleep(POLL_US);
    }
    return NVML_SUCCESS;
}
