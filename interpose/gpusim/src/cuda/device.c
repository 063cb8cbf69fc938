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

/* ---- which devices CUDA shows: see README.md on MIG ---- */

/* A card, or a MIG device of one, which then is a device of its own. */
struct choice {
    unsigned device, compute;
};

static bool same(struct choice a, struct choice b) {
    return a.device == b.device && a.compute == b.compute;
}

/* The visible cards, one element of the list, and what it names among them. */
struct search {
    unsigned cards[SIM_MAX_CARDS], count;
    const char *text;
    size_t length;
    unsigned matches;
    struct choice found;
};

static void found(struct search *s, unsigned device, unsigned compute) {
    s->found = (struct choice){device, compute};
    s->matches++;
}

/* Calls `visit` for each visible MIG device of a card, in NVML's order, until it says that this is enough. */
typedef bool visit_fn(struct search *s, unsigned card, unsigned instance, unsigned compute);
static void each_mig(struct search *s, unsigned card, visit_fn *visit) {
    bool enough = false;
    for (unsigned i = 0; i < SIM_MAX_MIG_INSTANCES * SIM_MAX_COMPUTE_INSTANCES && !enough; i++) {
        unsigned instance = i / SIM_MAX_COMPUTE_INSTANCES, compute = i % SIM_MAX_COMPUTE_INSTANCES;
        enough = sim_mig_visible(card, instance, compute) && visit(s, card, instance, compute);
    }
}

static bool is_any(struct search *s, unsigned card, unsigned instance, unsigned compute) {
    found(s, sim_mig_device(card, instance), compute);
    return true;
}

/* A card in MIG mode is no device itself: its first MIG device stands for it, if it has one. */
static void take_card(struct search *s, unsigned card) {
    if (atomic_load(&sim_books->devices[card].mig_mode) == 0) {
        found(s, card, 0);
    } else {
        each_mig(s, card, is_any);
    }
}

static bool has_uuid(struct search *s, unsigned card, unsigned instance, unsigned compute) {
    uint8_t uuid[16];
    char shown[SIM_UUID_TEXT];
    sim_mig_uuid(card, instance, compute, uuid);
    sim_uuid_text(uuid, "MIG-", shown);
    if (strncasecmp(shown, s->text, s->length) == 0) {
        found(s, sim_mig_device(card, instance), compute);
    }
    return false;
}

/* "MIG-GPU-<UUID>/<GPU instance>/<compute instance>", the form of drivers before R470. */
static bool has_place(struct search *s, unsigned card, unsigned instance, unsigned compute) {
    char uuid[SIM_UUID_TEXT], shown[SIM_UUID_TEXT + 32];
    sim_uuid_text(sim_books->devices[card].uuid, "MIG-GPU-", uuid);
    int length = snprintf(shown, sizeof shown, "%s/%u/%u", uuid, instance + 1, compute);
    if ((size_t)length == s->length && strncasecmp(shown, s->text, s->length) == 0) {
        found(s, sim_mig_device(card, instance), compute);
    }
    return false;
}

static bool begins(const struct search *s, const char *prefix) {
    return s->length > strlen(prefix) && strncasecmp(s->text, prefix, strlen(prefix)) == 0;
}

/* One element of CUDA_VISIBLE_DEVICES: an index, or enough of a UUID to be unique. */
static bool names_one(struct search *s) {
    char *end = NULL;
    long index = strtol(s->text, &end, 10);
    s->matches = 0;
    if (s->length > 0 && end == s->text + s->length) {
        if (index >= 0 && (unsigned long)index < s->count) {
            take_card(s, s->cards[index]);
        }
        return s->matches == 1;
    }
    for (unsigned i = 0; i < s->count; i++) {
        char uuid[SIM_UUID_TEXT];
        sim_uuid_text(sim_books->devices[s->cards[i]].uuid, "GPU-", uuid);
        if (begins(s, "MIG-GPU-")) {
            each_mig(s, s->cards[i], has_place);
        } else if (begins(s, "MIG-")) {
            each_mig(s, s->cards[i], has_uuid);
        } else if (begins(s, "GPU-") && strncasecmp(uuid, s->text, s->length) == 0) {
            take_card(s, s->cards[i]);
        }
    }
    return s->matches == 1;
}

