/*
 * From a hook to the driver's function and back. The addresses of a library's hooked functions are looked up together,
 * when the first of them is needed; by then the program has loaded the library. Threads that need them at once all look
 * them up and write the same: one that waited for another could hold the loader's lock, which the other needs.
 */
#include "hami/cuda_abi.h"
#include "hami/hook.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

enum { CUDA, NVML, LIBRARIES };

static const char *const sonames[LIBRARIES] = {"libcuda.so.1", "libnvidia-ml.so.1"};

static struct {
    _Atomic bool known;
    _Atomic(void *) handle;
} libraries[LIBRARIES];

_Atomic(void *) hami_driver_functions[HAMI_HOOKS]; /* all of a library's are written before it is known */

static int32_t missing_cuda(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static int32_t missing_nvml(void) {
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static int library_of(enum hami_hook hook) {
    return hook < HAMI_CUDA_HOOKS ? CUDA : NVML;
}

enum hami_hook hami_hook_named(const char *name) {
    bool cuda = name[0] == 'c' && name[1] == 'u';
    unsigned low = cuda ? 0 : HAMI_CUDA_HOOKS;
    unsigned high = cuda ? HAMI_CUDA_HOOKS : HAMI_HOOKS;
    if (!cuda && strncmp(name, "nvml", 4) != 0) {
        return HAMI_HOOKS;
    }
    while (low < high) {
        unsigned middle = (low + high) / 2;
        int order = strcmp(name, hami_hooks[middle].name);
        if (order == 0) {
            return (enum hami_hook)middle;
        }
        if (order < 0) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return HAMI_HOOKS;
}

/* Opens the library; with `load` unset only if the program has it already. */
static void *open_library(int library, bool load) {
    void *handle = dlopen(sonames[library], RTLD_LAZY | RTLD_NOLOAD);
    return handle == NULL && load ? dlopen(sonames[library], RTLD_LAZY) : handle;
}

static void look_up(int library, void *handle) {
    unsigned first = library == CUDA ? 0 : HAMI_CUDA_HOOKS;
    unsigned end = library == CUDA ? HAMI_CUDA_HOOKS : HAMI_HOOKS;
    for (unsigned i = first; i < end; i++) {
        void *found = hami_libc_dlsym()(handle, hami_hooks[i].name);
        if (found == NULL) {
            found = library == CUDA ? (void *)missing_cuda : (void *)missing_nvml;
        }
        atomic_store_explicit(&hami_driver_functions[i], found, memory_order_release);
    }
    (void)dlerror(); /* the names this driver lacks are nobody's error */
    atomic_store_explicit(&libraries[library].handle, handle, memory_order_release);
    atomic_store_explicit(&libraries[library].known, true, memory_order_release);
}

/* True once the library's functions are known; false also to what runs while this thread loads it. */
static bool ready(int library, bool load) {
    static _Thread_local bool looking;
    if (atomic_load_explicit(&libraries[library].known, memory_order_acquire)) {
        return true;
    }
    if (looking || hami_libc_dlsym() == NULL) {
        return false;
    }
    looking = true;
    void *handle = open_library(library, load);
    looking = false;
    if (handle != NULL) {
        look_up(library, handle);
    }
    return handle != NULL;
}

void *hami_driver_function_found(enum hami_hook hook) {
    int library = library_of(hook);
    if (ready(library, true)) {
        return atomic_load_explicit(&hami_driver_functions[hook], memory_order_acquire);
    }
    return library == CUDA ? (void *)missing_cuda : (void *)missing_nvml;
}

void *hami_cuda_function_named(const char *name) {
    return ready(CUDA, true) ? hami_libc_dlsym()(libraries[CUDA].handle, name) : NULL;
}

void *hami_cuda_function_there(const char *name) {
    return ready(CUDA, false) ? hami_libc_dlsym()(libraries[CUDA].handle, name) : NULL;
}

void *hami_nvml_function(const char *name) {
    return ready(NVML, true) ? hami_libc_dlsym()(libraries[NVML].handle, name) : NULL;
}

void *hami_wrapper_at(const void *address) {
    for (int library = CUDA; library < LIBRARIES; library++) {
        if (!ready(library, false)) {
            continue;
        }
        unsigned first = library == CUDA ? 0 : HAMI_CUDA_HOOKS;
        unsigned end = library == CUDA ? HAMI_CUDA_HOOKS : HAMI_HOOKS;
        for (unsigned i = first; i < end; i++) {
            if (atomic_load_explicit(&hami_driver_functions[i], memory_order_relaxed) == address) {
                return hami_hooks[i].wrapper;
            }
        }
    }
    return NULL;
}
