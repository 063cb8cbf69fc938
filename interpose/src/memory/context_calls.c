/*
 * Policies of contexts: making and ending them. The first context of this process on a device is charged its reserve;
 * the reserve goes back with the last. Each policy holds the lock of the device while the driver works, so a thread
 * must not be cancelled meanwhile (HAMI_UNCANCELLED).
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

/* Locks the device and reserves. */
static bool making_begin(struct hami_making *m, CUdevice device, bool primary) {
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
        hami_context_device_unlock(m->on);
        hami_cancel_restore(&m->cancellable);
        return false;
    }
    return true;
}

bool hami_making_begin(struct hami_making *m, CUdevice device) {
    return making_begin(m, device, false);
}

/* Afterwards, whatever has come of it. */
static CUresult making_over(const struct hami_making *m, CUresult status) {
    if (m->on != NULL) {
        hami_context_device_unlock(m->on);
    }
    hami_cancel_restore(&m->cancellable);
    return status;
}

static CUresult making_cancel(const struct hami_making *m, CUresult status) {
    if (m->on != NULL && m->first) {
        hami_reserve_give_back(&m->on->reserve);
    }
    return making_over(m, status);
}

/*
 * False: it does not fit, or there is none. The caller must end the context and then cancel: the context has its
 * reserve until it has ended.
 */
static bool making_keep(struct hami_making *m, CUcontext handle) {
    (void)atomic_fetch_add(&hami_contexts_made, 1);
    if (m->on == NULL) {
        return true;
    }
    if (handle == NULL || !hami_reserve_charge_measured(&m->reserve, &m->on->reserve)) {
        return false;
    }
    (void)hami_context_enter(handle, m->device, m->primary ? HAMI_CONTEXT_PRIMARY : HAMI_CONTEXT_MADE);
    m->on->contexts++;
    m->on->primary = m->primary ? handle : m->on->primary;
    return true;
}

/* The driver took one more reference to a primary context that is there: nothing more is taken. */
static bool making_was_there(const struct hami_making *m) {
    return m->primary && m->on->primary != NULL;
}

CUresult hami_making_end(struct hami_making *m, CUresult status, const CUcontext *context) {
    if (status != CUDA_SUCCESS) {
        return making_cancel(m, status);
    }
    if (making_keep(m, *context)) {
        return making_over(m, CUDA_SUCCESS);
    }
    (void)(m->primary ? hami_call_cuDevicePrimaryCtxRelease_v2(m->device) : hami_call_cuCtxDestroy_v2(*context));
    return making_cancel(m, CUDA_ERROR_OUT_OF_MEMORY);
}

int32_t hami_primary_retain(enum hami_hook hook, CUcontext *context, int32_t device) {
    struct hami_making m;
    if (context == NULL) {
        return hami_call_primary_retain(hook, context, device);
    }
    if (!making_begin(&m, device, true)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_primary_retain(hook, context, device);
    return making_was_there(&m) ? making_over(&m, status) : hami_making_end(&m, status, context);
}

/* ---- ends ---- */

/* The reserve goes with the last context of the device. */
static void reserve_leave(struct hami_context_device *on) {
    if (on->contexts > 0 && --on->contexts == 0) {
        hami_reserve_give_back(&on->reserve);
    }
}

/* Locks the device of a context that is about to end, and finds its id. NULL: it is not known. */
static struct hami_context_device *end_begin(CUcontext context, unsigned *id) {
    while ((*id = hami_context_id(context)) != HAMI_CONTEXT_UNKNOWN) {
        struct hami_context_device *on = hami_context_device_lock(atomic_load(&hami_contexts[*id].device));
        if (hami_context_end_begin(*id, context, on)) {
            return on;
        }
        hami_context_device_unlock(on);
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
    hami_context_device_unlock(on);
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
    unsigned references = atomic_load(&hami_contexts[id].references); /* 0 of one that is not known */
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

/* Whether an entry is the primary context of a locked device or a view of it, which ends with it. */
static bool primary_has(unsigned id, const struct hami_context_device *on) {
    return on->primary != NULL && atomic_load(&hami_contexts[id].handle) != NULL &&
           atomic_load(&hami_contexts[id].references) == 0 &&
           &hami_context_devices[atomic_load(&hami_contexts[id].device)] == on;
}

/* The driver is about to take a reference away, which may be the last. */
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
    if (gone) { /* views may have been met since */
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
    hami_context_device_unlock(on);
    return status;
}

int32_t hami_primary_reset(enum hami_hook hook, int32_t device) {
    return hami_primary_release(hook, device);
}

/* ---- green contexts: each holds the primary context, with its reserve, and its memory lies there ---- */

/* The primary context, which is there: a reference taken and given back at once. */
static CUcontext green_primary(CUdevice device) {
    CUcontext primary = NULL;
    if (hami_call_cuDevicePrimaryCtxRetain(&primary, device) == CUDA_SUCCESS) {
        (void)hami_call_cuDevicePrimaryCtxRelease_v2(device);
    }
    return primary;
}

/* The driver does not tell the device of a green context. `device_and_one` 0: we do not know it either. */
static void green_note(const void *green, uint64_t device_and_one) {
    if (green != NULL && device_and_one != 0) {
        (void)hami_map_put(&greens, hami_map_key(green), device_and_one);
    }
}

/* Id of the view that stands for a green context, if any thread has had it. */
static unsigned green_view(void *green) {
    CUcontext handle = NULL;
    bool any = false;
    for (unsigned i = 1; i < HAMI_CONTEXTS && !any; i++) {
        any = hami_context_is_view(i);
    }
    bool told = any && hami_call_cuCtxFromGreenCtx(&handle, green) == CUDA_SUCCESS;
    return told ? hami_context_id(handle) : HAMI_CONTEXT_UNKNOWN;
}

int32_t hami_green_create(enum hami_hook hook, void **green, void *resources, int32_t device, uint32_t flags) {
    struct hami_making m;
    if (green == NULL) {
        return hami_call_green_create(hook, green, resources, device, flags);
    }
    if (!making_begin(&m, device, true)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_green_create(hook, green, resources, device, flags);
    (void)atomic_fetch_add(&hami_contexts_made, 2);
    if (status == CUDA_SUCCESS && m.on != NULL) {
        green_note(*green, (uint64_t)device + 1);
    }
    if (making_was_there(&m)) {
        return making_over(&m, status);
    }
    if (status != CUDA_SUCCESS) {
        return making_cancel(&m, status);
    }
    if (making_keep(&m, green_primary(device))) {
        return making_over(&m, CUDA_SUCCESS);
    }
    (void)hami_map_take(&greens, hami_map_key(*green));
    (void)hami_call_cuGreenCtxDestroy(*green);
    return making_cancel(&m, CUDA_ERROR_OUT_OF_MEMORY);
}

/* Where the device is not known, every primary context is looked at, to see which of them has ended. */
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
            hami_context_device_unlock(&hami_context_devices[device]);
        }
    }
    return status;
}

void hami_context_calls_after_fork(void) {
    hami_map_reset(&greens);
}
