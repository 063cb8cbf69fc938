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

#include <stdlib.h>

/* What this process has opened in each context, and how often: the driver gives the same address again. */
struct opened {
    struct opened *next;
    CUdeviceptr address;
    hami_share share;
    unsigned times, context;
};

static struct opened *all;
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

static struct opened **opened_find(CUdeviceptr address, unsigned context) {
    struct opened **at = &all;
    while (*at != NULL && ((*at)->address != address || (*at)->context != context)) {
        at = &(*at)->next;
    }
    return at;
}

/* The current context's, or else another's. */
static struct opened **opened_find_any(CUdeviceptr address) {
    struct opened **at = opened_find(address, hami_context_current_id());
    for (at = *at != NULL ? at : &all; *at != NULL && (*at)->address != address;) {
        at = &(*at)->next;
    }
    return at;
}

/*
 * The share of an address that the driver has just opened; -1: it is not counted. A small allocation is not, since it
 * lies in a block with others that its owner has. False: it does not fit.
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

static void opened_drop(struct opened **at) {
    struct opened *gone = *at;
    *at = gone->next;
    hami_shared_close(gone->share);
    free(gone);
}

/*
 * Another context may have the same address: on another device, or it has ended and we are yet to be told. False: it
 * does not fit, or this process's own memory is full.
 */
static bool opened_note(CUdeviceptr address, const struct hami_bytes64 *handle) {
    unsigned context = hami_context_current_id();
    struct opened *opened = *opened_find(address, context);
    hami_share share = -1;
    if (opened != NULL) {
        opened->times++;
        return true;
    }
    bool fits = opened_share(address, handle, &share);
    if (share < 0) {
        return fits;
    }
    opened = malloc(sizeof *opened);
    if (opened == NULL) {
        hami_shared_close(share);
        return false;
    }
    *opened = (struct opened){all, address, share, 1, context};
    all = opened;
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

int32_t hami_ipc_close(enum hami_hook hook, CUdeviceptr address) {
    HAMI_HOLD(&busy);
    CUresult status = hami_call_ipc_close(hook, address);
    struct opened **at = opened_find_any(address);
    if (status == CUDA_SUCCESS && *at != NULL && --(*at)->times == 0) {
        opened_drop(at);
    }
    return status;
}

void hami_ipc_context_gone(unsigned context) {
    HAMI_HOLD(&busy);
    for (struct opened **at = &all; *at != NULL;) {
        if ((*at)->context == context) {
            opened_drop(at);
        } else {
            at = &(*at)->next;
        }
    }
}

/* The child leaks the parent's few records rather than touch its allocator between fork and exec. */
void hami_ipc_after_fork(void) {
    all = NULL;
    atomic_flag_clear(&busy);
}
