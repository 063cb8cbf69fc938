/*
 * The table of wrapped functions, and the driver's own functions behind them. A hook is a wrapped function's number.
 * Every room calls these.
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
    const char *base; /* what programs ask cuGetProcAddress for */
    void *wrapper;
    int since;       /* first CUDA version of this variant, 0 = unknown */
    bool per_thread; /* works on the per-thread default stream */
};

/* Indexed by enum hami_hook; each library's part is in the order of the names. */
extern const struct hami_hook_entry hami_hooks[HAMI_HOOKS];

/* Hook of that exact name, or HAMI_HOOKS. */
enum hami_hook hami_hook_named(const char *name);

/* The driver's own functions, once looked up; see hami_driver_function. */
extern _Atomic(void *) hami_driver_functions[HAMI_HOOKS];
HAMI_COLD void *hami_driver_function_found(enum hami_hook hook);

/*
 * The driver's own function. Never NULL: where the driver has none, a function that answers
 * CUDA_ERROR_NOT_SUPPORTED or NVML_ERROR_FUNCTION_NOT_FOUND.
 */
static inline void *hami_driver_function(enum hami_hook hook) {
    void *function = atomic_load_explicit(&hami_driver_functions[hook], memory_order_acquire);
    return HAMI_LIKELY(function != NULL) ? function : hami_driver_function_found(hook);
}

enum hami_library { HAMI_CUDA, HAMI_NVML, HAMI_LIBRARIES };

/*
 * Driver functions that we call and do not wrap, by a literal name; NULL where the driver has none. Each place that
 * calls one has a record in a section of the library. All records are filled before any wrapped function is known, so
 * no place asks the loader while it holds a lock: another thread may hold the loader's lock and wait for ours. NVML may
 * have to be loaded first; hami_nvml_load does that before a lock is taken.
 */
struct hami_named {
    _Alignas(16) const char *name;
    _Atomic(void *) function;
};

HAMI_COLD void *hami_named_function_found(struct hami_named *named, enum hami_library library);
HAMI_COLD void hami_nvml_load(void);

static inline void *hami_named_function(struct hami_named *named, enum hami_library library) {
    void *function = atomic_load_explicit(&named->function, memory_order_acquire);
    return HAMI_LIKELY(function != NULL) ? function : hami_named_function_found(named, library);
}

#define HAMI_NAMED(kept_in, literal, answer)                                                                           \
    ({                                                                                                                 \
        static struct hami_named hami_named_here __attribute__((section(kept_in), used)) = {literal, NULL};            \
        answer;                                                                                                        \
    })

#define hami_cuda_function(literal)                                                                                    \
    HAMI_NAMED("hami_cuda_names", literal, hami_named_function(&hami_named_here, HAMI_CUDA))
#define hami_nvml_function(literal)                                                                                    \
    HAMI_NAMED("hami_nvml_names", literal, hami_named_function(&hami_named_here, HAMI_NVML))

/* Does not load the driver: NULL in a program that has not called it. */
#define hami_cuda_function_there(literal)                                                                              \
    HAMI_NAMED("hami_cuda_names", literal, atomic_load_explicit(&hami_named_here.function, memory_order_acquire))

/* Wrapper of the library's hooked function at this address, or NULL. Loads nothing. */
void *hami_wrapper_at(const void *address, enum hami_library library);

/*
 * What dlsym answers the code at `caller` for `name`, if the C library found `found`: the wrapper of a driver's
 * function, or the function of the driver in use if `found` is a further driver's. NULL: `found` stands.
 */
void *hami_lookup_answer(const char *name, const void *found, const void *caller);

/* The function, not variable, that this library exports by that name, or NULL. Asks no loader and takes no lock. */
struct link_map;
void *hami_function_in(const struct link_map *library, const char *name);

/* The C library's dlsym and dlvsym. */
typedef void *hami_dlsym_fn(void *handle, const char *name);
typedef void *hami_dlvsym_fn(void *handle, const char *name, const char *version);
hami_dlsym_fn *hami_libc_dlsym(void);
hami_dlvsym_fn *hami_libc_dlvsym(void);

#endif
