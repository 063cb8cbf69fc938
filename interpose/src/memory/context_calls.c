/*
 * Policies that make and end contexts. The first context of this process on a device charges the reserve
 * (context_reserve.h), and the end of the last gives it back. Each policy holds the device's lock while the driver
 * works. A thread that was cancelled then would never unlock it, so the policies disable cancellation.
 */
#include "memory/around.h"

#include "ledger/state.h"
#include "memory/map.h"
#include "memory/memory.h"
#include "parts.h"
#include "policies.h"
#include "threads.h"

#include <string.h>

static struct hami_map greens; /* green context → number of its device + 1 */

/* ---- making ---- */

bool hami_making_begin(struct hami_making *m, CUdevice device, bool primary) {
    memset(m, 0, sizeof *m);
    m->cancellable = hami_cancel_disable();
    if (device < 0 || device >= HAMI_CONTEXT_DEVICES || hami_state_limits()->mode == HAMI_MODE_OFF) {
        return true;
    }
    m->device = device;
    m->primary = primary;
    hami_reserve_prepare(&m->reserve, device);
    m->on = hami_context_device_lock(device);
    m->first = m->on->contexts == 0;
    if (m->first && !hami_reserve_take(&m->reserve, &m->on->reserve)) {
        hami_spin_unlock(&m->on->busy);
        hami_cancel_restore(&m->cancellable);
        return false;
    }
    return true;
}

/*
 * Enters a context that the driver has made and charges the reserve that was measured. False: the reserve does not fit,
 * or `handle` is NULL. Then the caller ends the context before it gives the reserve back.
 */
static bool making_keep(struct hami_making *m, CUcontext handle) {
    if (handle == NULL || !hami_reserve_charge_measured(&m->reserve, &m->on->reserve)) {
        return false;
    }
    (void)hami_context_enter(handle, m->device, m->primary ? HAMI_CONTEXT_PRIMARY : HAMI_CONTEXT_MADE);
    m->on->contexts++;
    m->on->primary = m->primary ? handle : m->on->primary;
    return true;
}

static void making_undo(const struct hami_making *m, CUcontext handle) {
    if (m->green != NULL) {
        (void)hami_call_cuGreenCtxDestroy(m->green);
    } else if (m->primary) {
        (void)hami_call_cuDevicePrimaryCtxRelease_v2(m->device);
    } else {
        (void)hami_call_cuCtxDestroy_v2(handle);
    }
}

