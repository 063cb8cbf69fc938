/* How programs find functions: cuGetProcAddress, and error names. */
#include <string.h>

#include "cuda_entries.h"
#include "cuda_impl.h"
#include "driver.h"

enum { FOUND = 0, NO_SYMBOL = 1, OLD_VERSION = 2 };
enum { PER_THREAD = 2 };
#define DEFAULT_VERSION 13050 /* where there is no simulated machine: symbols resolve, cuInit finds no device */

static int driver_version(void) {
    return sim_books_open() == SIM_OPEN_OK ? sim_books->cuda_version : DEFAULT_VERSION;
}

/* Entries of one base name are neighbours, by version, newest last. */
static const struct sim_entry *find_base(const char *base) {
    size_t low = 0, high = sim_entry_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (strcmp(sim_entries[middle].base, base) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < sim_entry_count && strcmp(sim_entries[low].base, base) == 0 ? &sim_entries[low] : NULL;
}

/* Newest variant that is old enough; of two alike, the per-thread one if that was asked for. */
static int lookup(const char *symbol, int version, cuuint64_t flags, void **pfn) {
    const struct sim_entry *at = find_base(symbol), *end = sim_entries + sim_entry_count, *best = NULL;
    *pfn = NULL;
    if (at == NULL) {
        return NO_SYMBOL;
    }
    for (; at < end && strcmp(at->base, symbol) == 0; at++) {
        if (at->version <= version) {
            bool newer = best == NULL || at->version > best->version;
            bool threaded = best != NULL && at->version == best->version && at->per_thread;
            if (!at->per_thread ? newer : flags == PER_THREAD && (newer || threaded)) {
                best = at;
            }
        }
    }
    if (best == NULL) {
        return OLD_VERSION;
    }
    *pfn = best->address;
    return FOUND;
}

static CUresult resolve(const char *symbol, void **pfn, int version, cuuint64_t flags, int *status) {
    if (symbol == NULL || pfn == NULL || flags > PER_THREAD) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pfn = NULL;
    if (*symbol == '\0') { /* libcudart asks for the empty name first */
        *status = FOUND;
        return CUDA_SUCCESS;
    }
    if (version > driver_version()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *status = lookup(symbol, version, flags, pfn);
    return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags) {
    int status = FOUND;
    CUresult error = resolve(symbol, pfn, cudaVersion, flags, &status);
    return error == CUDA_SUCCESS && status != FOUND ? CUDA_ERROR_NOT_FOUND : error;
}

CUresult sim_cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags, int *symbolStatus) {
    int status = FOUND;
    CUresult error = resolve(symbol, pfn, cudaVersion, flags, &status);
    if (error == CUDA_SUCCESS && symbolStatus != NULL) {
        *symbolStatus = status;
    }
    return error == CUDA_SUCCESS && status != FOUND && symbolStatus == NULL ? CUDA_ERROR_NOT_FOUND : error;
}

/* The tables behind this call are private to NVIDIA's own libraries; none is simulated. */
CUresult sim_cuGetExportTable(const void **ppExportTable, const CUuuid *pExportTableId) {
    (void)pExportTableId;
    if (ppExportTable == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *ppExportTable = NULL;
    return CUDA_ERROR_NOT_FOUND;
}

static const struct sim_error *find_error(CUresult error) {
    for (size_t i = 0; i < sim_error_count; i++) {
        if (sim_errors[i].value == error) {
            return &sim_errors[i];
        }
    }
    return NULL;
}

CUresult sim_cuGetErrorName(CUresult error, const char **pStr) {
    const struct sim_error *found = find_error(error);
    if (pStr == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pStr = found != NULL ? found->name : NULL;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuGetErrorString(CUresult error, const char **pStr) {
    const struct sim_error *found = find_error(error);
    if (pStr == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pStr = found != NULL ? found->text : NULL;
    return found != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
