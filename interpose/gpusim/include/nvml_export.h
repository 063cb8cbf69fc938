/* What every exported NVML function does before it calls its implementation. */
#ifndef SIM_NVML_EXPORT_H
#define SIM_NVML_EXPORT_H

#include "cuda_entries.h"
#include "nvml_impl.h"
#include "nvml_library.h"

#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_CALLER_DEVICE (-1)
#define SIM_DEVICE(handle) sim_nvml_device_of(handle)
#define SIM_INDEX_DEVICE(index) sim_nvml_device_at(index)
#define SIM_GPU_INSTANCE_DEVICE(handle) sim_nvml_device_of_gpu_instance(handle)
#define SIM_COMPUTE_INSTANCE_DEVICE(handle) sim_nvml_device_of_compute_instance(handle)
#define SIM_EVENT_SET_DEVICE(handle) sim_nvml_device_of_event_set(handle)

static inline nvmlReturn_t sim_injected(uint64_t symbol, uint64_t base, int device, bool fails_if_lost) {
    bool lost = false;
    int error = sim_fault_for(symbol, base, device, &lost);
    return error != 0 ? error : lost && fails_if_lost ? NVML_ERROR_GPU_IS_LOST : NVML_SUCCESS;
}

#define SIM_FAULTS(symbol, base, device) SIM_CHECK(symbol, base, device, true)
/* A set still delivers the events of a lost card, among them Xid 79. */
#define SIM_EVENT_SET_FAULTS(symbol, base, device) SIM_CHECK(symbol, base, device, false)

#define SIM_CHECK(symbol, base, device, fails_if_lost)                                                                 \
    do {                                                                                                               \
        if (__builtin_expect(atomic_load_explicit(sim_watch, memory_order_relaxed) != 0, 0)) {                         \
            nvmlReturn_t injected = sim_injected(symbol, base, device, fails_if_lost);                                 \
            if (injected != NVML_SUCCESS) {                                                                            \
                return injected;                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#endif
