/* What every exported driver function does before it calls its implementation. */
#ifndef SIM_CUDA_EXPORT_H
#define SIM_CUDA_EXPORT_H

#include "cuda_entries.h"
#include "cuda_impl.h"
#include "driver.h"

#define SIM_EXPORT __attribute__((visibility("default")))
#define SIM_CALLER_DEVICE sim_device_of_call()
#define SIM_DEVICE(ordinal) (sim_gpu_of(ordinal) != NULL ? (int)sim_gpu_of(ordinal)->index : -1)
#define SIM_PER_THREAD(stream) ((stream) == NULL ? CU_STREAM_PER_THREAD : (stream))

static inline CUresult sim_injected(uint64_t symbol, uint64_t base, int device) {
    bool lost = false;
    int error = sim_fault_for(symbol, base, device, &lost);
    return error != 0 ? error : lost ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
}

#define SIM_GATED(call)                                                                                                \
    ({                                                                                                                 \
        struct sim_suspension *gate = sim_gate_enter();                                                                \
        CUresult gated = call;                                                                                         \
        sim_gate_leave(gate);                                                                                          \
        gated;                                                                                                         \
    })

#define SIM_FAULTS(symbol, base, device)                                                                               \
    do {                                                                                                               \
        if (__builtin_expect(atomic_load_explicit(sim_watch, memory_order_relaxed) != 0, 0)) {                         \
            CUresult injected = sim_injected(symbol, base, device);                                                    \
            if (injected != CUDA_SUCCESS) {                                                                            \
                return injected;                                                                                       \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#endif
