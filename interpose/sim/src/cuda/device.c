/* cuInit, and what can be asked about devices without a context. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cuda_impl.h"
#include "driver.h"
#include "uuid.h"

struct sim_driver sim_driver;
static pthread_mutex_t init_lock = PTHREAD_MUTEX_INITIALIZER;

/* CUDA does not survive fork: the child of a process that called cuInit gets CUDA_ERROR_NOT_INITIALIZED for ever. */
static void after_fork(void) {
    if (atomic_load(&sim_driver.state) == SIM_UP) {
        atomic_store(&sim_driver.state, SIM_FORKED);
    }
    pthread_mutex_init(&init_lock, NULL);
}

/* One element of CUDA_VISIBLE_DEVICES: an index, or "GPU-" and enough of a UUID to be unique. */
static int visible_element(const char *text, size_t length, const unsigned *there, unsigned count) {
    char *end = NULL;
    long index = strtol(text, &end, 10);
    if (end == text + length) {
        return index >= 0 && (unsigned long)index < count ? (int)there[index] : -1;
    }
    int match = -1;
    for (unsigned i = 0; i < count && length > 4; i++) {
        char uuid[SIM_UUID_TEXT];
        sim_uuid_text(sim_books->devices[there[i]].uuid, "GPU-", uuid);
        if (strncasecmp(uuid, text, length) == 0) {
            if (match >= 0) {
                return -1;
            }
            match = (int)there[i];
        }
    }
    return match;
}

/* As the real driver: devices up to the first element that names none; a device named twice means no device at all. */
static unsigned select_visible(unsigned chosen[SIM_MAX_DEVICES]) {
    unsigned there[SIM_MAX_DEVICES];
    unsigned count = sim_visible_devices(there), taken = 0;
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    if (list == NULL) {
        memcpy(chosen, there, sizeof there);
        return count;
    }
    while (*list != '\0' && taken < count) {
        list += strspn(list, " ");
        size_t length = strcspn(list, ",");
        int device = length > 0 ? visible_element(list, length, there, count) : -1;
        if (device < 0) {
            break;
        }
        for (unsigned i = 0; i < taken; i++) {
            if (chosen[i] == (unsigned)device) {
                return 0;
            }
        }
        chosen[taken++] = (unsigned)device;
        list += length + (list[length] == ',');
    }
    return taken;
}

