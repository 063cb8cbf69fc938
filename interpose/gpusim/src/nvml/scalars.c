/* Questions answered with one number. gen_stubs.py knows SIM_SCALAR: it defines sim_<name>(device, unsigned *value). */
#include "nvml_impl.h"
#include "nvml_library.h"

#define SIM_SCALAR(name, expression)                                                                                   \
    nvmlReturn_t sim_##name(nvmlDevice_t device, unsigned *value) {                                                    \
        nvmlReturn_t error = NVML_SUCCESS;                                                                             \
        const struct sim_device *model = sim_nvml_card(device, &error);                                                \
        if (model == NULL || value == NULL) {                                                                          \
            return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;                                        \
        }                                                                                                              \
        *value = (unsigned)(expression);                                                                               \
        return NVML_SUCCESS;                                                                                           \
    }

/* Power grows with work, from idle to the limit. */
static unsigned power(const struct sim_device *model, unsigned device) {
    return model->power_idle_mw + (model->power_limit_mw - model->power_idle_mw) / 100u * sim_nvml_utilization(device);
}

static unsigned temperature(const struct sim_device *model, unsigned device) {
    return model->temperature_idle_c + sim_nvml_utilization(device) * 40u / 100u;
}

/* clang-format off */
SIM_SCALAR(nvmlDeviceGetMinorNumber, model->minor_number)
SIM_SCALAR(nvmlDeviceGetBrand, model->brand)
SIM_SCALAR(nvmlDeviceGetArchitecture, model->architecture)
SIM_SCALAR(nvmlDeviceGetBoardId, model->pci_bus << 8 | model->pci_device)
SIM_SCALAR(nvmlDeviceGetMultiGpuBoard, 0)
SIM_SCALAR(nvmlDeviceGetPersistenceMode, atomic_load(&model->persistence))
SIM_SCALAR(nvmlDeviceGetComputeMode, atomic_load(&model->compute_mode))
SIM_SCALAR(nvmlDeviceGetDisplayMode, 0)
SIM_SCALAR(nvmlDeviceGetDisplayActive, 0)
SIM_SCALAR(nvmlDeviceGetPerformanceState, sim_nvml_utilization(device->device) > 0 ? 0 : 8)
SIM_SCALAR(nvmlDeviceGetPowerState, sim_nvml_utilization(device->device) > 0 ? 0 : 8)
SIM_SCALAR(nvmlDeviceGetPowerManagementMode, 1)
SIM_SCALAR(nvmlDeviceGetPowerManagementLimit, model->power_limit_mw)
SIM_SCALAR(nvmlDeviceGetPowerManagementDefaultLimit, model->power_limit_mw)
SIM_SCALAR(nvmlDeviceGetEnforcedPowerLimit, model->power_limit_mw)
SIM_SCALAR(nvmlDeviceGetPowerUsage, power(model, device->device))
SIM_SCALAR(nvmlDeviceGetMaxPcieLinkGeneration, model->pcie_generation)
SIM_SCALAR(nvmlDeviceGetMaxPcieLinkWidth, model->pcie_width)
SIM_SCALAR(nvmlDeviceGetCurrPcieLinkGeneration, model->pcie_generation)
SIM_SCALAR(nvmlDeviceGetCurrPcieLinkWidth, model->pcie_width)
SIM_SCALAR(nvmlDeviceGetGpuMaxPcieLinkGeneration, model->pcie_generation)
SIM_SCALAR(nvmlDeviceGetPcieReplayCounter, 0)
SIM_SCALAR(nvmlDeviceGetMemoryBusWidth, model->bus_width_bits)
SIM_SCALAR(nvmlDeviceGetNumGpuCores, model->attributes[16] * 128)
SIM_SCALAR(nvmlDeviceGetMaxMigDeviceCount, model->mig_max_devices)
SIM_SCALAR(nvmlDeviceGetVirtualizationMode, 0)
SIM_SCALAR(nvmlDeviceGetAccountingMode, atomic_load(&model->accounting))
SIM_SCALAR(nvmlDeviceGetInforomConfigurationChecksum, 0x5e000000u + model->minor_number)
/* clang-format on */

nvmlReturn_t sim_nvmlDeviceGetTemperature(nvmlDevice_t device, int sensorType, unsigned *temp) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || temp == NULL || sensorType != 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *temp = temperature(model, device->device);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperatureInfo) {
    unsigned value = 0;
    if (temperatureInfo == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (temperatureInfo->version != SIM_NVML_STRUCT_VERSION(nvmlTemperature_t, 1u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    nvmlReturn_t error = sim_nvmlDeviceGetTemperature(device, temperatureInfo->sensorType, &value);
    temperatureInfo->temperature = error == NVML_SUCCESS ? (int)value : 0;
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int thresholdType, unsigned *temp) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || temp == NULL || thresholdType < 0 || thresholdType > 3) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    static const unsigned degrees[] = {95, 92, 95, 87}; /* shutdown, slowdown, memory, GPU */
    *temp = degrees[thresholdType];
    return NVML_SUCCESS;
}

static nvmlReturn_t clock_of(nvmlDevice_t device, int type, unsigned *clock) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || clock == NULL || type < 0 || type > 3) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *clock = type == 2 ? model->memory_clock_mhz : model->sm_clock_mhz; /* graphics, SM, memory, video */
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *clock) {
    return clock_of(device, type, clock);
}

