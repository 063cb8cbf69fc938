/*
 * Policies of virtual memory management: handles, mappings, exports and imports of physical memory (vmm.h), and
 * multicast objects (cuMulticastCreate). A multicast object takes no memory itself. Memory that is bound to one counts
 * until it is unbound or the object ends, even after the program has released and unmapped that memory.
 */
#include "memory/vmm.h"

#include "memory/around.h"
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

atomic_flag hami_physical_busy = ATOMIC_FLAG_INIT;

static struct hami_map handles;  /* handle → struct hami_physical */
static struct hami_map mappings; /* first address → struct mapping */

/* ---- records ---- */

struct hami_physical *hami_physical_of(CUmemHandle handle) {
    return handle == 0 ? NULL : hami_map_pointer(&handles, handle);
}

/* Makes a record with one handle and no charge. NULL: this process has no memory left for a record. */
static struct hami_physical *physical_make(void) {
    struct hami_physical *memory = calloc(1, sizeof *memory);
    if (memory != NULL) {
        memory->charge.device = memory->share = -1;
        memory->handles = 1;
    }
    return memory;
}

/* Ends one reference to the memory: `*references` is the number of its handles or of its uses. */
static void physical_drop(struct hami_physical *memory, unsigned *references) {
    --*references;
    if (memory->handles == 0 && memory->uses == 0) {
        hami_shared_give_back(memory->share, &memory->charge);
        hami_uses_drop(&memory->bindings, NULL, NULL);
        free(memory);
    }
}

void hami_uses_drop(struct hami_use **list, hami_use_test *gone, const void *by) {
    for (struct hami_use **at = list; *at != NULL;) {
        struct hami_use *use = *at;
        if (gone != NULL && !gone(use, by)) {
            at = &use->next;
            continue;
        }
        *at = use->next;
        physical_drop(use->memory, &use->memory->uses);
        free(use);
    }
}

/*
 * Records memory under a handle that the driver has just given. If `memory` is NULL or the map cannot grow, releases
 * the handle and returns CUDA_ERROR_OUT_OF_MEMORY, since the memory would not be counted.
 */
