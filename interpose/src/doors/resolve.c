/*
 * From a hook to the driver's function and back. The addresses of a library's functions, hooked and named ones, are
 * looked up together, when the first of them is needed; by then the program has loaded the library. Threads that need
 * them at once all look them up and write the same: one that waited for another could hold the loader's lock, which the
 * other needs.
 *
 * A process has one driver in use per library, by default the one named libcuda.so.1. Any other library that exports a
 * driver's table is a further driver, whatever its file: a copy, or what a forwarding driver forwards to. A look-up in
 * a further driver gets the functions of the driver in use, since a context of one driver is nothing to another. Only a
 * driver that looks into another one, as a forwarding one does, gets what it asks for: our wrappers call it, and it
 * must not call them.
 */
#include "cuda_abi.h"
#include "doors/hook.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <string.h>

static const char *const sonames[HAMI_LIBRARIES] = {"libcuda.so.1", "libnvidia-ml.so.1"};
static const unsigned first_hooks[HAMI_LIBRARIES + 1] = {0, HAMI_CUDA_HOOKS, HAMI_HOOKS};

/* Every driver of the last ten years exports all of these; a library that wraps some functions does not. */
enum { TABLE_NAMES = 8 };
static const char *const table_names[HAMI_LIBRARIES][TABLE_NAMES] = {
    {"cuInit", "cuDriverGetVersion", "cuDeviceGetName", "cuMemAlloc_v2", "cuMemcpyDtoH_v2", "cuModuleGetFunction",
     "cuLaunchKernel", "cuEventRecord"},
    {"nvmlInit_v2", "nvmlShutdown", "nvmlErrorString", "nvmlSystemGetDriverVersion", "nvmlDeviceGetHandleByUUID",
     "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetName", "nvmlDeviceGetTemperature"},
};

static struct {
    _Atomic(void *) handle; /* of the driver in use */
    _Atomic bool looked_up; /* nobody need ask the loader any more */
    _Atomic bool known;     /* and what it said is where it is looked for */
    _Atomic bool missing;   /* it was to be loaded, and there is none */
} libraries[HAMI_LIBRARIES];

_Atomic(void *) hami_driver_functions[HAMI_HOOKS];
static _Atomic(void *) found[HAMI_HOOKS]; /* what goes there once all is found, named functions included */

/* The linker names the ends of a section after it. */
#define ENDS_OF(section)                                                                                               \
    extern struct hami_named __start_##section[] __attribute__((visibility("hidden")));                                \
    extern struct hami_named __stop_##section[] __attribute__((visibility("hidden")));
ENDS_OF(hami_cuda_names)
ENDS_OF(hami_nvml_names)

static int32_t missing_cuda(void) {
    return CUDA_ERROR_NOT_SUPPORTED;
}

static int32_t missing_nvml(void) {
    return NVML_ERROR_FUNCTION_NOT_FOUND;
}

