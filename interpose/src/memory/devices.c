/*
 * Asks the drivers which device is which, and keeps the answers (devices.h).
 *
 * Another thread may replace the limits while this one asks. An answer for the old limits must not be kept, so it is
 * stored first and removed if other limits are in force by then (device_is_current).
 */
#include "memory/devices.h"

#include "doors/calls.h"
#include "ledger/state.h"

#include <stdio.h>
#include <string.h>

enum { NVML_HANDLES = 32 };

_Atomic int8_t hami_device_answers[HAMI_CUDA_DEVICES];

/*
 * Answers about NVML handles, which name the same device for the life of a process: handle << 8 | index + 2; 0: empty.
 * Handle and answer share a word so that a reader cannot combine those of two handles. A handle is a user address,
 * which has at most 56 bits.
 */
static _Atomic uint64_t nvml_answers[NVML_HANDLES];

void hami_devices_forget(void) {
    for (unsigned i = 0; i < HAMI_CUDA_DEVICES; i++) {
        atomic_store(&hami_device_answers[i], 0);
    }
    for (unsigned i = 0; i < NVML_HANDLES; i++) {
        atomic_store(&nvml_answers[i], 0);
    }
}

/* True if `limits` are still in force. */
static bool device_is_current(const struct hami_limits *limits) {
    return atomic_load(&hami_state_limits_now) == limits;
}

/* ---- CUDA devices ---- */

static CUresult device_cuda_uuid(CUdevice device, char text[48]) {
    struct hami_uuid uuid;
    CUresult status = hami_call_cuDeviceGetUuid_v2(&uuid, device);
    status = status == CUDA_ERROR_NOT_SUPPORTED ? hami_call_cuDeviceGetUuid(&uuid, device) : status;
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const uint8_t *b = uuid.bytes;
    (void)snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                   b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return CUDA_SUCCESS;
}

/* NVML's index of a CUDA device. Without NVML, CUDA's own index, which CUDA_VISIBLE_DEVICES may have changed. */
static int device_nvml_index(CUdevice device, const char *uuid) {
    nvmlDevice handle = NULL;
    unsigned index = 0;
    if (hami_call_nvmlInit_v2() != NVML_SUCCESS) {
        return device < HAMI_DEVICES ? device : HAMI_DEVICE_UNNAMED;
    }
    bool known = hami_call_nvmlDeviceGetHandleByUUID(uuid, &handle) == NVML_SUCCESS &&
                 hami_call_nvmlDeviceGetIndex(handle, &index) == NVML_SUCCESS;
    (void)hami_call_nvmlShutdown();
    return known && index < HAMI_DEVICES ? (int)index : HAMI_DEVICE_UNNAMED;
}

int hami_device_ask_cuda(const struct hami_limits *limits, CUdevice device) {
    char uuid[48];
    CUresult status = device_cuda_uuid(device, uuid);
    if (status != CUDA_SUCCESS) {
        bool none = status == CUDA_ERROR_NOT_INITIALIZED || status == CUDA_ERROR_DEINITIALIZED ||
                    status == CUDA_ERROR_NO_DEVICE || status == CUDA_ERROR_INVALID_DEVICE;
        return none ? HAMI_DEVICE_MISSING : HAMI_DEVICE_UNNAMED;
    }
    int index = limits->from_environment ? device_nvml_index(device, uuid) : hami_limits_index(limits, uuid);
    atomic_store(&hami_device_answers[device], (int8_t)(index + 2));
    if (!device_is_current(limits)) {
        atomic_store(&hami_device_answers[device], 0);
    }
    return index;
}

/* ---- NVML handles ---- */

/* True if the handle is of a MIG device. Its index, which NVML counts from 0 on each card, is not the card's index. */
static bool device_is_mig(nvmlDevice device) {
    unsigned mig = 0;
    return hami_call_nvmlDeviceIsMigDeviceHandle(device, &mig) == NVML_SUCCESS && mig != 0;
}

/* Index in the limits of an NVML handle, or HAMI_DEVICE_UNNAMED or HAMI_DEVICE_DIVIDED. */
static int device_ask_nvml(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status) {
    if (limits->from_environment) {
        unsigned index = HAMI_DEVICES;
        *status = hami_call_nvmlDeviceGetIndex(device, &index);
        bool card = *status == NVML_SUCCESS && index < HAMI_DEVICES && !device_is_mig(device);
        return card ? (int)index : HAMI_DEVICE_UNNAMED;
    }
    char uuid[HAMI_UUID_BYTES];
    *status = hami_call_nvmlDeviceGetUUID(device, uuid, sizeof uuid);
    if (*status != NVML_SUCCESS) {
        return HAMI_DEVICE_UNNAMED;
    }
    int index = hami_limits_index(limits, uuid);
    struct hami_listed_device mig[HAMI_DEVICES];
    bool divided = index < 0 && (limits->denied != HAMI_REASON_NONE || hami_device_mig_of(limits, device, mig) != 0);
    return divided ? HAMI_DEVICE_DIVIDED : index;
}

/* Asks NVML, and keeps the answer at `place` if that is empty. */
HAMI_COLD static int device_find_nvml(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status,
                                      _Atomic uint64_t *place) {
    int index = device_ask_nvml(limits, device, status);
    uint64_t empty = 0, answer = (uint64_t)(uintptr_t)device << 8 | (uint8_t)(index + 2);
    bool fits = answer >> 8 == (uintptr_t)device;
    if (*status == NVML_SUCCESS && fits && atomic_compare_exchange_strong(place, &empty, answer) &&
        !device_is_current(limits)) {
        (void)atomic_compare_exchange_strong(place, &answer, 0);
    }
    return index;
}

int hami_device_of_nvml(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status) {
    _Atomic uint64_t *place = &nvml_answers[(uintptr_t)device >> 4 & (NVML_HANDLES - 1)];
    uint64_t known = atomic_load_explicit(place, memory_order_acquire);
    if (HAMI_LIKELY(known != 0 && known >> 8 == (uintptr_t)device)) {
        return (int8_t)known - 2;
    }
    return device_find_nvml(limits, device, status, place);
}

/* True if two NVML handles are of the same card. */
static bool device_is_same(nvmlDevice one, nvmlDevice other) {
    char first[HAMI_UUID_BYTES], second[HAMI_UUID_BYTES];
    return hami_call_nvmlDeviceGetUUID(one, first, sizeof first) == NVML_SUCCESS &&
           hami_call_nvmlDeviceGetUUID(other, second, sizeof second) == NVML_SUCCESS && strcmp(first, second) == 0;
}

unsigned hami_device_mig_of(const struct hami_limits *limits, nvmlDevice card,
                            struct hami_listed_device found[HAMI_DEVICES]) {
    unsigned count = 0;
    for (unsigned i = 0; i < limits->device_count; i++) {
        nvmlDevice handle = NULL, its_card = NULL;
        const char *uuid = limits->devices[i].uuid;
        if (hami_limits_mig(&limits->devices[i]) &&
            hami_call_nvmlDeviceGetHandleByUUID(uuid, &handle) == NVML_SUCCESS &&
            hami_call_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle, &its_card) == NVML_SUCCESS &&
            device_is_same(its_card, card)) {
            found[count++] = (struct hami_listed_device){i, handle};
        }
    }
    return count;
}
