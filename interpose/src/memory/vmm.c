/*
 * Virtual memory management. One record per physical allocation; handles, mappings and parts of sparse arrays refer to
 * it, and its charge goes back with the last of them: cuMemRelease of a mapped handle, the documented idiom, frees
 * nothing yet.
 */
#include "memory/memory.h"

#include "doors/hook.h"
#include "memory/charge.h"
#include "memory/context.h"
#include "memory/identity.h"
#include "memory/map.h"
#include "memory/shared.h"
#include "policies.h"
#include "threads.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct physical {
    struct hami_charge charge;
    enum { OWN, EXPORTED, IMPORTED, NOTHING } kind; /* the last: a multicast object, which takes no memory itself */
    hami_share share;
    uint64_t identity;
    unsigned handles;
    unsigned mappings;
    struct binding *bindings; /* of a multicast object */
};

/* Memory that a multicast object holds. */
struct binding {
    struct binding *next;
    struct physical *memory;
    uint64_t offset;
};

struct mapping {
    struct mapping *next, *previous;
    struct physical *memory;
    CUdeviceptr start;
    uint64_t bytes;
};

/* Memory in a part of a sparse array. */
struct tile {
    struct tile *next;
    struct physical *memory;
    struct hami_array_part part;
    unsigned context;
};

static struct hami_map handles;  /* handle → physical */
static struct hami_map starts;   /* first address → mapping */
static struct mapping *mappings; /* all of them, for addresses inside one */
static struct tile *tiles;
static atomic_flag busy = ATOMIC_FLAG_INIT;

static void lock(void) {
    hami_spin_lock(&busy);
}

static void unlock(void) {
    hami_spin_unlock(&busy);
}

static struct physical *physical_of(CUmemHandle handle) {
    return handle == 0 ? NULL : (struct physical *)(uintptr_t)hami_map_get(&handles, handle);
}

/* False: this process's own memory is full. */
static bool enter(CUmemHandle handle, struct physical *memory) {
    return hami_map_put(&handles, handle, (uint64_t)(uintptr_t)memory);
}

