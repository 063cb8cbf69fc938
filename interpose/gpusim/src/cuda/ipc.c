/*
 * Memory of another process. What was shared stays taken until the last of them is done with it; of small allocations
 * only the owner's block counts. Bytes are not shared.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda_impl.h"
#include "driver.h"
#include "shared.h"

struct ticket {
    uint64_t magic, base, size;
    struct sim_process exporter;
    uint32_t device;             /* index in the books */
    uint32_t shared, generation; /* entry in the books + 1; 0: a small allocation */
};
_Static_assert(sizeof(struct ticket) <= sizeof(CUipcMemHandle), "fits the handle");
#define MAGIC 0x314350494d4953ull

/* What was taken for it moves from this process to the books' entry. */
static bool share(struct sim_span *span) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    int entry = span->shared != 0 ? (int)span->shared - 1 : sim_share(span->device, span->charged);
    if (entry >= 0) {
        span->shared = (unsigned)entry + 1;
        span->charged = 0;
    }
    pthread_mutex_unlock(&lock);
    return entry >= 0;
}

CUresult sim_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr) {
    CUresult error = CUDA_SUCCESS;
    struct sim_allocation found;
    if (sim_current(&error) == NULL) {
        return error;
    }
    if (pHandle == NULL || !sim_find(dptr, &found) || found.kind != SIM_KIND_DEVICE || found.pool != NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_span *span = sim_span_at(dptr);
    if (span->charged != 0 && !share(span)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    uint32_t generation = span->shared != 0 ? atomic_load(&sim_books->shared[span->shared - 1].generation) : 0;
    struct ticket ticket = {MAGIC, found.base, found.size, sim_process_self(), found.device, span->shared, generation};
    memset(pHandle, 0, sizeof *pHandle);
    memcpy(pHandle, &ticket, sizeof ticket);
    return CUDA_SUCCESS;
}

struct search {
    const struct sim_context *context;
    unsigned shared;
    struct sim_span *found;
};

/* Whether all contexts of a process get the same address, as drivers may give it: see README.md. */
static bool one_address(void) {
    const char *habit = getenv("HAMI_SIM_IPC_ONE_ADDRESS");
    return habit != NULL && *habit == '1';
}

static bool is_sought(struct sim_span *span, void *closure) {
    struct search *search = closure;
    bool here = search->context == NULL || span->context == search->context;
    if (span->imported != 0 && span->shared == search->shared && here) {
        search->found = span;
    }
    return search->found == NULL;
}

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* The address at which a context has opened it already. */
static struct sim_span *open_again(const struct sim_context *context, unsigned shared) {
    struct search search = {one_address() ? NULL : context, shared, NULL};
    if (shared != 0) {
        sim_span_each(is_sought, &search);
    }
    if (search.found != NULL) {
        search.found->imported++;
    }
    return search.found;
}

static struct sim_span *open_first(struct sim_context *context, const struct ticket *ticket, CUresult *error) {
    if (ticket->shared != 0 && !sim_share_hold(ticket->shared - 1, ticket->generation)) {
        *error = CUDA_ERROR_INVALID_VALUE;
        return NULL;
    }
    struct sim_span *span = sim_span_new(SIM_KIND_DEVICE, ticket->size, 0);
    if (span == NULL) {
        if (ticket->shared != 0) {
            sim_share_drop(ticket->shared - 1);
        }
        *error = CUDA_ERROR_MAP_FAILED;
        return NULL;
    }
    span->device = ticket->device;
    span->context = context;
    span->shared = ticket->shared;
    span->imported = 1;
    return span;
}

/* Memory of a GPU instance stays inside. */
static bool reachable(unsigned device) {
    return sim_device_exists(device) && (!sim_is_mig(device) || sim_ordinal_of(device) >= 0);
}

CUresult sim_cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    struct ticket ticket;
    if (context == NULL) {
        return error;
    }
    memcpy(&ticket, &handle, sizeof ticket);
    if (pdptr == NULL || Flags > 1 || ticket.magic != MAGIC || !reachable(ticket.device)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sim_process_is_self(&ticket.exporter)) { /* as the real one: not in the exporting process */
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&opening);
    struct sim_span *span = open_again(context, ticket.shared);
    span = span != NULL ? span : open_first(context, &ticket, &error);
    pthread_mutex_unlock(&opening);
    if (span != NULL) {
        *pdptr = span->base;
    }
    return error;
}

CUresult sim_cuIpcCloseMemHandle(CUdeviceptr dptr) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    struct sim_span *span = sim_span_at(dptr);
    pthread_mutex_lock(&opening);
    bool ours = span != NULL && span->imported != 0 && span->base == dptr && atomic_load(&span->live) != 0;
    bool last = ours && --span->imported == 0;
    if (last) {
        atomic_store(&span->live, 0);
        if (span->shared != 0) {
            sim_share_drop(span->shared - 1);
        }
        sim_span_delete(span);
    }
    pthread_mutex_unlock(&opening);
    return ours ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
