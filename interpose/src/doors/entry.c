/*
 * cuGetProcAddress, one of three ways in which programs find functions: it answers with our wrapper of the function
 * that the driver chose. The others are dlsym and dlvsym (dlsym.S, dlsym.c) and the exported names (generated/hooks.c).
 */
#include "cuda_abi.h"
#include "doors/hook.h"
#include "policies.h"

#include <dlfcn.h>
#include <string.h>

/*
 * The wrapper of the newest variant of a base name up to `version`, in the stream mode asked for if there is one. For
 * drivers whose answer is none of the addresses that they export.
 */
static void *entry_wrapper_by_version(const char *symbol, int version, bool per_thread) {
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
 * Whether a library exports the function by a variant of the name asked for. For "cuMemAlloc", "cuMemAlloc_v2" is one
 * and "cuMemAllocPitch" is not.
 */
static bool entry_exports_variant(const Dl_info *library, const void *function, const char *symbol) {
    size_t length = strlen(symbol);
    return library->dli_saddr == function && strncmp(library->dli_sname, symbol, length) == 0 &&
           (library->dli_sname[length] == '\0' || library->dli_sname[length] == '_');
}

/*
 * The wrapper of the function that the driver chose: by its address in the driver in use; or by its name, if a
 * forwarding driver answers with another library's function; or by version, if no library exports the address. NULL for
 * a function that we do not wrap, such as a variant newer than our tables.
 */
static void *entry_wrapper_of(const void *function, const char *symbol, int version, bool per_thread) {
    Dl_info library = {0};
    void *wrapper = hami_wrapper_at(function, HAMI_CUDA);
    if (wrapper == NULL && dladdr(function, &library) != 0 && entry_exports_variant(&library, function, symbol)) {
        enum hami_hook hook = hami_hook_named(library.dli_sname);
        return hook == HAMI_HOOKS ? NULL : hami_hooks[hook].wrapper;
    }
    return wrapper != NULL ? wrapper : entry_wrapper_by_version(symbol, version, per_thread);
}

static void entry_replace(const char *symbol, void **function, int version, uint64_t flags) {
    if (symbol == NULL || function == NULL || *function == NULL) {
        return;
    }
    bool per_thread = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0;
    void *wrapper = entry_wrapper_of(*function, symbol, version, per_thread);
    *function = wrapper != NULL ? wrapper : *function;
}

int32_t hami_get_proc_address(enum hami_hook hook, const char *symbol, void **function, int32_t version,
                              uint64_t flags) {
    int32_t status = hami_call_get_proc_address(hook, symbol, function, version, flags);
    if (status == CUDA_SUCCESS) {
        entry_replace(symbol, function, version, flags);
    }
    return status;
}

int32_t hami_get_proc_address_v2(enum hami_hook hook, const char *symbol, void **function, int32_t version,
                                 uint64_t flags, void *query) {
    int32_t status = hami_call_get_proc_address_v2(hook, symbol, function, version, flags, query);
    if (status == CUDA_SUCCESS) {
        if (hook == HAMI_cuGetProcAddress_v2_ptsz && flags == 0) {
            flags = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
        }
        entry_replace(symbol, function, version, flags);
    }
    return status;
}