/* What cannot be followed is not to be had. */
HAMI_COLD static CUresult refuse(CUmemHandle handle) {
    CUresult (*driver)(CUmemHandle) = hami_driver_function(HAMI_cuMemRelease);
    (void)driver(handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

static void drop_binding(struct binding **at);

static void drop_if_unused(struct physical *memory) {
    if (memory->handles != 0 || memory->mappings != 0) {
        return;
    }
    switch (memory->kind) {
    case OWN:
        hami_charge_give_back(&memory->charge, HAMI_COLUMN_DATA);
        break;
    case EXPORTED:
        hami_shared_let_go(memory->share, &memory->charge);
        break;
    case IMPORTED:
        hami_shared_close(memory->share);
        break;
    case NOTHING:
        while (memory->bindings != NULL) {
            drop_binding(&memory->bindings);
        }
        break;
    }
    free(memory);
}

static void drop_binding(struct binding **at) {
    struct binding *gone = *at;
    *at = gone->next;
    gone->memory->mappings--;
    drop_if_unused(gone->memory);
    free(gone);
}

int32_t hami_mem_create(enum hami_hook hook, CUmemHandle *handle, uint64_t bytes,
                        const struct hami_allocation_prop *prop, uint64_t flags) {
    CUresult (*driver)(CUmemHandle *, size_t, const struct hami_allocation_prop *, uint64_t) =
        hami_driver_function(hook);
    if (handle == NULL || prop == NULL || bytes == 0 || prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
        return driver(handle, bytes, prop, flags); /* host memory costs the device nothing */
    }
    struct physical *memory = calloc(1, sizeof *memory);
    if (memory == NULL || !hami_charge_take(prop->location.id, hami_large(bytes), HAMI_COLUMN_DATA, &memory->charge)) {
        free(memory);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(handle, bytes, prop, flags);
    memory->handles = 1;
    if (status != CUDA_SUCCESS) {
        hami_charge_give_back(&memory->charge, HAMI_COLUMN_DATA);
        free(memory);
        return status;
    }
    if (!enter(*handle, memory)) {
        status = refuse(*handle);
        hami_charge_give_back(&memory->charge, HAMI_COLUMN_DATA);
        free(memory);
    }
    return status;
}

/* The last one leaves the map before the driver has it: afterwards another thread may be given the same one. */
int32_t hami_mem_release(enum hami_hook hook, CUmemHandle handle) {
    CUresult (*driver)(CUmemHandle) = hami_driver_function(hook);
    lock();
    struct physical *memory = physical_of(handle);
    bool last = memory != NULL && memory->handles == 1;
    if (last) {
        (void)hami_map_take(&handles, handle);
    }
    CUresult status = driver(handle);
    if (status != CUDA_SUCCESS && last) {
        (void)enter(handle, memory);
    } else if (status == CUDA_SUCCESS && memory != NULL) {
        memory->handles--;
        drop_if_unused(memory);
    }
    unlock();
    return status;
}

enum { POSIX_DESCRIPTOR = 1, FABRIC = 8, FABRIC_BYTES = 64 }; /* CUmemAllocationHandleType; CUmemFabricHandle */

/* What an importer will be able to tell, too. */
static uint64_t identity_of(const void *shareable, int32_t type) {
    return type == FABRIC ? hami_identity_of_bytes(shareable, FABRIC_BYTES) : hami_identity_fresh();
}

static void note_export(struct physical *memory, const void *shareable, int32_t type) {
    if (memory->kind == OWN) {
        memory->identity = identity_of(shareable, type);
        memory->share = hami_shared_export(memory->identity, &memory->charge);
        memory->kind = memory->share < 0 ? OWN : EXPORTED;
    }
    if (type == POSIX_DESCRIPTOR && memory->kind != OWN && memory->identity != 0) {
        int fd = -1;
        memcpy(&fd, shareable, sizeof fd);
        hami_identity_put(fd, memory->identity);
    }
}

int32_t hami_mem_export(enum hami_hook hook, void *shareable, CUmemHandle handle, int32_t type, uint64_t flags) {
    CUresult (*driver)(void *, CUmemHandle, int32_t, uint64_t) = hami_driver_function(hook);
    lock();
    CUresult status = driver(shareable, handle, type, flags);
    struct physical *memory = status == CUDA_SUCCESS ? physical_of(handle) : NULL;
    if (memory != NULL) {
        note_export(memory, shareable, type);
    }
    unlock();
    return status;
}

/* Index of the device that an imported handle's memory lies on, or -1. */
static int place_of(CUmemHandle handle) {
    struct hami_allocation_prop prop = {0};
    CUresult (*properties)(struct hami_allocation_prop *, CUmemHandle) =
        hami_cuda_function("cuMemGetAllocationPropertiesFromHandle");
    bool known = properties != NULL && properties(&prop, handle) == CUDA_SUCCESS;
    return known && prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? hami_charge_counted(prop.location.id) : -1;
}

/*
 * Its size is learnt from its mappings if nobody here knows it. False: it does not fit, or this process's own memory is
 * full.
 */
static bool note_import(CUmemHandle handle, const void *shareable, int32_t type) {
    struct physical *memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        return false;
    }
    memory->identity = type == FABRIC             ? hami_identity_of_bytes(shareable, FABRIC_BYTES)
                       : type == POSIX_DESCRIPTOR ? hami_identity_on((int)(intptr_t)shareable)
                                                  : 0;
    memory->handles = 1;
    memory->charge.device = place_of(handle);
    bool fits = hami_shared_take_up(memory->identity, 0, &memory->share);
    if (fits && memory->share < 0) {
        (void)hami_shared_adopt(memory->identity, memory->charge.device, 0, &memory->share);
    }
    memory->kind = memory->share < 0 ? NOTHING : IMPORTED;
    if (!fits || !enter(handle, memory)) {
        memory->handles = 0;
        drop_if_unused(memory);
        return false;
    }
    return true;
}

int32_t hami_mem_import(enum hami_hook hook, CUmemHandle *handle, void *shareable, int32_t type) {
    CUresult (*driver)(CUmemHandle *, void *, int32_t) = hami_driver_function(hook);
    lock();
    CUresult status = driver(handle, shareable, type);
    struct physical *memory = status == CUDA_SUCCESS ? physical_of(*handle) : NULL;
    if (memory != NULL) {
        memory->handles++;
    } else if (status == CUDA_SUCCESS && !note_import(*handle, shareable, type)) {
        status = refuse(*handle);
    }
    unlock();
    return status;
}

/* More of imported memory has come to be known. False: it does not fit. */
static bool sees(const struct physical *memory, uint64_t end) {
    return memory->kind != IMPORTED || hami_shared_grow(memory->share, hami_large(end) >> HAMI_PAGE_SHIFT);
}

/* False: it does not fit, or this process's own memory is full. */
static bool note_mapping(CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle) {
    struct physical *memory = physical_of(handle);
    struct mapping *mapping = memory == NULL ? NULL : malloc(sizeof *mapping);
    if (mapping == NULL) {
        return memory == NULL;
    }
    *mapping = (struct mapping){mappings, NULL, memory, address, bytes};
    if (!sees(memory, offset + bytes) || !hami_map_put(&starts, address, (uint64_t)(uintptr_t)mapping)) {
        free(mapping);
        return false;
    }
    if (mappings != NULL) {
        mappings->previous = mapping;
    }
    mappings = mapping;
    memory->mappings++;
    return true;
}

int32_t hami_mem_map(enum hami_hook hook, CUdeviceptr address, uint64_t bytes, uint64_t offset, CUmemHandle handle,
                     uint64_t flags) {
    CUresult (*driver)(CUdeviceptr, size_t, size_t, CUmemHandle, uint64_t) = hami_driver_function(hook);
    lock();
    CUresult status = driver(address, bytes, offset, handle, flags);
    if (status == CUDA_SUCCESS && !note_mapping(address, bytes, offset, handle)) {
        CUresult (*unmap)(CUdeviceptr, size_t) = hami_driver_function(HAMI_cuMemUnmap);
        (void)unmap(address, bytes);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    unlock();
    return status;
}

static void forget(struct mapping *gone) {
    if (gone->next != NULL) {
        gone->next->previous = gone->previous;
    }
    *(gone->previous == NULL ? &mappings : &gone->previous->next) = gone->next;
    gone->memory->mappings--;
    drop_if_unused(gone->memory);
    free(gone);
}

/* Forgets the mappings that lie in a range; one call may unmap several. */
static void forget_range(CUdeviceptr address, uint64_t bytes) {
    uint64_t end = bytes > UINT64_MAX - address ? UINT64_MAX : address + bytes;
    while (address < end) {
        struct mapping *mapping = (struct mapping *)(uintptr_t)hami_map_take(&starts, address);
        if (mapping == NULL) {
            return;
        }
        address += mapping->bytes;
        forget(mapping);
    }
}

int32_t hami_mem_unmap(enum hami_hook hook, CUdeviceptr address, uint64_t bytes) {
    CUresult (*driver)(CUdeviceptr, size_t) = hami_driver_function(hook);
    lock();
    CUresult status = driver(address, bytes);
    if (status == CUDA_SUCCESS && address != 0) {
        forget_range(address, bytes);
    }
    unlock();
    return status;
}

/* The mapping that holds an address; most ask with its first. */
static struct mapping *mapping_at(CUdeviceptr address) {
    struct mapping *found = address == 0 ? NULL : (struct mapping *)(uintptr_t)hami_map_get(&starts, address);
    for (struct mapping *m = mappings; found == NULL && m != NULL; m = m->next) {
        found = address - m->start < m->bytes ? m : NULL;
    }
    return found;
}

int32_t hami_mem_retain(enum hami_hook hook, CUmemHandle *handle, void *address) {
    CUresult (*driver)(CUmemHandle *, void *) = hami_driver_function(hook);
    lock();
    CUresult status = driver(handle, address);
    struct mapping *mapping = status == CUDA_SUCCESS ? mapping_at((CUdeviceptr)(uintptr_t)address) : NULL;
    bool new = mapping != NULL && (mapping->memory->handles == 0 || physical_of(*handle) == NULL);
    if (new && !enter(*handle, mapping->memory)) {
        status = refuse(*handle); /* its release would not be known */
    } else if (mapping != NULL) {
        mapping->memory->handles++;
    }
    unlock();
    return status;
}

/* ---- multicast objects ---- */

int32_t hami_multicast_create(enum hami_hook hook, CUmemHandle *handle, const void *prop) {
    CUresult (*driver)(CUmemHandle *, const void *) = hami_driver_function(hook);
    CUresult status = driver(handle, prop);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    struct physical *object = calloc(1, sizeof *object);
    if (object != NULL) {
        *object = (struct physical){.charge = {-1, 0}, .kind = NOTHING, .handles = 1};
    }
    if (object == NULL || !enter(*handle, object)) {
        free(object);
        return refuse(*handle);
    }
    return status;
}

/* One binding under way. */
struct bind {
    struct physical *object, *memory;
    struct binding *binding;
};

/* Before the driver is asked, for what is bound cannot always be unbound. False: this process's own memory is full. */
static bool bind_begin(struct bind *bind, CUmemHandle handle, struct physical *memory) {
    struct physical *object = physical_of(handle);
    bool followed = object != NULL && memory != NULL;
    *bind = (struct bind){object, memory, followed ? malloc(sizeof *bind->binding) : NULL};
    return !followed || bind->binding != NULL;
}

static CUresult bind_end(struct bind *bind, CUresult status, uint64_t offset) {
    if (status != CUDA_SUCCESS) {
        free(bind->binding);
    } else if (bind->binding != NULL) {
        *bind->binding = (struct binding){bind->object->bindings, bind->memory, offset};
        bind->object->bindings = bind->binding;
        bind->memory->mappings++;
    }
    return status;
}

int32_t hami_multicast_bind(enum hami_hook hook, CUmemHandle handle, uint64_t offset, CUmemHandle memory,
                            uint64_t memory_offset, uint64_t bytes, uint64_t flags) {
    CUresult (*driver)(CUmemHandle, size_t, CUmemHandle, size_t, size_t, uint64_t) = hami_driver_function(hook);
    struct bind bind;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    if (bind_begin(&bind, handle, physical_of(memory))) {
        status = bind_end(&bind, driver(handle, offset, memory, memory_offset, bytes, flags), offset);
    }
    unlock();
    return status;
}

int32_t hami_multicast_bind_v2(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                               CUmemHandle memory, uint64_t memory_offset, uint64_t bytes, uint64_t flags) {
    CUresult (*driver)(CUmemHandle, int32_t, size_t, CUmemHandle, size_t, size_t, uint64_t) =
        hami_driver_function(hook);
    struct bind bind;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    if (bind_begin(&bind, handle, physical_of(memory))) {
        status = bind_end(&bind, driver(handle, device, offset, memory, memory_offset, bytes, flags), offset);
    }
    unlock();
    return status;
}

static struct physical *mapped_at(CUdeviceptr address) {
    struct mapping *mapping = mapping_at(address);
    return mapping == NULL ? NULL : mapping->memory;
}

int32_t hami_multicast_bind_address(enum hami_hook hook, CUmemHandle handle, uint64_t offset, CUdeviceptr address,
                                    uint64_t bytes, uint64_t flags) {
    CUresult (*driver)(CUmemHandle, size_t, CUdeviceptr, size_t, uint64_t) = hami_driver_function(hook);
    struct bind bind;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    if (bind_begin(&bind, handle, mapped_at(address))) {
        status = bind_end(&bind, driver(handle, offset, address, bytes, flags), offset);
    }
    unlock();
    return status;
}

int32_t hami_multicast_bind_address_v2(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                                       CUdeviceptr address, uint64_t bytes, uint64_t flags) {
    CUresult (*driver)(CUmemHandle, int32_t, size_t, CUdeviceptr, size_t, uint64_t) = hami_driver_function(hook);
    struct bind bind;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    if (bind_begin(&bind, handle, mapped_at(address))) {
        status = bind_end(&bind, driver(handle, device, offset, address, bytes, flags), offset);
    }
    unlock();
    return status;
}

/* What lies on one device and begins in the range. */
int32_t hami_multicast_unbind(enum hami_hook hook, CUmemHandle handle, int32_t device, uint64_t offset,
                              uint64_t bytes) {
    CUresult (*driver)(CUmemHandle, int32_t, size_t, size_t) = hami_driver_function(hook);
    lock();
    CUresult status = driver(handle, device, offset, bytes);
    struct physical *object = status == CUDA_SUCCESS ? physical_of(handle) : NULL;
    int index = hami_charge_counted(device);
    for (struct binding **at = object == NULL ? NULL : &object->bindings; at != NULL && *at != NULL;) {
        int place = (*at)->memory->charge.device;
        if ((*at)->offset - offset < bytes && (place == index || place < 0)) {
            drop_binding(at);
        } else {
            at = &(*at)->next;
        }
    }
    unlock();
    return status;
}

/* ---- sparse arrays ---- */

static bool within(uint64_t start, uint64_t size, uint64_t whole_start, uint64_t whole_size) {
    return start >= whole_start && start - whole_start <= whole_size && size <= whole_size - (start - whole_start);
}

/* Whether one part of an array lies in another. */
static bool covers(const struct hami_array_part *whole, const struct hami_array_part *part) {
    if (whole->array != part->array || whole->kind != part->kind) {
        return false;
    }
    if (part->kind == CU_ARRAY_MIPTAIL) {
        return whole->tail.layer == part->tail.layer &&
               within(part->tail.offset, part->tail.bytes, whole->tail.offset, whole->tail.bytes);
    }
    bool inside = whole->box.level == part->box.level && whole->box.layer == part->box.layer;
    for (unsigned i = 0; i < 3; i++) {
        inside = inside && within(part->box.offset[i], part->box.extent[i], whole->box.offset[i], whole->box.extent[i]);
    }
    return inside;
}

/* Takes a tile out of the list. */
static void drop_tile(struct tile **at) {
    struct tile *gone = *at;
    *at = gone->next;
    gone->memory->mappings--;
    drop_if_unused(gone->memory);
    free(gone);
}

/* Notes what one operation has done. What was mapped as one counts until a call names all of it. */
static void note_tile(const struct hami_array_map *change, unsigned context, struct tile *tile) {
    if (tile != NULL) {
        *tile = (struct tile){NULL, physical_of(change->handle), change->part, context};
        tile->memory->mappings++;
    }
    for (struct tile **at = &tiles; *at != NULL;) {
        if (covers(&change->part, &(*at)->part)) {
            drop_tile(at);
        } else {
            at = &(*at)->next;
        }
    }
    if (tile != NULL) {
        tile->next = tiles;
        tiles = tile;
    }
}

/* What a call is about to map: before the driver does, for it cannot be undone. */
struct tiling {
    struct tile **made; /* by change; NULL: it maps nothing that is followed */
    uint32_t count;
};

static void tiling_free(struct tiling *tiling) {
    for (uint32_t i = 0; tiling->made != NULL && i < tiling->count; i++) {
        free(tiling->made[i]);
    }
    free(tiling->made);
}

/* False: this process's own memory is full. */
static bool tiling_begin(struct tiling *tiling, const struct hami_array_map *list, uint32_t count) {
    *tiling = (struct tiling){NULL, list == NULL ? 0 : count};
    for (uint32_t i = 0; i < tiling->count; i++) {
        if (list[i].operation != CU_MEM_OPERATION_MAP || physical_of(list[i].handle) == NULL) {
            continue;
        }
        tiling->made = tiling->made == NULL ? calloc(count, sizeof *tiling->made) : tiling->made;
        if (tiling->made == NULL || (tiling->made[i] = malloc(sizeof **tiling->made)) == NULL) {
            tiling_free(tiling);
            return false;
        }
    }
    return true;
}

static void tiling_end(struct tiling *tiling, const struct hami_array_map *list) {
    struct hami_context context;
    unsigned id = hami_context_current(&context) ? context.id : HAMI_CONTEXT_UNKNOWN;
    for (uint32_t i = 0; i < tiling->count; i++) {
        note_tile(&list[i], id, tiling->made == NULL ? NULL : tiling->made[i]);
    }
    free(tiling->made);
}

int32_t hami_array_map(enum hami_hook hook, struct hami_array_map *list, uint32_t count, CUstream stream) {
    CUresult (*driver)(struct hami_array_map *, uint32_t, CUstream) = hami_driver_function(hook);
    struct tiling tiling;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    lock();
    if (tiling_begin(&tiling, list, count)) {
        status = driver(list, count, stream);
        if (status == CUDA_SUCCESS) {
            tiling_end(&tiling, list);
        } else {
            tiling_free(&tiling);
        }
    }
    unlock();
    return status;
}

void hami_vmm_array_gone(const void *array) {
    lock();
    for (struct tile **at = &tiles; *at != NULL;) {
        if ((*at)->part.array == array) {
            drop_tile(at);
        } else {
            at = &(*at)->next;
        }
    }
    unlock();
}

void hami_vmm_context_gone(unsigned context) {
    lock();
    for (struct tile **at = &tiles; *at != NULL;) {
        if ((*at)->context == context) {
            drop_tile(at);
        } else {
            at = &(*at)->next;
        }
    }
    unlock();
}

/* The child leaks the parent's few records rather than touch its allocator between fork and exec. */
void hami_vmm_after_fork(void) {
    hami_map_reset(&handles);
    hami_map_reset(&starts);
    mappings = NULL;
    tiles = NULL;
    atomic_flag_clear(&busy);
}
