/*
 * The table of the driver's functions that we wrap, and the driver's own functions. A hook is the number of a wrapped
 * function. Every room calls these functions.
 */
#ifndef HAMI_HOOK_H
#define HAMI_HOOK_H

#include "compiler.h"
#include "hooks.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAMI_EXPORT __attribute__((visibility("default")))

struct hami_hook_entry {
    const char *name;
    const char *base; /* name to ask cuGetProcAddress for: "cuMemAlloc" for cuMemAlloc_v2 */
    void *wrapper;
    int since;       /* first CUDA version that has this variant; 0: unknown */
    bool per_thread; /* a variant for the per-thread default stream */
};

/* Indexed by enum hami_hook: first the CUDA functions, then those of NVML, each in the order of their names. */
extern const struct hami_hook_entry hami_hooks[HAMI_HOOKS];

/* Number of the wrapped function with exactly this name, or HAMI_HOOKS. */
enum hami_hook hami_hook_named(const char *name);

/* The driver's own functions by hook. NULL until the functions of the library have been looked up. */
extern _Atomic(void *) hami_driver_functions[HAMI_HOOKS];
HAMI_COLD void *hami_driver_function_found(enum hami_hook hook);

/*
 * The driver's own function of a hook. If the driver lacks it, returns a function that answers CUDA_ERROR_NOT_SUPPORTED
 * or NVML_ERROR_FUNCTION_NOT_FOUND. Never NULL.
 */
static inline void *hami_driver_function(enum hami_hook hook) {
    void *function = atomic_load_explicit(&hami_driver_functions[hook], memory_order_acquire);
    return HAMI_LIKELY(function != NULL) ? function : hami_driver_function_found(hook);
}

enum hami_library { HAMI_CUDA, HAMI_NVML, HAMI_LIBRARIES };

/*
 * A driver's function that we call and do not wrap. Each place that calls one has such a record in a section of the
 * library. All records of a library are filled before hami_driver_functions has any function of it. So a thread that
 * has called one function of the library gets the others without the loader, even while it holds a lock. To ask the
 * loader then could deadlock: another thread may hold the loader's lock and wait for ours.
 */
struct hami_named {
    _Alignas(16) const char *name; /* aligned, so that the records of a section lie like an array */
    _Atomic(void *) function;      /* NULL: not looked up yet, or the driver lacks it */
};

HAMI_COLD void *hami_named_function_found(struct hami_named *named, enum hami_library library);

/* Loads a library and looks its functions up, unless that was tried before. Call this before you take a lock. */
HAMI_COLD void hami_driver_load(enum hami_library library);

static inline void *hami_named_function(struct hami_named *named, enum hami_library library) {
    void *function = atomic_load_explicit(&named->function, memory_order_acquire);
    return HAMI_LIKELY(function != NULL) ? function : hami_named_function_found(named, library);
}

#define HAMI_NAMED(kept_in, literal, answer)                                                                           \
    ({                                                                                                                 \
        static struct hami_named hami_named_here __attribute__((section(kept_in), used)) = {literal, NULL};            \
        answer;                                                                                                        \
    })

/* The driver's function with this name, which must be a literal; NULL if the driver lacks it. */
#define hami_cuda_function(literal)                                                                                    \
    HAMI_NAMED("hami_cuda_names", literal, hami_named_function(&hami_named_here, HAMI_CUDA))
#define hami_nvml_function(literal)                                                                                    \
    HAMI_NAMED("hami_nvml_names", literal, hami_named_function(&hami_named_here, HAMI_NVML))

/* The driver's function with this name; NULL if the driver lacks it or is not yet in use. Never loads the driver. */
#define hami_cuda_function_there(literal)                                                                              \
    HAMI_NAMED("hami_cuda_names", literal, atomic_load_explicit(&hami_named_here.function, memory_order_acquire))

/* Our wrapper of the CUDA driver's function at this address; NULL if we wrap none there, or no driver is loaded. */
void *hami_cuda_wrapper_at(const void *address);

/*
 * The answer of dlsym to the code at `caller`, which asks for `name`; the C library's answer is `found`. If that is a
 * driver's function, returns our wrapper of it, or else the function of the driver in use. NULL: dlsym answers `found`.
 */
void *hami_lookup_answer(const char *name, const void *found, const void *caller);

struct link_map;

/* The function (not a variable) that a loaded library exports by this name, or NULL. Takes no lock of the loader. */
void *hami_function_in(const struct link_map *library, const char *name);

typedef void *hami_dlsym_fn(void *handle, const char *name);
typedef void *hami_dlvsym_fn(void *handle, const char *name, const char *version);

/* The C library's own dlsym and dlvsym, which ours hide. */
hami_dlsym_fn *hami_libc_dlsym(void);
hami_dlvsym_fn *hami_libc_dlvsym(void);

#endif
