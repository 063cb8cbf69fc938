/* How cards are joined: PCI levels and NVLinks. */
#include <stdio.h>
#include <string.h>

#include "nvml_impl.h"
#include "nvml_library.h"

enum { SINGLE_SWITCH = 10, HOST_BRIDGE = 30, SAME_NODE = 40, SYSTEM = 50 };

static int level_of(const struct sim_device *a, const struct sim_device *b) {
    if (a == b) {
        return 0;
    }
    if (a->pcie_switch == b->pcie_switch) {
        return SINGLE_SWITCH;
    }
    if (a->host_bridge == b->host_bridge) {
        return HOST_BRIDGE;
    }
    return a->numa_node == b->numa_node ? SAME_NODE : SYSTEM;
}

nvmlReturn_t sim_nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2, int *pathInfo) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *a = sim_nvml_card(device1, &error), *b = a != NULL ? sim_nvml_card(device2, &error) : NULL;
    if (b == NULL || pathInfo == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *pathInfo = level_of(a, b);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned *count,
                                                  nvmlDevice_t *deviceArray) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || count == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned room = *count, found = 0;
    for (unsigned i = 0; i < sim_nvml_count(); i++) {
        nvmlDevice_t other = sim_nvml_at(i);
        if (other != device && level_of(model, &sim_books->devices[other->device]) <= level) {
            if (deviceArray != NULL && found < room) {
                deviceArray[found] = other;
            }
            found++;
        }
    }
    *count = found;
    return deviceArray == NULL || found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

nvmlReturn_t sim_nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int *onSameBoard) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *a = sim_nvml_card(device1, &error), *b = a != NULL ? sim_nvml_card(device2, &error) : NULL;
    if (b == NULL || onSameBoard == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *onSameBoard = a == b;
    return NVML_SUCCESS;
}

static bool joined(const struct sim_device *a, const struct sim_device *b) {
    for (unsigned i = 0; i < a->link_count; i++) {
        bool direct =
            a->links[i].remote_kind == 1 && a->links[i].bus == b->pci_bus && a->links[i].domain == b->pci_domain;
        if (direct || (a->links[i].remote_kind == 2 && b->link_count > 0 && b->links[0].remote_kind == 2)) {
            return true;
        }
    }
    return false;
}

/* Index: read 0, write 1, NVLink 2, atomics 3, PCI property 4. */
nvmlReturn_t sim_nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, int p2pIndex, int *p2pStatus) {
    enum { OK = 0, NOT_SUPPORTED = 5 };
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *a = sim_nvml_card(device1, &error), *b = a != NULL ? sim_nvml_card(device2, &error) : NULL;
    if (b == NULL || p2pStatus == NULL || p2pIndex < 0 || p2pIndex > 4) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    bool nvlink = joined(a, b), pci = a->host_bridge == b->host_bridge;
    *p2pStatus = nvlink || (p2pIndex != 2 && p2pIndex != 3 && pci) ? OK : NOT_SUPPORTED;
    return NVML_SUCCESS;
}

/* The link of a call, or NULL with *error set. */
static const struct sim_link *link_of(nvmlDevice_t device, unsigned link, const void *output, nvmlReturn_t *error) {
    const struct sim_device *model = sim_nvml_card(device, error);
    if (model == NULL) {
        return NULL;
    }
    if (output == NULL || link >= model->link_count) {
        *error = output != NULL && model->link_count == 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_ERROR_INVALID_ARGUMENT;
        return NULL;
    }
    return &model->links[link];
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *isActive) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_link *found = link_of(device, link, isActive, &error);
    if (found != NULL) {
        *isActive = found->remote_kind != 0;
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_link *found = link_of(device, link, version, &error);
    if (found != NULL) {
        *version = found->version;
    }
    return error;
}

/* Capabilities 0-5: peer and system memory access and atomics, SLI, valid. */
nvmlReturn_t sim_nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int capability,
                                               unsigned *capResult) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_link *found = link_of(device, link, capResult, &error);
    if (found != NULL) {
        *capResult = found->remote_kind != 0 && capability != 4;
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, int *pNvLinkDeviceType) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_link *found = link_of(device, link, pNvLinkDeviceType, &error);
    if (found != NULL) {
        *pNvLinkDeviceType = found->remote_kind == 2 ? 2 : 0;
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_link *found = link_of(device, link, pci, &error);
    if (found != NULL) {
        memset(pci, 0, sizeof *pci);
        pci->domain = found->domain;
        pci->bus = found->bus;
        pci->device = found->device;
        pci->pciDeviceId = found->pci_device_id;
        snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", found->domain & 0xffffu,
                 found->bus & 0xffu, found->device & 0xffu);
        snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", found->domain, found->bus & 0xffu,
                 found->device & 0xffu);
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter,
                                                 unsigned long long *counterValue) {
    nvmlReturn_t error = NVML_SUCCESS;
    (void)counter;
    if (link_of(device, link, counterValue, &error) != NULL) {
        *counterValue = 0;
    }
    return error;
}
