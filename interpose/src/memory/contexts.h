/*
 * The CUDA contexts of this process: a table of handles, devices and ids. Everything that takes memory asks for the
 * current context; context_calls.c makes and ends them, with their device locked.
 *
 * A context id (1..255) names a context in records. The driver reuses handles, so a handle names a context only while
 * no other thread ends it; an id stays a context's until the end of it is complete.
 */
#ifndef HAMI_CONTEXTS_H
#define HAMI_CONTEXTS_H

#include "compiler.h"
#include "cuda_abi.h"
#include "memory/charge.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { HAMI_CONTEXTS = 256, HAMI_CONTEXT_DEVICES = 64 };
enum { HAMI_CONTEXT_UNKNOWN = 0 }; /* id of contexts beyond those that the table holds */

struct hami_context {
    CUcontext handle;
    CUdevice device;
    unsigned id; /* of a green context the primary one's, which what is made in it belongs to */
};

/* The calling thread's current context. False when it has none. */
HAMI_APART bool hami_context_current(struct hami_context *context);
unsigned hami_context_current_id(void);

/*
 * The current context, without a call of the driver where one device and one context were ever used. A thread without a
 * context may be given that one: the driver then refuses what the thread asks for.
 */
bool hami_context_assumed(struct hami_context *context);

/* Contexts since the process began; green ones count twice, since the primary one is then not the only one. */
extern _Atomic unsigned hami_contexts_made;

/* This process has made one context and no other, so that no thread can have another than that. */
static inline bool hami_context_only_one(void) {
    return atomic_load_explicit(&hami_contexts_made, memory_order_relaxed) == 1; /* no memory hangs on it */
}

/*
 * Contexts that end now. What the driver frees with a context it may give to other threads before we have dropped it.
 * An allocation that receives such an address drops the record there only if it is stale: another context's that ends.
 * In the same context the record stays: the call may fail, or take one of several references away.
 */
extern _Atomic unsigned hami_contexts_ending;
HAMI_COLD bool hami_context_is_stale(unsigned recorded, unsigned given);

static inline bool hami_contexts_are_ending(void) {
    return !HAMI_LIKELY(atomic_load_explicit(&hami_contexts_ending, memory_order_acquire) == 0);
}

/* ---- for context_calls.c ---- */

struct hami_context_entry {
    _Atomic(CUcontext) handle;
    _Atomic CUdevice device;
    _Atomic unsigned references; /* of contexts that this process created; 0: primary, or a view of it */
    _Atomic bool ending;         /* the driver is being asked to end it, with the device locked */
    _Atomic unsigned owner;      /* id of the context that memory made here belongs to: of a view the primary one */
};
extern struct hami_context_entry hami_contexts[HAMI_CONTEXTS]; /* entry 0 stays empty: HAMI_CONTEXT_UNKNOWN */

/* What this process has on one CUDA device. */
struct hami_context_device {
    atomic_flag busy;
    unsigned contexts;
    _Atomic(CUcontext) primary;
    struct hami_charge reserve; /* for all of its contexts there */
};
extern struct hami_context_device hami_context_devices[HAMI_CONTEXT_DEVICES];

/* One thread at a time makes or ends contexts of a device; a context takes the driver some 100 ms. */
struct hami_context_device *hami_context_device_lock(CUdevice device);
void hami_context_device_unlock(struct hami_context_device *on);

/* How we know of a context: the program made it; it is a primary one; or some thread had it. */
enum hami_context_origin { HAMI_CONTEXT_MADE, HAMI_CONTEXT_PRIMARY, HAMI_CONTEXT_MET };
unsigned hami_context_enter(CUcontext handle, CUdevice device, enum hami_context_origin origin);

unsigned hami_context_id(CUcontext handle);

/* A view shows the primary context by another handle, as green contexts do. */
bool hami_context_is_view(unsigned id);

/*
 * Around the driver's call that may end a context of a locked device; forget comes in between if it has ended.
 * hami_context_end_begin is false if the handle is another context's already.
 */
bool hami_context_end_begin(unsigned id, CUcontext handle, const struct hami_context_device *on);
void hami_context_forget(unsigned id);
void hami_context_end_over(unsigned id, bool gone);

/* Threads ask the driver again which context they have. */
void hami_context_distrust(void);

void hami_contexts_after_fork(void);

#endif
