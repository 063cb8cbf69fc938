/* What is known about an address; advice and prefetch of managed memory. */
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"

#define ADDRESS_HOST_DEVICE (-1)

static CUdevice ordinal_of(unsigned device) {
    for (unsigned i = 0; i < sim_driver.count; i++) {
        if (sim_driver.gpus[i].index == device) {
            return (CUdevice)i;
        }
    }
    return -1;
}

struct facts {
    bool known, host, managed, mapped;
    struct sim_allocation found;
};

static struct facts look(CUdeviceptr ptr) {
    struct facts facts = {.known = sim_find(ptr, &facts.found)};
    if (!facts.known) {
        facts.found = (struct sim_allocation){0};
        facts.known = facts.host = sim_registered(ptr, &facts.found.base, &facts.found.size);
        return facts;
    }
    facts.host = facts.found.kind == SIM_KIND_HOST;
    facts.managed = facts.found.kind == SIM_KIND_MANAGED;
    if (facts.found.kind == SIM_KIND_RESERVED) {
        struct sim_span *span = sim_span_at(ptr);
        facts.known = span != NULL && sim_mapped(span, ptr, 1);
    }
    return facts;
}

static CUresult put(void *data, const void *value, size_t size) {
    memcpy(data, value, size);
    return CUDA_SUCCESS;
}

static CUresult put_int(void *data, int value) {
    return put(data, &value, sizeof value);
}

static CUresult put_long(void *data, uint64_t value) {
    return put(data, &value, sizeof value);
}