/* If the primary context existed before, the driver has only added a reference to it, which takes no memory. */
CUresult hami_making_end(struct hami_making *m, CUresult status, const CUcontext *context) {
    bool was_there = m->primary && m->on->primary != NULL;
    (void)atomic_fetch_add(&hami_contexts_made, status == CUDA_SUCCESS && !was_there);
    if (m->on != NULL) {
        if (status == CUDA_SUCCESS && !was_there && !making_keep(m, *context)) {
            making_undo(m, *context);
            status = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (status != CUDA_SUCCESS && m->first) {
            hami_reserve_give_back(&m->on->reserve);
        }
        hami_spin_unlock(&m->on->busy);
    }
    hami_cancel_restore(&m->cancellable);
    return status;
}

/* ---- ends ---- */

/* A context of a locked device has ended. If it was the last one, gives the reserve back. */
static void reserve_leave(struct hami_context_device *on) {
    if (on->contexts > 0 && --on->contexts == 0) {
        hami_reserve_give_back(&on->reserve);
    }
}

/* Finds the id of a context that is about to end, and locks its device. NULL: the context is not in the table. */
static struct hami_context_device *end_begin(CUcontext context, unsigned *id) {
    while ((*id = hami_context_id(context)) != HAMI_CONTEXT_UNKNOWN) {
        struct hami_context_device *on = hami_context_device_lock(atomic_load(&hami_contexts[*id].device));
        if (hami_context_end_begin(*id, context, on)) {
            return on;
        }
        hami_spin_unlock(&on->busy);
    }
    return NULL;
}

static CUresult end_created(CUresult (*driver)(CUcontext), CUcontext context) {
    unsigned id = HAMI_CONTEXT_UNKNOWN;
    HAMI_UNCANCELLED;
    struct hami_context_device *on = end_begin(context, &id);
    if (on == NULL) {
        HAMI_TELL(context_ending, context);
        return driver(context);
    }
    bool made_here = atomic_load(&hami_contexts[id].references) > 0;
    CUresult status = driver(context);
    if (status == CUDA_SUCCESS) {
        hami_context_forget(id);
        if (made_here) {
            reserve_leave(on);
        }
    }
    hami_context_end_over(id, status == CUDA_SUCCESS);
    hami_spin_unlock(&on->busy);
    return status;
}

int32_t hami_ctx_destroy(enum hami_hook hook, CUcontext context) {
    return end_created(hami_driver_function(hook), context);
}

int32_t hami_ctx_attach(enum hami_hook hook, CUcontext *context, uint32_t flags) {
    CUresult status = hami_call_ctx_attach(hook, context, flags);
    unsigned id = status == CUDA_SUCCESS && context != NULL ? hami_context_id(*context) : HAMI_CONTEXT_UNKNOWN;
    if (id != HAMI_CONTEXT_UNKNOWN && atomic_load(&hami_contexts[id].references) > 0) {
        (void)atomic_fetch_add(&hami_contexts[id].references, 1);
    }
    return status;
}

int32_t hami_ctx_detach(enum hami_hook hook, CUcontext context) {
    unsigned id = hami_context_id(context);
    unsigned references = atomic_load(&hami_contexts[id].references); /* 0 if the context is not in the table */
    while (references > 1) {
        if (atomic_compare_exchange_weak(&hami_contexts[id].references, &references, references - 1)) {
            CUresult status = hami_call_ctx_detach(hook, context);
            if (status != CUDA_SUCCESS) {
                (void)atomic_fetch_add(&hami_contexts[id].references, 1);
            }
            return status;
        }
    }
    return references == 1 ? end_created(hami_driver_function(hook), context) : hami_call_ctx_detach(hook, context);
}

/* ---- ends of primary contexts ---- */

/* Whether an entry ends with the primary context of a locked device: the context itself, or a view of it. */
static bool primary_has(unsigned id, const struct hami_context_device *on) {
    return on->primary != NULL && atomic_load(&hami_contexts[id].handle) != NULL &&
           atomic_load(&hami_contexts[id].references) == 0 &&
           &hami_context_devices[atomic_load(&hami_contexts[id].device)] == on;
}

/* Marks the primary context and its views as ending: the driver may be about to take the last reference away. */
static void primary_end_begin(const struct hami_context_device *on) {
    CUcontext primary = atomic_load(&on->primary);
    if (primary != NULL && hami_context_id(primary) == HAMI_CONTEXT_UNKNOWN) {
        HAMI_TELL(context_ending, primary);
    }
    for (unsigned i = 1; i < HAMI_CONTEXTS; i++) {
        if (primary_has(i, on) && !atomic_load(&hami_contexts[i].ending)) {
            (void)hami_context_end_begin(i, atomic_load(&hami_contexts[i].handle), on);
        }
    }
}

static bool primary_is_active(CUdevice device) {
    unsigned flags = 0;
    int active = 1;
    return hami_call_cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active != 0;
}

static void primary_end_over(struct hami_context_device *on, CUdevice device) {
    bool gone = on->primary != NULL && !primary_is_active(device);
    if (gone) { /* marks views that threads have entered since */
        primary_end_begin(on);
    }
    for (unsigned i = 1; i < HAMI_CONTEXTS; i++) {
        if (!primary_has(i, on) || !atomic_load(&hami_contexts[i].ending)) {
            continue;
        }
        if (gone) {
            hami_context_forget(i);
        }
        hami_context_end_over(i, gone);
    }
    if (gone) {
        on->primary = NULL;
        hami_context_distrust();
        reserve_leave(on);
    }
}

int32_t hami_primary_release(enum hami_hook hook, int32_t device) {
    if (device < 0 || device >= HAMI_CONTEXT_DEVICES) {
        return hami_call_primary_release(hook, device);
    }
    HAMI_UNCANCELLED;
    struct hami_context_device *on = hami_context_device_lock(device);
    primary_end_begin(on);
    CUresult status = hami_call_primary_release(hook, device);
    primary_end_over(on, device);
    hami_spin_unlock(&on->busy);
    return status;
}

/* ---- green contexts ---- */

/*
 * A green context holds a reference to its device's primary context. Its memory belongs to the primary context, and the
 * primary context's reserve covers it.
 */

/* The handle of a device's existing primary context. The driver tells it only to a caller that retains the context. */
static CUcontext green_primary(CUdevice device) {
    CUcontext primary = NULL;
    if (hami_call_cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS) {
        (void)hami_call_cuDevicePrimaryCtxRelease_v2(device);
    }
    return primary;
}

/* Remembers the device of a green context, since the driver does not tell it. `device_and_one` 0: it is not known. */
static void green_note(const void *green, uint64_t device_and_one) {
    if (green != NULL && device_and_one != 0) {
        (void)hami_map_put(&greens, hami_map_key(green), device_and_one);
    }
}

/* The id of a green context's view, or HAMI_CONTEXT_UNKNOWN if the green context was never current in a thread. */
static unsigned green_view(void *green) {
    CUcontext handle = NULL;
    bool any = false;
    for (unsigned i = 1; i < HAMI_CONTEXTS && !any; i++) {
        any = hami_context_is_view(i);
    }
    bool told = any && hami_call_cuCtxFromGreenCtx(&handle, green) == CUDA_SUCCESS;
    return told ? hami_context_id(handle) : HAMI_CONTEXT_UNKNOWN;
}

CUresult hami_green_made(struct hami_making *m, CUresult status, void *const *green) {
    CUcontext primary = NULL;
    bool counted = status == CUDA_SUCCESS && m->on != NULL;
    (void)atomic_fetch_add(&hami_contexts_made, 2);
    if (counted) {
        m->green = *green;
        primary = green_primary(m->device);
    }
    status = hami_making_end(m, status, &primary);
    if (counted && status == CUDA_SUCCESS) {
        green_note(m->green, (uint64_t)m->device + 1);
    }
    return status;
}

/* If the green context's device is not known, any primary context may end: the policy checks those of all devices. */
int32_t hami_green_destroy(enum hami_hook hook, void *green) {
    uint64_t on = green == NULL ? 0 : hami_map_take(&greens, hami_map_key(green));
    unsigned view = green == NULL ? HAMI_CONTEXT_UNKNOWN : green_view(green);
    bool locked[HAMI_CONTEXT_DEVICES] = {false};
    HAMI_UNCANCELLED;
    for (CUdevice device = 0; device < HAMI_CONTEXT_DEVICES; device++) {
        locked[device] = hami_context_devices[device].primary != NULL && (on == 0 || on == (uint64_t)device + 1);
        if (locked[device]) {
            primary_end_begin(hami_context_device_lock(device));
        }
    }
    CUresult status = hami_call_green_destroy(hook, green);
    if (status == CUDA_SUCCESS && hami_context_is_view(view) && atomic_load(&hami_contexts[view].ending)) {
        hami_context_distrust();
        hami_context_end_over(view, true);
    } else if (status != CUDA_SUCCESS) {
        green_note(green, on);
    }
    for (CUdevice device = 0; device < HAMI_CONTEXT_DEVICES; device++) {
        if (locked[device]) {
            primary_end_over(&hami_context_devices[device], device);
            hami_spin_unlock(&hami_context_devices[device].busy);
        }
    }
    return status;
}

void hami_context_calls_after_fork(void) {
    hami_map_reset(&greens);
}
