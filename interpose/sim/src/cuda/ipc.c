/*
 * Memory of another process. The owner pays for it; here it is an address range that takes nothing. Bytes are not
 * shared.
 */
#include <string.h>
#include <unistd.h>

#include "cuda_impl.h"
#include "driver.h"

struct ticket {
    uint64_t magic, base, size;
    struct sim_process exporter;
    uint32_t device; /* index in the books */
};
_Static_assert(sizeof(struct ticket) <= sizeof(CUipcMemHandle), "fits the handle");
#define MAGIC 0x314350494d4953ull

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    CUresult error = CUDA_SUCCESS;
    struct sim_allocation found;
    if (sim_current(&error) == NULL) {
        return error;
    }
    if (pHandle == NULL || !sim_find(dptr, &found) || found.kind != SIM_KIND_DEVICE || found.pool != NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct ticket ticket = {MAGIC, found.base, found.size, sim_process_self(), found.device};
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    struct ticket ticket;
    if (context == NULL) {
        return error;
    }
    memcpy(&ticket, &handle, sizeof ticket);
    if (pdptr == NULL || Flags > 1 || ticket.magic != MAGIC || ticket.device >= sim_books->device_count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_process_is_self(&ticket.exporter)) { /* as the real one: not in the exporting process */
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_DEVICE, ticket.size, 0);
    if (span == NULL) {
        return CUDA_ERROR_MAP_FAILED;
    }
    span->device = ticket.device;
    span->context = context;
    span->imported = true;
    *pdptr = span->base;
    return CUDA_SUCCESS;
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr dptr) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    struct sim_span *span = sim_span_at(dptr);
    bool ours = span != NULL && span->imported && span->base == dptr;
    if (!ours || atomic_exchange(&span->live, 0) == 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sim_span_delete(span);
    return CUDA_SUCCESS;
}