static CUresult attribute(void *data, int which, CUdeviceptr ptr, const struct facts *facts) {
    const struct sim_allocation *found = &facts->found;
    switch (which) {
    case 1: /* context */
        return put(data, &found->context, sizeof found->context);
    case 2: /* memory type */
        return put_int(data, facts->host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case 3: /* device pointer */
        return put_long(data, ptr);
    case 4: /* host pointer */
        return facts->host || facts->managed ? put_long(data, ptr) : CUDA_ERROR_INVALID_VALUE;
    case 6: /* sync memops */
        return put(data, "\0", 1);
    case 7: /* buffer id */
        return put_long(data, found->id);
    case 8: /* is managed */
        return put(data, facts->managed ? "\1" : "\0", 1);
    case 9: /* device ordinal */
        return put_int(data, facts->host ? 0 : ordinal_of(found->device));
    case 10: /* IPC capable */
        return put(data, found->kind == SIM_KIND_DEVICE && found->pool == NULL ? "\1" : "\0", 1);
    case 11: /* range start */
        return put_long(data, found->base);
    case 12: /* range size */
        return put_long(data, found->size);
    case 13: /* mapped */
        return put(data, "\1", 1);
    case 14: /* allowed handle types */
        return put_long(data, 0);
    case 15: /* GPUDirect RDMA */
        return put(data, facts->host ? "\0" : "\1", 1);
    case 16: /* access flags: read and write */
        return put_int(data, 3);
    case 17: /* pool */
        return found->pool != NULL ? put(data, &found->pool, sizeof found->pool) : put_long(data, 0);
    case 18: /* mapping size */
        return put_long(data, found->size);
    case 19: /* mapping base */
        return put_long(data, found->base);
    case 20: /* block id */
        return put_long(data, found->id);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult sim_cuPointerGetAttribute(void *data, int attribute_, CUdeviceptr ptr) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct facts facts = look(ptr);
    if (data == NULL || !facts.known) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return attribute(data, attribute_, ptr, &facts);
}

/* Unlike the single question, an unknown pointer is no error here: the answers are zero (device ordinal: -2). */
CUresult sim_cuPointerGetAttributes(unsigned numAttributes, int *attributes, void **data, CUdeviceptr ptr) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (attributes == NULL || data == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct facts facts = look(ptr);
    for (unsigned i = 0; i < numAttributes; i++) {
        bool wide = attributes[i] == 1 || attributes[i] == 3 || attributes[i] == 4 || attributes[i] == 7 ||
                    attributes[i] == 11 || attributes[i] == 12 || (attributes[i] >= 17 && attributes[i] <= 20) ||
                    attributes[i] == 14;
        bool single = attributes[i] == 6 || attributes[i] == 8 || attributes[i] == 10 || attributes[i] == 13 ||
                      attributes[i] == 15;
        if (facts.known && attribute(data[i], attributes[i], ptr, &facts) == CUDA_SUCCESS) {
            continue;
        }
        if (wide) {
            put_long(data[i], 0);
        } else if (single) {
            put(data[i], "\0", 1);
        } else if (attributes[i] == 2 || attributes[i] == 9 || attributes[i] == 16) {
            put_int(data[i], attributes[i] == 9 ? -2 : 0);
        } else {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuPointerSetAttribute(const void *value, int attribute_, CUdeviceptr ptr) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct facts facts = look(ptr);
    return value != NULL && attribute_ == 6 && facts.known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Prefetch to a device takes memory there, as much as is free; to the host gives it back. */
static CUresult prefetch(CUdeviceptr dptr, size_t count, CUdevice to, CUstream handle) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(handle, &error);
    struct sim_span *span = stream != NULL ? sim_span_at(dptr) : NULL;
    if (stream == NULL) {
        return error;
    }
    if (span == NULL || span->kind != SIM_KIND_MANAGED || dptr + count > span->base + span->size) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    const struct sim_gpu *gpu = sim_gpu_of(to);
    if (gpu == NULL && to != ADDRESS_HOST_DEVICE) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (span->charged != 0) {
        sim_discharge(span->device, span->charged);
        span->charged = 0;
    }
    if (gpu != NULL) {
        uint64_t want = sim_round_up(span->size, SIM_GRANULE);
        span->device = gpu->index;
        while (want > 0 && !sim_charge(gpu->index, want)) {
            uint64_t free = sim_device_capacity(sim_model(gpu)) - sim_device_used(gpu->index);
            want = free / SIM_GRANULE * SIM_GRANULE < want ? free / SIM_GRANULE * SIM_GRANULE : want - SIM_GRANULE;
        }
        span->charged = want;
    }
    return sim_do(stream, &(struct sim_work){.type = SIM_WORK_EMPTY, .duration = count / 25});
}

CUresult sim_cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count, CUdevice dstDevice, CUstream hStream) {
    return prefetch(devPtr, count, dstDevice, hStream);
}

CUresult sim_cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned flags,
                                   CUstream hStream) {
    if (flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return prefetch(devPtr, count, location.type == CU_MEM_LOCATION_DEVICE ? location.id : ADDRESS_HOST_DEVICE,
                    hStream);
}

/* Managed memory that holds the range, or NULL with *error set. Advice is kept for an allocation as a whole. */
static struct sim_span *managed_range(CUdeviceptr dptr, size_t count, CUresult *error) {
    struct sim_span *span = sim_ready() == CUDA_SUCCESS ? sim_span_at(dptr) : NULL;
    bool managed = span != NULL && span->kind == SIM_KIND_MANAGED && dptr + count <= span->base + span->size;
    *error = sim_ready() != CUDA_SUCCESS ? sim_ready() : managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    return managed ? span : NULL;
}

static CUresult advise(CUdeviceptr dptr, size_t count, int advice, CUdevice device) {
    enum { SET_PREFERRED = 3, UNSET_PREFERRED = 4, SET_ACCESSED = 5, UNSET_ACCESSED = 6, LAST = 6 };
    CUresult error = CUDA_SUCCESS;
    struct sim_span *span = managed_range(dptr, count, &error);
    if (span == NULL) {
        return error;
    }
    bool located = advice == SET_PREFERRED || advice == SET_ACCESSED || advice == UNSET_ACCESSED;
    if (advice < 1 || advice > LAST || (located && device != ADDRESS_HOST_DEVICE && sim_gpu_of(device) == NULL)) {
        return advice < 1 || advice > LAST ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    }
    uint32_t bit = 1u << ((unsigned)device & 31);
    if (advice == SET_PREFERRED || advice == UNSET_PREFERRED) {
        span->preferred = advice == SET_PREFERRED ? device + 2 : 0;
    } else if (advice == SET_ACCESSED) {
        span->accessors |= bit;
    } else if (advice == UNSET_ACCESSED) {
        span->accessors &= ~bit;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAdvise(CUdeviceptr devPtr, size_t count, int advice, CUdevice device) {
    return advise(devPtr, count, advice, device);
}

CUresult sim_cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, int advice, CUmemLocation location) {
    return advise(devPtr, count, advice, location.type == CU_MEM_LOCATION_DEVICE ? location.id : ADDRESS_HOST_DEVICE);
}

/* Where the memory should be, and who should reach it there; devices that are none are -2. */
CUresult sim_cuMemRangeGetAttribute(void *data, size_t dataSize, int attribute, CUdeviceptr devPtr, size_t count) {
    enum { PREFERRED_LOCATION = 2, ACCESSED_BY = 3, NOWHERE = -2 };
    CUresult error = CUDA_SUCCESS;
    const struct sim_span *span = managed_range(devPtr, count, &error);
    if (span == NULL) {
        return error;
    }
    CUdevice *devices = data;
    size_t room = dataSize / sizeof *devices, found = 0;
    if (data == NULL || room == 0 || dataSize % sizeof *devices != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (attribute == PREFERRED_LOCATION) {
        *devices = span->preferred - 2;
        return room == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    if (attribute != ACCESSED_BY) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    for (CUdevice device = ADDRESS_HOST_DEVICE; device < (CUdevice)SIM_MAX_CARDS && found < room; device++) {
        if ((span->accessors & 1u << ((unsigned)device & 31)) != 0) {
            devices[found++] = device;
        }
    }
    while (found < room) {
        devices[found++] = NOWHERE;
    }
    return CUDA_SUCCESS;
}
