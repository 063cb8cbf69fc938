/* How programs find functions: cuGetProcAddress, and error names. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/*
 * HAMI_SIM_PRIVATE_ADDRESSES=1: cuGetProcAddress answers with other addresses than those exported, which nothing tells
 * from one another. Behind each is a jump to the function.
 */
struct jump {
#if defined(__x86_64__)
    uint8_t code[8]; /* jmp *(after it) */
#elif defined(__aarch64__)
    uint32_t code[2]; /* ldr x16, (after them); br x16 */
#endif
    void *to;
};

static struct jump *private_jumps;

static void make_private(void) {
    const char *asked = getenv("HAMI_SIM_PRIVATE_ADDRESSES");
    size_t size = sim_entry_count * sizeof(struct jump);
    if (asked == NULL || strcmp(asked, "1") != 0) {
        return;
    }
    struct jump *jumps = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (size_t i = 0; jumps != MAP_FAILED && i < sim_entry_count; i++) {
#if defined(__x86_64__)
        jumps[i] = (struct jump){{0xff, 0x25, 2, 0, 0, 0, 0x90, 0x90}, sim_entries[i].address};
#elif defined(__aarch64__)
        jumps[i] = (struct jump){{0x58000050, 0xd61f0200}, sim_entries[i].address};
#endif
    }
    if (jumps != MAP_FAILED && mprotect(jumps, size, PROT_READ | PROT_EXEC) == 0) {
        __builtin___clear_cache((char *)jumps, (char *)jumps + size);
        private_jumps = jumps;
    }
}

static void *address_of(const struct sim_entry *entry) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_private);
    return private_jumps != NULL ? (void *)&private_jumps[entry - sim_entries] : entry->address;
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
    *pfn = address_of(best);
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

/* Programs built for the per-thread default stream link to this one. */
CUresult sim_cuGetProcAddress_v2_ptsz(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                                      int *symbolStatus) {
    return sim_cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags == 0 ? PER_THREAD : flags, symbolStatus);
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
