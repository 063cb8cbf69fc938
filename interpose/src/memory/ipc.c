/* Memory that processes share by address (cuIpc...); see shared.h for how it is counted. */
#include "memory/memory.h"

#include "doors/hook.h"
#include "memory/account.h"
#include "memory/context.h"
#include "memory/identity.h"
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

static void lock(void) {
    hami_spin_lock(&busy);
}

static void unlock(void) {
    hami_spin_unlock(&busy);
}

/* Start and size of the allocation around an address; false: the driver does not say. */
static bool range_of(CUdeviceptr address, CUdeviceptr *start, size_t *bytes) {
    CUresult (*range)(CUdeviceptr *, size_t *, CUdeviceptr) = hami_cuda_function("cuMemGetAddressRange_v2");
    return range != NULL && range(start, bytes, address) == CUDA_SUCCESS;
}

static CUdevice device_of(CUdeviceptr address) {
    const int device_ordinal = 9; /* CUpointer_attribute */
    CUdevice device = -1;
    CUresult (*attribute)(void *, int, CUdeviceptr) = hami_cuda_function("cuPointerGetAttribute");
    return attribute != NULL && attribute(&device, device_ordinal, address) == CUDA_SUCCESS ? device : -1;
}

int32_t hami_ipc_get(enum hami_hook hook, void *handle, CUdeviceptr address) {
    CUresult (*driver)(void *, CUdeviceptr) = hami_driver_function(hook);
    CUdeviceptr start = 0;
    size_t bytes = 0;
    CUresult status = driver(handle, address);
    if (status == CUDA_SUCCESS && range_of(address, &start, &bytes)) {
        hami_record_share(start, hami_identity_of_bytes(handle, sizeof(struct hami_bytes64)));
    }
    return status;
}

static unsigned current_id(void) {
    struct hami_context context;
    return hami_context_current(&context) ? context.id : HAMI_CONTEXT_UNKNOWN;
}

static struct opened **find(CUdeviceptr address, unsigned context) {
    struct opened **at = &all;
    while (*at != NULL && ((*at)->address != address || (*at)->context != context)) {
        at = &(*at)->next;
    }
    return at;
}

/* The current context's, or else another's. */
static struct opened **find_any(CUdeviceptr address) {
    struct opened **at = find(address, current_id());
    if (*at == NULL) {
        at = &all;
        while (*at != NULL && (*at)->address != address) {
            at = &(*at)->next;
        }
    }
    return at;
}

/*
 * Small allocations lie in blocks that their owner has others of its own in: they are not counted here. False: it does
 * not fit.
 */
static bool share_of(CUdeviceptr address, const struct hami_bytes64 *handle, hami_share *share) {
    CUdeviceptr start = 0;
    size_t bytes = 0;
    uint64_t identity = hami_identity_of_bytes(handle, sizeof *handle);
    *share = -1;
    if (!range_of(address, &start, &bytes) || bytes < HAMI_SMALL_BELOW) {
        return true;
    }
    bool fits = hami_shared_take_up(identity, 0, share);
    if (fits && *share < 0) {
        int device = hami_charge_counted(device_of(address));
        fits = hami_shared_adopt(identity, device, hami_large(bytes) >> HAMI_PAGE_SHIFT, share);
    }
    return fits;
}

static void drop(struct opened **at) {
    struct opened *gone = *at;
    *at = gone->next;
    hami_shared_close(gone->share);
    free(gone);
}

/*
 * Another context may have the same address: on another device, or it has ended and we are yet to be told. False: it
 * does not fit, or this process's own memory is full.
 */
static bool note(CUdeviceptr address, const struct hami_bytes64 *handle) {
    unsigned context = current_id();
    struct opened *opened = *find(address, context);
    hami_share share = -1;
    if (opened != NULL) {
        opened->times++;
        return true;
    }
    if (!share_of(address, handle, &share)) {
        return false;
    }
    opened = share < 0 ? NULL : malloc(sizeof *opened);
    if (opened != NULL) {
        *opened = (struct opened){all, address, share, 1, context};
        all = opened;
    } else if (share >= 0) {
        hami_shared_close(share);
        return false;
    }
    return true;
}

int32_t hami_ipc_open(enum hami_hook hook, CUdeviceptr *address, struct hami_bytes64 handle, uint32_t flags) {
    CUresult (*driver)(CUdeviceptr *, struct hami_bytes64, uint32_t) = hami_driver_function(hook);
    lock();
    CUresult status = driver(address, handle, flags);
    if (status == CUDA_SUCCESS && !note(*address, &handle)) {
        CUresult (*close)(CUdeviceptr) = hami_driver_function(HAMI_cuIpcCloseMemHandle);
        (void)close(*address);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    unlock();
    return status;
}

int32_t hami_ipc_close(enum hami_hook hook, CUdeviceptr address) {
    CUresult (*driver)(CUdeviceptr) = hami_driver_function(hook);
    lock();
    CUresult status = driver(address);
    struct opened **at = find_any(address);
    if (status == CUDA_SUCCESS && *at != NULL && --(*at)->times == 0) {
        drop(at);
    }
    unlock();
    return status;
}

void hami_ipc_context_gone(unsigned context) {
    lock();
    for (struct opened **at = &all; *at != NULL;) {
        if ((*at)->context == context) {
            drop(at);
        } else {
            at = &(*at)->next;
        }
    }
    unlock();
}

/* As for physical memory, the child leaks the few records. */
void hami_ipc_after_fork(void) {
    all = NULL;
    atomic_flag_clear(&busy);
}
