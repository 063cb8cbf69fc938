/*
 * For policies that differ only in arguments. gen/emit.py writes them to generated/memory/around.c, as spec/cuda.toml
 * says with `around`: begin, the driver's function, end. If begin returns false the call answers
 * CUDA_ERROR_OUT_OF_MEMORY, and neither of the others is called. allocation.h has one more pair.
 */
#ifndef HAMI_AROUND_H
#define HAMI_AROUND_H

#include "doors/hook.h"
#include "memory/allocation.h"
#include "memory/context_reserve.h"
#include "memory/contexts.h"
#include "memory/physical.h"
#include "memory/sizes.h"

/* The address or handle that the driver wrote to a pointer of the program's; 0 if that is NULL. */
#define HAMI_WRITTEN(pointer) ((pointer) == NULL ? 0 : (uint64_t)(uintptr_t)*(pointer))

/*
 * Bytes that an array or mipmapped array takes (arrays.c). Sparse and deferred ones take nothing themselves. `hook`
 * says which type of descriptor `wanted` is. NULL takes nothing: the driver will refuse it.
 */
uint64_t hami_array_bytes(enum hami_hook hook, const void *wanted, uint32_t levels);

/* Making a context (context_calls.c). Its device is locked and the thread cannot be cancelled meanwhile. */
struct hami_making {
    struct hami_context_device *on; /* NULL: limits are off, or there is no such device */
    CUdevice device;
    bool primary;
    bool first;      /* this process has no other context on the device */
    int cancellable; /* the thread's state before, for pthread_setcancelstate(3) */
    struct hami_reserve reserve;
};
bool hami_making_begin(struct hami_making *m, CUdevice device);
CUresult hami_making_end(struct hami_making *m, CUresult status, const CUcontext *context);

/* Binding memory to a multicast object (multicast.c), with the lock. A `handle` of 0: it is known by its address. */
struct hami_bind {
    struct hami_physical *object;
    struct hami_use *binding; /* NULL: the object or the memory is not counted */
};
bool hami_bind_begin(struct hami_bind *bind, CUmemHandle object, CUmemHandle handle, CUdeviceptr address);
CUresult hami_bind_end(struct hami_bind *bind, CUresult status, uint64_t offset);

/* A call that may load code onto the current context's device (modules.c). */
struct hami_loading {
    struct hami_code_site *site; /* NULL: this process is not counted there */
    struct hami_context context;
    unsigned device; /* in the limits */
    enum hami_hook unload;
};
bool hami_loading_begin(struct hami_loading *loading, enum hami_hook unload);
CUresult hami_loading_end(struct hami_loading *loading, CUresult status, void *const *code);

#endif
