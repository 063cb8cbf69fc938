/* The table of wrapped functions and the way from a hook to the driver's own function. */
#ifndef HAMI_HOOK_H
#define HAMI_HOOK_H

#include "hami/compiler.h"
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

/* Same for a function that is not wrapped; NULL where the driver has none. */
void *hami_cuda_function_named(const char *name);
void *hami_nvml_function(const char *name);

/* The same in a program that has loaded the driver; elsewhere NULL, and nothing is loaded. */
void *hami_cuda_function_there(const char *name);

/* The same by a literal name, looked up once at each place. */
static inline void *hami_known_function(_Atomic(void *) *known, const char *name) {
    void *function = atomic_load_explicit(known, memory_order_acquire);
    if (!HAMI_LIKELY(function != NULL)) {
        function = hami_cuda_function_named(name);
        atomic_store_explicit(known, function, memory_order_release);
    }
    return function;
}

#define hami_cuda_function(name)                                                                                       \
    ({                                                                                                                 \
        static _Atomic(void *) hami_known;                                                                             \
        hami_known_function(&hami_known, name);                                                                        \
    })

/* Wrapper of the hooked function at this address of the driver, or NULL. Loads nothing. */
void *hami_wrapper_at(const void *address);

/* The C library's dlsym and dlvsym. */
typedef void *hami_dlsym_fn(void *handle, const char *name);
typedef void *hami_dlvsym_fn(void *handle, const char *name, const char *version);
hami_dlsym_fn *hami_libc_dlsym(void);
hami_dlvsym_fn *hami_libc_dlvsym(void);

#endif
