/*
 * From a hook to the driver's function and back. All functions of a library are looked up together, when the first of
 * them is needed; the program has loaded the library by then. Several threads may do so at once and write the same:
 * none waits for another, which could deadlock with the loader's lock.
 *
 * A process has one driver in use for each library, by default libcuda.so.1. Another library that exports a driver's
 * functions is a further driver: a copy, or the target of a forwarding driver. A look-up in it gets the driver in use,
 * since no driver understands another's contexts. Only look-ups by a driver itself, as a forwarding one makes, get what
 * they ask for: our wrappers call it, and it must not call them.
 */
#include "cuda_abi.h"
#include "doors/hook.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

static const char *const sonames[HAMI_LIBRARIES] = {"libcuda.so.1", "libnvidia-ml.so.1"};
static const unsigned first_hooks[HAMI_LIBRARIES + 1] = {0, HAMI_CUDA_HOOKS, HAMI_HOOKS};

/* All drivers of the last ten years export these. A library that wraps a few functions does not. */
enum { TABLE_NAMES = 8 };
static const char *const table_names[HAMI_LIBRARIES][TABLE_NAMES] = {
    {"cuInit", "cuDriverGetVersion", "cuDeviceGetName", "cuMemAlloc_v2", "cuMemcpyDtoH_v2", "cuModuleGetFunction",
     "cuLaunchKernel", "cuEventRecord"},
    {"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlSystemGetDriverVersion", "nvmlDeviceGetHandleByUUID",
     "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetName", "nvmlDeviceGetTemperature"},
};

static struct {
    _Atomic(void *) handle; /* of the driver in use */
    _Atomic bool looked_up; /* its functions are in `found` */
    _Atomic bool known;     /* its functions are in hami_driver_functions too */
    _Atomic bool missing;   /* it could not be loaded */
} libraries[HAMI_LIBRARIES];

_Atomic(void *) hami_driver_functions[HAMI_HOOKS];
static _Atomic(void *) found[HAMI_HOOKS]; /* the same while the look-up goes on */

/* The linker defines __start_NAME and __stop_NAME for each section NAME: here, arrays of struct hami_named. */
#define ENDS_OF(section)                                                                                               \
    extern struct hami_named __start_##section[] __attribute__((visibility("hidden")));                                \
    extern struct hami_named __stop_##section[] __attribute__((visibility("hidden")));
ENDS_OF(hami_cuda_names)
ENDS_OF(hami_nvml_names)

static int32_t resolve_missing_cuda(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static int32_t resolve_missing_nvml(void) {
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static void *resolve_missing(enum hami_library library) {
    return library == HAMI_CUDA ? (void *)resolve_missing_cuda : (void *)resolve_missing_nvml;
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
        low = order > 0 ? middle + 1 : low;
        high = order > 0 ? high : middle;
    }
    return HAMI_HOOKS;
}

static struct link_map *resolve_library_at(const void *address) {
    struct link_map *library = NULL;
    Dl_info symbol;
    return dladdr1(address, &symbol, (void **)&library, RTLD_DL_LINKMAP) != 0 ? library : NULL;
}

/* Whether a library comes before ours in the search order: the program, or one preloaded earlier. It is no driver. */
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
 * library `file`, else libcuda.so.1 if we may `load` it.
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

static void resolve_look_up_named(enum hami_library library, void *handle) {
    struct hami_named *end = library == HAMI_CUDA ? __stop_hami_cuda_names : __stop_hami_nvml_names;
    struct hami_named *at = library == HAMI_CUDA ? __start_hami_cuda_names : __start_hami_nvml_names;
    for (; at < end; at++) {
        atomic_store_explicit(&at->function, hami_libc_dlsym()(handle, at->name), memory_order_release);
    }
}

static void resolve_look_up(enum hami_library library, void *handle) {
    resolve_look_up_named(library, handle);
    for (unsigned i = first_hooks[library]; i < first_hooks[library + 1]; i++) {
        void *function = hami_libc_dlsym()(handle, hami_hooks[i].name);
        atomic_store_explicit(&found[i], function != NULL ? function : resolve_missing(library), memory_order_release);
    }
    atomic_store_explicit(&libraries[library].looked_up, true, memory_order_release);
}

/*
 * Makes the functions visible only when all are found: code that has one of them may need the others at a place where
 * it must not wait for a look-up. Any thread may do this, not only the one that looked them up.
 */
static void resolve_put_in_place(enum hami_library library) {
    for (unsigned i = first_hooks[library]; i < first_hooks[library + 1]; i++) {
        void *function = atomic_load_explicit(&found[i], memory_order_relaxed);
        atomic_store_explicit(&hami_driver_functions[i], function, memory_order_release);
    }
    atomic_store_explicit(&libraries[library].known, true, memory_order_release);
}

/*
 * Looks the functions up, unless this thread is in the middle of it: loading a library runs its constructors. Clears
 * dlerror, since a failure here is no error of the program's.
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
        /* Threads may have opened different drivers: the first one counts. */
        (void)atomic_compare_exchange_strong(&libraries[library].handle, &none, handle);
        resolve_look_up(library, atomic_load(&libraries[library].handle));
    } else if (load) {
        atomic_store(&libraries[library].missing, true);
    }
    (void)dlerror();
}

/* Whether the library's functions are known. Looks them up if they are not, and loads the library if we may. */
static bool resolve_ready(enum hami_library library, const char *file, bool load) {
    if (atomic_load_explicit(&libraries[library].known, memory_order_acquire)) {
        return true;
    }
    if (!atomic_load_explicit(&libraries[library].looked_up, memory_order_acquire)) {
        resolve_ask_loader(library, file, load);
    }
    if (!atomic_load_explicit(&libraries[library].looked_up, memory_order_acquire)) {
        return false;
    }
    resolve_put_in_place(library);
    return true;
}

void *hami_driver_function_found(enum hami_hook hook) {
    enum hami_library library = hook < HAMI_CUDA_HOOKS ? HAMI_CUDA : HAMI_NVML;
    bool there = resolve_ready(library, NULL, true);
    return there ? atomic_load_explicit(&hami_driver_functions[hook], memory_order_acquire) : resolve_missing(library);
}

/* Does not try to load a missing library again. */
static void resolve_look_for(enum hami_library library) {
    if (!atomic_load(&libraries[library].missing)) {
        (void)resolve_ready(library, NULL, true);
    }
}

void *hami_named_function_found(struct hami_named *named, enum hami_library library) {
    resolve_look_for(library);
    return atomic_load_explicit(&named->function, memory_order_acquire);
}

void hami_nvml_load(void) {
    resolve_look_for(HAMI_NVML);
}

void *hami_wrapper_at(const void *address, enum hami_library library) {
    bool there = resolve_ready(library, NULL, false);
    for (unsigned i = first_hooks[library]; there && i < first_hooks[library + 1]; i++) {
        if (atomic_load_explicit(&hami_driver_functions[i], memory_order_relaxed) == address) {
            return hami_hooks[i].wrapper;
        }
    }
    return NULL;
}

/* The function of the driver in use, or NULL. glibc's handles are link maps. */
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
    if (asking != NULL && asking == atomic_load(&libraries[library].handle)) {
        return NULL;
    }
    enum hami_hook hook = hami_hook_named(name);
    return hook != HAMI_HOOKS ? hami_hooks[hook].wrapper : resolve_in_use(library, name);
}