static void *missing(enum hami_library library) {
    return library == HAMI_CUDA ? (void *)missing_cuda : (void *)missing_nvml;
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

static struct link_map *library_at(const void *address) {
    struct link_map *library = NULL;
    Dl_info symbol;
    return dladdr1(address, &symbol, (void **)&library, RTLD_DL_LINKMAP) != 0 ? library : NULL;
}

/* Whether a library is the program or preloaded before us: it calls our wrappers and is called by none. */
static bool is_before_us(const struct link_map *library) {
    const struct link_map *map = _r_debug.r_map;
    while (map != NULL && map != library && map->l_ld != _DYNAMIC) {
        map = map->l_next;
    }
    return map == library && map->l_ld != _DYNAMIC;
}

static bool is_driver(const struct link_map *library, enum hami_library kind) {
    bool all = library != NULL && !is_before_us(library);
    for (unsigned i = 0; all && i < TABLE_NAMES; i++) {
        all = hami_function_in(library, table_names[kind][i]) != NULL;
    }
    return all;
}

/*
 * Opens the driver to use: libcuda.so.1 if the program has it, else one that the program is linked with, else the file
 * given, which the program has opened, else libcuda.so.1 if it may be loaded.
 */
static void *open_driver(enum hami_library library, const char *file, bool load) {
    void *handle = dlopen(sonames[library], RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL) {
        const struct link_map *linked = library_at(hami_libc_dlsym()(RTLD_NEXT, table_names[library][0]));
        file = is_driver(linked, library) ? linked->l_name : file;
        handle = file == NULL ? NULL : dlopen(file, RTLD_LAZY | RTLD_NOLOAD);
    }
    return handle == NULL && load ? dlopen(sonames[library], RTLD_LAZY) : handle;
}

static void look_up_named(enum hami_library library, void *handle) {
    struct hami_named *end = library == HAMI_CUDA ? __stop_hami_cuda_names : __stop_hami_nvml_names;
    struct hami_named *at = library == HAMI_CUDA ? __start_hami_cuda_names : __start_hami_nvml_names;
    for (; at < end; at++) {
        atomic_store_explicit(&at->function, hami_libc_dlsym()(handle, at->name), memory_order_release);
    }
}

static void look_up(enum hami_library library, void *handle) {
    look_up_named(library, handle);
    for (unsigned i = first_hooks[library]; i < first_hooks[library + 1]; i++) {
        void *function = hami_libc_dlsym()(handle, hami_hooks[i].name);
        atomic_store_explicit(&found[i], function != NULL ? function : missing(library), memory_order_release);
    }
    atomic_store_explicit(&libraries[library].looked_up, true, memory_order_release);
}

/*
 * Not before all is found: whoever has one wrapped function may go on to where it waits for nobody's look-up. One who
 * is ahead of the thread that found them puts them there itself.
 */
static void put_in_place(enum hami_library library) {
    for (unsigned i = first_hooks[library]; i < first_hooks[library + 1]; i++) {
        void *function = atomic_load_explicit(&found[i], memory_order_relaxed);
        atomic_store_explicit(&hami_driver_functions[i], function, memory_order_release);
    }
    atomic_store_explicit(&libraries[library].known, true, memory_order_release);
}

/* By the loader, unless this thread is just loading the library. What the loader does not find is nobody's error. */
static void ask_loader(enum hami_library library, const char *file, bool load) {
    static _Thread_local bool asking;
    if (asking || hami_libc_dlsym() == NULL) {
        return;
    }
    asking = true;
    void *none = NULL, *handle = open_driver(library, file, load);
    asking = false;
    if (handle != NULL) {
        /* Threads that ask at once may open different drivers: the first decides. */
        (void)atomic_compare_exchange_strong(&libraries[library].handle, &none, handle);
        look_up(library, atomic_load(&libraries[library].handle));
    } else if (load) {
        atomic_store(&libraries[library].missing, true);
    }
    (void)dlerror();
}

/* True once the library's functions are known; false also to what runs while this thread loads it. */
static bool ready(enum hami_library library, const char *file, bool load) {
    if (atomic_load_explicit(&libraries[library].known, memory_order_acquire)) {
        return true;
    }
    if (!atomic_load_explicit(&libraries[library].looked_up, memory_order_acquire)) {
        ask_loader(library, file, load);
    }
    if (!atomic_load_explicit(&libraries[library].looked_up, memory_order_acquire)) {
        return false;
    }
    put_in_place(library);
    return true;
}

void *hami_driver_function_found(enum hami_hook hook) {
    enum hami_library library = hook < HAMI_CUDA_HOOKS ? HAMI_CUDA : HAMI_NVML;
    bool there = ready(library, NULL, true);
    return there ? atomic_load_explicit(&hami_driver_functions[hook], memory_order_acquire) : missing(library);
}

/* A library that could not be loaded comes, if at all, with a call of the program's. */
static void look_for(enum hami_library library) {
    if (!atomic_load(&libraries[library].missing)) {
        (void)ready(library, NULL, true);
    }
}

void *hami_named_function_found(struct hami_named *named, enum hami_library library) {
    look_for(library);
    return atomic_load_explicit(&named->function, memory_order_acquire);
}

void *hami_named_function_there(const struct hami_named *named) {
    return atomic_load_explicit(&named->function, memory_order_acquire);
}

void hami_nvml_load(void) {
    look_for(HAMI_NVML);
}

void *hami_wrapper_at(const void *address, enum hami_library library) {
    bool there = ready(library, NULL, false);
    for (unsigned i = first_hooks[library]; there && i < first_hooks[library + 1]; i++) {
        if (atomic_load_explicit(&hami_driver_functions[i], memory_order_relaxed) == address) {
            return hami_hooks[i].wrapper;
        }
    }
    return NULL;
}

/* What the driver in use, if there is one yet, has by that name. The C library's handles are its link maps. */
static void *in_use(enum hami_library library, const char *name) {
    void *handle = ready(library, NULL, false) ? atomic_load(&libraries[library].handle) : NULL;
    return handle == NULL ? NULL : hami_libc_dlsym()(handle, name);
}

void *hami_lookup_answer(const char *name, const void *found, const void *caller) {
    enum hami_library library = name[0] == 'c' ? HAMI_CUDA : HAMI_NVML;
    const struct link_map *holder = library_at(found), *asking = library_at(caller);
    if (found != in_use(library, name)) {
        if (!is_driver(holder, library) || is_driver(asking, library)) {
            return NULL;
        }
        (void)ready(library, holder->l_name, true);
    }
    if (asking != NULL && asking == atomic_load(&libraries[library].handle)) {
        return NULL;
    }
    enum hami_hook hook = hami_hook_named(name);
    return hook != HAMI_HOOKS ? hami_hooks[hook].wrapper : in_use(library, name);
}