static CUresult start(void) {
    if (sim_books_open() != SIM_OPEN_OK) {
        return CUDA_ERROR_NO_DEVICE;
    }
    unsigned chosen[SIM_MAX_DEVICES] = {0};
    unsigned count = select_visible(chosen);
    if (count == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    for (unsigned i = 0; i < count; i++) {
        sim_driver.gpus[i].index = chosen[i];
        pthread_mutex_init(&sim_driver.gpus[i].lock, NULL);
    }
    sim_driver.count = count;
    pthread_atfork(NULL, NULL, after_fork);
    atomic_store_explicit(&sim_driver.state, SIM_UP, memory_order_release);
    return CUDA_SUCCESS;
}

CUresult sim_cuInit(unsigned Flags) {
    if (Flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&init_lock);
    int state = atomic_load(&sim_driver.state);
    CUresult result = state == SIM_UP ? CUDA_SUCCESS : state == SIM_FORKED ? CUDA_ERROR_NOT_INITIALIZED : start();
    pthread_mutex_unlock(&init_lock);
    return result;
}

CUresult sim_cuDriverGetVersion(int *driverVersion) {
    if (driverVersion == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *driverVersion = sim_books_open() == SIM_OPEN_OK ? sim_books->cuda_version : 13050;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetCount(int *count) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (count == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *count = (int)sim_driver.count;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGet(CUdevice *device, int ordinal) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_gpu_of(ordinal) == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

/* The checks every query of a device makes first. */
static CUresult device_query(const void *output, CUdevice dev, const struct sim_device **model) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (output == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sim_gpu *gpu = sim_gpu_of(dev);
    if (gpu == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *model = sim_model(gpu);
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetName(char *name, int len, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = len <= 0 ? CUDA_ERROR_INVALID_VALUE : device_query(name, dev, &model);
    if (error == CUDA_SUCCESS) {
        snprintf(name, (size_t)len, "%s", model->name);
    }
    return error;
}

CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(uuid, dev, &model);
    if (error == CUDA_SUCCESS) {
        memcpy(uuid->bytes, model->uuid, sizeof uuid->bytes);
    }
    return error;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    return sim_cuDeviceGetUuid(uuid, dev);
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(bytes, dev, &model);
    if (error == CUDA_SUCCESS) {
        *bytes = sim_device_capacity(model);
    }
    return error;
}

CUresult sim_cuDeviceGetAttribute(int *pi, int attrib, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(pi, dev, &model);
    if (error != CUDA_SUCCESS) {
        return error;
    }
    if (attrib <= 0 || attrib >= (int)SIM_MAX_ATTRIBUTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pi = model->attributes[attrib];
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = minor == NULL ? CUDA_ERROR_INVALID_VALUE : device_query(major, dev, &model);
    if (error == CUDA_SUCCESS) {
        *major = model->attributes[75];
        *minor = model->attributes[76];
    }
    return error;
}

CUresult sim_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(prop, dev, &model);
    if (error == CUDA_SUCCESS) {
        const int32_t *a = model->attributes;
        *prop =
            (CUdevprop){a[1], {a[2], a[3], a[4]}, {a[5], a[6], a[7]}, a[8], a[9], a[10], a[11], a[12], a[13], a[14]};
    }
    return error;
}

CUresult sim_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = len < 13 ? CUDA_ERROR_INVALID_VALUE : device_query(pciBusId, dev, &model);
    if (error == CUDA_SUCCESS) {
        snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", model->pci_domain & 0xffffu, model->pci_bus,
                 model->pci_device);
    }
    return error;
}

CUresult sim_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
    unsigned domain = 0, bus = 0, device = 0;
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (dev == NULL || pciBusId == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &device) != 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x", &bus, &device) != 2) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    for (unsigned i = 0; i < sim_driver.count; i++) {
        const struct sim_device *model = sim_model(&sim_driver.gpus[i]);
        if (model->pci_domain == domain && model->pci_bus == bus && model->pci_device == device) {
            *dev = (CUdevice)i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult sim_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidth, int format, unsigned numChannels, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(maxWidth, dev, &model);
    (void)format;
    if (error == CUDA_SUCCESS) {
        *maxWidth = numChannels == 0 ? 0 : (1ull << 28) / numChannels;
    }
    return error;
}

static bool linked(const struct sim_device *from, const struct sim_device *to) {
    for (unsigned i = 0; i < from->link_count; i++) {
        const struct sim_link *link = &from->links[i];
        bool direct = link->remote_kind == 1 && link->domain == to->pci_domain && link->bus == to->pci_bus &&
                      link->device == to->pci_device;
        if (direct || (link->remote_kind == 2 && to->link_count > 0 && to->links[0].remote_kind == 2)) {
            return true;
        }
    }
    return false;
}

CUresult sim_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
    const struct sim_device *model = NULL, *peer = NULL;
    CUresult error = device_query(canAccessPeer, dev, &model);
    error = error != CUDA_SUCCESS ? error : device_query(canAccessPeer, peerDev, &peer);
    if (error == CUDA_SUCCESS) {
        *canAccessPeer = model != peer && (linked(model, peer) || model->host_bridge == peer->host_bridge);
    }
    return error;
}

CUresult sim_cuDeviceGetP2PAttribute(int *value, int attrib, CUdevice srcDevice, CUdevice dstDevice) {
    const struct sim_device *from = NULL, *to = NULL;
    CUresult error = device_query(value, srcDevice, &from);
    error = error != CUDA_SUCCESS ? error : device_query(value, dstDevice, &to);
    if (error != CUDA_SUCCESS) {
        return error;
    }
    if (from == to || attrib < 1 || attrib > 5) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    bool fast = linked(from, to), access = fast || from->host_bridge == to->host_bridge;
    *value = attrib == 1 ? !fast : attrib == 2 || attrib == 4 ? access : attrib == 3 ? fast : 0;
    return CUDA_SUCCESS;
}

CUresult sim_cuDeviceGetExecAffinitySupport(int *pi, int type, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(pi, dev, &model);
    (void)type;
    if (error == CUDA_SUCCESS) {
        *pi = 0;
    }
    return error;
}
