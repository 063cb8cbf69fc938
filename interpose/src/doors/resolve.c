/*
 * Finds the driver's function for a hook, and the wrapper for a driver's function. All functions of a library are
 * looked up together, when the first of them is needed. Several threads may do that at the same time; each stores the
 * same values. None waits for another: a thread that waits for us may hold the loader's lock.
 *
 * A process uses one driver for CUDA and one for NVML, by default libcuda.so.1 and libnvidia-ml.so.1. Any other library
 * that exports a driver's functions is a further driver: a copy of the file, or the library to which WSL2's
 * libcuda.so.1 forwards. A program that looks a function up in a further driver gets the driver in use, since no driver
 * understands the contexts of another. A driver that looks one up in itself or in a further driver gets the function
 * itself: a wrapper would call the driver in use again.
 */
#include "cuda_abi.h"
#include "doors/hook.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

static const char *const sonames[HAMI_LIBRARIES] = {"libcuda.so.1", "libnvidia-ml.so.1"};
static const unsigned first_hooks[HAMI_LIBRARIES + 1] = {0, HAMI_CUDA_HOOKS, HAMI_HOOKS};

/* A library that exports all of these is a driver. Every driver of the last ten years is one, a small shim is not. */
enum { TABLE_NAMES = 8 };
static const char *const table_names[HAMI_LIBRARIES][TABLE_NAMES] = {
    {"cuInit", "cuDriverGetVersion", "cuDeviceGetName", "cuMemAlloc_v2", "cuMemcpyDtoH_v2", "cuModuleGetFunction",
     "cuLaunchKernel", "cuEventRecord"},
    {"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlSystemGetDriverVersion", "nvmlDeviceGetHandleByUUID",
     "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetName", "nvmlDeviceGetTemperature"},
};

static struct {
    _Atomic(void *) handle; /* dlopen(3)'s handle of the driver in use */
    _Atomic bool looked_up; /* all functions of the library are in `found` */
    _Atomic bool known;     /* all functions of the library are in hami_driver_functions too */
    _Atomic bool missing;   /* the library could not be loaded */
} libraries[HAMI_LIBRARIES];

_Atomic(void *) hami_driver_functions[HAMI_HOOKS];
static _Atomic(void *) found[HAMI_HOOKS]; /* the driver's functions, before hami_driver_functions shows any of them */

/* The linker defines __start_NAME and __stop_NAME for each section NAME. These sections hold struct hami_named. */
#define ENDS_OF(section)                                                                                               \
    extern struct hami_named __start_##section[] __attribute__((visibility("hidden")));                                \
    extern struct hami_named __stop_##section[] __attribute__((visibility("hidden")));
ENDS_OF(hami_cuda_names)
ENDS_OF(hami_nvml_names)
static struct hami_named *const first_named[HAMI_LIBRARIES] = {__start_hami_cuda_names, __start_hami_nvml_names};
static struct hami_named *const end_of_named[HAMI_LIBRARIES] = {__stop_hami_cuda_names, __stop_hami_nvml_names};

