/* Policies of virtual memory management: handles, mappings, exports and imports of physical memory (physical.h). */
#include "memory/physical.h"

#include "memory/identity.h"
#include "memory/map.h"
#include "memory/memory.h"
#include "policies.h"

#include <stdlib.h>

struct mapping {
    struct mapping *next, *previous;
    struct hami_physical *memory;
    CUdeviceptr start;
    uint64_t bytes;
};

static struct hami_map starts;   /* first address → mapping */
static struct mapping *mappings; /* all of them, for addresses inside one */

/* ---- handles ---- */

int32_t hami_mem_create(enum hami_hook hook, CUmemHandle *handle, uint64_t bytes,
                        const struct hami_allocation_prop *prop, uint64_t flags) {
    if (handle == NULL || prop == NULL || bytes == 0 || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return hami_call_mem_create(hook, handle, bytes, prop, flags); /* host memory costs the device nothing */
    }
    struct hami_physical *memory = hami_physical_new();
    if (memory == NULL || !hami_charge_take(prop->location.id, hami_large(bytes), HAMI_COLUMN_DATA, &memory->charge)) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_mem_create(hook, handle, bytes, prop, flags);
    if (status == CUDA_SUCCESS && !hami_physical_enter(*handle, memory)) {
        status = hami_physical_refuse(*handle);
    }
    if (status != CUDA_SUCCESS) {
        hami_physical_drop_handle(memory);
    }
    return status;
}

/* The last handle leaves the map before the driver frees it: afterwards another thread may be given the same one. */
int32_t hami_mem_release(enum hami_hook hook, CUmemHandle handle) {
    HAMI_HOLD(&hami_physical_busy);
    struct hami_physical *memory = hami_physical_of(handle);
    bool last = memory != NULL && memory->handles == 1;
    if (last) {
        hami_physical_leave(handle);
    }
    CUresult status = hami_call_mem_release(hook, handle);
    if (status != CUDA_SUCCESS && last) {
        (void)hami_physical_enter(handle, memory);
    } else if (status == CUDA_SUCCESS && memory != NULL) {
        hami_physical_drop_handle(memory);
    }
    return status;
}

int32_t hami_mem_export(enum hami_hook hook, void *shareable, CUmemHandle handle, int32_t type, uint64_t flags) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_export(hook, shareable, handle, type, flags);
    struct hami_physical *memory = status == CUDA_SUCCESS ? hami_physical_of(handle) : NULL;
    if (memory != NULL && !memory->imported && memory->share < 0) {
        memory->identity = hami_identity_of_export(shareable, type);
        memory->share = hami_shared_export(memory->identity, &memory->charge);
    }
    if (memory != NULL && memory->identity != 0 && (memory->imported || memory->share >= 0)) {
        hami_identity_put_on_export(shareable, type, memory->identity);
    }
    return status;
}

/* Index of the device that an imported handle's memory lies on, or -1. */
static int import_device(CUmemHandle handle) {
    struct hami_allocation_prop prop = {0};
    bool known = hami_call_cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS;
    return known && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? hami_charge_counted(prop.location.id) : -1;
}

/*
 * Memory that no process of the container took is a new share, whose size is learnt from its mappings. False: it does
 * not fit, or this process's own memory is full.
 */
static bool import_note(CUmemHandle handle, const void *shareable, int32_t type) {
    struct hami_physical *memory = hami_physical_new();
    if (memory == NULL) {
        return false;
    }
    memory->imported = true;
    memory->identity = hami_identity_of_import(shareable, type);
    memory->charge.device = import_device(handle);
    bool fits = hami_shared_take_up(memory->identity, 0, &memory->share);
    if (fits && memory->share < 0) {
        (void)hami_shared_adopt(memory->identity, memory->charge.device, 0, &memory->share);
    }
    if (!fits || !hami_physical_enter(handle, memory)) {
        hami_physical_drop_handle(memory);
        return false;
    }
    return true;
}

int32_t hami_mem_import(enum hami_hook hook, CUmemHandle *handle, void *shareable, int32_t type) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_import(hook, handle, shareable, type);
    struct hami_physical *memory = status == CUDA_SUCCESS ? hami_physical_of(*handle) : NULL;
    if (memory != NULL) {
        memory->handles++;
    } else if (status == CUDA_SUCCESS && !import_note(*handle, shareable, type)) {
        status = hami_physical_refuse(*handle);
    }
    return status;
}

/* ---- mappings ---- */

/* False: it does not fit, or this process's own memory is full. */
static bool mapping_note(CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle) {
    struct hami_physical *memory = hami_physical_of(handle);
    struct mapping *mapping = memory == NULL ? NULL : malloc(sizeof *mapping);
    if (mapping == NULL) {
        return memory == NULL;
    }
    *mapping = (struct mapping){mappings, NULL, memory, address, bytes};
    bool shows_more = memory->imported && memory->share >= 0; /* of memory whose size is not known */
    bool fits = !shows_more || hami_shared_grow(memory->share, hami_large(offset + bytes) >> HAMI_PAGE_SHIFT);
    if (!fits || !hami_map_put(&starts, address, hami_map_key(mapping))) {
        free(mapping);
        return false;
    }
    if (mappings != NULL) {
        mappings->previous = mapping;
    }
    mappings = mapping;
    memory->uses++;
    return true;
}

int32_t hami_mem_map(enum hami_hook hook, CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle,
                     uint64_t flags) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_map(hook, address, bytes, offset, handle, flags);
    if (status == CUDA_SUCCESS && !mapping_note(address, bytes, offset, handle)) {
        (void)hami_call_cuMemUnmap(address, bytes);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

static void mapping_forget(struct mapping *gone) {
    if (gone->next != NULL) {
        gone->next->previous = gone->previous;
    }
    *(gone->previous == NULL ? &mappings : &gone->previous->next) = gone->next;
    hami_physical_drop_use(gone->memory);
    free(gone);
}

/* One call may unmap several mappings that follow each other. */
int32_t hami_mem_unmap(enum hami_hook hook, CUdeviceptr address, uint64_t bytes) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_unmap(hook, address, bytes);
    uint64_t end = bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
    while (status == CUDA_SUCCESS && address != 0 && address < end) {
        struct mapping *mapping = (struct mapping *)(uintptr_t)hami_map_take(&starts, address);
        if (mapping == NULL) {
            break;
        }
        address += mapping->bytes;
        mapping_forget(mapping);
    }
    return status;
}

/* Most callers ask with the first address of a mapping. */
struct hami_physical *hami_vmm_memory_at(CUdeviceptr address) {
    struct mapping *found = address == 0 ? NULL : hami_map_pointer(&starts, address);
    for (struct mapping *m = mappings; found == NULL && m != NULL; m = m->next) {
        found = address - m->start < m->bytes ? m : NULL;
    }
    return found == NULL ? NULL : found->memory;
}

int32_t hami_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *address) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_retain(hook, handle, address);
    struct hami_physical *memory = status == CUDA_SUCCESS ? hami_vmm_memory_at((uint64_t)(uintptr_t)address) : NULL;
    bool new = memory != NULL && (memory->handles == 0 || hami_physical_of(*handle) == NULL);
    if (new && !hami_physical_enter(*handle, memory)) {
        status = hami_physical_refuse(*handle); /* its release would not be known */
    } else if (memory != NULL) {
        memory->handles++;
    }
    return status;
}

void hami_vmm_after_fork(void) {
    hami_physical_after_fork();
    hami_map_reset(&starts);
    mappings = NULL;
}
