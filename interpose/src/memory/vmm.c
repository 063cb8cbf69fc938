/* Policies of virtual memory management: handles, mappings, exports and imports of physical memory (physical.h). */
#include "memory/physical.h"

#include "memory/identity.h"
#include "memory/map.h"
#include "memory/memory.h"
#include "memory/sizes.h"
#include "policies.h"

#include <stdlib.h>

struct mapping {
    struct hami_physical *memory;
    uint64_t bytes;
};

static struct hami_map mappings; /* first address → mapping */

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
    HAMI_HOLD(&hami_physical_busy);
    if (status == CUDA_SUCCESS) {
        return hami_physical_enter(*handle, memory);
    }
    hami_physical_drop_handle(memory);
    return status;
}

/* The lock is held throughout: once the driver has released a handle, another thread may be given the same one. */
int32_t hami_mem_release(enum hami_hook hook, CUmemHandle handle) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_release(hook, handle);
    if (status == CUDA_SUCCESS) {
        hami_physical_released(handle);
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

/* Index in the limits of the device on which an imported handle's memory lies, or -1. */
static int import_device(CUmemHandle handle) {
    struct hami_allocation_prop prop = {0};
    bool known = hami_call_cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS;
    return known && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? hami_charge_counted(prop.location.id) : -1;
}

/*
 * Makes the record of an imported handle's memory. Memory from another container becomes a new share of 0 pages, since
 * the driver does not tell its size; mappings raise it. NULL: it does not fit, or this process has no memory left.
 */
static struct hami_physical *import_memory(CUmemHandle handle, const void *shareable, int32_t type) {
    struct hami_physical *memory = hami_physical_new();
    if (memory == NULL) {
        return NULL;
    }
    memory->imported = true;
    memory->identity = hami_identity_of_import(shareable, type);
    memory->charge.device = import_device(handle);
    if (!hami_shared_take_up(memory->identity, 0, &memory->share)) {
        hami_physical_drop_handle(memory);
        return NULL;
    }
    if (memory->share < 0) {
        (void)hami_shared_adopt(memory->identity, memory->charge.device, 0, &memory->share);
    }
    return memory;
}

int32_t hami_mem_import(enum hami_hook hook, CUmemHandle *handle, void *shareable, int32_t type) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_import(hook, handle, shareable, type);
    struct hami_physical *memory = status == CUDA_SUCCESS ? hami_physical_of(*handle) : NULL;
    if (memory != NULL) {
        memory->handles++;
    } else if (status == CUDA_SUCCESS) {
        status = hami_physical_enter(*handle, import_memory(*handle, shareable, type));
    }
    return status;
}

/* ---- mappings ---- */

/* False: it does not fit, or this process has no memory left for the record. */
static bool mapping_note(CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle) {
    struct hami_physical *memory = hami_physical_of(handle);
    if (memory == NULL) {
        return true;
    }
    if (memory->imported && memory->share >= 0 && /* the share is at least as large as what is mapped */
        !hami_shared_grow(memory->share, hami_large(offset + bytes) >> HAMI_PAGE_SHIFT)) {
        return false;
    }
    struct mapping *mapping = malloc(sizeof *mapping);
    if (mapping == NULL || !hami_map_put(&mappings, address, hami_map_key(mapping))) {
        free(mapping);
        return false;
    }
    *mapping = (struct mapping){memory, bytes};
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

/* One call may unmap several adjacent mappings. */
int32_t hami_mem_unmap(enum hami_hook hook, CUdeviceptr address, uint64_t bytes) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_unmap(hook, address, bytes);
    uint64_t end = hami_sum(address, bytes);
    while (status == CUDA_SUCCESS && address < end) {
        struct mapping *gone = (struct mapping *)(uintptr_t)hami_map_take(&mappings, address);
        if (gone == NULL) {
            break;
        }
        address += gone->bytes;
        hami_physical_drop_use(gone->memory);
        free(gone);
    }
    return status;
}

struct search {
    CUdeviceptr address;
    struct hami_physical *memory; /* found, or NULL */
};

static void mapping_search(uint64_t start, uint64_t value, void *of) {
    const struct mapping *mapping = (const struct mapping *)(uintptr_t)value;
    struct search *search = of;
    if (search->address - start < mapping->bytes) {
        search->memory = mapping->memory;
    }
}

/* Most callers give the first address of a mapping, which needs no search. */
struct hami_physical *hami_vmm_memory_at(CUdeviceptr address) {
    const struct mapping *mapping = hami_map_pointer(&mappings, address);
    struct search search = {address, mapping == NULL ? NULL : mapping->memory};
    if (mapping == NULL) {
        hami_map_each(&mappings, mapping_search, &search);
    }
    return search.memory;
}

int32_t hami_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *address) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_retain(hook, handle, address);
    struct hami_physical *memory = status == CUDA_SUCCESS ? hami_vmm_memory_at((uint64_t)(uintptr_t)address) : NULL;
    bool unknown = memory != NULL && (memory->handles == 0 || hami_physical_of(*handle) == NULL);
    if (memory != NULL) {
        memory->handles++;
    }
    if (unknown) {
        status = hami_physical_enter(*handle, memory); /* so that its release finds the record */
    }
    return status;
}

void hami_vmm_after_fork(void) {
    hami_physical_after_fork();
    hami_map_reset(&mappings);
}
