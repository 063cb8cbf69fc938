/*
 * Finds the index in the limits of a CUDA device or an NVML handle. Limits from a file name devices by UUID. Limits
 * from environment variables have no UUIDs and number devices as NVML does. Answers are kept until other limits come
 * into force. memory/, compute/ and nvml/ call this file, and pass the limits that the answer is for.
 */
#ifndef HAMI_DEVICES_H
#define HAMI_DEVICES_H

#include "compiler.h"
#include "cuda_abi.h"
#include "ledger/limits.h"

/* Answers in place of an index in the limits. */
enum {
    HAMI_DEVICE_UNNAMED = -1, /* the limits do not name the device */
    HAMI_DEVICE_MISSING = -2, /* the driver has no such device, or is not initialized */
    HAMI_DEVICE_DIVIDED = -3  /* the limits name not the card but MIG devices of it, or they deny everything */
};

enum { HAMI_CUDA_DEVICES = 64 };
extern _Atomic int8_t hami_device_answers[HAMI_CUDA_DEVICES]; /* index + 2; 0: not asked yet */
HAMI_COLD int hami_device_ask_cuda(const struct hami_limits *limits, CUdevice device);

/* Index of a CUDA device in the limits, or HAMI_DEVICE_UNNAMED or HAMI_DEVICE_MISSING. */
static inline int hami_device_of_cuda(const struct hami_limits *limits, CUdevice device) {
    if (device < 0 || device >= HAMI_CUDA_DEVICES) {
        return HAMI_DEVICE_MISSING;
    }
    int8_t known = atomic_load_explicit(&hami_device_answers[device], memory_order_acquire);
    return HAMI_LIKELY(known != 0) ? known - 2 : hami_device_ask_cuda(limits, device);
}

/*
 * Index of an NVML handle in the limits, or HAMI_DEVICE_UNNAMED or HAMI_DEVICE_DIVIDED. Sets `*status` to NVML's answer
 * only if NVML had to be asked.
 */
int hami_device_of_nvml(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status);

/* A MIG device that the limits name: its index in the limits and its NVML handle. */
struct hami_listed_device {
    unsigned index;
    nvmlDevice handle;
};

/* Finds those MIG devices of a card that the limits name. Returns how many there are. */
unsigned hami_device_mig_of(const struct hami_limits *limits, nvmlDevice card,
                            struct hami_listed_device found[HAMI_DEVICES]);

/* Forgets all answers, when other limits come into force. */
void hami_devices_forget(void);

#endif
