/* Pinned and registered host memory. It takes nothing on a device. */
#include <stdlib.h>
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"

struct registration {
    uint64_t base, size;
    unsigned flags;
};
static struct {
    pthread_mutex_t lock;
    struct registration *rows; /* by address, not overlapping */
    size_t count, room;
} registered = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* First row that ends after the address. */
static size_t row_after(uint64_t address) {
    size_t low = 0, high = registered.count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (registered.rows[middle].base + registered.rows[middle].size <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool sim_registered(uint64_t address, uint64_t *base, uint64_t *size) {
    pthread_mutex_lock(&registered.lock);
    size_t at = row_after(address);
    bool found = at < registered.count && registered.rows[at].base <= address;
    if (found && base != NULL) {
        *base = registered.rows[at].base;
        *size = registered.rows[at].size;
    }
    pthread_mutex_unlock(&registered.lock);
    return found;
}

static CUresult add_row(uint64_t base, uint64_t size, unsigned flags) {
    size_t at = row_after(base);
    if (at < registered.count && registered.rows[at].base < base + size) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    if (registered.count == registered.room) {
        size_t room = registered.room == 0 ? 16 : registered.room * 2;
        struct registration *rows = realloc(registered.rows, room * sizeof *rows);
        if (rows == NULL) {
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        registered.rows = rows;
        registered.room = room;
    }
    memmove(&registered.rows[at + 1], &registered.rows[at], (registered.count - at) * sizeof registered.rows[0]);
    registered.rows[at] = (struct registration){base, size, flags};
    registered.count++;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    if (p == NULL || bytesize == 0 || Flags > 15) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&registered.lock);
    error = add_row((uintptr_t)p, bytesize, Flags);
    pthread_mutex_unlock(&registered.lock);
    return error;
}

CUresult sim_cuMemHostUnregister(void *p) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    pthread_mutex_lock(&registered.lock);
    size_t at = row_after((uintptr_t)p);
    bool found = at < registered.count && registered.rows[at].base == (uintptr_t)p;
    if (found) {
        registered.count--;
        memmove(&registered.rows[at], &registered.rows[at + 1], (registered.count - at) * sizeof registered.rows[0]);
    }
    pthread_mutex_unlock(&registered.lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult sim_cuMemHostAlloc(void **pp, size_t bytesize, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (pp == NULL || bytesize == 0 || Flags > 7) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_HOST, bytesize, 0);
    if (span == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    span->context = context;
    span->device = context->device;
    span->flags = Flags;
    *pp = (void *)(uintptr_t)span->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocHost_v2(void **pp, size_t bytesize) {
    return sim_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult sim_cuMemFreeHost(void *p) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    struct sim_span *span = sim_span_at((uintptr_t)p);
    bool ours = span != NULL && span->kind == SIM_KIND_HOST && span->base == (uintptr_t)p;
    if (!ours || atomic_exchange(&span->live, 0) == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_span_delete(span);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    const struct sim_span *span = sim_span_at((uintptr_t)p);
    bool known = (span != NULL && span->kind == SIM_KIND_HOST) || sim_registered((uintptr_t)p, NULL, NULL);
    if (pdptr == NULL || Flags != 0 || !known) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pdptr = (uintptr_t)p;
    return CUDA_SUCCESS;
}

CUresult sim_cuMemHostGetFlags(unsigned *pFlags, void *p) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    const struct sim_span *span = sim_span_at((uintptr_t)p);
    if (pFlags == NULL || span == NULL || span->kind != SIM_KIND_HOST) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pFlags = span->flags | 2; /* mapped: unified addressing */
    return CUDA_SUCCESS;
}
