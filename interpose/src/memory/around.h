/*
 * What the policies of generated/memory/around.c do before and after the driver's function: several functions of the
 * driver differ only in what else they are told (spec/cuda.toml). A begin that is false refuses: nothing is to end
 * then.
 */
#ifndef HAMI_AROUND_H
#define HAMI_AROUND_H

#include "doors/hook.h"
#include "memory/allocation.h"
#include "memory/context_reserve.h"
#include "memory/contexts.h"
#include "memory/physical.h"
#include "memory/sizes.h"

/* What the driver wrote for the program, which may have passed NULL. */
#define HAMI_WRITTEN(pointer) ((pointer) == NULL ? 0 : (uint64_t)(uintptr_t)*(pointer))

/*
 * Bytes that an array or mipmapped array takes (arrays.c); sparse and deferred ones take nothing by themselves. `hook`
 * tells which of four descriptors `wanted` is; NULL: the driver will refuse.
 */
uint64_t hami_array_bytes(enum hami_hook hook, const void *wanted, uint32_t levels);

/* A context about to be made (context_calls.c). Its device is locked, and the thread cannot be cancelled. */
struct hami_making {
    struct hami_context_device *on; /* NULL: limits are off, or there is no such device */
    CUdevice device;
    bool primary;
    bool first;      /* of this process on the device */
    int cancellable; /* what the thread was before */
    struct hami_reserve reserve;
};
bool hami_making_begin(struct hami_making *m, CUdevice device);
CUresult hami_making_end(struct hami_making *m, CUresult status, const CUcontext *context);

/* Memory, by its handle or else its address, that is being bound to a multicast object (multicast.c), with the lock. */
struct hami_bind {
    struct hami_physical *object, *memory;
    struct hami_binding *binding;
};
bool hami_bind_begin(struct hami_bind *bind, CUmemHandle object, CUmemHandle memory, CUdeviceptr address);
CUresult hami_bind_end(struct hami_bind *bind, CUresult status, uint64_t offset);

/* Code that may be about to come to the current context's device (modules.c). */
struct hami_loading {
    struct hami_code_site *site; /* NULL: this process is not counted there */
    struct hami_context context;
    unsigned device; /* in the limits */
    enum hami_hook unload;
};
bool hami_loading_begin(struct hami_loading *loading, enum hami_hook unload);
CUresult hami_loading_end(struct hami_loading *loading, CUresult status, void *const *code);

#endif
