/* Physical allocations and where they are mapped. An allocation lives while it has a handle or a mapping. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_impl.h"
#include "driver.h"
#include "shared.h"

struct physical {
    struct sim_object object;
    uint64_t size;
    int device; /* index in the books; -1: host memory, which takes nothing */
    CUmemAllocationProp properties;
    unsigned handles, mappings;
    struct binding *bindings; /* of a multicast object */
    bool multicast;
    int entry; /* in the books, of what other processes may hold as well; -1: this process's alone */
};

/* Memory that a multicast object holds. */
struct binding {
    struct binding *next;
    struct physical *physical;
    uint64_t offset, size;
};

struct sim_mapping {
    struct sim_mapping *next;
    uint64_t address, size;
    struct physical *physical;
    int access;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */

static struct physical *physical_of(CUmemGenericAllocationHandle handle) {
    struct physical *physical = (struct physical *)(uintptr_t)handle;
    bool likely = handle >= 4096 && handle % _Alignof(struct physical) == 0; /* small numbers are no handles of ours */
    return likely && sim_is(physical, SIM_TAG_PHYSICAL) ? physical : NULL;
}

static void drop_if_unused(struct physical *physical);

static void unbind(struct binding **at) {
    struct binding *gone = *at;
    *at = gone->next;
    gone->physical->mappings--;
    drop_if_unused(gone->physical);
    free(gone);
}

static void drop_if_unused(struct physical *physical) {
    if (physical->handles == 0 && physical->mappings == 0) {
        if (physical->entry >= 0) {
            sim_share_drop((unsigned)physical->entry);
        } else if (physical->device >= 0) {
            sim_discharge((unsigned)physical->device, physical->size);
        }
        while (physical->bindings != NULL) {
            unbind(&physical->bindings);
        }
        sim_object_delete(physical);
    }
}

CUresult sim_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop, int option) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (granularity == NULL || prop == NULL || option < 0 || option > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *granularity = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *prop,
                         unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (handle == NULL || prop == NULL || size == 0 || size % SIM_GRANULE != 0 || flags != 0 || prop->type != 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sim_gpu *gpu = sim_gpu_of(prop->location.id);
    bool on_device = prop->location.type == CU_MEM_LOCATION_DEVICE;
    if (on_device && gpu == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (on_device && !sim_charge(gpu->index, size)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct physical *physical = sim_object_new(SIM_TAG_PHYSICAL, sizeof *physical);
    if (physical == NULL) {
        if (on_device) {
            sim_discharge(gpu->index, size);
        }
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    physical->size = size;
    physical->device = on_device ? (int)gpu->index : -1;
    physical->properties = *prop;
    physical->handles = 1;
    physical->entry = -1;
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

/* The first export moves what was taken from this process to the books' entry. */
static CUresult share(struct physical *physical, int *fd) {
    if (physical->entry < 0) {
        physical->entry = sim_share((unsigned)physical->device, physical->size);
    }
    struct sim_parcel parcel = {physical->size, physical->properties, (uint32_t)physical->device, 0};
    *fd = physical->entry < 0 ? -1 : sim_share_send((unsigned)physical->entry, &parcel);
    return *fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult sim_cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle, int handleType,
                                          unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    CUresult error = CUDA_ERROR_INVALID_VALUE;
    int fd = -1;
    pthread_mutex_lock(&lock);
    struct physical *physical = physical_of(handle);
    bool known = shareableHandle != NULL && physical != NULL && physical->device >= 0 && flags == 0;
    if (known && handleType != POSIX_DESCRIPTOR) {
        error = CUDA_ERROR_NOT_SUPPORTED;
    } else if (known && (physical->properties.requestedHandleTypes & POSIX_DESCRIPTOR) != 0) {
        error = share(physical, &fd);
    }
    pthread_mutex_unlock(&lock);
    if (error == CUDA_SUCCESS) {
        memcpy(shareableHandle, &fd, sizeof fd);
    }
    return error;
}

CUresult sim_cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle, int shHandleType) {
    if (sim_ready() != CUDA_SUCCESS || handle == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    if (shHandleType != POSIX_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    struct sim_parcel parcel;
    int entry = sim_share_receive((int)(intptr_t)osHandle, &parcel);
    if (entry < 0 || parcel.size == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUdevice ordinal = sim_ordinal_of(parcel.device);
    if (ordinal < 0) {
        return CUDA_ERROR_INVALID_DEVICE; /* not visible here */
    }
    struct physical *physical = sim_object_new(SIM_TAG_PHYSICAL, sizeof *physical);
    if (physical == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!sim_share_hold((unsigned)entry, parcel.generation)) {
        sim_object_delete(physical);
        return CUDA_ERROR_INVALID_VALUE;
    }
    physical->size = parcel.size;
    physical->device = (int)parcel.device;
    physical->properties = parcel.properties;
    physical->properties.location.id = ordinal;
    physical->handles = 1;
    physical->entry = entry;
    *handle = (uintptr_t)physical;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemRelease(CUmemGenericAllocationHandle handle) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    CUresult error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct physical *physical = physical_of(handle);
    if (physical != NULL && physical->handles > 0) {
        physical->handles--;
        drop_if_unused(physical);
        error = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

CUresult sim_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle) {
    struct physical *physical = sim_ready() == CUDA_SUCCESS ? physical_of(handle) : NULL;
    if (physical == NULL || prop == NULL || physical->multicast) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    *prop = physical->properties;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags) {
    (void)addr; /* a wish only */
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    bool power = (alignment & (alignment - 1)) == 0;
    if (ptr == NULL || size == 0 || size % SIM_GRANULE != 0 || flags != 0 || !power) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_RESERVED, size, alignment);
    if (span == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ptr = span->base;
    return CUDA_SUCCESS;
}

static struct sim_span *reserved_at(CUdeviceptr ptr) {
    struct sim_span *span = sim_span_at(ptr);
    return span != NULL && span->kind == SIM_KIND_RESERVED ? span : NULL;
}

CUresult sim_cuMemAddressFree(CUdeviceptr ptr, size_t size) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_span *span = reserved_at(ptr);
    pthread_mutex_lock(&lock);
    bool freeable = span != NULL && span->base == ptr && span->size == size && span->mappings == NULL &&
                    atomic_exchange(&span->live, 0) != 0;
    pthread_mutex_unlock(&lock);
    if (freeable) {
        sim_span_delete(span);
    }
    return freeable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static bool overlaps(const struct sim_span *span, uint64_t address, uint64_t size) {
    for (const struct sim_mapping *at = span->mappings; at != NULL; at = at->next) {
        if (address < at->address + at->size && at->address < address + size) {
            return true;
        }
    }
    return false;
}

CUresult sim_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_span *span = reserved_at(ptr);
    struct sim_mapping *mapping = calloc(1, sizeof *mapping);
    CUresult error = mapping == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    struct physical *physical = physical_of(handle);
    bool fits = span != NULL && physical != NULL && size != 0 && size % SIM_GRANULE == 0 && flags == 0 && offset == 0 &&
                size <= physical->size && ptr % SIM_GRANULE == 0 && size <= span->base + span->size - ptr;
    if (mapping != NULL && fits && !overlaps(span, ptr, size)) {
        *mapping = (struct sim_mapping){span->mappings, ptr, size, physical, 0};
        span->mappings = mapping;
        span->device = physical->device >= 0 ? (unsigned)physical->device : 0;
        physical->mappings++;
        mapping = NULL;
        error = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    free(mapping);
    return error;
}

/* Unmaps what lies wholly inside; whether everything there was mapped is for the caller. */
static void unmap_inside(struct sim_span *span, uint64_t address, uint64_t size) {
    struct sim_mapping **link = &span->mappings;
    while (*link != NULL) {
        struct sim_mapping *at = *link;
        if (at->address >= address && at->address + at->size <= address + size) {
            *link = at->next;
            at->physical->mappings--;
            drop_if_unused(at->physical);
            free(at);
        } else {
            link = &at->next;
        }
    }
}

static uint64_t mapped_inside(const struct sim_span *span, uint64_t address, uint64_t size) {
    uint64_t bytes = 0;
    for (const struct sim_mapping *at = span->mappings; at != NULL; at = at->next) {
        if (at->address >= address && at->address + at->size <= address + size) {
            bytes += at->size;
        }
    }
    return bytes;
}

CUresult sim_cuMemUnmap(CUdeviceptr ptr, size_t size) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_span *span = reserved_at(ptr);
    CUresult error = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (span != NULL && size != 0 && mapped_inside(span, ptr, size) == size) {
        unmap_inside(span, ptr, size);
        error = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lock);
    return error;
}

bool sim_mapped(struct sim_span *span, uint64_t address, uint64_t size) {
    pthread_mutex_lock(&lock);
    uint64_t covered = 0;
    for (const struct sim_mapping *at = span->mappings; at != NULL; at = at->next) {
        uint64_t from = at->address > address ? at->address : address;
        uint64_t to = at->address + at->size < address + size ? at->address + at->size : address + size;
        covered += to > from ? to - from : 0;
    }
    pthread_mutex_unlock(&lock);
    return covered == size;
}

CUresult sim_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_span *span = reserved_at(ptr);
    if (span == NULL || desc == NULL || count == 0 || !sim_mapped(span, ptr, size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    for (struct sim_mapping *at = span->mappings; at != NULL; at = at->next) {
        if (at->address >= ptr && at->address < ptr + size) {
            at->access = desc[0].flags;
        }
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

static struct sim_mapping *mapping_at(CUdeviceptr ptr) {
    struct sim_span *span = reserved_at(ptr);
    struct sim_mapping *at = span != NULL ? span->mappings : NULL;
    while (at != NULL && ptr - at->address >= at->size) {
        at = at->next;
    }
    return at;
}

CUresult sim_cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr) {
    if (sim_ready() != CUDA_SUCCESS || flags == NULL || location == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    const struct sim_mapping *mapping = mapping_at(ptr);
    if (mapping != NULL) {
        *flags = (unsigned long long)mapping->access;
    }
    pthread_mutex_unlock(&lock);
    return mapping != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr) {
    if (sim_ready() != CUDA_SUCCESS || handle == NULL) {
        return sim_ready() != CUDA_SUCCESS ? sim_ready() : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    struct sim_mapping *mapping = mapping_at((uintptr_t)addr);
    if (mapping != NULL) {
        mapping->physical->handles++;
        *handle = (uintptr_t)mapping->physical;
    }
    pthread_mutex_unlock(&lock);
    return mapping != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- multicast objects ---- */

CUresult sim_cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop, int option) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (granularity == NULL || prop == NULL || option < 0 || option > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *granularity = SIM_GRANULE;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    bool sensible = mcHandle != NULL && prop != NULL && prop->numDevices != 0 && prop->numDevices <= SIM_MAX_CARDS &&
                    prop->size != 0 && prop->size % SIM_GRANULE == 0 && prop->flags == 0;
    struct physical *object = sensible ? sim_object_new(SIM_TAG_PHYSICAL, sizeof *object) : NULL;
    if (object == NULL) {
        return sensible ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    object->size = prop->size;
    object->device = -1;
    object->multicast = true;
    object->handles = 1;
    object->entry = -1;
    *mcHandle = (uintptr_t)object;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct physical *object = physical_of(mcHandle);
    return object != NULL && object->multicast && sim_gpu_of(dev) != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Under the lock. */
static CUresult bind(struct physical *object, uint64_t offset, struct physical *memory, uint64_t from, uint64_t size,
                     unsigned long long flags) {
    bool fits = object != NULL && object->multicast && memory != NULL && memory->device >= 0 && size != 0 &&
                flags == 0 && (offset | from | size) % SIM_GRANULE == 0 && offset <= object->size &&
                size <= object->size - offset && from <= memory->size && size <= memory->size - from;
    struct binding *binding = fits ? calloc(1, sizeof *binding) : NULL;
    if (binding == NULL) {
        return fits ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    *binding = (struct binding){object->bindings, memory, offset, size};
    object->bindings = binding;
    memory->mappings++;
    return CUDA_SUCCESS;
}

CUresult sim_cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    pthread_mutex_lock(&lock);
    CUresult error = bind(physical_of(mcHandle), mcOffset, physical_of(memHandle), memOffset, size, flags);
    pthread_mutex_unlock(&lock);
    return error;
}

CUresult sim_cuMulticastBindMem_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                   CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                   unsigned long long flags) {
    (void)dev;
    return sim_cuMulticastBindMem(mcHandle, mcOffset, memHandle, memOffset, size, flags);
}

CUresult sim_cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUdeviceptr memptr,
                                 size_t size, unsigned long long flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    pthread_mutex_lock(&lock);
    struct sim_mapping *mapping = mapping_at(memptr);
    struct physical *memory = mapping != NULL ? mapping->physical : NULL;
    uint64_t from = mapping != NULL ? memptr - mapping->address : 0;
    CUresult error = bind(physical_of(mcHandle), mcOffset, memory, from, size, flags);
    pthread_mutex_unlock(&lock);
    return error;
}

CUresult sim_cuMulticastBindAddr_v2(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                    CUdeviceptr memptr, size_t size, unsigned long long flags) {
    (void)dev;
    return sim_cuMulticastBindAddr(mcHandle, mcOffset, memptr, size, flags);
}

CUresult sim_cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    const struct sim_gpu *gpu = sim_gpu_of(dev);
    pthread_mutex_lock(&lock);
    struct physical *object = physical_of(mcHandle);
    bool known = object != NULL && object->multicast && gpu != NULL;
    for (struct binding **at = known ? &object->bindings : NULL; at != NULL && *at != NULL;) {
        if ((*at)->physical->device == (int)gpu->index && (*at)->offset - mcOffset < size) {
            unbind(at);
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- sparse arrays ---- */

/* What is mapped where: the array and the part of it, as CUarrayMapInfo has them. */
struct tile {
    struct tile *next;
    const struct sim_array *array;
    unsigned char part[32];
    int kind;
    struct physical *physical;
};

static struct tile *tiles;

static void tile_drop(struct tile **at) {
    struct tile *gone = *at;
    *at = gone->next;
    gone->physical->mappings--;
    drop_if_unused(gone->physical);
    free(gone);
}

/* Whether what is mapped lies in the part that an operation names; parts of mip tails have to be the same. */
static bool tile_in(const struct tile *tile, const CUarrayMapInfo *info) {
    enum { OFFSETS = 2, EXTENTS = 5 }; /* after level and layer */
    uint32_t have[8], want[8];
    if (tile->array != info->array || tile->kind != info->subresourceType) {
        return false;
    }
    memcpy(have, tile->part, sizeof have);
    memcpy(want, info->subresource, sizeof want);
    bool inside = have[0] == want[0] && have[1] == want[1];
    for (unsigned i = 0; i < 3; i++) {
        uint64_t end = (uint64_t)have[OFFSETS + i] + have[EXTENTS + i];
        inside =
            inside && have[OFFSETS + i] >= want[OFFSETS + i] && end <= (uint64_t)want[OFFSETS + i] + want[EXTENTS + i];
    }
    return tile->kind == 0 ? inside : memcmp(have, want, sizeof have) == 0;
}

static CUresult tile_change(const CUarrayMapInfo *info) {
    enum { MAP = 1, UNMAP = 2 };
    struct physical *physical = info->memOperationType == MAP ? physical_of(info->memHandle) : NULL;
    if (!sim_is(info->array, SIM_TAG_ARRAY) || (info->memOperationType == MAP && physical == NULL)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (struct tile **at = &tiles; *at != NULL;) {
        if (tile_in(*at, info)) {
            tile_drop(at);
        } else {
            at = &(*at)->next;
        }
    }
    if (physical == NULL) {
        return info->memOperationType == UNMAP ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    struct tile *tile = calloc(1, sizeof *tile);
    if (tile == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *tile = (struct tile){.next = tiles, .array = info->array, .kind = info->subresourceType, .physical = physical};
    memcpy(tile->part, info->subresource, sizeof tile->part);
    physical->mappings++;
    tiles = tile;
    return CUDA_SUCCESS;
}

/* In stream order on a device; here at once. */
CUresult sim_cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned count, CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    if (sim_stream_or_error(hStream, &error) == NULL) {
        return error;
    }
    if (mapInfoList == NULL || count == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < count && error == CUDA_SUCCESS; i++) {
        error = tile_change(&mapInfoList[i]);
    }
    pthread_mutex_unlock(&lock);
    return error;
}

void sim_tiles_forget(const struct sim_array *array) {
    pthread_mutex_lock(&lock);
    for (struct tile **at = &tiles; *at != NULL;) {
        if ((*at)->array == array) {
            tile_drop(at);
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&lock);
}
