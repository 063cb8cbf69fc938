/* What a card is: names, numbers, place. */
#include <stdio.h>
#include <string.h>

#include "nvml_impl.h"
#include "nvml_library.h"
#include "uuid.h"

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

nvmlReturn_t sim_nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_model(device, &error);
    if (model == NULL || device->instance < 0) {
        return model == NULL ? error : copy_text(name, length, model->name);
    }
    return copy_text(name, length, sim_books->devices[sim_nvml_pool(device)].name);
}

nvmlReturn_t sim_nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_model(device, &error);
    char text[SIM_UUID_TEXT];
    if (model == NULL) {
        return error;
    }
    if (device->instance >= 0) {
        uint8_t own[16];
        sim_mig_uuid(device->device, (unsigned)device->instance, (unsigned)device->compute, own);
        sim_uuid_text(own, "MIG-", text);
    } else {
        sim_uuid_text(model->uuid, "GPU-", text);
    }
    return copy_text(uuid, length, text);
}

nvmlReturn_t sim_nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    return model == NULL ? error : copy_text(serial, length, model->serial);
}

nvmlReturn_t sim_nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber, unsigned length) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    return model == NULL ? error : copy_text(partNumber, length, model->board_part);
}

nvmlReturn_t sim_nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned length) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    return model == NULL ? error : copy_text(version, length, model->vbios);
}

nvmlReturn_t sim_nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(device, &error) == NULL || index == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (device->instance >= 0) {
        *index = sim_nvml_mig_index(device);
        return NVML_SUCCESS;
    }
    for (unsigned i = 0; i < sim_nvml_count(); i++) {
        if (sim_nvml_at(i) == device) {
            *index = i;
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

static void fill_pci(const struct sim_device *model, nvmlPciInfo_t *pci) {
    memset(pci, 0, sizeof *pci);
    pci->domain = model->pci_domain;
    pci->bus = model->pci_bus;
    pci->device = model->pci_device;
    pci->pciDeviceId = model->pci_device_id;
    pci->pciSubSystemId = model->pci_subsystem_id;
    snprintf(pci->busIdLegacy, sizeof pci->busIdLegacy, "%04X:%02X:%02X.0", pci->domain & 0xffffu, pci->bus & 0xffu,
             pci->device & 0xffu);
    snprintf(pci->busId, sizeof pci->busId, "%08X:%02X:%02X.0", pci->domain, pci->bus & 0xffu, pci->device & 0xffu);
}

nvmlReturn_t sim_nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || pci == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    fill_pci(model, pci);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    nvmlPciInfo_t plain;
    if (model == NULL || pci == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (pci->version != SIM_NVML_STRUCT_VERSION(nvmlPciInfoExt_t, 1u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    fill_pci(model, &plain);
    pci->domain = plain.domain;
    pci->bus = plain.bus;
    pci->device = plain.device;
    pci->pciDeviceId = plain.pciDeviceId;
    pci->pciSubSystemId = plain.pciSubSystemId;
    pci->baseClass = 3;
    pci->subClass = 2;
    memcpy(pci->busId, plain.busId, sizeof pci->busId);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_model(device, &error);
    if (model == NULL || major == NULL || minor == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *major = model->attributes[75];
    *minor = model->attributes[76];
    return NVML_SUCCESS;
}

static bool bit_at(const uint64_t mask[16], unsigned bit) {
    return bit < 1024 && (mask[bit / 64] >> (bit % 64) & 1) != 0;
}

nvmlReturn_t sim_nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || cpuSet == NULL || cpuSetSize == 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    for (unsigned word = 0; word < cpuSetSize; word++) {
        cpuSet[word] = word < 16 ? (unsigned long)model->cpu_mask[word] : 0;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet,
                                                     unsigned scope) {
    (void)scope;
    return sim_nvmlDeviceGetCpuAffinity(device, cpuSetSize, cpuSet);
}

nvmlReturn_t sim_nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned nodeSetSize, unsigned long *nodeSet,
                                             unsigned scope) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    (void)scope;
    if (model == NULL || nodeSet == NULL || nodeSetSize == 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    memset(nodeSet, 0, nodeSetSize * sizeof *nodeSet);
    uint64_t nodes[16] = {0};
    nodes[model->numa_node / 64 % 16] = 1ull << (model->numa_node % 64);
    for (unsigned bit = 0; bit < nodeSetSize * 64; bit++) {
        nodeSet[bit / 64] |= bit_at(nodes, bit) ? 1ul << (bit % 64) : 0;
    }
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || node == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *node = model->numa_node;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_model(device, &error);
    if (model == NULL || attributes == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (device->instance < 0) {
        return NVML_ERROR_NOT_SUPPORTED; /* MIG devices only, as the real one */
    }
    const struct sim_mig_profile *profile = &model->mig_profiles[model->mig_instances[device->instance].profile_row];
    unsigned compute = sim_nvml_compute_slices(device->device, (unsigned)device->instance, (unsigned)device->compute);
    *attributes = (nvmlDeviceAttributes_t){
        profile->sms,  profile->copy_engines, profile->decoders, profile->encoders,  profile->jpegs,
        profile->ofas, profile->slices,       compute,           profile->memory_mib};
    return NVML_SUCCESS;
}
