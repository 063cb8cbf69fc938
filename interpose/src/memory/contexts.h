/*
 * The CUDA contexts of this process: a table of handles, devices and ids. Policies that take memory ask for the current
 * context. context_calls.c makes and ends contexts, with their device locked.
 *
 * Records name a context by its id (1..255). The driver reuses the handle of a context as soon as the context has
 * ended. The id is used again only after context_calls.c has given back all that belonged to the context.
 */
#ifndef HAMI_CONTEXTS_H
#define HAMI_CONTEXTS_H

#include "compiler.h"
#include "cuda_abi.h"
#include "memory/charge.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { HAMI_CONTEXTS = 256, HAMI_CONTEXT_DEVICES = 64 };
enum { HAMI_CONTEXT_UNKNOWN = 0 }; /* the id if there is no context, or no room for it in the table */

struct hami_context {
    CUcontext handle;
    CUdevice device;
    unsigned id; /* of the context that owns its memory: for a green context, the primary context */
};

/* The calling thread's current context. False: the thread has none. */
HAMI_APART bool hami_context_current(struct hami_context *context);
unsigned hami_context_current_id(void);

/*
 * Does what hami_context_current does. If the limits name one device and this process has made one context, it returns
 * the driver's last answer to this thread and does not ask again. If the thread has no current context any more, the
 * driver refuses the request that follows.
 */
bool hami_context_assumed(struct hami_context *context);

/* Contexts made since the process began. A green context adds at least 2: its primary context exists as well. */
extern _Atomic unsigned hami_contexts_made;

/* True if this process has made exactly one context. Then every thread that has a context has that one. */
static inline bool hami_context_only_one(void) {
    return atomic_load_explicit(&hami_contexts_made, memory_order_relaxed) == 1; /* no other data depends on it */
}

/*
 * Number of contexts that threads are asking the driver to end. While the driver frees the memory of such a context, it
 * may give an address in it to another thread, whose allocation then finds the old record at that address. The
 * allocation drops the record only if it is stale: the record's context (`recorded`) is ending and is not the context
 * of the allocation (`given`). Records of its own context stay even if that is marked as ending: the driver may refuse
 * to end it, or may take away only one of several references to it.
 */
extern _Atomic unsigned hami_contexts_ending;
HAMI_COLD bool hami_context_is_stale(unsigned recorded, unsigned given);

static inline bool hami_contexts_are_ending(void) {
    return !HAMI_LIKELY(atomic_load_explicit(&hami_contexts_ending, memory_order_acquire) == 0);
}

/* ---- only for contexts.c and context_calls.c ---- */

struct hami_context_entry {
    _Atomic(CUcontext) handle;
    _Atomic CUdevice device;
    _Atomic unsigned references; /* by cuCtxCreate and cuCtxAttach; 0: it is a primary context, or a view of one */
    _Atomic bool ending;         /* a thread is asking the driver to end it, and holds the device's lock */
    _Atomic unsigned owner; /* id of the context that owns its memory: of a view the primary context, else itself */
};
extern struct hami_context_entry hami_contexts[HAMI_CONTEXTS]; /* by id; entry 0, HAMI_CONTEXT_UNKNOWN, is unused */

/* This process's contexts on one CUDA device. */
struct hami_context_device {
    atomic_flag busy;
    unsigned contexts;          /* their number; green contexts and views do not count */
    _Atomic(CUcontext) primary; /* the primary context; NULL: this process has not retained it */
    struct hami_charge reserve; /* one charge for all of them together (context_reserve.h) */
};
extern struct hami_context_device hami_context_devices[HAMI_CONTEXT_DEVICES];

/* Locks a device to make or end a context. Threads that wait sleep: the driver takes about 100 ms for a context. */
struct hami_context_device *hami_context_device_lock(CUdevice device);

/* How we know of a context: the program created it; it is a primary one; or we found it current in some thread. */
enum hami_context_origin { HAMI_CONTEXT_MADE, HAMI_CONTEXT_PRIMARY, HAMI_CONTEXT_MET };
unsigned hami_context_enter(CUcontext handle, CUdevice device, enum hami_context_origin origin);

unsigned hami_context_id(CUcontext handle);

/* A view is another handle of the primary context, such as cuCtxFromGreenCtx returns. */
bool hami_context_is_view(unsigned id);

/*
 * A policy whose driver call may end a context locks the device, and calls hami_context_end_begin before the driver and
 * hami_context_end_over after it. If the context has ended (`gone`), the policy first calls hami_context_forget, which
 * gives back what belonged to the context. hami_context_end_begin marks nothing and returns false if
 * `handle` no longer belongs to entry `id` on the locked device `on`.
 */
bool hami_context_end_begin(unsigned id, CUcontext handle, const struct hami_context_device *on);
void hami_context_forget(unsigned id);
void hami_context_end_over(unsigned id, bool gone);

/* Makes every thread ask the driver anew which context it has. */
void hami_context_distrust(void);

void hami_contexts_after_fork(void);

#endif