static CUresult physical_enter(CUmemHandle handle, struct hami_physical *memory) {
    if (memory != NULL && hami_map_put(&handles, handle, hami_map_key(memory))) {
        return CUDA_SUCCESS;
    }
    if (memory != NULL) {
        physical_drop(memory, &memory->handles);
    }
    (void)hami_call_cuMemRelease(handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- handles ---- */

int32_t hami_mem_create(enum hami_hook hook, CUmemHandle *handle, uint64_t bytes,
                        const struct hami_allocation_prop *prop, uint64_t flags) {
    if (handle == NULL || prop == NULL || bytes == 0 || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return hami_call_mem_create(hook, handle, bytes, prop, flags); /* host memory takes nothing of the device */
    }
    struct hami_physical *memory = physical_make();
    if (memory == NULL || !hami_charge_take(prop->location.id, hami_large(bytes), HAMI_COLUMN_DATA, &memory->charge)) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_mem_create(hook, handle, bytes, prop, flags);
    HAMI_HOLD(&hami_physical_busy);
    if (status == CUDA_SUCCESS) {
        return physical_enter(*handle, memory);
    }
    physical_drop(memory, &memory->handles);
    return status;
}

/* Locks before the driver's call: once the driver has released a handle, it may give the same one to another thread. */
int32_t hami_mem_release(enum hami_hook hook, CUmemHandle handle) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_release(hook, handle);
    struct hami_physical *memory = status == CUDA_SUCCESS ? hami_physical_of(handle) : NULL;
    if (memory != NULL && memory->handles == 1) {
        (void)hami_map_take(&handles, handle);
    }
    if (memory != NULL) {
        physical_drop(memory, &memory->handles);
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

/* Index in the limits of the device on which an imported handle's memory lies. -1: memory there is not counted. */
static int import_device(CUmemHandle handle) {
    struct hami_allocation_prop prop = {0};
    bool known = hami_call_cuMemGetAllocationPropertiesFromHandle(&prop, handle) == CUDA_SUCCESS;
    return known && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? hami_charge_counted(prop.location.id) : -1;
}

/*
 * Makes the record of an imported handle's memory. Memory from another container becomes a new share of 0 pages, since
 * the driver does not tell its size; cuMemMap raises it. NULL: the memory exceeds the limit, or this process has no
 * memory left for a record.
 */
static struct hami_physical *import_memory(CUmemHandle handle, const void *shareable, int32_t type) {
    struct hami_physical *memory = physical_make();
    if (memory == NULL) {
        return NULL;
    }
    memory->imported = true;
    memory->identity = hami_identity_of_import(shareable, type);
    memory->charge.device = import_device(handle);
    if (!hami_shared_take_up(memory->identity, 0, &memory->share)) {
        physical_drop(memory, &memory->handles);
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
        status = physical_enter(*handle, import_memory(*handle, shareable, type));
    }
    return status;
}

/* ---- mappings ---- */

/* Records a mapping. False: an imported share exceeds the limit, or this process has no memory left for a record. */
static bool mapping_record(CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle) {
    struct hami_physical *memory = hami_physical_of(handle);
    if (memory == NULL) {
        return true;
    }
    if (memory->imported && memory->share >= 0 && /* only mappings show how large it is */
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
    if (status == CUDA_SUCCESS && !mapping_record(address, bytes, offset, handle)) {
        (void)hami_call_cuMemUnmap(address, bytes);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return status;
}

/* One call of cuMemUnmap may end several adjacent mappings. */
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
        physical_drop(gone->memory, &gone->memory->uses);
        free(gone);
    }
    return status;
}

struct search {
    CUdeviceptr address;
    struct hami_physical *found;
};

static void mapping_search(uint64_t start, uint64_t value, void *of) {
    const struct mapping *mapping = (const struct mapping *)(uintptr_t)value;
    struct search *search = of;
    if (search->address - start < mapping->bytes) {
        search->found = mapping->memory;
    }
}

/* The memory that is mapped at an address, perhaps in the middle of a mapping. NULL: none that is counted. */
static struct hami_physical *mapping_memory_at(CUdeviceptr address) {
    struct search search = {address, NULL};
    hami_map_each(&mappings, mapping_search, &search);
    return search.found;
}

/* Adds a handle to the record of mapped memory. The program may have released all earlier handles of that memory. */
int32_t hami_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *address) {
    HAMI_HOLD(&hami_physical_busy);
    CUresult status = hami_call_mem_retain(hook, handle, address);
    struct hami_physical *memory = status == CUDA_SUCCESS ? mapping_memory_at((uint64_t)(uintptr_t)address) : NULL;
    if (memory != NULL) {
        memory->handles++;
        status = hami_physical_of(*handle) == NULL ? physical_enter(*handle, memory) : status;
    }
    return status;
}

/* ---- multicast objects ---- */

int32_t hami_multicast_create(enum hami_hook hook, CUmemHandle *handle, const void *prop) {
    CUresult status = hami_call_multicast_create(hook, handle, prop);
    HAMI_HOLD(&hami_physical_busy);
    return status == CUDA_SUCCESS ? physical_enter(*handle, physical_make()) : status;
}

/*
 * Called before the driver's cuMulticastBindMem (`address` is 0) or cuMulticastBindAddr (`handle` is 0). Makes the
 * record of the binding first, since a binding cannot always be undone. Returns with hami_physical_busy locked, and
 * hami_bind_end unlocks it. False: this process has no memory left for the record; the lock is not held.
 */
bool hami_bind_begin(struct hami_bind *bind, CUmemHandle object, CUmemHandle handle, CUdeviceptr address) {
    hami_spin_lock(&hami_physical_busy);
    struct hami_physical *memory = handle != 0 ? hami_physical_of(handle) : mapping_memory_at(address);
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
    int device; /* index in the limits */
};

static bool binding_is_unbound(const struct hami_use *binding, const void *by) {
    const struct unbound *range = by;
    int device = binding->memory->charge.device;
    return binding->offset - range->offset < range->bytes && (device == range->device || device < 0);
}

/* cuMulticastUnbind ends those bindings of the device's memory that begin in the range. */
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

/* The parent's few records leak: between fork and exec a child must not call free(3), whose lock may be held. */
void hami_vmm_after_fork(void) {
    hami_map_reset(&handles);
    hami_map_reset(&mappings);
    atomic_flag_clear(&hami_physical_busy);
}
