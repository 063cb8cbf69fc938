/*
 * What the generated wrappers (generated/hooks.c) call before and after the driver's function where spec/cuda.toml
 * names no policy. If a function named …_begin returns false, the wrapper answers CUDA_ERROR_OUT_OF_MEMORY and calls
 * neither the driver nor the function named …_end. allocation.h, records.h and graph.h have more such functions.
 */
#ifndef HAMI_AROUND_H
#define HAMI_AROUND_H

#include "doors/hook.h"
#include "memory/allocation.h"
#include "memory/context_reserve.h"
#include "memory/contexts.h"
#include "memory/sizes.h"
#include "memory/vmm.h"

/* The address or handle that the driver has written to `*pointer`; 0 if the program passed NULL. */
#define HAMI_WRITTEN(pointer) ((pointer) == NULL ? 0 : (uint64_t)(uintptr_t)*(pointer))

/*
 * Bytes that an array or mipmapped array takes (arrays.c). Sparse ones, and those with deferred mapping, take nothing
 * themselves. `hook` says what type of descriptor `wanted` points to. 0 if it is NULL: the driver will refuse the call.
 */
uint64_t hami_array_bytes(enum hami_hook hook, const void *wanted, uint32_t levels);

/*
 * A context that is being made (context_calls.c). From hami_making_begin to hami_making_end, which hami_green_made
 * calls for green contexts, the device is locked and the thread cannot be cancelled.
 */
struct hami_making {
    struct hami_context_device *on; /* NULL: limits are off, or there is no such device */
    CUdevice device;
    bool primary;    /* the context is the device's primary one; false if `on` is NULL */
    bool first;      /* this process has no other context on the device */
    int cancellable; /* the thread's cancellation state before, for pthread_setcancelstate(3) */
    void *green;     /* the green context; NULL: a context of another kind is made */
    struct hami_reserve reserve;
};
bool hami_making_begin(struct hami_making *m, CUdevice device, bool primary);
CUresult hami_making_end(struct hami_making *m, CUresult status, const CUcontext *context);
CUresult hami_green_made(struct hami_making *m, CUresult status, void *const *green);

/*
 * Memory that is being bound to a multicast object (vmm.c). hami_bind_begin locks hami_physical_busy until
 * hami_bind_end. If `handle` is 0, the memory is the one mapped at `address`.
 */
struct hami_bind {
    struct hami_physical *object;
    struct hami_use *binding; /* NULL: the object or the memory is not counted */
};
bool hami_bind_begin(struct hami_bind *bind, CUmemHandle object, CUmemHandle handle, CUdeviceptr address);
CUresult hami_bind_end(struct hami_bind *bind, CUresult status, uint64_t offset);

/* A call of the driver that may load code onto the current context's device (modules.c). */
struct hami_loading {
    struct hami_code_site *site; /* NULL: no context is current, or the limits do not name its device */
    struct hami_context context;
    int device; /* index in the limits */
};
struct hami_loading hami_loading_begin(void);

/* Charges `*code` for what was loaded. If that does not fit, unloads it by the driver's `unload` and refuses. */
CUresult hami_loading_end(struct hami_loading *loading, CUresult status, void *const *code, enum hami_hook unload);

/*
 * Charges the owner of `of`, a module or library, for what the driver has loaded. `ask` is the driver's function that
 * tells the owner; NULL: `of` is itself the owner. The code stays until the owner is unloaded, so the limit is not
 * checked. If the container is then over it, later requests are refused.
 */
typedef CUresult hami_code_owner(void **owner, void *of);
CUresult hami_loading_stays(struct hami_loading *loading, CUresult status, hami_code_owner *ask, void *of);

#endif
