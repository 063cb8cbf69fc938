/* The table of contexts (contexts.h). Look-ups take no lock; changes hold the lock `entering`. */
#include "memory/contexts.h"

#include "doors/calls.h"
#include "ledger/state.h"
#include "parts.h"
#include "threads.h"

#include <string.h>

struct hami_context_entry hami_contexts[HAMI_CONTEXTS];
struct hami_context_device hami_context_devices[HAMI_CONTEXT_DEVICES];
_Atomic unsigned hami_contexts_made;
_Atomic unsigned hami_contexts_ending;

static atomic_flag entering = ATOMIC_FLAG_INIT;
static _Atomic unsigned epoch = 1; /* changes when a handle may have become another context's */

static _Thread_local struct hami_context last; /* this thread's current context when it last asked the driver */
static _Thread_local unsigned last_epoch;

struct hami_context_device *hami_context_device_lock(CUdevice device) {
    hami_spin_lock_asleep(&hami_context_devices[device].busy);
    return &hami_context_devices[device];
}

unsigned hami_context_id(CUcontext handle) {
    for (unsigned i = 1; handle != NULL && i < HAMI_CONTEXTS; i++) {
        if (atomic_load_explicit(&hami_contexts[i].handle, memory_order_acquire) == handle) {
            return i;
        }
    }
    return HAMI_CONTEXT_UNKNOWN;
}

bool hami_context_is_view(unsigned id) {
    return atomic_load(&hami_contexts[id].handle) != NULL && atomic_load(&hami_contexts[id].owner) != id;
}

bool hami_context_is_stale(unsigned recorded, unsigned given) {
    return given != HAMI_CONTEXT_UNKNOWN && recorded != given && atomic_load(&hami_contexts[recorded].ending);
}

void hami_context_distrust(void) {
    (void)atomic_fetch_add(&epoch, 1);
}

/* ---- entering ---- */

/*
 * Fills an entry. A context that was found current in a thread, and whose creation we did not see, is a view if its
 * device has a primary context.
 */
static void context_note(unsigned id, CUdevice device, enum hami_context_origin origin) {
    bool met = origin == HAMI_CONTEXT_MET;
    unsigned primary = met ? hami_context_id(atomic_load(&hami_context_devices[device].primary)) : HAMI_CONTEXT_UNKNOWN;
    atomic_store(&hami_contexts[id].device, device);
    atomic_store(&hami_contexts[id].references, origin == HAMI_CONTEXT_MADE);
    atomic_store(&hami_contexts[id].owner, primary != HAMI_CONTEXT_UNKNOWN ? primary : id);
}

/* A handle that the driver never gives out. It keeps an entry in use while a thread is ending its context. */
static CUcontext context_placeholder(unsigned id) {
    return (CUcontext)(void *)&hami_contexts[id];
}

/*
 * The driver reuses handles. If entry `id` is of another device and a thread is still ending that entry's context, the
 * handle now belongs to a new context. Then the entry gets a placeholder as its handle, and the function returns
 * HAMI_CONTEXT_UNKNOWN, so that the new context gets another entry. Otherwise it returns `id`.
 */
static unsigned context_unless_stale(unsigned id, CUdevice device) {
    if (atomic_load(&hami_contexts[id].device) == device || !atomic_load(&hami_contexts[id].ending)) {
        return id;
    }
    atomic_store(&hami_contexts[id].handle, context_placeholder(id));
    hami_context_distrust();
    return HAMI_CONTEXT_UNKNOWN;
}