/* Devices up to the first element that names none; a device named twice means no device at all. */
static unsigned take_named(struct search *s, const char *list, struct choice chosen[SIM_MAX_CARDS]) {
    unsigned taken = 0;
    while (*list != '\0' && taken < SIM_MAX_CARDS) {
        s->text = list + strspn(list, " ");
        s->length = strcspn(s->text, ",");
        if (!names_one(s)) {
            break;
        }
        for (unsigned i = 0; i < taken; i++) {
            if (same(chosen[i], s->found)) {
                return 0;
            }
        }
        chosen[taken++] = s->found;
        list = s->text + s->length + (s->text[s->length] == ',');
    }
    return taken;
}

static unsigned take_all(struct search *s, struct choice chosen[SIM_MAX_CARDS]) {
    unsigned taken = 0;
    for (unsigned i = 0; i < s->count; i++) {
        s->matches = 0;
        take_card(s, s->cards[i]);
        if (s->matches != 0) {
            chosen[taken++] = s->found;
        }
    }
    return taken;
}

/* A process has one MIG device, the first, and beside it no card. */
static unsigned select_visible(struct choice chosen[SIM_MAX_CARDS]) {
    struct search s = {0};
    s.count = sim_visible_cards(s.cards);
    const char *list = getenv("CUDA_VISIBLE_DEVICES");
    unsigned taken = list != NULL ? take_named(&s, list, chosen) : take_all(&s, chosen);
    for (unsigned i = 0; i < taken; i++) {
        if (sim_is_mig(chosen[i].device)) {
            chosen[0] = chosen[i];
            return 1;
        }
    }
    return taken;
}

static CUresult start(void) {
    if (sim_books_open() != SIM_OPEN_OK) {
        return CUDA_ERROR_NO_DEVICE;
    }
    struct choice chosen[SIM_MAX_CARDS] = {{0}};
    unsigned count = select_visible(chosen);
    if (count == 0) {
        return CUDA_ERROR_NO_DEVICE;
    }
    for (unsigned i = 0; i < count; i++) {
        sim_driver.gpus[i].index = chosen[i].device;
        sim_driver.gpus[i].compute = chosen[i].compute;
        pthread_mutex_init(&sim_driver.gpus[i].lock, NULL);
    }
    sim_driver.count = count;
    (void)sim_slot_claim(); /* others may ask for this process from now on */
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

/* The first version knows cards alone, the second tells MIG devices apart. */
CUresult sim_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(uuid, dev, &model);
    if (error == CUDA_SUCCESS) {
        memcpy(uuid->bytes, sim_books->devices[sim_card_of(sim_gpu_of(dev)->index)].uuid, sizeof uuid->bytes);
    }
    return error;
}

CUresult sim_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
    const struct sim_gpu *gpu = sim_gpu_of(dev);
    CUresult error = sim_cuDeviceGetUuid(uuid, dev);
    if (error == CUDA_SUCCESS && sim_is_mig(gpu->index)) {
        sim_mig_uuid(sim_card_of(gpu->index), sim_instance_of(gpu->index), gpu->compute, (uint8_t *)uuid->bytes);
    }
    return error;
}

CUresult sim_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
    const struct sim_device *model = NULL;
    CUresult error = device_query(bytes, dev, &model);
    if (error == CUDA_SUCCESS) {
        *bytes = sim_device_capacity(model);
    }
    return error;
}

/* The first version has 32 bits, and shows more as the most that these hold. */
CUresult sim_cuDeviceTotalMem(unsigned *bytes, CUdevice dev) {
    size_t whole = 0;
    CUresult error = sim_cuDeviceTotalMem_v2(bytes == NULL ? NULL : &whole, dev);
    if (error == CUDA_SUCCESS) {
        *bytes = whole < UINT32_MAX ? (unsigned)whole : UINT32_MAX;
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
