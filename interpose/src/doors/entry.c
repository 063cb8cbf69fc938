/*
 * cuGetProcAddress: the driver chooses a function, and the program gets our wrapper of it. Programs find functions in
 * two other ways too: by dlsym and dlvsym (dlsym.S, dlsym.c), and by the names that we export (generated/hooks.c).
 */
#include "cuda_abi.h"
#include "doors/hook.h"
#include "policies.h"

#include <dlfcn.h>
#include <string.h>

/*
 * The wrapper of the newest variant of `symbol` that CUDA `version` has; the variant for the per-thread default stream
 * if the program asks for that one and it exists. Example: "cuMemAlloc" is cuMemAlloc_v2 since CUDA 3.2.
 */
static void *entry_wrapper_by_version(const char *symbol, int version, bool per_thread) {
    const struct hami_hook_entry *best = NULL;
    for (unsigned i = 0; i < HAMI_CUDA_HOOKS; i++) {
        const struct hami_hook_entry *entry = &hami_hooks[i];
        if (strcmp(entry->base, symbol) != 0 || entry->since > version || (entry->per_thread && !per_thread)) {
            continue;
        }
        if (best == NULL || entry->since > best->since || (entry->since == best->since && entry->per_thread)) {
            best = entry;
        }
    }
    return best == NULL ? NULL : best->wrapper;
}

/*
 * Whether a library exports the function by a variant of the name `symbol`. "cuMemAlloc_v2" is a variant of
 * "cuMemAlloc", "cuMemAllocPitch" is not.
 */
static bool entry_exports_variant(const Dl_info *library, const void *function, const char *symbol) {
    size_t length = strlen(symbol);
    return library->dli_saddr == function && strncmp(library->dli_sname, symbol, length) == 0 &&
           (library->dli_sname[length] == '\0' || library->dli_sname[length] == '_');
}

/*
 * The wrapper of the function that the driver chose. We find it by the function's address in the driver in use. If that
 * fails, by the function's name in another library, to which a driver such as WSL2's may forward. If no library exports
 * the function, by `version`. NULL: we do not wrap the function, for example a variant newer than our tables.
 */
static void *entry_wrapper_of(const void *function, const char *symbol, int version, bool per_thread) {
    Dl_info library = {0};
    void *wrapper = hami_cuda_wrapper_at(function);
    if (wrapper == NULL && dladdr(function, &library) != 0 && entry_exports_variant(&library, function, symbol)) {
        enum hami_hook hook = hami_hook_named(library.dli_sname);
        return hook == HAMI_HOOKS ? NULL : hami_hooks[hook].wrapper;
    }
    return wrapper != NULL ? wrapper : entry_wrapper_by_version(symbol, version, per_thread);
}

/* Replaces the driver's answer by our wrapper, if we have one. */
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
