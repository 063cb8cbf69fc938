/*
 * Policies of memory that a process exports by its address (cuIpc…), or imports from another API (Vulkan, OpenGL …).
 * The memory becomes a share (shared.h). An importer by cuIpcOpenMemHandle holds the share from its first opening in a
 * context until the last close, or the end of that context.
 */
#include "memory/allocation.h"
#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/identity.h"
#include "memory/memory.h"
#include "memory/records.h"
#include "memory/shared.h"
#include "policies.h"
#include "threads.h"

/* ---- cuIpc… ---- */

static atomic_flag busy = ATOMIC_FLAG_INIT; /* held from the driver's call until the record is changed */

int32_t hami_ipc_get(enum hami_hook hook, void *handle, CUdeviceptr address) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUresult status = hami_call_ipc_get(hook, handle, address);
    if (status == CUDA_SUCCESS && hami_call_cuMemGetAddressRange_v2(&start, &bytes, address) == CUDA_SUCCESS) {
        hami_record_share(start, hami_identity_of_bytes(handle, sizeof(struct hami_bytes64)));
    }
    return status;
}

/* The key of the record of opened memory: contexts on two devices may have the same address, which is below 2⁴⁸. */
static uint64_t opened_key(CUdeviceptr address, unsigned context) {
    return address | (uint64_t)context << 48;
}

/*
 * Holds the share of memory that the driver has just opened. A small allocation has no share (`*share` is -1): its
 * exporter is charged for the block in which it lies. False: the memory does not fit under the limit.
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

/*
 * Records an opening. When a context opens the same memory again, the driver gives the same address. False: the memory
 * does not fit under the limit, or this process has no memory left for the record.
 */
static bool opened_record(CUdeviceptr address, const struct hami_bytes64 *handle) {
    unsigned context = hami_context_current_id();
    uint64_t key = opened_key(address, context);
    hami_share share = -1;
    if (hami_record_open_again(key)) {
        return true;
    }
    bool fits = opened_share(address, handle, &share);
    if (share >= 0 && !hami_record_held(key, share, context)) {
        hami_shared_close(share);
        fits = false;
    }
    return fits;
}

int32_t hami_ipc_open(enum hami_hook hook, CUdeviceptr *address, struct hami_bytes64 handle, uint32_t flags) {
    HAMI_HOLD(&busy);
    CUresult status = hami_call_ipc_open(hook, address, handle, flags);
    if (status == CUDA_SUCCESS && !opened_record(*address, &handle)) {
        (void)hami_call_cuIpcCloseMemHandle(*address);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

/* A program may close memory in another context than the one that opened it: the current context is tried first. */
int32_t hami_ipc_close(enum hami_hook hook, CUdeviceptr address) {
    HAMI_HOLD(&busy);
    CUresult status = hami_call_ipc_close(hook, address);
    bool closed = status != CUDA_SUCCESS || hami_record_closed(opened_key(address, hami_context_current_id()));
    for (unsigned i = 0; !closed && i < HAMI_CONTEXTS; i++) {
        closed = hami_record_closed(opened_key(address, i));
    }
    return status;
}

/* ---- external memory ---- */

/*
 * Charges an import. If it came by a file descriptor, makes it a share, or holds the share that an earlier import of
 * the same descriptor in this container has made.
 */
int32_t hami_external_import(enum hami_hook hook, void **memory, const struct hami_external_memory *wanted) {
    struct hami_allocation a;
    if (memory == NULL || wanted == NULL || wanted->bytes == 0) {
        return hami_call_external_import(hook, memory, wanted);
    }
    /* The identity is read before the driver's call, which may close the descriptor. */
    bool descriptor = wanted->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    uint64_t bytes = wanted->bytes, identity = descriptor ? hami_identity_of(wanted->fd) : 0;
    hami_share share = -1;
    if (!hami_shared_take_up(identity, hami_large(bytes) >> HAMI_PAGE_SHIFT, &share) ||
        (share < 0 && !hami_allocation_begin(&a, bytes, HAMI_LARGE))) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_external_import(hook, memory, wanted);
    uint64_t key = status == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*memory : 0;
    if (share < 0) {
        status = hami_allocation_end(&a, status, key, 0, HAMI_cuDestroyExternalMemory);
        if (status == CUDA_SUCCESS && identity != 0) {
            hami_record_share(key, identity);
        }
        return status;
    }
    if (status == CUDA_SUCCESS && !hami_record_held(key, share, hami_context_current_id())) {
        (void)hami_call_cuDestroyExternalMemory(*memory);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status != CUDA_SUCCESS) {
        hami_shared_close(share);
    }
    return status;
}

void hami_ipc_after_fork(void) {
    atomic_flag_clear(&busy);
}
