/* Written by gpusim/gen_stubs.py. Do not edit. */
/* clang-format off */
#include "nvml_export.h"

SIM_EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance) {
    SIM_FAULTS(0xc94e7500db87806cull, 0xc94e7500db87806cull, SIM_COMPUTE_INSTANCE_DEVICE(computeInstance));
    return sim_nvmlComputeInstanceDestroy(computeInstance);
}

SIM_EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo(void) {
    SIM_FAULTS(0x74a9d6421f9f2b4eull, 0x74a9d6421f9f2b4eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t computeInstance, nvmlComputeInstanceInfo_t *info) {
    SIM_FAULTS(0x3d11c3d72b824d47ull, 0x74a9d6421f9f2b4eull, SIM_COMPUTE_INSTANCE_DEVICE(computeInstance));
    return sim_nvmlComputeInstanceGetInfo_v2(computeInstance, info);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceClearAccountingPids(void) {
    SIM_FAULTS(0x397cd5f50c646d5cull, 0x397cd5f50c646d5cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceClearCpuAffinity(void) {
    SIM_FAULTS(0x20205cd1a52fca43ull, 0x20205cd1a52fca43ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceClearEccErrorCounts(void) {
    SIM_FAULTS(0xee66d591313bb60eull, 0xee66d591313bb60eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceClearFieldValues(void) {
    SIM_FAULTS(0x4d7473720321cacfull, 0x4d7473720321cacfull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned profileId, nvmlGpuInstance_t *gpuInstance) {
    SIM_FAULTS(0x23aebd44cb413b13ull, 0x23aebd44cb413b13ull, SIM_DEVICE(device));
    return sim_nvmlDeviceCreateGpuInstance(device, profileId, gpuInstance);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned profileId, const nvmlGpuInstancePlacement_t *placement, nvmlGpuInstance_t *gpuInstance) {
    SIM_FAULTS(0xc63705fefd680f62ull, 0xc63705fefd680f62ull, SIM_DEVICE(device));
    return sim_nvmlDeviceCreateGpuInstanceWithPlacement(device, profileId, placement, gpuInstance);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceDiscoverGpus(void) {
    SIM_FAULTS(0x744479bc22661ef6ull, 0x744479bc22661ef6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceFreezeNvLinkUtilizationCounter(void) {
    SIM_FAULTS(0x742ccf37d89d6585ull, 0x742ccf37d89d6585ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAPIRestriction(void) {
    SIM_FAULTS(0xed0ece1ec6fd3858ull, 0xed0ece1ec6fd3858ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAccountingBufferSize(nvmlDevice_t device, unsigned *bufferSize) {
    SIM_FAULTS(0xd49c510273f28f68ull, 0xd49c510273f28f68ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetAccountingBufferSize(device, bufferSize);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAccountingMode(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xc6f1f83e01b53a6cull, 0xc6f1f83e01b53a6cull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetAccountingMode(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAccountingPids(nvmlDevice_t device, unsigned *count, unsigned *pids) {
    SIM_FAULTS(0xc37328679c8058cdull, 0xc37328679c8058cdull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetAccountingPids(device, count, pids);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats(nvmlDevice_t device, unsigned pid, nvmlAccountingStats_t *stats) {
    SIM_FAULTS(0x539cd7347fe7eb9eull, 0x539cd7347fe7eb9eull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetAccountingStats(device, pid, stats);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAccountingStats_v2(nvmlDevice_t device, nvmlAccountingStats_v2_t *stats) {
    SIM_FAULTS(0x90e195ee49bd0757ull, 0x539cd7347fe7eb9eull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetAccountingStats_v2(device, stats);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetActiveVgpus(void) {
    SIM_FAULTS(0xc0f5e3d3a0e3d295ull, 0xc0f5e3d3a0e3d295ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAdaptiveClockInfoStatus(void) {
    SIM_FAULTS(0x4b680b53f4ee71ecull, 0x4b680b53f4ee71ecull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAdaptiveTgpModeInfo_v1(void) {
    SIM_FAULTS(0xaca31604ba874b24ull, 0x864b070b2655947cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(void) {
    SIM_FAULTS(0xb930ee7f839a60edull, 0xb930ee7f839a60edull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetApplicationsClock(nvmlDevice_t device, int clockType, unsigned *clockMHz) {
    SIM_FAULTS(0xb5f17093c5fbb059ull, 0xb5f17093c5fbb059ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetApplicationsClock(device, clockType, clockMHz);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x8b946fd5e4d1a03dull, 0x8b946fd5e4d1a03dull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetArchitecture(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAttributes(void) {
    SIM_FAULTS(0x920d9d02633f37d7ull, 0x920d9d02633f37d7ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes) {
    SIM_FAULTS(0x112f53fa41033908ull, 0x920d9d02633f37d7ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetAttributes_v2(device, attributes);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetAutoBoostedClocksEnabled(void) {
    SIM_FAULTS(0x20d08dc4b8a124a7ull, 0x20d08dc4b8a124a7ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *bar1Memory) {
    SIM_FAULTS(0xe9f35c7f26c23249ull, 0xe9f35c7f26c23249ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetBAR1MemoryInfo(device, bar1Memory);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBBXTimeData_v1(void) {
    SIM_FAULTS(0xe37813d5191fd245ull, 0x5946b8a2f7eb99d3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBankRemapperStatus_v1(void) {
    SIM_FAULTS(0xc27d7e34a74dea56ull, 0x7131bd60a8def8a2ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBoardId(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x5ef0cc3582e4d69full, 0x5ef0cc3582e4d69full, SIM_DEVICE(device));
    return sim_nvmlDeviceGetBoardId(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBoardPartNumber(nvmlDevice_t device, char *partNumber, unsigned length) {
    SIM_FAULTS(0xe99500eeed43a2d2ull, 0xe99500eeed43a2d2ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetBoardPartNumber(device, partNumber, length);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x67a14861ace9ad2full, 0x67a14861ace9ad2full, SIM_DEVICE(device));
    return sim_nvmlDeviceGetBrand(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBridgeChipInfo(void) {
    SIM_FAULTS(0x29ce15f85e50e7f1ull, 0x29ce15f85e50e7f1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetBusType(void) {
    SIM_FAULTS(0x725cf8501088f68cull, 0x725cf8501088f68cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetC2cModeInfoV(void) {
    SIM_FAULTS(0x7f3c0cd462c79723ull, 0x7f3c0cd462c79723ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCapabilities(void) {
    SIM_FAULTS(0x7fa74c77d285de7cull, 0x7fa74c77d285de7cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetClkMonStatus(void) {
    SIM_FAULTS(0x152421e39fc461eaull, 0x152421e39fc461eaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, int clockType, int clockId, unsigned *clockMHz) {
    SIM_FAULTS(0xfa824337229597acull, 0xfa824337229597acull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetClock(device, clockType, clockId, clockMHz);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned *clock) {
    SIM_FAULTS(0xec2057c9661b46d0ull, 0xec2057c9661b46d0ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetClockInfo(device, type, clock);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetClockOffsets(void) {
    SIM_FAULTS(0x58ebcc1bf080684cull, 0x58ebcc1bf080684cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id) {
    SIM_FAULTS(0x08e2b547d20507b9ull, 0x08e2b547d20507b9ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetComputeInstanceId(device, id);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x34f8138381639880ull, 0x34f8138381639880ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetComputeMode(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_v1_t *infos) {
    SIM_FAULTS(0xe387a2b0a2b507dbull, 0xe387a2b0a2b507dbull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetComputeRunningProcesses(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_t *infos) {
    SIM_FAULTS(0x2f7600e424495274ull, 0xe387a2b0a2b507dbull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetComputeRunningProcesses_v2(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_t *infos) {
    SIM_FAULTS(0x2f7601e424495427ull, 0xe387a2b0a2b507dbull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetComputeRunningProcesses_v3(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetConfComputeGpuAttestationReport(void) {
    SIM_FAULTS(0x75033bb24c596a03ull, 0x75033bb24c596a03ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetConfComputeGpuCertificate(void) {
    SIM_FAULTS(0x8672211c67f4d7a4ull, 0x8672211c67f4d7a4ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetConfComputeMemSizeInfo(void) {
    SIM_FAULTS(0x24b53698bbf5d717ull, 0x24b53698bbf5d717ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetConfComputeProtectedMemoryUsage(nvmlDevice_t device, nvmlMemory_t *memory) {
    SIM_FAULTS(0xad8bcf5279362555ull, 0xad8bcf5279362555ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetConfComputeProtectedMemoryUsage(device, memory);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCoolerInfo(void) {
    SIM_FAULTS(0xe74ef1d44fe0a800ull, 0xe74ef1d44fe0a800ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *deviceCount) {
    SIM_FAULTS(0xe80f201e93aa7039ull, 0xe80f201e93aa7039ull, SIM_CALLER_DEVICE);
    return sim_nvmlDeviceGetCount_v2(deviceCount);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *deviceCount) {
    SIM_FAULTS(0xc099537cc1e35efaull, 0xe80f201e93aa7039ull, SIM_CALLER_DEVICE);
    return sim_nvmlDeviceGetCount_v2(deviceCount);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet) {
    SIM_FAULTS(0xfcc883e3dc8c87a8ull, 0xfcc883e3dc8c87a8ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCpuAffinity(device, cpuSetSize, cpuSet);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned cpuSetSize, unsigned long *cpuSet, unsigned scope) {
    SIM_FAULTS(0x1c37e49170ef7c1dull, 0x1c37e49170ef7c1dull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCpuAffinityWithinScope(device, cpuSetSize, cpuSet, scope);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCreatableVgpus(void) {
    SIM_FAULTS(0x7ca72546a22af5acull, 0x7ca72546a22af5acull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor) {
    SIM_FAULTS(0x58489519cf2c2884ull, 0x58489519cf2c2884ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCudaComputeCapability(device, major, minor);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x2138bc1fa1b47157ull, 0x2138bc1fa1b47157ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCurrPcieLinkGeneration(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x143d50dc61daccbfull, 0x143d50dc61daccbfull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCurrPcieLinkWidth(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClockFreqs(void) {
    SIM_FAULTS(0xf9d97a63e6b0521eull, 0xf9d97a63e6b0521eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device, unsigned long long *clocksEventReasons) {
    SIM_FAULTS(0x958ddc9f78fcd911ull, 0x958ddc9f78fcd911ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCurrentClocksEventReasons(device, clocksEventReasons);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device, unsigned long long *clocksThrottleReasons) {
    SIM_FAULTS(0xc312a70018e779bdull, 0xc312a70018e779bdull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetCurrentClocksThrottleReasons(device, clocksThrottleReasons);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t device, unsigned *utilization, unsigned *samplingPeriodUs) {
    SIM_FAULTS(0x5049f5fa3c9895deull, 0x5049f5fa3c9895deull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetDecoderUtilization(device, utilization, samplingPeriodUs);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDefaultApplicationsClock(void) {
    SIM_FAULTS(0x74f9b8215c9921caull, 0x74f9b8215c9921caull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDefaultEccMode(void) {
    SIM_FAULTS(0x905160e01b441bdfull, 0x905160e01b441bdfull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDetailedEccErrors(void) {
    SIM_FAULTS(0xcd098baacf8897a8ull, 0xcd098baacf8897a8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device) {
    SIM_FAULTS(0x035184075f3c6e95ull, 0x035184075f3c6e95ull, SIM_DEVICE(migDevice));
    return sim_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(migDevice, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDisplayActive(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x92da133653b77f72ull, 0x92da133653b77f72ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetDisplayActive(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDisplayMode(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x94cff8a8642dc9ebull, 0x94cff8a8642dc9ebull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetDisplayMode(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDramEncryptionMode(void) {
    SIM_FAULTS(0x1640ff8cef1f3ca0ull, 0x1640ff8cef1f3ca0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDriverModel(void) {
    SIM_FAULTS(0xdb7e2c9015c18b79ull, 0xdb7e2c9015c18b79ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDriverModel_v2(void) {
    SIM_FAULTS(0x4ee141a5b88e51baull, 0xdb7e2c9015c18b79ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetDynamicPstatesInfo(void) {
    SIM_FAULTS(0xdd1cc055dd6d0023ull, 0xdd1cc055dd6d0023ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, int *current, int *pending) {
    SIM_FAULTS(0xada7e99e730c5bfcull, 0xada7e99e730c5bfcull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetEccMode(device, current, pending);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEncoderCapacity(void) {
    SIM_FAULTS(0xa7a1d5572b10d312ull, 0xa7a1d5572b10d312ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEncoderSessions(void) {
    SIM_FAULTS(0xc6dca8c828a99c63ull, 0xc6dca8c828a99c63ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEncoderStats(void) {
    SIM_FAULTS(0xd6f18c60b6994ab5ull, 0xd6f18c60b6994ab5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEncoderUtilization(nvmlDevice_t device, unsigned *utilization, unsigned *samplingPeriodUs) {
    SIM_FAULTS(0x38c2cea55aed3552ull, 0x38c2cea55aed3552ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetEncoderUtilization(device, utilization, samplingPeriodUs);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xf11baf472be16704ull, 0xf11baf472be16704ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetEnforcedPowerLimit(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFBCSessions(void) {
    SIM_FAULTS(0x72566d9d3feb5ca2ull, 0x72566d9d3feb5ca2ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFBCStats(void) {
    SIM_FAULTS(0x516ebf2d6d064da6ull, 0x516ebf2d6d064da6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFanControlPolicy_v2(void) {
    SIM_FAULTS(0xc1ddcdeb302ec3cfull, 0xd0ff1a842c58a836ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed(void) {
    SIM_FAULTS(0xc44d41c87614cb36ull, 0xc44d41c87614cb36ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFanSpeedRPM(void) {
    SIM_FAULTS(0xa6b46700986217dbull, 0xa6b46700986217dbull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFanSpeed_v2(void) {
    SIM_FAULTS(0xd19e4300b09424cfull, 0xc44d41c87614cb36ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount, nvmlFieldValue_t *values) {
    SIM_FAULTS(0xc08c7a2ca217f1ccull, 0xc08c7a2ca217f1ccull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetFieldValues(device, valuesCount, values);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpcClkMinMaxVfOffset(void) {
    SIM_FAULTS(0x4569c61e6f265bd7ull, 0x4569c61e6f265bd7ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpcClkVfOffset(void) {
    SIM_FAULTS(0x48067f0d9c4f3ef1ull, 0x48067f0d9c4f3ef1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(void) {
    SIM_FAULTS(0xe0d0d24a9e2ce9d9ull, 0xe0d0d24a9e2ce9d9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(void) {
    SIM_FAULTS(0x2fbee3cac650ddfdull, 0x2fbee3cac650ddfdull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo_v4(void) {
    SIM_FAULTS(0x35d6a8f507d13428ull, 0xe0d0d24a9e2ce9d9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *gpuInstance) {
    SIM_FAULTS(0x281f3de0bce87bb3ull, 0x281f3de0bce87bb3ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstanceById(device, id, gpuInstance);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
    SIM_FAULTS(0xc5cadf02311fd8deull, 0xc5cadf02311fd8deull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstanceId(device, id);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned profileId, nvmlGpuInstancePlacement_t *placements, unsigned *count) {
    SIM_FAULTS(0x43e8ec780005e2dcull, 0x43e8ec780005e2dcull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstancePossiblePlacements(device, profileId, placements, count);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned profileId, nvmlGpuInstancePlacement_t *placements, unsigned *count) {
    SIM_FAULTS(0x2cf168074bd9b5ddull, 0x43e8ec780005e2dcull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profileId, placements, count);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned profile, nvmlGpuInstanceProfileInfo_t *info) {
    SIM_FAULTS(0xda8b4d6e138a62e0ull, 0xda8b4d6e138a62e0ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstanceProfileInfo(device, profile, info);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(void) {
    SIM_FAULTS(0xe07e8ae118c2c5eaull, 0xe07e8ae118c2c5eaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned profile, nvmlGpuInstanceProfileInfo_v2_t *info) {
    SIM_FAULTS(0xe517480b3425bb42ull, 0xe517480b3425bb42ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstanceProfileInfoV(device, profile, info);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned profileId, unsigned *count) {
    SIM_FAULTS(0x69f42b097f6f2bb1ull, 0x69f42b097f6f2bb1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstanceRemainingCapacity(device, profileId, count);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned profileId, nvmlGpuInstance_t *gpuInstances, unsigned *count) {
    SIM_FAULTS(0x43a13ff14ada0640ull, 0x43a13ff14ada0640ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuInstances(device, profileId, gpuInstances, count);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x1a7a2a930fab8a97ull, 0x1a7a2a930fab8a97ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGpuMaxPcieLinkGeneration(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuOperationMode(void) {
    SIM_FAULTS(0x962a9f0005cb6a0eull, 0x962a9f0005cb6a0eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGpuUptime_v1(void) {
    SIM_FAULTS(0xf4c31759c490c41cull, 0x01f857303f90d6b4ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_v1_t *infos) {
    SIM_FAULTS(0xbc84e9d738c5ee7bull, 0xbc84e9d738c5ee7bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGraphicsRunningProcesses(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_t *infos) {
    SIM_FAULTS(0x9aae9d69c17e7cd4ull, 0xbc84e9d738c5ee7bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGraphicsRunningProcesses_v2(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_t *infos) {
    SIM_FAULTS(0x9aae9e69c17e7e87ull, 0xbc84e9d738c5ee7bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetGraphicsRunningProcesses_v3(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGridLicensableFeatures(void) {
    SIM_FAULTS(0xdb3d8ca0382183f1ull, 0xdb3d8ca0382183f1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v2(void) {
    SIM_FAULTS(0x61e3ab03499c15d2ull, 0xdb3d8ca0382183f1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v3(void) {
    SIM_FAULTS(0x61e3ac03499c1785ull, 0xdb3d8ca0382183f1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGridLicensableFeatures_v4(void) {
    SIM_FAULTS(0x61e3a503499c0ba0ull, 0xdb3d8ca0382183f1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareMode(void) {
    SIM_FAULTS(0xc3672d9f067a2c82ull, 0xc3672d9f067a2c82ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetGspFirmwareVersion(void) {
    SIM_FAULTS(0xc070ed907fba4407ull, 0xc070ed907fba4407ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *device) {
    SIM_FAULTS(0x14ff0f4ca50c233full, 0x14ff0f4ca50c233full, SIM_INDEX_DEVICE(index));
    return sim_nvmlDeviceGetHandleByIndex_v2(index, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device) {
    SIM_FAULTS(0x4860f475b670ad30ull, 0x14ff0f4ca50c233full, SIM_INDEX_DEVICE(index));
    return sim_nvmlDeviceGetHandleByIndex_v2(index, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *pciBusId, nvmlDevice_t *device) {
    SIM_FAULTS(0x47a4bc7f9cd39d2eull, 0x47a4bc7f9cd39d2eull, SIM_CALLER_DEVICE);
    return sim_nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *pciBusId, nvmlDevice_t *device) {
    SIM_FAULTS(0x896c3d408dd0bee7ull, 0x47a4bc7f9cd39d2eull, SIM_CALLER_DEVICE);
    return sim_nvmlDeviceGetHandleByPciBusId_v2(pciBusId, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleBySerial(const char *serial, nvmlDevice_t *device) {
    SIM_FAULTS(0xbf1084db7f49b43dull, 0xbf1084db7f49b43dull, SIM_CALLER_DEVICE);
    return sim_nvmlDeviceGetHandleBySerial(serial, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
    SIM_FAULTS(0x560ce4f7b6f861deull, 0x560ce4f7b6f861deull, SIM_CALLER_DEVICE);
    return sim_nvmlDeviceGetHandleByUUID(uuid, device);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUIDV(void) {
    SIM_FAULTS(0x304a98ebe80dba18ull, 0x304a98ebe80dba18ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHostVgpuMode(void) {
    SIM_FAULTS(0x7f2318f6d473e4cfull, 0x7f2318f6d473e4cfull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetHostname_v1(void) {
    SIM_FAULTS(0x2a926777551af021ull, 0xd2d720904bde4dd7ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *index) {
    SIM_FAULTS(0xf36fa2f0d453da66ull, 0xf36fa2f0d453da66ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetIndex(device, index);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetInforomConfigurationChecksum(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x8314bba209c35f25ull, 0x8314bba209c35f25ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetInforomConfigurationChecksum(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetInforomImageVersion(void) {
    SIM_FAULTS(0x3c95b682dce272b7ull, 0x3c95b682dce272b7ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetInforomVersion(void) {
    SIM_FAULTS(0x2f5bc90fe283ea44ull, 0x2f5bc90fe283ea44ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetIrqNum(void) {
    SIM_FAULTS(0x4b30a299ac7b3b78ull, 0x4b30a299ac7b3b78ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetJpgUtilization(void) {
    SIM_FAULTS(0x40beb1130498c517ull, 0x40beb1130498c517ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetLastBBXFlushTime(void) {
    SIM_FAULTS(0x3f0cff7e9e24f811ull, 0x3f0cff7e9e24f811ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(void) {
    SIM_FAULTS(0x9edb22171e2ae71dull, 0x9edb22171e2ae71dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(void) {
    SIM_FAULTS(0xffc4ddb36d22eba6ull, 0x9edb22171e2ae71dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *infoCount, nvmlProcessInfo_t *infos) {
    SIM_FAULTS(0xffc4deb36d22ed59ull, 0x9edb22171e2ae71dull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMPSComputeRunningProcesses_v3(device, infoCount, infos);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMarginTemperature(void) {
    SIM_FAULTS(0x19e07d8e57d3c42eull, 0x19e07d8e57d3c42eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned *clock) {
    SIM_FAULTS(0x147cbbba99111a8aull, 0x147cbbba99111a8aull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMaxClockInfo(device, type, clock);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxCustomerBoostClock(void) {
    SIM_FAULTS(0x91ad08a38368c29bull, 0x91ad08a38368c29bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x0c2500de81fd34f0ull, 0x0c2500de81fd34f0ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMaxMigDeviceCount(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x58965db61c824245ull, 0x58965db61c824245ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMaxPcieLinkGeneration(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x2896dd2774035bb1ull, 0x2896dd2774035bb1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMaxPcieLinkWidth(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemClkMinMaxVfOffset(void) {
    SIM_FAULTS(0x4be9a6f41758ac80ull, 0x4be9a6f41758ac80ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemClkVfOffset(void) {
    SIM_FAULTS(0x557727188d80be6eull, 0x557727188d80be6eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned nodeSetSize, unsigned long *nodeSet, unsigned scope) {
    SIM_FAULTS(0xe434c455b3efa6f1ull, 0xe434c455b3efa6f1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMemoryAffinity(device, nodeSetSize, nodeSet, scope);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryBusWidth(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xa26869c96777d00bull, 0xa26869c96777d00bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMemoryBusWidth(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryErrorCounter(void) {
    SIM_FAULTS(0x455f03f3ec402c07ull, 0x455f03f3ec402c07ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory) {
    SIM_FAULTS(0x23bb94790f62180dull, 0x23bb94790f62180dull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMemoryInfo(device, memory);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory) {
    SIM_FAULTS(0x98308805d4099856ull, 0x23bb94790f62180dull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMemoryInfo_v2(device, memory);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits) {
    SIM_FAULTS(0xb8ca4e7364231293ull, 0xe96db69a5c9df9fdull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMemoryLimits_v1(device, limits);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *migDevice) {
    SIM_FAULTS(0xa3d5547d3fb7a8ecull, 0xa3d5547d3fb7a8ecull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMigDeviceHandleByIndex(device, index, migDevice);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *currentMode, unsigned *pendingMode) {
    SIM_FAULTS(0xfcc63b3c2377b2ceull, 0xfcc63b3c2377b2ceull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMigMode(device, currentMode, pendingMode);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMinMaxClockOfPState(void) {
    SIM_FAULTS(0x98937b3ab5745b6eull, 0x98937b3ab5745b6eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMinMaxFanSpeed(void) {
    SIM_FAULTS(0x87fe4271a510fc88ull, 0x87fe4271a510fc88ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x2c3ca6f1e275c2daull, 0x2c3ca6f1e275c2daull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMinorNumber(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetModuleId(void) {
    SIM_FAULTS(0x619993af70918f33ull, 0x619993af70918f33ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetMultiGpuBoard(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x93fde54a0864d4b9ull, 0x93fde54a0864d4b9ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetMultiGpuBoard(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned length) {
    SIM_FAULTS(0x3cc4b9e02f774bf9ull, 0x3cc4b9e02f774bf9ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetName(device, name, length);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNumFans(void) {
    SIM_FAULTS(0x9f8fd3cf70069720ull, 0x9f8fd3cf70069720ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNumGpuCores(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xcbc484f33d18fdf4ull, 0xcbc484f33d18fdf4ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNumGpuCores(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned *node) {
    SIM_FAULTS(0x2677f9e4432a92acull, 0x2677f9e4432a92acull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNumaNodeId(device, node);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkCapability(nvmlDevice_t device, unsigned link, int capability, unsigned *capResult) {
    SIM_FAULTS(0xfa985152fc60e9c4ull, 0xfa985152fc60e9c4ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNvLinkCapability(device, link, capability, capResult);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkErrorCounter(nvmlDevice_t device, unsigned link, int counter, unsigned long long *counterValue) {
    SIM_FAULTS(0xd649c18700e78fbcull, 0xd649c18700e78fbcull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNvLinkErrorCounter(device, link, counter, counterValue);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkInfo(void) {
    SIM_FAULTS(0x1cf13b127a7f0a1eull, 0x1cf13b127a7f0a1eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkInfo_v3(void) {
    SIM_FAULTS(0x1ab583ad22716524ull, 0x1cf13b127a7f0a1eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, int *pNvLinkDeviceType) {
    SIM_FAULTS(0x52b9a7c19384df56ull, 0x52b9a7c19384df56ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNvLinkRemoteDeviceType(device, link, pNvLinkDeviceType);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(void) {
    SIM_FAULTS(0x64c67b575a908ea8ull, 0x64c67b575a908ea8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *pci) {
    SIM_FAULTS(0x76215ce1c9721bd1ull, 0x64c67b575a908ea8ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, pci);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, int *isActive) {
    SIM_FAULTS(0x87d91fe32322c1a3ull, 0x87d91fe32322c1a3ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNvLinkState(device, link, isActive);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkTelemetrySamples_v1(void) {
    SIM_FAULTS(0x40f838aaa092a654ull, 0x6e96f894ca9355ecull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkUtilizationControl(void) {
    SIM_FAULTS(0x8582798b5799c897ull, 0x8582798b5799c897ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkUtilizationCounter(void) {
    SIM_FAULTS(0xcd936a532b4af842ull, 0xcd936a532b4af842ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned link, unsigned *version) {
    SIM_FAULTS(0x9d412701614ddb42ull, 0x9d412701614ddb42ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetNvLinkVersion(device, link, version);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvlinkBwMode(void) {
    SIM_FAULTS(0x349648ae99cfb316ull, 0x349648ae99cfb316ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvlinkNvlePrivateInfo_v1(void) {
    SIM_FAULTS(0x2b59460536d16578ull, 0x3ef49ecb8baa38e8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvlinkRemapTableInfo_v1(void) {
    SIM_FAULTS(0xaa0210036b32ef1bull, 0x023581657c7c2a85ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetNvlinkSupportedBwModes(void) {
    SIM_FAULTS(0x6379c7898221f921ull, 0x6379c7898221f921ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetOfaUtilization(void) {
    SIM_FAULTS(0x52970b73c6c22dbaull, 0x52970b73c6c22dbaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2, int p2pIndex, int *p2pStatus) {
    SIM_FAULTS(0x5574aebbf2ca244eull, 0x5574aebbf2ca244eull, SIM_DEVICE(device1));
    return sim_nvmlDeviceGetP2PStatus(device1, device2, p2pIndex, p2pStatus);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(void) {
    SIM_FAULTS(0x4e337e6ee3827c9aull, 0x4e337e6ee3827c9aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci) {
    SIM_FAULTS(0x3d800f7f9849dfa1ull, 0x3d800f7f9849dfa1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPciInfoExt(device, pci);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(void) {
    SIM_FAULTS(0x5d969f7f19d4fb5bull, 0x4e337e6ee3827c9aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
    SIM_FAULTS(0x5d969e7f19d4f9a8ull, 0x4e337e6ee3827c9aull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPciInfo_v3(device, pci);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPcieLinkMaxSpeed(void) {
    SIM_FAULTS(0xa4058360a2763ce8ull, 0xa4058360a2763ce8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPcieReplayCounter(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xbe5353b9d3710dd2ull, 0xbe5353b9d3710dd2ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPcieReplayCounter(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPcieSpeed(void) {
    SIM_FAULTS(0x08cec4dde0d6c260ull, 0x08cec4dde0d6c260ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, int counter, unsigned *value) {
    SIM_FAULTS(0xbb8cc09898dbf63full, 0xbb8cc09898dbf63full, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPcieThroughput(device, counter, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPdi(void) {
    SIM_FAULTS(0xf7ef6f87f4067a7dull, 0xf7ef6f87f4067a7dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPerformanceModes(void) {
    SIM_FAULTS(0x81c63a560210f9acull, 0x81c63a560210f9acull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x964f90f7a68b93c9ull, 0x964f90f7a68b93c9ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPerformanceState(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x8c442aebde3d9e0eull, 0x8c442aebde3d9e0eull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPersistenceMode(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPgpuMetadataString(void) {
    SIM_FAULTS(0xea7264cd768c324cull, 0xea7264cd768c324cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPlatformInfo(void) {
    SIM_FAULTS(0xc15e19e66800eef1ull, 0xc15e19e66800eef1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementDefaultLimit(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xfab4d6668541ec04ull, 0xfab4d6668541ec04ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPowerManagementDefaultLimit(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x68426b2e8d81b54bull, 0x68426b2e8d81b54bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPowerManagementLimit(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementLimitConstraints(nvmlDevice_t device, unsigned *minLimit, unsigned *maxLimit) {
    SIM_FAULTS(0xfc9b403a764143c1ull, 0xfc9b403a764143c1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPowerManagementLimitConstraints(device, minLimit, maxLimit);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerManagementMode(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0xce28d7cfb43a944bull, 0xce28d7cfb43a944bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPowerManagementMode(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerMizerMode_v1(void) {
    SIM_FAULTS(0x0a2e0bcac3616ca7ull, 0xd89fecd8131d79d9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerSource(void) {
    SIM_FAULTS(0x8e37bf8053684db6ull, 0x8e37bf8053684db6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerState(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x12dd9c855ccdb5d4ull, 0x12dd9c855ccdb5d4ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPowerState(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x589d143b7860a402ull, 0x589d143b7860a402ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetPowerUsage(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *utilization, unsigned *processSamplesCount, unsigned long long lastSeenTimeStamp) {
    SIM_FAULTS(0x423d2181796e20f1ull, 0x423d2181796e20f1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetProcessUtilization(device, utilization, processSamplesCount, lastSeenTimeStamp);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetProcessesUtilizationInfo(nvmlDevice_t device, nvmlProcessesUtilizationInfo_t *procesesUtilInfo) {
    SIM_FAULTS(0xee8278a3011d9c01ull, 0xee8278a3011d9c01ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetProcessesUtilizationInfo(device, procesesUtilInfo);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrRows, unsigned *uncRows, unsigned *isPending, unsigned *failureOccurred) {
    SIM_FAULTS(0x239950547a0eba29ull, 0x239950547a0eba29ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetRemappedRows(device, corrRows, uncRows, isPending, failureOccurred);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows_v2(void) {
    SIM_FAULTS(0x903f07bc3e9ae7aaull, 0x239950547a0eba29ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRepairStatus(void) {
    SIM_FAULTS(0x200b80b52c9370d9ull, 0x200b80b52c9370d9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages(void) {
    SIM_FAULTS(0x1330e3f0fc3185c5ull, 0x1330e3f0fc3185c5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, int *isPending) {
    SIM_FAULTS(0x1948a44bdfb73de6ull, 0x1948a44bdfb73de6ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetRetiredPagesPendingStatus(device, isPending);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRetiredPages_v2(void) {
    SIM_FAULTS(0x949f9ef78e12a38eull, 0x1330e3f0fc3185c5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRowRemapperHistogram(void) {
    SIM_FAULTS(0xfef388fbbe503a28ull, 0xfef388fbbe503a28ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetRunningProcessDetailList(nvmlDevice_t device, nvmlProcessDetailList_t *plist) {
    SIM_FAULTS(0xd4c8fc58a44346c7ull, 0xd4c8fc58a44346c7ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetRunningProcessDetailList(device, plist);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSamples(void) {
    SIM_FAULTS(0xaa71a6905d1b8ba1ull, 0xaa71a6905d1b8ba1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned length) {
    SIM_FAULTS(0xd07127392d91a626ull, 0xd07127392d91a626ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetSerial(device, serial, length);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSramEccErrorStatus(void) {
    SIM_FAULTS(0x1743679f7e9afb66ull, 0x1743679f7e9afb66ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(void) {
    SIM_FAULTS(0x4eb2195cef97353dull, 0x4eb2195cef97353dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksEventReasons(void) {
    SIM_FAULTS(0xbac92743c8c7b5aeull, 0xbac92743c8c7b5aeull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedClocksThrottleReasons(void) {
    SIM_FAULTS(0x5551af1c61627a48ull, 0x5551af1c61627a48ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *eventTypes) {
    SIM_FAULTS(0x7faf40bb81c0f151ull, 0x7faf40bb81c0f151ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetSupportedEventTypes(device, eventTypes);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedGraphicsClocks(void) {
    SIM_FAULTS(0x8e1441e3751c440aull, 0x8e1441e3751c440aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedMemoryClocks(void) {
    SIM_FAULTS(0xbd33f7f5a8022414ull, 0xbd33f7f5a8022414ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedPerformanceStates(void) {
    SIM_FAULTS(0xa67aa07dd8871860ull, 0xa67aa07dd8871860ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetSupportedVgpus(void) {
    SIM_FAULTS(0xb94c5c3ae83a7e09ull, 0xb94c5c3ae83a7e09ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTargetFanSpeed(void) {
    SIM_FAULTS(0x093cf75a0f373e47ull, 0x093cf75a0f373e47ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensorType, unsigned *temp) {
    SIM_FAULTS(0x8d413e1b85f12b38ull, 0x8d413e1b85f12b38ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetTemperature(device, sensorType, temp);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device, int thresholdType, unsigned *temp) {
    SIM_FAULTS(0x119f86adefd7cc1bull, 0x119f86adefd7cc1bull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetTemperatureThreshold(device, thresholdType, temp);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(nvmlDevice_t device, nvmlTemperature_t *temperatureInfo) {
    SIM_FAULTS(0xf707f6c498cccbeaull, 0xf707f6c498cccbeaull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetTemperatureV(device, temperatureInfo);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetThermalSettings(void) {
    SIM_FAULTS(0x24a303bc529ee2dcull, 0x24a303bc529ee2dcull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2, int *pathInfo) {
    SIM_FAULTS(0x97aa72e2fef8f38bull, 0x97aa72e2fef8f38bull, SIM_DEVICE(device1));
    return sim_nvmlDeviceGetTopologyCommonAncestor(device1, device2, pathInfo);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, int level, unsigned *count, nvmlDevice_t *deviceArray) {
    SIM_FAULTS(0xa0a6a127580ff640ull, 0xa0a6a127580ff640ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetTopologyNearestGpus(device, level, count, deviceArray);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, int errorType, int counterType, unsigned long long *eccCounts) {
    SIM_FAULTS(0x652a027d8370b212ull, 0x652a027d8370b212ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetTotalEccErrors(device, errorType, counterType, eccCounts);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long *energy) {
    SIM_FAULTS(0x56e3d2d9b67ecbb7ull, 0x56e3d2d9b67ecbb7ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetTotalEnergyConsumption(device, energy);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned length) {
    SIM_FAULTS(0x0b77f62e3e74ffcdull, 0x0b77f62e3e74ffcdull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetUUID(device, uuid, length);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetUnrepairableMemoryFlag_v1(void) {
    SIM_FAULTS(0xc2b0e52e54c7e153ull, 0xc930047862f2a83dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *utilization) {
    SIM_FAULTS(0xc3842e5995472bfdull, 0xc3842e5995472bfdull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetUtilizationRates(device, utilization);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVbiosVersion(nvmlDevice_t device, char *version, unsigned length) {
    SIM_FAULTS(0xcdab1b72685a287dull, 0xcdab1b72685a287dull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetVbiosVersion(device, version, length);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuCapabilities(void) {
    SIM_FAULTS(0x52dc9dd573aa0bbcull, 0x52dc9dd573aa0bbcull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuHeterogeneousMode(void) {
    SIM_FAULTS(0x67636a90f5bfe142ull, 0x67636a90f5bfe142ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuInstancesUtilizationInfo(void) {
    SIM_FAULTS(0x8449e64da1dd8d56ull, 0x8449e64da1dd8d56ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuMetadata(void) {
    SIM_FAULTS(0xaad50eb394e72387ull, 0xaad50eb394e72387ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuProcessUtilization(void) {
    SIM_FAULTS(0xf933ea3ce5f2fe31ull, 0xf933ea3ce5f2fe31ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuProcessesUtilizationInfo(void) {
    SIM_FAULTS(0xc97bd4d925a5ae41ull, 0xc97bd4d925a5ae41ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuSchedulerCapabilities(void) {
    SIM_FAULTS(0x7612a58eddb0a1a5ull, 0x7612a58eddb0a1a5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuSchedulerLog(void) {
    SIM_FAULTS(0x8d0b8d2ff06d536full, 0x8d0b8d2ff06d536full, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuSchedulerLog_v2(void) {
    SIM_FAULTS(0xc59ce984e2d898a0ull, 0x8d0b8d2ff06d536full, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuSchedulerState(void) {
    SIM_FAULTS(0x40043b4c1db060b0ull, 0x40043b4c1db060b0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuSchedulerState_v2(void) {
    SIM_FAULTS(0xdd31a7f8098836b9ull, 0x40043b4c1db060b0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuTypeCreatablePlacements(void) {
    SIM_FAULTS(0xb5f410a974569fabull, 0xb5f410a974569fabull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuTypeSupportedPlacements(void) {
    SIM_FAULTS(0x5ae9519051998474ull, 0x5ae9519051998474ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVgpuUtilization(void) {
    SIM_FAULTS(0xd0de89412f61935eull, 0xd0de89412f61935eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetViolationStatus(void) {
    SIM_FAULTS(0xaa9051c9bf7cc9a3ull, 0xaa9051c9bf7cc9a3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned *value) {
    SIM_FAULTS(0x38942d8eb3566cb8ull, 0x38942d8eb3566cb8ull, SIM_DEVICE(device));
    return sim_nvmlDeviceGetVirtualizationMode(device, value);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *isMigDevice) {
    SIM_FAULTS(0xcd8c30e51d7bb369ull, 0xcd8c30e51d7bb369ull, SIM_DEVICE(device));
    return sim_nvmlDeviceIsMigDeviceHandle(device, isMigDevice);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceLockNvlinkRemapTable_v1(void) {
    SIM_FAULTS(0x783a660433b0e22eull, 0x95f1ee009193517aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceModifyDrainState(void) {
    SIM_FAULTS(0x4e67408bff2513ebull, 0x4e67408bff2513ebull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceOnSameBoard(nvmlDevice_t device1, nvmlDevice_t device2, int *onSameBoard) {
    SIM_FAULTS(0x99787ceb53bf8ba7ull, 0x99787ceb53bf8ba7ull, SIM_DEVICE(device1));
    return sim_nvmlDeviceOnSameBoard(device1, device2, onSameBoard);
}

SIM_EXPORT nvmlReturn_t nvmlDevicePerfMetricsGetSamples_v1(void) {
    SIM_FAULTS(0x6d8f733e43abc5abull, 0x89416948d8d54155ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDevicePowerSmoothingActivatePresetProfile(void) {
    SIM_FAULTS(0x8b0cdd6a5d52be2eull, 0x8b0cdd6a5d52be2eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDevicePowerSmoothingSetState(void) {
    SIM_FAULTS(0x00cf0b50ee247ebaull, 0x00cf0b50ee247ebaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDevicePowerSmoothingUpdatePresetProfileParam(void) {
    SIM_FAULTS(0xa26ff3d963e433c3ull, 0xa26ff3d963e433c3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceQueryDrainState(void) {
    SIM_FAULTS(0xd96d0b7110566e6dull, 0xd96d0b7110566e6dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceReadPRMCounters_v1(void) {
    SIM_FAULTS(0x5e2d33ff9dfe85c2ull, 0x6fbae46239802bf6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceReadWritePRM_v1(void) {
    SIM_FAULTS(0x2c5a033ffc766606ull, 0x62ba6e62fbfa1c52ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long eventTypes, nvmlEventSet_t set) {
    SIM_FAULTS(0x7d11283d800fcd4aull, 0x7d11283d800fcd4aull, SIM_DEVICE(device));
    return sim_nvmlDeviceRegisterEvents(device, eventTypes, set);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceRemoveGpu(void) {
    SIM_FAULTS(0xce5c330b582706a8ull, 0xce5c330b582706a8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceRemoveGpu_v2(void) {
    SIM_FAULTS(0xa06fd45dc00443d1ull, 0xce5c330b582706a8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceResetApplicationsClocks(void) {
    SIM_FAULTS(0x8a672ab1797825e1ull, 0x8a672ab1797825e1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceResetGpuLockedClocks(void) {
    SIM_FAULTS(0xa4cd9584da0e8838ull, 0xa4cd9584da0e8838ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceResetMemoryLockedClocks(void) {
    SIM_FAULTS(0xf886d3542fcd6303ull, 0xf886d3542fcd6303ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceResetNvLinkErrorCounters(void) {
    SIM_FAULTS(0xb5c2d63e3027beccull, 0xb5c2d63e3027beccull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceResetNvLinkUtilizationCounter(void) {
    SIM_FAULTS(0xffeaabf4ac9655c9ull, 0xffeaabf4ac9655c9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetAPIRestriction(void) {
    SIM_FAULTS(0xcd7403d79164827cull, 0xcd7403d79164827cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetAccountingMode(nvmlDevice_t device, int mode) {
    SIM_FAULTS(0x16d0554858244108ull, 0x16d0554858244108ull, SIM_DEVICE(device));
    return sim_nvmlDeviceSetAccountingMode(device, mode);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetAdaptiveTgpMode_v1(void) {
    SIM_FAULTS(0xe1880f332203316cull, 0x291addd6989cf384ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetApplicationsClocks(void) {
    SIM_FAULTS(0x9c2a195782d860faull, 0x9c2a195782d860faull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetAutoBoostedClocksEnabled(void) {
    SIM_FAULTS(0x2a5054cf848a440bull, 0x2a5054cf848a440bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetClockOffsets(void) {
    SIM_FAULTS(0xef5ed27881554e90ull, 0xef5ed27881554e90ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, int mode) {
    SIM_FAULTS(0x8a915adb3203917cull, 0x8a915adb3203917cull, SIM_DEVICE(device));
    return sim_nvmlDeviceSetComputeMode(device, mode);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetConfComputeUnprotectedMemSize(void) {
    SIM_FAULTS(0xb59a51dd63e079d0ull, 0xb59a51dd63e079d0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetCpuAffinity(void) {
    SIM_FAULTS(0x6679742282ee4054ull, 0x6679742282ee4054ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetDefaultAutoBoostedClocksEnabled(void) {
    SIM_FAULTS(0x5f463c0d7f0df336ull, 0x5f463c0d7f0df336ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetDefaultFanSpeed_v2(void) {
    SIM_FAULTS(0x80879f24cef35038ull, 0xf809a87e8e90a847ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetDramEncryptionMode(void) {
    SIM_FAULTS(0x342ec98e52af3964ull, 0x342ec98e52af3964ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetDriverModel(void) {
    SIM_FAULTS(0x97b9c3811d0b23ddull, 0x97b9c3811d0b23ddull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetEccMode(void) {
    SIM_FAULTS(0xc35080799c01ae68ull, 0xc35080799c01ae68ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetFanControlPolicy(void) {
    SIM_FAULTS(0x6bddad15659800eaull, 0x6bddad15659800eaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetFanSpeed_v2(void) {
    SIM_FAULTS(0x7cfb30f35cd53e8bull, 0x2b74da1b2648fd8aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetGpcClkVfOffset(void) {
    SIM_FAULTS(0x1aa38a67e81f2ae5ull, 0x1aa38a67e81f2ae5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetGpuLockedClocks(void) {
    SIM_FAULTS(0x34718b8ee9036e6dull, 0x34718b8ee9036e6dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetGpuOperationMode(void) {
    SIM_FAULTS(0x232e9fa576521ef2ull, 0x232e9fa576521ef2ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetHostname_v1(void) {
    SIM_FAULTS(0x2d1ae84ba3adc70dull, 0x3057ba19521c565bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetMemClkVfOffset(void) {
    SIM_FAULTS(0x5816426bb3a44b52ull, 0x5816426bb3a44b52ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, nvmlSetMemoryLimits_v1_t *limits) {
    SIM_FAULTS(0x522b188faa27d75full, 0x8dc84dd2fc368ab1ull, SIM_DEVICE(device));
    return sim_nvmlDeviceSetMemoryLimits_v1(device, limits);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetMemoryLockedClocks(void) {
    SIM_FAULTS(0x875a073385438990ull, 0x875a073385438990ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activationStatus) {
    SIM_FAULTS(0x64a648935ceaa462ull, 0x64a648935ceaa462ull, SIM_DEVICE(device));
    return sim_nvmlDeviceSetMigMode(device, mode, activationStatus);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetNvLinkDeviceLowPowerThreshold(void) {
    SIM_FAULTS(0xd168261da72f12aaull, 0xd168261da72f12aaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetNvLinkUtilizationControl(void) {
    SIM_FAULTS(0xc94a76b05f25962bull, 0xc94a76b05f25962bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetNvlinkBwMode(void) {
    SIM_FAULTS(0x7295f47cb7f4f3baull, 0x7295f47cb7f4f3baull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetNvlinkBwModeAsync_v1(void) {
    SIM_FAULTS(0x52d363228f34e98aull, 0x31283ffbf2d58d1eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetNvlinkNvleReady_v1(void) {
    SIM_FAULTS(0xc4a7428a487c6b00ull, 0x23d844c1fc47efd0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetPersistenceMode(nvmlDevice_t device, int mode) {
    SIM_FAULTS(0xcd69d06b8d13bfcaull, 0xcd69d06b8d13bfcaull, SIM_DEVICE(device));
    return sim_nvmlDeviceSetPersistenceMode(device, mode);
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit(void) {
    SIM_FAULTS(0x84a034c6d5add547ull, 0x84a034c6d5add547ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetPowerManagementLimit_v2(void) {
    SIM_FAULTS(0x383aaa02dd165f38ull, 0x84a034c6d5add547ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetPowerMizerMode_v1(void) {
    SIM_FAULTS(0x0ac0fc472a6c8e43ull, 0xad9ffbfb85b197edull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetRusdSettings_v1(void) {
    SIM_FAULTS(0xe560426259eab75full, 0x5f003b1f2dff2ab1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetTemperatureThreshold(void) {
    SIM_FAULTS(0xec3a835ab5f01217ull, 0xec3a835ab5f01217ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetVgpuCapabilities(void) {
    SIM_FAULTS(0x510ac32ec33ef7f8ull, 0x510ac32ec33ef7f8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetVgpuHeterogeneousMode(void) {
    SIM_FAULTS(0x156f4f9d79828f5eull, 0x156f4f9d79828f5eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetVgpuSchedulerState(void) {
    SIM_FAULTS(0x101590bee0fa9b84ull, 0x101590bee0fa9b84ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetVgpuSchedulerState_v2(void) {
    SIM_FAULTS(0xe0f2ce4afd426e85ull, 0x101590bee0fa9b84ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetVirtualizationMode(void) {
    SIM_FAULTS(0x61b2b9e988f0c70cull, 0x61b2b9e988f0c70cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceSetupNvlinkNvleEncryptionKey_v1(void) {
    SIM_FAULTS(0x2a7ba38f0acfaaacull, 0x4001d298adfc1d44ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceValidateInforom(void) {
    SIM_FAULTS(0x3bb192662cbb8d1eull, 0x3bb192662cbb8d1eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceVgpuForceGspUnload(void) {
    SIM_FAULTS(0xcb34679564769ddaull, 0xcb34679564769ddaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(void) {
    SIM_FAULTS(0x1b585573efdbd504ull, 0x1b585573efdbd504ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(void) {
    SIM_FAULTS(0x965dd159e086e8a6ull, 0x965dd159e086e8a6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileGetProfilesInfo(void) {
    SIM_FAULTS(0xa3c307e85de30a15ull, 0xa3c307e85de30a15ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(void) {
    SIM_FAULTS(0x6bdec5f977192a83ull, 0x6bdec5f977192a83ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(void) {
    SIM_FAULTS(0x2d80d1ebdee60fbeull, 0x22623539f2356c0aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT const char *nvmlErrorString(nvmlReturn_t result) {
    return sim_nvmlErrorString(result);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set) {
    SIM_FAULTS(0x7fe8fe01d97cf148ull, 0x7fe8fe01d97cf148ull, SIM_CALLER_DEVICE);
    return sim_nvmlEventSetCreate(set);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
    SIM_EVENT_SET_FAULTS(0xa200e7cccae5d5f2ull, 0xa200e7cccae5d5f2ull, SIM_EVENT_SET_DEVICE(set));
    return sim_nvmlEventSetFree(set);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetGetContextCount_v1(void) {
    SIM_FAULTS(0x47d65e1c7dc28abeull, 0x728a957dfc8edd0aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetGetContextData_v1(void) {
    SIM_FAULTS(0xe0236a35e407c435ull, 0x0ce14d8b531adc83ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetGetContextInfo_v1(void) {
    SIM_FAULTS(0xaba4594d85d10789ull, 0x331f98203c76e0ffull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1(void) {
    SIM_FAULTS(0x9db75cf428e27121ull, 0x23c84e842940d0d7ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetRegisterGpuOperationalEvents_v1(void) {
    SIM_FAULTS(0x8d8f7e576668a48aull, 0x2997a3aabd34be1eull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms) {
    SIM_EVENT_SET_FAULTS(0xbfb1974f739132ddull, 0xbfb1974f739132ddull, SIM_EVENT_SET_DEVICE(set));
    return sim_nvmlEventSetWait_v2(set, data, timeoutms);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned timeoutms) {
    SIM_EVENT_SET_FAULTS(0x3032778adc6f1ae6ull, 0xbfb1974f739132ddull, SIM_EVENT_SET_DEVICE(set));
    return sim_nvmlEventSetWait_v2(set, data, timeoutms);
}

SIM_EXPORT nvmlReturn_t nvmlEventSetWait_v3(void) {
    SIM_FAULTS(0x3032788adc6f1c99ull, 0xbfb1974f739132ddull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetBlacklistDeviceCount(void) {
    SIM_FAULTS(0x7bde7575d3d64c00ull, 0x7bde7575d3d64c00ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetBlacklistDeviceInfoByIndex(void) {
    SIM_FAULTS(0xc519175728b3237cull, 0xc519175728b3237cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetExcludedDeviceCount(void) {
    SIM_FAULTS(0x9322aa24676d363bull, 0x9322aa24676d363bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetExcludedDeviceInfoByIndex(void) {
    SIM_FAULTS(0xf4e9769f840235dbull, 0xf4e9769f840235dbull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetVgpuCompatibility(void) {
    SIM_FAULTS(0x79a81d7559f975a0ull, 0x79a81d7559f975a0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetVgpuDriverCapabilities(void) {
    SIM_FAULTS(0xa8679776d4709b90ull, 0xa8679776d4709b90ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGetVgpuVersion(void) {
    SIM_FAULTS(0xd218f75d73aa59ecull, 0xd218f75d73aa59ecull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmMetricsGet(void) {
    SIM_FAULTS(0x93675104d6969231ull, 0x93675104d6969231ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmMigSampleGet(void) {
    SIM_FAULTS(0x8b37ac87c97c010dull, 0x8b37ac87c97c010dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmQueryDeviceSupport(void) {
    SIM_FAULTS(0x925a77d573f4d4cfull, 0x925a77d573f4d4cfull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmQueryIfStreamingEnabled(void) {
    SIM_FAULTS(0x45dd66b01fd7b66cull, 0x45dd66b01fd7b66cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmSampleAlloc(void) {
    SIM_FAULTS(0x1a088bee77bab8b5ull, 0x1a088bee77bab8b5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmSampleFree(void) {
    SIM_FAULTS(0xfde4f8a089edfcceull, 0xfde4f8a089edfcceull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmSampleGet(void) {
    SIM_FAULTS(0x1864a1ed8feeb8dcull, 0x1864a1ed8feeb8dcull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpmSetStreamingEnabled(void) {
    SIM_FAULTS(0x14f4c79bb0b1a8abull, 0x14f4c79bb0b1a8abull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpuInstance, unsigned profileId, nvmlComputeInstance_t *computeInstance) {
    SIM_FAULTS(0x4aead52bd3d9a0f5ull, 0x4aead52bd3d9a0f5ull, SIM_GPU_INSTANCE_DEVICE(gpuInstance));
    return sim_nvmlGpuInstanceCreateComputeInstance(gpuInstance, profileId, computeInstance);
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(void) {
    SIM_FAULTS(0xc9e49e8e1579be7cull, 0xc9e49e8e1579be7cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpuInstance) {
    SIM_FAULTS(0xbe76327458e0880dull, 0xbe76327458e0880dull, SIM_GPU_INSTANCE_DEVICE(gpuInstance));
    return sim_nvmlGpuInstanceDestroy(gpuInstance);
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetActiveVgpus(void) {
    SIM_FAULTS(0x00d1d0e8bffca062ull, 0x00d1d0e8bffca062ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(void) {
    SIM_FAULTS(0x5871209ae4c075c3ull, 0x5871209ae4c075c3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(void) {
    SIM_FAULTS(0x520dc20ff21e28ccull, 0x520dc20ff21e28ccull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpuInstance, unsigned profile, unsigned engProfile, nvmlComputeInstanceProfileInfo_t *info) {
    SIM_FAULTS(0xfde13f0222bebc70ull, 0xfde13f0222bebc70ull, SIM_GPU_INSTANCE_DEVICE(gpuInstance));
    return sim_nvmlGpuInstanceGetComputeInstanceProfileInfo(gpuInstance, profile, engProfile, info);
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(void) {
    SIM_FAULTS(0x247a36a10a19b492ull, 0x247a36a10a19b492ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(void) {
    SIM_FAULTS(0xbb4c0a90b422cec1ull, 0xbb4c0a90b422cec1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpuInstance, unsigned profileId, nvmlComputeInstance_t *computeInstances, unsigned *count) {
    SIM_FAULTS(0x47d7d7f08c35e730ull, 0x47d7d7f08c35e730ull, SIM_GPU_INSTANCE_DEVICE(gpuInstance));
    return sim_nvmlGpuInstanceGetComputeInstances(gpuInstance, profileId, computeInstances, count);
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetCreatableVgpus(void) {
    SIM_FAULTS(0x8576af630589c901ull, 0x8576af630589c901ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpuInstance, nvmlGpuInstanceInfo_t *info) {
    SIM_FAULTS(0x2a3908195c8683abull, 0x2a3908195c8683abull, SIM_GPU_INSTANCE_DEVICE(gpuInstance));
    return sim_nvmlGpuInstanceGetInfo(gpuInstance, info);
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetVgpuHeterogeneousMode(void) {
    SIM_FAULTS(0x3072a7dd3e38d0ddull, 0x3072a7dd3e38d0ddull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetVgpuSchedulerLog(void) {
    SIM_FAULTS(0x443a496261234ac2ull, 0x443a496261234ac2ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetVgpuSchedulerLog_v2(void) {
    SIM_FAULTS(0x473cae1aae066583ull, 0x443a496261234ac2ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetVgpuSchedulerState(void) {
    SIM_FAULTS(0x68e2727f789071f5ull, 0x68e2727f789071f5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetVgpuSchedulerState_v2(void) {
    SIM_FAULTS(0xcae3fce2110c5fbeull, 0x68e2727f789071f5ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceGetVgpuTypeCreatablePlacements(void) {
    SIM_FAULTS(0x041d401940b12fa8ull, 0x041d401940b12fa8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceSetVgpuHeterogeneousMode(void) {
    SIM_FAULTS(0x956d45e7f850e4b9ull, 0x956d45e7f850e4b9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceSetVgpuSchedulerState(void) {
    SIM_FAULTS(0x0ca055a3d15a73b9ull, 0x0ca055a3d15a73b9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlGpuInstanceSetVgpuSchedulerState_v2(void) {
    SIM_FAULTS(0x82123092c26eb57aull, 0x0ca055a3d15a73b9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlInit(void) {
    SIM_FAULTS(0xe09342e19456c02eull, 0xe09342e19456c02eull, SIM_CALLER_DEVICE);
    return sim_nvmlInit_v2();
}

SIM_EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags) {
    SIM_FAULTS(0xa72c6457accb7b65ull, 0xa72c6457accb7b65ull, SIM_CALLER_DEVICE);
    return sim_nvmlInitWithFlags(flags);
}

SIM_EXPORT nvmlReturn_t nvmlInit_v2(void) {
    SIM_FAULTS(0x412a982594231fe7ull, 0xe09342e19456c02eull, SIM_CALLER_DEVICE);
    return sim_nvmlInit_v2();
}

SIM_EXPORT nvmlReturn_t nvmlInternalGetExportTable(void) {
    SIM_FAULTS(0xbb2cbad794291a1full, 0xbb2cbad794291a1full, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSetVgpuVersion(void) {
    SIM_FAULTS(0x9dcf0126f986c7d8ull, 0x9dcf0126f986c7d8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlShutdown(void) {
    SIM_FAULTS(0x0293e52a2cfe8c96ull, 0x0293e52a2cfe8c96ull, SIM_CALLER_DEVICE);
    return sim_nvmlShutdown();
}

SIM_EXPORT nvmlReturn_t nvmlSystemEventSetCreate(void) {
    SIM_FAULTS(0xb737c655e17d480dull, 0xb737c655e17d480dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemEventSetFree(void) {
    SIM_FAULTS(0x4c434204dec7d78bull, 0x4c434204dec7d78bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemEventSetWait(void) {
    SIM_FAULTS(0xee3191759720c030ull, 0xee3191759720c030ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCPER_v1(void) {
    SIM_FAULTS(0x7fde21d0792ace55ull, 0xdd550281f0bd2063ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetConfComputeCapabilities(void) {
    SIM_FAULTS(0x13dece2fda0fd970ull, 0x13dece2fda0fd970ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetConfComputeGpusReadyState(void) {
    SIM_FAULTS(0x26be15caee0041c1ull, 0x26be15caee0041c1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetConfComputeKeyRotationThresholdInfo(void) {
    SIM_FAULTS(0xf55768ff189a4882ull, 0xf55768ff189a4882ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetConfComputeSettings(void) {
    SIM_FAULTS(0xbfef39214706184bull, 0xbfef39214706184bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetConfComputeSettings_v2(void) {
    SIM_FAULTS(0x12df5a9285b87024ull, 0xbfef39214706184bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetConfComputeState(void) {
    SIM_FAULTS(0x11ed3a895f2fb6e3ull, 0x11ed3a895f2fb6e3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *cudaDriverVersion) {
    SIM_FAULTS(0xa4a8b9e09f81d6a6ull, 0xa4a8b9e09f81d6a6ull, SIM_CALLER_DEVICE);
    return sim_nvmlSystemGetCudaDriverVersion(cudaDriverVersion);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *cudaDriverVersion) {
    SIM_FAULTS(0xb71019d23ea1147full, 0xa4a8b9e09f81d6a6ull, SIM_CALLER_DEVICE);
    return sim_nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetDriverBranch(void) {
    SIM_FAULTS(0x4facd73709b19cadull, 0x4facd73709b19cadull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned length) {
    SIM_FAULTS(0xa0b6433ff6f9fd9full, 0xa0b6433ff6f9fd9full, SIM_CALLER_DEVICE);
    return sim_nvmlSystemGetDriverVersion(version, length);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetHicVersion(void) {
    SIM_FAULTS(0xdaf5df6fc476b39full, 0xdaf5df6fc476b39full, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned length) {
    SIM_FAULTS(0xda662099939577daull, 0xda662099939577daull, SIM_CALLER_DEVICE);
    return sim_nvmlSystemGetNVMLVersion(version, length);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetNvlinkBwMode(void) {
    SIM_FAULTS(0xeeafb5d0016d2967ull, 0xeeafb5d0016d2967ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *name, unsigned length) {
    SIM_FAULTS(0x01398e8d8a51540full, 0x01398e8d8a51540full, SIM_CALLER_DEVICE);
    return sim_nvmlSystemGetProcessName(pid, name, length);
}

SIM_EXPORT nvmlReturn_t nvmlSystemGetTopologyGpuSet(void) {
    SIM_FAULTS(0xdcc65bab6e050aecull, 0xdcc65bab6e050aecull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemRegisterEvents(void) {
    SIM_FAULTS(0xc709498397e28ad1ull, 0xc709498397e28ad1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemSetConfComputeGpusReadyState(void) {
    SIM_FAULTS(0xebb4532569bcd22dull, 0xebb4532569bcd22dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemSetConfComputeKeyRotationThresholdInfo(void) {
    SIM_FAULTS(0x7db3f22d836dbee6ull, 0x7db3f22d836dbee6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlSystemSetNvlinkBwMode(void) {
    SIM_FAULTS(0xe5682e7d23f1dfabull, 0xe5682e7d23f1dfabull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetCount(void) {
    SIM_FAULTS(0x145181f56430ab8dull, 0x145181f56430ab8dull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetDevices(void) {
    SIM_FAULTS(0xead055554ce176d9ull, 0xead055554ce176d9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetFanSpeedInfo(void) {
    SIM_FAULTS(0x6971c5a664144c32ull, 0x6971c5a664144c32ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetHandleByIndex(void) {
    SIM_FAULTS(0x7b599ec192a6165bull, 0x7b599ec192a6165bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetLedState(void) {
    SIM_FAULTS(0x201230fed34f9e28ull, 0x201230fed34f9e28ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetPsuInfo(void) {
    SIM_FAULTS(0xdee7e16952919cc2ull, 0xdee7e16952919cc2ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetTemperature(void) {
    SIM_FAULTS(0xfe3615f2c55edac4ull, 0xfe3615f2c55edac4ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitGetUnitInfo(void) {
    SIM_FAULTS(0xe9022a8505fdffa4ull, 0xe9022a8505fdffa4ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlUnitSetLedState(void) {
    SIM_FAULTS(0xbaa21bf4081e5e2cull, 0xbaa21bf4081e5e2cull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceClearAccountingPids(void) {
    SIM_FAULTS(0xdb5d7c33afd40487ull, 0xdb5d7c33afd40487ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetAccountingMode(void) {
    SIM_FAULTS(0xac552caf7f7b57dbull, 0xac552caf7f7b57dbull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetAccountingPids(void) {
    SIM_FAULTS(0x52f8fd4a5f720192ull, 0x52f8fd4a5f720192ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetAccountingStats(void) {
    SIM_FAULTS(0x1c3826001535888bull, 0x1c3826001535888bull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetEccMode(void) {
    SIM_FAULTS(0x74abfb6d782abc81ull, 0x74abfb6d782abc81ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetEncoderCapacity(void) {
    SIM_FAULTS(0x3a6b04e41483b63full, 0x3a6b04e41483b63full, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetEncoderSessions(void) {
    SIM_FAULTS(0xa398318592ea0612ull, 0xa398318592ea0612ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetEncoderStats(void) {
    SIM_FAULTS(0x5fbf0e60a142f676ull, 0x5fbf0e60a142f676ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetFBCSessions(void) {
    SIM_FAULTS(0x42547cf5e6ed5d7full, 0x42547cf5e6ed5d7full, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetFBCStats(void) {
    SIM_FAULTS(0x31cc11f7f2ddcec1ull, 0x31cc11f7f2ddcec1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetFbUsage(void) {
    SIM_FAULTS(0x0dbb7a02336d56a8ull, 0x0dbb7a02336d56a8ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetFrameRateLimit(void) {
    SIM_FAULTS(0xdf4832ba008e5ee3ull, 0xdf4832ba008e5ee3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetGpuInstanceId(void) {
    SIM_FAULTS(0xc93e51a80241f2cbull, 0xc93e51a80241f2cbull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetGpuPciId(void) {
    SIM_FAULTS(0x1837ced26a01e2feull, 0x1837ced26a01e2feull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetLicenseInfo(void) {
    SIM_FAULTS(0xd22d31db59b3a094ull, 0xd22d31db59b3a094ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetLicenseInfo_v2(void) {
    SIM_FAULTS(0x70d8ef1e6680aad5ull, 0xd22d31db59b3a094ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetLicenseStatus(void) {
    SIM_FAULTS(0xa6f45c3d697eff8aull, 0xa6f45c3d697eff8aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetMdevUUID(void) {
    SIM_FAULTS(0x88e962c195e23f88ull, 0x88e962c195e23f88ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetMetadata(void) {
    SIM_FAULTS(0xff9a5f28a6edeb94ull, 0xff9a5f28a6edeb94ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetPlacementId(void) {
    SIM_FAULTS(0x74c24786327adc09ull, 0x74c24786327adc09ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetRuntimeStateSize(void) {
    SIM_FAULTS(0x763ded075782ddf9ull, 0x763ded075782ddf9ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetType(void) {
    SIM_FAULTS(0xb4867d883e520269ull, 0xb4867d883e520269ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetUUID(void) {
    SIM_FAULTS(0x9d595c82799eb7e6ull, 0x9d595c82799eb7e6ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetVmDriverVersion(void) {
    SIM_FAULTS(0x0adcfc852996429aull, 0x0adcfc852996429aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceGetVmID(void) {
    SIM_FAULTS(0xfe05a69a12a7b895ull, 0xfe05a69a12a7b895ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuInstanceSetEncoderCapacity(void) {
    SIM_FAULTS(0xc776813f482ff3f3ull, 0xc776813f482ff3f3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetBAR1Info(void) {
    SIM_FAULTS(0x1ec51511f6def2f0ull, 0x1ec51511f6def2f0ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetCapabilities(void) {
    SIM_FAULTS(0xc6173b22f2866f46ull, 0xc6173b22f2866f46ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetClass(void) {
    SIM_FAULTS(0x586792a06f6e2238ull, 0x586792a06f6e2238ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetDeviceID(void) {
    SIM_FAULTS(0x7e78b71c9c561647ull, 0x7e78b71c9c561647ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetFbReservation(void) {
    SIM_FAULTS(0x55f2dea179cd5396ull, 0x55f2dea179cd5396ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetFrameRateLimit(void) {
    SIM_FAULTS(0xc249021f48ecb99aull, 0xc249021f48ecb99aull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetFramebufferSize(void) {
    SIM_FAULTS(0x1dcb9aee1747a442ull, 0x1dcb9aee1747a442ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetGpuInstanceProfileId(void) {
    SIM_FAULTS(0xfe1763b3de7c3327ull, 0xfe1763b3de7c3327ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetGspHeapSize(void) {
    SIM_FAULTS(0xe11277203f7ef895ull, 0xe11277203f7ef895ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetLicense(void) {
    SIM_FAULTS(0xfbefb81d6f7817c3ull, 0xfbefb81d6f7817c3ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetMaxInstances(void) {
    SIM_FAULTS(0x4516fb88838c52beull, 0x4516fb88838c52beull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetMaxInstancesPerGpuInstance(void) {
    SIM_FAULTS(0xdb2f75afb5525bdaull, 0xdb2f75afb5525bdaull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetMaxInstancesPerVm(void) {
    SIM_FAULTS(0x73b44c2205571bb4ull, 0x73b44c2205571bb4ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetName(void) {
    SIM_FAULTS(0x18a953900d2c6483ull, 0x18a953900d2c6483ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetNumDisplayHeads(void) {
    SIM_FAULTS(0xed780cdf3b27cee1ull, 0xed780cdf3b27cee1ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

SIM_EXPORT nvmlReturn_t nvmlVgpuTypeGetResolution(void) {
    SIM_FAULTS(0x201d6ee096e42a82ull, 0x201d6ee096e42a82ull, SIM_CALLER_DEVICE);
    return NVML_ERROR_NOT_SUPPORTED;
}

const struct sim_error sim_errors[] = {
    {0, "NVML_SUCCESS", "Success"},
    {1, "NVML_ERROR_UNINITIALIZED", "Uninitialized"},
    {2, "NVML_ERROR_INVALID_ARGUMENT", "Invalid Argument"},
    {3, "NVML_ERROR_NOT_SUPPORTED", "Not Supported"},
    {4, "NVML_ERROR_NO_PERMISSION", "Insufficient Permissions"},
    {5, "NVML_ERROR_ALREADY_INITIALIZED", "Already Initialized"},
    {6, "NVML_ERROR_NOT_FOUND", "Not Found"},
    {7, "NVML_ERROR_INSUFFICIENT_SIZE", "Insufficient Size"},
    {8, "NVML_ERROR_INSUFFICIENT_POWER", "Insufficient External Power"},
    {9, "NVML_ERROR_DRIVER_NOT_LOADED", "Driver Not Loaded"},
    {10, "NVML_ERROR_TIMEOUT", "Timeout"},
    {11, "NVML_ERROR_IRQ_ISSUE", "Interrupt Request Issue"},
    {12, "NVML_ERROR_LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"},
    {13, "NVML_ERROR_FUNCTION_NOT_FOUND", "Function Not Found"},
    {14, "NVML_ERROR_CORRUPTED_INFOROM", "Corrupted infoROM"},
    {15, "NVML_ERROR_GPU_IS_LOST", "GPU is lost"},
    {16, "NVML_ERROR_RESET_REQUIRED", "GPU requires restart"},
    {17, "NVML_ERROR_OPERATING_SYSTEM", "The operating system has blocked the request."},
    {18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "Driver/library version mismatch"},
    {19, "NVML_ERROR_IN_USE", "In use by another client"},
    {20, "NVML_ERROR_MEMORY", "Insufficient Memory"},
    {21, "NVML_ERROR_NO_DATA", "No data"},
    {22, "NVML_ERROR_VGPU_ECC_NOT_SUPPORTED", "The requested vgpu operation is not available on target device, because ECC is enabled"},
    {23, "NVML_ERROR_INSUFFICIENT_RESOURCES", "Ran out of critical resources, other than memory"},
    {24, "NVML_ERROR_FREQ_NOT_SUPPORTED", "The requested frequency is not supported"},
    {25, "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "The provided version is invalid/unsupported"},
    {26, "NVML_ERROR_DEPRECATED", "The requested functionality has been deprecated"},
    {27, "NVML_ERROR_NOT_READY", "The system is not ready for the request"},
    {28, "NVML_ERROR_GPU_NOT_FOUND", "No GPUs were found"},
    {29, "NVML_ERROR_INVALID_STATE", "Resource not in correct state to perform requested operation"},
    {30, "NVML_ERROR_RESET_TYPE_NOT_SUPPORTED", "Reset not supported for the given device or parameters"},
    {999, "NVML_ERROR_UNKNOWN", "Unknown Error"},
};
const size_t sim_error_count = 32;