nvmlReturn_t sim_nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *clock) {
    return clock_of(device, type, clock);
}

nvmlReturn_t sim_nvmlDeviceGetApplicationsClock(nvmlDevice_t device, int clockType, unsigned *clockMHz) {
    return clock_of(device, clockType, clockMHz);
}

nvmlReturn_t sim_nvmlDeviceGetClock(nvmlDevice_t device, int clockType, int clockId, unsigned *clockMHz) {
    (void)clockId;
    return clock_of(device, clockType, clockMHz);
}

nvmlReturn_t sim_nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *minLimit,
                                                              unsigned *maxLimit) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || minLimit == NULL || maxLimit == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *minLimit = model->power_limit_mw / 4;
    *maxLimit = model->power_limit_mw;
    return NVML_SUCCESS;
}

static nvmlReturn_t coder_use(nvmlDevice_t device, unsigned *utilization, unsigned *samplingPeriodUs) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || utilization == NULL || samplingPeriodUs == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *utilization = 0;
    *samplingPeriodUs = 167000;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *utilization,
                                                 unsigned *samplingPeriodUs) {
    return coder_use(device, utilization, samplingPeriodUs);
}

nvmlReturn_t sim_nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *utilization,
                                                 unsigned *samplingPeriodUs) {
    return coder_use(device, utilization, samplingPeriodUs);
}

nvmlReturn_t sim_nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned *value) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || value == NULL || counter < 0 || counter > 1) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *value = atomic_load(&model->link_kb[counter]);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || current == NULL || pending == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *current = *pending = (int)model->ecc;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int errorType, int counterType,
                                             unsigned long long *eccCounts) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    (void)counterType;
    if (model == NULL || eccCounts == NULL || errorType < 0 || errorType > 1) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (model->ecc == 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *eccCounts = errorType == 1 ? atomic_load(&model->ecc_uncorrected) : 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || energy == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    uint64_t busy = 0;
    for (unsigned slot = 0; slot < SIM_MAX_SLOTS; slot++) {
        busy += atomic_load(&sim_books->engines[device->device][slot].busy_total);
    }
    *energy = busy / 1000000ull * model->power_limit_mw / 1000ull; /* millijoules of work done */
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *clocksEventReasons) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || clocksEventReasons == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *clocksEventReasons = sim_nvml_utilization(device->device) > 0 ? 0 : 1; /* idle */
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                           unsigned long long *clocksThrottleReasons) {
    return sim_nvmlDeviceGetCurrentClocksEventReasons(device, clocksThrottleReasons);
}

nvmlReturn_t sim_nvmlDeviceSetPersistenceMode(nvmlDevice_t device, int mode) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || mode < 0 || mode > 1) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    atomic_store(&model->persistence, (uint32_t)mode);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceSetComputeMode(nvmlDevice_t device, int mode) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || mode < 0 || mode > 3) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    atomic_store(&model->compute_mode, (uint32_t)mode);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrRows, unsigned *uncRows,
                                           unsigned *isPending, unsigned *failureOccurred) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || corrRows == NULL || uncRows == NULL || isPending == NULL || failureOccurred == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (model->architecture < 7) { /* from Ampere on */
        return NVML_ERROR_NOT_SUPPORTED;
    }
    uint32_t repair = atomic_load(&model->repair);
    *corrRows = *uncRows = 0;
    *isPending = (repair & SIM_REPAIR_PENDING) != 0;
    *failureOccurred = (repair & SIM_REPAIR_FAILED) != 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int *isPending) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = sim_nvml_card(device, &error);
    if (model == NULL || isPending == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (model->architecture >= 7) { /* rows are remapped instead */
        return NVML_ERROR_NOT_SUPPORTED;
    }
    *isPending = (atomic_load(&model->repair) & SIM_REPAIR_PENDING) != 0;
    return NVML_SUCCESS;
}

/* No field is simulated: each answers so by itself, as an unknown one does on a real card. */
nvmlReturn_t sim_nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_card(device, &error) == NULL || valuesCount <= 0 || values == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    for (int i = 0; i < valuesCount; i++) {
        values[i].nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
    }
    return NVML_SUCCESS;
}
