/* Start, handles, and what is asked about the system. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cuda_entries.h"
#include "nvml_impl.h"
#include "nvml_library.h"
#include "uuid.h"

static struct sim_nvml_device cards[SIM_MAX_CARDS];
static struct sim_nvml_device mig_devices[SIM_MAX_CARDS][SIM_MAX_MIG_INSTANCES][SIM_MAX_COMPUTE_INSTANCES];
static unsigned visible[SIM_MAX_CARDS];
static unsigned visible_count;
static _Atomic int users;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

nvmlReturn_t sim_nvml_ready(void) {
    return atomic_load_explicit(&users, memory_order_acquire) > 0 ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

static nvmlReturn_t start(void) {
    switch (sim_books_open()) {
    case SIM_OPEN_NO_STATE:
        return NVML_ERROR_DRIVER_NOT_LOADED;
    case SIM_OPEN_BAD:
        return NVML_ERROR_UNKNOWN;
    default:
        break;
    }
    for (unsigned i = 0; i < SIM_MAX_CARDS; i++) {
        cards[i] = (struct sim_nvml_device){.device = i, .instance = -1, .compute = -1};
        for (unsigned row = 0; row < SIM_MAX_MIG_INSTANCES; row++) {
            for (unsigned compute = 0; compute < SIM_MAX_COMPUTE_INSTANCES; compute++) {
                mig_devices[i][row][compute] = (struct sim_nvml_device){i, (int)row, (int)compute};
            }
        }
    }
    visible_count = sim_visible_cards(visible);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlInit_v2(void) {
    pthread_mutex_lock(&init_lock);
    bool started = atomic_load(&users) > 0 && sim_books_open() == SIM_OPEN_OK;
    nvmlReturn_t result = started ? NVML_SUCCESS : start();
    if (result == NVML_SUCCESS) {
        atomic_fetch_add(&users, 1);
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

nvmlReturn_t sim_nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    return sim_nvmlInit_v2();
}

nvmlReturn_t sim_nvmlShutdown(void) {
    pthread_mutex_lock(&init_lock);
    nvmlReturn_t result = sim_nvml_ready();
    if (result == NVML_SUCCESS) {
        atomic_fetch_sub(&users, 1);
    }
    pthread_mutex_unlock(&init_lock);
    return result;
}

const char *sim_nvmlErrorString(nvmlReturn_t result) {
    for (size_t i = 0; i < sim_error_count; i++) {
        if (sim_errors[i].value == result) {
            return sim_errors[i].text;
        }
    }
    return "Unknown Error";
}

static bool inside(const void *at, const void *array, size_t size, size_t element) {
    uintptr_t offset = (uintptr_t)at - (uintptr_t)array;
    return offset < size && offset % element == 0;
}

int sim_nvml_device_of(nvmlDevice_t handle) {
    bool ours = inside(handle, cards, sizeof cards, sizeof cards[0]) ||
                inside(handle, mig_devices, sizeof mig_devices, sizeof cards[0]);
    return ours && sim_books != NULL && handle->device < sim_books->device_count ? (int)handle->device : -1;
}

struct sim_device *sim_nvml_model(nvmlDevice_t handle, nvmlReturn_t *error) {
    *error = sim_nvml_ready();
    if (*error != NVML_SUCCESS) {
        return NULL;
    }
    int device = sim_nvml_device_of(handle);
    if (device < 0) {
        *error = NVML_ERROR_INVALID_ARGUMENT;
        return NULL;
    }
    if (handle->instance >= 0 &&
        !sim_mig_visible(handle->device, (unsigned)handle->instance, (unsigned)handle->compute)) {
        *error = NVML_ERROR_NOT_FOUND;
        return NULL;
    }
    return &sim_books->devices[device];
}

struct sim_device *sim_nvml_card(nvmlDevice_t handle, nvmlReturn_t *error) {
    struct sim_device *model = sim_nvml_model(handle, error);
    if (model != NULL && handle->instance >= 0) {
        *error = NVML_ERROR_NOT_SUPPORTED;
        return NULL;
    }
    return model;
}

unsigned sim_nvml_count(void) {
    return visible_count;
}

nvmlDevice_t sim_nvml_at(unsigned index) {
    return &cards[visible[index]];
}

int sim_nvml_device_at(unsigned index) {
    return index < visible_count ? (int)visible[index] : -1;
}

nvmlDevice_t sim_nvml_card_of(unsigned device) {
    for (unsigned i = 0; i < visible_count; i++) {
        if (visible[i] == device) {
            return &cards[device];
        }
    }
    return NULL;
}

nvmlDevice_t sim_nvml_mig_handle(unsigned device, unsigned instance, unsigned compute) {
    return &mig_devices[device][instance][compute];
}

/* A card that fell off the bus can be counted but not opened. */
static nvmlReturn_t hand_out(unsigned device, nvmlDevice_t *handle) {
    if (atomic_load(&sim_books->devices[device].lost) != 0) {
        return NVML_ERROR_GPU_IS_LOST;
    }
    *handle = &cards[device];
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetCount_v2(unsigned *deviceCount) {
    if (sim_nvml_ready() != NVML_SUCCESS) {
        return sim_nvml_ready();
    }
    if (deviceCount == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    *deviceCount = visible_count;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    if (sim_nvml_ready() != NVML_SUCCESS) {
        return sim_nvml_ready();
    }
    if (device == NULL || index >= visible_count) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    return hand_out(visible[index], device);
}

static nvmlDevice_t mig_by_uuid(unsigned device, const char *uuid) {
    for (unsigned i = 0; i < SIM_MAX_MIG_INSTANCES * SIM_MAX_COMPUTE_INSTANCES; i++) {
        unsigned row = i / SIM_MAX_COMPUTE_INSTANCES, compute = i % SIM_MAX_COMPUTE_INSTANCES;
        uint8_t own[16];
        char text[SIM_UUID_TEXT];
        sim_mig_uuid(device, row, compute, own);
        sim_uuid_text(own, "MIG-", text);
        if (strcasecmp(text, uuid) == 0 && sim_mig_visible(device, row, compute)) {
            return &mig_devices[device][row][compute];
        }
    }
    return NULL;
}

nvmlReturn_t sim_nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    if (sim_nvml_ready() != NVML_SUCCESS) {
        return sim_nvml_ready();
    }
    if (uuid == NULL || device == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned i = 0; i < visible_count; i++) {
        char text[SIM_UUID_TEXT];
        sim_uuid_text(sim_books->devices[visible[i]].uuid, "GPU-", text);
        if (strcasecmp(text, uuid) == 0) {
            return hand_out(visible[i], device);
        }
        nvmlDevice_t mig = mig_by_uuid(visible[i], uuid);
        if (mig != NULL) {
            *device = mig;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device) {
    unsigned domain = 0, bus = 0, slot = 0;
    if (sim_nvml_ready() != NVML_SUCCESS) {
        return sim_nvml_ready();
    }
    if (pciBusId == NULL || device == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x", &bus, &slot) != 2) {
            return NVML_ERROR_INVALID_ARGUMENT;
        }
    }
    for (unsigned i = 0; i < visible_count; i++) {
        const struct sim_device *model = &sim_books->devices[visible[i]];
        if (model->pci_domain == domain && model->pci_bus == bus && model->pci_device == slot) {
            return hand_out(visible[i], device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t sim_nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    if (sim_nvml_ready() != NVML_SUCCESS) {
        return sim_nvml_ready();
    }
    if (serial == NULL || device == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned i = 0; i < visible_count; i++) {
        if (strcmp(sim_books->devices[visible[i]].serial, serial) == 0) {
            return hand_out(visible[i], device);
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

static nvmlReturn_t copy_text(char *target, unsigned length, const char *text) {
    if (target == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (length <= strlen(text)) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    memcpy(target, text, strlen(text) + 1);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlSystemGetDriverVersion(char *version, unsigned length) {
    nvmlReturn_t error = sim_nvml_ready();
    return error != NVML_SUCCESS ? error : copy_text(version, length, sim_books->driver_version);
}

nvmlReturn_t sim_nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    nvmlReturn_t error = sim_nvml_ready();
    return error != NVML_SUCCESS ? error : copy_text(version, length, sim_books->nvml_version);
}

nvmlReturn_t sim_nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion) {
    if (cudaDriverVersion == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (sim_books_open() != SIM_OPEN_OK) {
        return NVML_ERROR_DRIVER_NOT_LOADED;
    }
    *cudaDriverVersion = sim_books->cuda_version;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion) {
    return sim_nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion);
}

nvmlReturn_t sim_nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
    nvmlReturn_t error = sim_nvml_ready();
    if (error != NVML_SUCCESS || name == NULL || length == 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned limit = atomic_load(&sim_books->slot_limit);
    for (unsigned slot = 0; slot < limit; slot++) {
        if (sim_slot_pid(slot) == (int)pid) {
            snprintf(name, length, "%s", sim_books->slots[slot].name);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}
