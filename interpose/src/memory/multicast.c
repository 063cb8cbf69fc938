/*
 * Policies of multicast objects. An object takes no memory itself; what is bound to it counts until it is unbound or
 * the object ends, even if its own handles and mappings are gone.
 */
#include "memory/around.h"
#include "policies.h"

#include <stdlib.h>

int32_t hami_multicast_create(enum hami_hook hook, CUmemHandle *handle, const void *prop) {
    CUresult status = hami_call_multicast_create(hook, handle, prop);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    struct hami_physical *object = hami_physical_new();
    if (object == NULL || !hami_physical_enter(*handle, object)) {
        free(object);
        return hami_physical_refuse(*handle);
    }
    return status;
}

/* Four calls bind: memory by its handle or its address, each with and without naming the device. A record is made
 * before the driver is asked, since not every binding can be undone. */
bool hami_bind_begin(struct hami_bind *bind, CUmemHandle object, CUmemHandle memory, CUdeviceptr address) {
    hami_spin_lock(&hami_physical_busy);
    bind->object = hami_physical_of(object);
    bind->memory = memory != 0 ? hami_physical_of(memory) : hami_vmm_memory_at(address);
    bool followed = bind->object != NULL && bind->memory != NULL;
    bind->binding = followed ? malloc(sizeof *bind->binding) : NULL;
    if (followed && bind->binding == NULL) {
        hami_spin_unlock(&hami_physical_busy);
        return false;
    }
    return true;
}

CUresult hami_bind_end(struct hami_bind *bind, CUresult status, uint64_t offset) {
    if (status != CUDA_SUCCESS) {
        free(bind->binding);
    } else if (bind->binding != NULL) {
        *bind->binding = (struct hami_binding){bind->object->bindings, bind->memory, offset};
        bind->object->bindings = bind->binding;
        bind->memory->uses++;
    }
    hami_spin_unlock(&hami_physical_busy);
    return status;
}

/* Ends the bindings of one device that begin in the range. */
int32_t hami_multicast_unbind(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                              uint64_t bytes) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_multicast_unbind(hook, handle, device, offset, bytes);
    struct hami_physical *object = status == CUDA_SUCCESS ? hami_physical_of(handle) : NULL;
    int index = hami_charge_counted(device);
    for (struct hami_binding **at = object == NULL ? NULL : &object->bindings; at != NULL && *at != NULL;) {
        int on = (*at)->memory->charge.device;
        if ((*at)->offset - offset < bytes && (on == index || on < 0)) {
            hami_physical_drop_binding(at);
        } else {
            at = &(*at)->next;
        }
    }
    return status;
}