static int32_t resolve_missing_cuda(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static int32_t resolve_missing_nvml(void) {
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static void *const missing_functions[HAMI_LIBRARIES] = {(void *)resolve_missing_cuda, (void *)resolve_missing_nvml};

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
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return HAMI_HOOKS;
}

/* The loaded library that contains this address, or NULL. */
static struct link_map *resolve_library_at(const void *address) {
    struct link_map *library = NULL;
    Dl_info symbol;
    return dladdr1(address, &symbol, (void **)&library, RTLD_DL_LINKMAP) != 0 ? library : NULL;
}

/* Whether a library is the program, or one that LD_PRELOAD names before ours. Such a library is no driver. */
static bool resolve_is_before_us(const struct link_map *library) {
    const struct link_map *map = _r_debug.r_map;
    while (map != NULL && map != library && map->l_ld != _DYNAMIC) {
        map = map->l_next;
    }
    return map == library && map->l_ld != _DYNAMIC;
}

static bool resolve_is_driver(const struct link_map *library, enum hami_library kind) {
    bool all = library != NULL && !resolve_is_before_us(library);
    for (unsigned i = 0; all && i < TABLE_NAMES; i++) {
        all = hami_function_in(library, table_names[kind][i]) != NULL;
    }
    return all;
}

/*
 * Opens the driver to use: libcuda.so.1 if it is loaded, else a driver that the program is linked with, else the loaded
 * library `file`. If there is none, loads libcuda.so.1 if `load`. For NVML the name is libnvidia-ml.so.1.
 */
static void *resolve_open_driver(enum hami_library library, const char *file, bool load) {
    void *handle = dlopen(sonames[library], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        const struct link_map *linked = resolve_library_at(hami_libc_dlsym()(RTLD_NEXT, table_names[library][0]));
        file = resolve_is_driver(linked, library) ? linked->l_name : file;
        handle = file == NULL ? NULL : dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    }
    return handle == NULL && load ? dlopen(sonames[library], RTLD_LAZY) : handle;
}

static void resolve_look_up(enum hami_library library, void *handle) {
    for (struct hami_named *at = first_named[library]; at < end_of_named[library]; at++) {
        atomic_store_explicit(&at->function, hami_libc_dlsym()(handle, at->name), memory_order_release);
    }
    for (unsigned i = first_hooks[library]; i < first_hooks[library + 1]; i++) {
        void *function = hami_libc_dlsym()(handle, hami_hooks[i].name);
        function = function != NULL ? function : missing_functions[library];
        atomic_store_explicit(&found[i], function, memory_order_release);
    }
    atomic_store_explicit(&libraries[library].looked_up, true, memory_order_release);
}

/*
 * Copies the functions from `found`, which has all of them, to hami_driver_functions. While one thread copies, another
 * that holds a lock may need a function that is not there yet: it copies too, and need not ask the loader.
 */
static void resolve_put_in_place(enum hami_library library) {
    for (unsigned i = first_hooks[library]; i < first_hooks[library + 1]; i++) {
        void *function = atomic_load_explicit(&found[i], memory_order_relaxed);
        atomic_store_explicit(&hami_driver_functions[i], function, memory_order_release);
    }
    atomic_store_explicit(&libraries[library].known, true, memory_order_release);
}

/*
 * Looks the functions of a library up. Does nothing if a constructor of the library, which dlopen(3) runs, calls us in
 * the same thread. Clears dlerror(3), since the program has not asked for this look-up.
 */
static void resolve_ask_loader(enum hami_library library, const char *file, bool load) {
    static _Thread_local bool asking;
    if (asking || hami_libc_dlsym() == NULL) {
        return;
    }
    asking = true;
    void *none = NULL, *handle = resolve_open_driver(library, file, load);
    asking = false;
    if (handle != NULL) {
        /* If threads have opened different drivers, the driver of the first thread is used. */
        (void)atomic_compare_exchange_strong(&libraries[library].handle, &none, handle);
        resolve_look_up(library, atomic_load(&libraries[library].handle));
    } else if (load) {
        atomic_store(&libraries[library].missing, true);
    }
    (void)dlerror();
}

/* Makes a library's functions known; with `load`, loads it first if needed. Returns false if they remain unknown. */
static bool resolve_ready(enum hami_library library, const char *file, bool load) {
    if (atomic_load_explicit(&libraries[library].known, memory_order_acquire)) {
        return true;
    }
    if (!atomic_load_explicit(&libraries[library].looked_up, memory_order_acquire)) {
        resolve_ask_loader(library, file, load);
    }
    bool looked_up = atomic_load_explicit(&libraries[library].looked_up, memory_order_acquire);
    if (looked_up) {
        resolve_put_in_place(library);
    }
    return looked_up;
}

void *hami_driver_function_found(enum hami_hook hook) {
    enum hami_library library = hook < HAMI_CUDA_HOOKS ? HAMI_CUDA : HAMI_NVML;
    return resolve_ready(library, NULL, true) ? atomic_load_explicit(&hami_driver_functions[hook], memory_order_acquire)
                                              : missing_functions[library];
}

void hami_driver_load(enum hami_library library) {
    if (!atomic_load(&libraries[library].missing)) {
        (void)resolve_ready(library, NULL, true);
    }
}

void *hami_named_function_found(struct hami_named *named, enum hami_library library) {
    hami_driver_load(library);
    return atomic_load_explicit(&named->function, memory_order_acquire);
}

void *hami_cuda_wrapper_at(const void *address) {
    (void)resolve_ready(HAMI_CUDA, NULL, false);
    for (unsigned i = 0; i < HAMI_CUDA_HOOKS; i++) {
        if (atomic_load_explicit(&hami_driver_functions[i], memory_order_relaxed) == address) {
            return hami_hooks[i].wrapper;
        }
    }
    return NULL;
}

/* The function `name` of the driver in use, or NULL. */
static void *resolve_in_use(enum hami_library library, const char *name) {
    void *handle = resolve_ready(library, NULL, false) ? atomic_load(&libraries[library].handle) : NULL;
    return handle == NULL ? NULL : hami_libc_dlsym()(handle, name);
}

void *hami_lookup_answer(const char *name, const void *found, const void *caller) {
    enum hami_library library = name[0] == 'c' ? HAMI_CUDA : HAMI_NVML;
    const struct link_map *holder = resolve_library_at(found), *asking = resolve_library_at(caller);
    if (found != resolve_in_use(library, name)) {
        if (!resolve_is_driver(holder, library) || resolve_is_driver(asking, library)) {
            return NULL;
        }
        (void)resolve_ready(library, holder->l_name, true);
    }
    /* The handle of a library is its link map (glibc). So this compares the caller with the driver in use. */
    if (asking != NULL && asking == atomic_load(&libraries[library].handle)) {
        return NULL;
    }
    enum hami_hook hook = hami_hook_named(name);
    return hook != HAMI_HOOKS ? hami_hooks[hook].wrapper : resolve_in_use(library, name);
}
