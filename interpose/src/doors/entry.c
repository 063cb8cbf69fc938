/*
 * cuGetProcAddress, one of the doors through which programs find functions. The others: dlsym and dlvsym (dlsym.S,
 * dlsym.c), and link-time names, which are the generated wrappers themselves.
 */
#include "cuda_abi.h"
#include "doors/hook.h"
#include "policies.h"

#include <dlfcn.h>
#include <string.h>

/*
 * What the driver chose, by name, for drivers that answer with other addresses than they export: the newest variant
 * of that base name up to the version asked for, in the stream mode asked for if there is one.
 */
static void *wrapper_by_version(const char *symbol, int version, bool per_thread) {
    const struct hami_hook_entry *best = NULL;
    for (unsigned i = 0; i < HAMI_CUDA_HOOKS; i++) {
        const struct hami_hook_entry *entry = &hami_hooks[i];
        if (strcmp(entry->base, symbol) != 0 || entry->since > version || (entry->per_thread && !per_thread)) {
            continue;
        }
        bool newer = best == NULL || entry->since > best->since;
        bool closer = best != NULL && entry->since == best->since && entry->per_thread && !best->per_thread;
        if (newer || closer) {
            best = entry;
        }
    }
    return best == NULL ? NULL : best->wrapper;
}

/*
 * Whether a library exports the function at this address by a variant of the name asked for: "cuMemAlloc" has
 * "cuMemAlloc_v2", but "cuMemAllocPitch" is another name.
 */
static bool exports_variant(const Dl_info *library, const void *function, const char *symbol) {
    size_t length = strlen(symbol);
    return library->dli_saddr == function && strncmp(library->dli_sname, symbol, length) == 0 &&
           (library->dli_sname[length] == '\0' || library->dli_sname[length] == '_');
}

/*
 * The wrapper of the function that the driver chose. A forwarding driver answers with functions of another library,
 * which go by the name that it exports them under. Addresses that nobody exports go by version. NULL for a function
 * that we do not wrap, as a variant that is newer than our tables.
 */
static void *wrapper_of(const void *function, const char *symbol, int version, bool per_thread) {
    Dl_info library = {0};
    void *wrapper = hami_wrapper_at(function, HAMI_CUDA);
    if (wrapper == NULL && dladdr(function, &library) != 0 && exports_variant(&library, function, symbol)) {
        enum hami_hook hook = hami_hook_named(library.dli_sname);
        return hook == HAMI_HOOKS ? NULL : hami_hooks[hook].wrapper;
    }
    return wrapper != NULL ? wrapper : wrapper_by_version(symbol, version, per_thread);
}

static void replace(const char *symbol, void **function, int version, uint64_t flags) {
    if (symbol == NULL || function == NULL || *function == NULL) {
        return;
    }
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    void *wrapper = wrapper_of(*function, symbol, version, per_thread);
    *function = wrapper != NULL ? wrapper : *function;
}

int32_t hami_get_proc_address(enum hami_hook hook, const char *symbol, void **function, int32_t version,
                              uint64_t flags) {
    int32_t (*driver)(const char *, void **, int32_t, uint64_t) = hami_driver_function(hook);
    int32_t status = driver(symbol, function, version, flags);
    if (status == CUDA_SUCCESS) {
        replace(symbol, function, version, flags);
    }
    return status;
}

int32_t hami_get_proc_address_v2(enum hami_hook hook, const char *symbol, void **function, int32_t version,
                                 uint64_t flags, void *query) {
    int32_t (*driver)(const char *, void **, int32_t, uint64_t, void *) = hami_driver_function(hook);
    int32_t status = driver(symbol, function, version, flags, query);
    if (status == CUDA_SUCCESS) {
        if (hook == HAMI_cuGetProcAddress_v2_ptsz && flags == 0) {
            flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
        }
        replace(symbol, function, version, flags);
    }
    return status;
}
