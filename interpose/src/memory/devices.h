/*
 * Which device of the limits a CUDA device or an NVML handle is. Limits name devices by UUID; limits from environment
 * variables count them as NVML does. Answers are kept until other limits come into force.
 *
 * Called by memory/, compute/ and nvml/, with the limits that the answer is for.
 */
#ifndef HAMI_DEVICES_H
#define HAMI_DEVICES_H

#include "compiler.h"
#include "cuda_abi.h"
#include "ledger/limits.h"

/* Answers that are no index in the limits. */
enum {
    HAMI_DEVICE_UNNAMED = -1, /* the limits do not name it */
    HAMI_DEVICE_MISSING = -2, /* the driver has no such device now */
    HAMI_DEVICE_DIVIDED = -3  /* a card that is not named, but MIG devices of it are; or all is denied */
};

enum { HAMI_CUDA_DEVICES = 64 };
extern _Atomic int8_t hami_device_answers[HAMI_CUDA_DEVICES]; /* index + 2; 0 = not asked yet */
HAMI_COLD int hami_device_ask_cuda(const struct hami_limits *limits, CUdevice device);

/* Index of a CUDA device in the limits, or UNNAMED or MISSING. */
static inline int hami_device_of_cuda(const struct hami_limits *limits, CUdevice device) {
    if (device < 0 || device >= HAMI_CUDA_DEVICES) {
        return HAMI_DEVICE_MISSING;
    }
    int8_t known = atomic_load_explicit(&hami_device_answers[device], memory_order_acquire);
    return HAMI_LIKELY(known != 0) ? known - 2 : hami_device_ask_cuda(limits, device);
}

/* Index of an NVML handle in the limits, or UNNAMED or DIVIDED. `status` is set only if NVML had to be asked. */
int hami_device_of_nvml(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status);

/* A device that the limits name, and its NVML handle. */
struct hami_listed_device {
    unsigned index;
    nvmlDevice handle;
};

/* Finds the MIG devices of a card that the limits name; returns how many. */
unsigned hami_device_mig_of(const struct hami_limits *limits, nvmlDevice card,
                            struct hami_listed_device found[HAMI_DEVICES]);

/* Forgets all answers: other limits come into force. */
void hami_devices_forget(void);

#endif
