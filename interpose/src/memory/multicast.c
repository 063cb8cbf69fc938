/*
 * Policies of multicast objects (cuMulticastCreate). An object takes no memory itself. Memory that is bound to it
 * counts until it is unbound or the object ends, even after the program has released and unmapped that memory.
 */
#include "memory/around.h"
#include "policies.h"

#include <stdlib.h>

int32_t hami_multicast_create(enum hami_hook hook, CUmemHandle *handle, const void *prop) {
    CUresult status = hami_call_multicast_create(hook, handle, prop);
    HAMI_HOLD(&hami_physical_busy);
    return status == CUDA_SUCCESS ? hami_physical_enter(*handle, hami_physical_new()) : status;
}

/*
 * Four calls of the driver bind memory: by its handle or its address, with or without the device. The record is made
 * before the driver's call, since a binding cannot always be undone.
 */
bool hami_bind_begin(struct hami_bind *bind, CUmemHandle object, CUmemHandle handle, CUdeviceptr address) {
    hami_spin_lock(&hami_physical_busy);
    struct hami_physical *memory = handle != 0 ? hami_physical_of(handle) : hami_vmm_memory_at(address);
    *bind = (struct hami_bind){.object = hami_physical_of(object)};
    if (bind->object == NULL || memory == NULL) {
        return true;
    }
    bind->binding = calloc(1, sizeof *bind->binding);
    if (bind->binding == NULL) {
        hami_spin_unlock(&hami_physical_busy);
        return false;
    }
    bind->binding->memory = memory;
    return true;
}

CUresult hami_bind_end(struct hami_bind *bind, CUresult status, uint64_t offset) {
    if (status != CUDA_SUCCESS) {
        free(bind->binding);
    } else if (bind->binding != NULL) {
        bind->binding->next = bind->object->bindings;
        bind->binding->offset = offset;
        bind->object->bindings = bind->binding;
        bind->binding->memory->uses++;
    }
    hami_spin_unlock(&hami_physical_busy);
    return status;
}

struct unbound {
    uint64_t offset, bytes;
    int device; /* in the limits */
};

static bool binding_is_unbound(const struct hami_use *binding, const void *by) {
    const struct unbound *range = by;
    int device = binding->memory->charge.device;
    return binding->offset - range->offset < range->bytes && (device == range->device || device < 0);
}

/* The driver ends those bindings of the device that begin in the range. */
int32_t hami_multicast_unbind(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                              uint64_t bytes) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_multicast_unbind(hook, handle, device, offset, bytes);
    struct hami_physical *object = status == CUDA_SUCCESS ? hami_physical_of(handle) : NULL;
    if (object != NULL) {
        const struct unbound range = {offset, bytes, hami_charge_counted(device)};
        hami_uses_drop(&object->bindings, binding_is_unbound, &range);
    }
    return status;
}
