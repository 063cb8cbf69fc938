/*
 * Policy of external memory: memory that another API (Vulkan, OpenGL …) took on the device and this process imports.
 * The import is charged. If a process of the container has imported the same file descriptor, it is a hold of that
 * share.
 */
#include "memory/allocation.h"
#include "memory/contexts.h"
#include "memory/identity.h"
#include "memory/records.h"
#include "memory/shared.h"
#include "policies.h"

/* Imports memory whose share this process holds already. The hold ends with the import or its context. */
static CUresult external_hold(enum hami_hook hook, void **memory, const struct hami_external_memory *wanted,
                              hami_share share) {
    unsigned context = hami_context_current_id();
    CUresult status = hami_call_external_import(hook, memory, wanted);
    if (status == CUDA_SUCCESS && !hami_record_held((uint64_t)(uintptr_t)*memory, share, context)) {
        (void)hami_call_cuDestroyExternalMemory(*memory);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status != CUDA_SUCCESS) {
        hami_shared_close(share);
    }
    return status;
}

int32_t hami_external_import(enum hami_hook hook, void **memory, const struct hami_external_memory *wanted) {
    struct hami_allocation a;
    if (memory == NULL || wanted == NULL || wanted->bytes == 0) {
        return hami_call_external_import(hook, memory, wanted);
    }
    /* The driver may close the descriptor, so the identity is read before the call. */
    bool descriptor = wanted->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
    uint64_t bytes = wanted->bytes, identity = descriptor ? hami_identity_of(wanted->fd) : 0;
    hami_share share = -1;
    if (!hami_shared_take_up(identity, hami_large(bytes) >> HAMI_PAGE_SHIFT, &share)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (share >= 0) {
        return external_hold(hook, memory, wanted, share);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_external_import(hook, memory, wanted);
    uint64_t key = status == CUDA_SUCCESS ? (uint64_t)(uintptr_t)*memory : 0;
    status = hami_allocation_end(&a, status, key, 0, HAMI_cuDestroyExternalMemory);
    if (status == CUDA_SUCCESS && identity != 0) {
        hami_record_share(key, identity);
    }
    return status;
}