/* Adds a context to the table, or updates its entry; threads may do so at once. HAMI_CONTEXT_UNKNOWN: no room. */
unsigned hami_context_enter(CUcontext handle, CUdevice device, enum hami_context_origin origin) {
    if (device < 0 || device >= HAMI_CONTEXT_DEVICES) {
        return HAMI_CONTEXT_UNKNOWN;
    }
    HAMI_HOLD(&entering);
    unsigned id = context_unless_stale(hami_context_id(handle), device);
    bool known = id != HAMI_CONTEXT_UNKNOWN;
    for (unsigned i = 1; id == HAMI_CONTEXT_UNKNOWN && i < HAMI_CONTEXTS; i++) {
        id = atomic_load(&hami_contexts[i].handle) == NULL ? i : id;
    }
    bool as_it_was = known && origin == HAMI_CONTEXT_MET && atomic_load(&hami_contexts[id].device) == device;
    if (id != HAMI_CONTEXT_UNKNOWN && !as_it_was) {
        context_note(id, device, origin);
        atomic_store(&hami_contexts[id].handle, handle);
        (void)atomic_fetch_add(&epoch, known); /* a thread may remember another context by this handle */
    }
    return id;
}

/* ---- the current context ---- */

bool hami_context_current(struct hami_context *context) {
    CUcontext handle = NULL;
    CUdevice device = 0;
    if (hami_call_cuCtxGetCurrent(&handle) != CUDA_SUCCESS || handle == NULL) {
        return false;
    }
    unsigned now = atomic_load_explicit(&epoch, memory_order_acquire); /* read first, so that a later change is seen */
    if (last.handle != handle || last_epoch != now) {
        if (hami_call_cuCtxGetDevice(&device) != CUDA_SUCCESS) {
            return false;
        }
        unsigned id = hami_context_enter(handle, device, HAMI_CONTEXT_MET);
        last = (struct hami_context){handle, device, atomic_load(&hami_contexts[id].owner)};
        last_epoch = now;
    }
    *context = last;
    return true;
}

unsigned hami_context_current_id(void) {
    struct hami_context context;
    return hami_context_current(&context) ? context.id : HAMI_CONTEXT_UNKNOWN;
}

HAMI_HOT bool hami_context_assumed(struct hami_context *context) {
    bool same = last.handle != NULL && last_epoch == atomic_load_explicit(&epoch, memory_order_acquire);
    if (same && hami_context_only_one() && hami_state_known_limits()->device_count == 1) {
        *context = last;
        return true;
    }
    return hami_context_current(context);
}

/* ---- ends ---- */

bool hami_context_end_begin(unsigned id, CUcontext handle, const struct hami_context_device *on) {
    hami_spin_lock(&entering);
    bool same = atomic_load(&hami_contexts[id].handle) == handle &&
                &hami_context_devices[atomic_load(&hami_contexts[id].device)] == on;
    if (same) {
        atomic_store(&hami_contexts[id].ending, true);
    }
    hami_spin_unlock(&entering);
    if (same) {
        HAMI_TELL(context_ending, handle);
        (void)atomic_fetch_add(&hami_contexts_ending, 1);
    }
    return same;
}

void hami_context_forget(unsigned id) {
    hami_context_distrust();
    HAMI_TELL(context_ended, id);
    atomic_store(&hami_contexts[id].references, 0);
}

void hami_context_end_over(unsigned id, bool gone) {
    (void)atomic_fetch_sub(&hami_contexts_ending, 1);
    HAMI_HOLD(&entering);
    atomic_store(&hami_contexts[id].ending, false);
    if (gone || atomic_load(&hami_contexts[id].handle) == context_placeholder(id)) {
        atomic_store(&hami_contexts[id].handle, NULL);
    }
}

void hami_contexts_after_fork(void) {
    memset(hami_contexts, 0, sizeof hami_contexts);
    atomic_flag_clear(&entering);
    memset(&last, 0, sizeof last);
    atomic_store(&hami_contexts_made, 0);
    atomic_store(&hami_contexts_ending, 0);
    for (unsigned i = 0; i < HAMI_CONTEXT_DEVICES; i++) {
        atomic_flag_clear(&hami_context_devices[i].busy);
        hami_context_devices[i].contexts = 0;
        hami_context_devices[i].primary = NULL;
        hami_context_devices[i].reserve = (struct hami_charge){-1, 0};
    }
}
