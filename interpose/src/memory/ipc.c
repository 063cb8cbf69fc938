/*
 * Policies of memory that processes share by address (cuIpc…). The exporter's allocation becomes a share (shared.h); an
 * importer holds the share from its first opening in a context until the last close, or the end of that context.
 */
#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/identity.h"
#include "memory/memory.h"
#include "memory/records.h"
#include "memory/shared.h"
#include "policies.h"
#include "threads.h"

static atomic_flag busy = ATOMIC_FLAG_INIT;

int32_t hami_ipc_get(enum hami_hook hook, void *handle, CUdeviceptr address) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUresult status = hami_call_ipc_get(hook, handle, address);
    if (status == CUDA_SUCCESS && hami_call_cuMemGetAddressRange_v2(&start, &bytes, address) == CUDA_SUCCESS) {
        hami_record_share(start, hami_identity_of_bytes(handle, sizeof(struct hami_bytes64)));
    }
    return status;
}

/* The key of the record: contexts on two devices may open at the same address, which has fewer than 48 bits. */
static uint64_t opened_key(CUdeviceptr address, unsigned context) {
    return address | (uint64_t)context << 48;
}

/*
 * Holds the share of an address that the driver has just opened. A small allocation has none (`*share` -1): its
 * exporter is charged for the block in which it lies. False: it does not fit.
 */
static bool opened_share(CUdeviceptr address, const struct hami_bytes64 *handle, hami_share *share) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUdevice device = -1;
    uint64_t identity = hami_identity_of_bytes(handle, sizeof *handle);
    *share = -1;
    if (hami_call_cuMemGetAddressRange_v2(&start, &bytes, address) != CUDA_SUCCESS || bytes < HAMI_SMALL_BELOW) {
        return true;
    }
    bool fits = hami_shared_take_up(identity, 0, share);
    if (fits && *share < 0) {
        (void)hami_call_cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
        fits = hami_shared_adopt(identity, hami_charge_counted(device), hami_large(bytes) >> HAMI_PAGE_SHIFT, share);
    }
    return fits;
}

/* The driver gives the same address again. False: it does not fit, or this process has no memory for the record. */
static bool opened_note(CUdeviceptr address, const struct hami_bytes64 *handle) {
    unsigned context = hami_context_current_id();
    uint64_t key = opened_key(address, context);
    hami_share share = -1;
    if (hami_record_open_again(key)) {
        return true;
    }
    bool fits = opened_share(address, handle, &share);
    if (share < 0) {
        return fits;
    }
    if (!hami_record_held(key, share, context)) {
        hami_shared_close(share);
        return false;
    }
    return true;
}

int32_t hami_ipc_open(enum hami_hook hook, CUdeviceptr *address, struct hami_bytes64 handle, uint32_t flags) {
    HAMI_HOLD(&busy);
    CUresult status = hami_call_ipc_open(hook, address, handle, flags);
    if (status == CUDA_SUCCESS && !opened_note(*address, &handle)) {
        (void)hami_call_cuIpcCloseMemHandle(*address);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

/* A program may close in another context than the one where it opened. */
int32_t hami_ipc_close(enum hami_hook hook, CUdeviceptr address) {
    HAMI_HOLD(&busy);
    CUresult status = hami_call_ipc_close(hook, address);
    if (status == CUDA_SUCCESS && !hami_record_closed(opened_key(address, hami_context_current_id()))) {
        for (unsigned i = 0; i < HAMI_CONTEXTS && !hami_record_closed(opened_key(address, i)); i++) {
        }
    }
    return status;
}

void hami_ipc_after_fork(void) {
    atomic_flag_clear(&busy);
}
