/*
 * Policies of cuCheckpointProcess...: the memory of a suspended process leaves the sums of the container, and must fit
 * under the limit again before the process comes back. abi.h has the states of a slot.
 *
 * Any process may suspend or resume another one or itself. It takes the suspend lock of that process's slot, sets the
 * slot to MOVING and calls the driver. Afterwards it sets the slot to the state that the driver reports, whether the
 * call failed or not. If it dies in between, its lock ends, and the next process that finds the slot MOVING asks the
 * driver. A slot that is MOVING is summed: memory counts until its process has left the device, and before it returns.
 */
#include "memory/memory.h"

#include "doors/hook.h"
#include "ledger/process.h"
#include "ledger/state.h"
#include "memory/charge.h"
#include "policies.h"
#include "threads.h"

#include <string.h>

/* Longest wait for a suspend lock. Its holder waits for the driver, which copies all memory of a process. */
enum { PATIENCE_MS = 60000 };

static atomic_flag suspending = ATOMIC_FLAG_INIT; /* keeps other threads of this process out of the suspend lock */

/* A process that this one suspends, resumes or asks the driver about; perhaps this process itself. */
struct target {
    struct hami_region_view *view;
    unsigned slot;
    uint64_t owner; /* owner word of the slot, without a state */
};

static bool target_turn(const struct target *t, enum hami_slot_state from, enum hami_slot_state to) {
    return hami_ledger_turn(t->view->region, t->slot, t->owner, from, to);
}

static bool target_lock(const struct target *t, unsigned patience_ms) {
    return hami_region_lock(t->view, &suspending, HAMI_LOCK_SUSPEND + t->slot, patience_ms);
}

static void target_unlock(const struct target *t) {
    hami_region_unlock(t->view, &suspending, HAMI_LOCK_SUSPEND + t->slot);
}

void hami_checkpoint_after_fork(void) {
    atomic_flag_clear(&suspending);
}

/* ---- the state that the driver reports ---- */

/*
 * Sets the slot to the state that the driver reports of its process. If the driver reports none, the slot stays as it
 * is, for another process to try. The caller holds the suspend lock.
 */
static void target_reconcile(const struct target *t) {
    CUresult (*get_state)(int32_t, int32_t *) = hami_cuda_function_there("cuCheckpointProcessGetState");
    int32_t state = 0;
    if (get_state == NULL || get_state(hami_process_pid(t->owner), &state) != CUDA_SUCCESS) {
        return;
    }
    if (state == CU_PROCESS_STATE_CHECKPOINTED) {
        (void)target_turn(t, HAMI_SLOT_MOVING, HAMI_SLOT_SUSPENDED);
    } else if (state != CU_PROCESS_STATE_CHECKPOINTING && state != CU_PROCESS_STATE_RESTORING) {
        (void)target_turn(t, HAMI_SLOT_MOVING, HAMI_SLOT_COUNTED);
        (void)target_turn(t, HAMI_SLOT_SUSPENDED, HAMI_SLOT_COUNTED); /* its memory is on the device, fit or not */
    }
}

/*
 * Reconciles a slot that is MOVING or SUSPENDED, unless another process has the suspend lock. Leaves processes of other
 * pid namespaces alone: the driver takes a pid of the caller's namespace.
 */
static void slot_reconcile(struct hami_region_view *view, unsigned slot) {
    uint64_t owner = atomic_load(&view->region->block.owners[slot]);
    struct target t = {view, slot, hami_ledger_who(owner)};
    bool moved = hami_ledger_state(owner) == HAMI_SLOT_MOVING || hami_ledger_state(owner) == HAMI_SLOT_SUSPENDED;
    bool here = atomic_load(&view->region->block.slots[slot].pid_namespace) == hami_process_namespace();
    if (moved && here && target_lock(&t, 0)) {
        target_reconcile(&t);
        target_unlock(&t);
    }
}

void hami_checkpoint_awake(struct hami_region_view *view) {
    if (view->has_slot) {
        slot_reconcile(view, view->slot);
    }
}

void hami_checkpoint_reconcile_moving(struct hami_region_view *view) {
    unsigned count = hami_ledger_slots(view->region);
    for (unsigned slot = 0; slot < count; slot++) {
        if (hami_ledger_state(atomic_load(&view->region->block.owners[slot])) == HAMI_SLOT_MOVING) {
            slot_reconcile(view, slot);
        }
    }
}

/* ---- room under the limit for a process that is resumed ---- */

struct resumption {
    const struct target *target;
    unsigned device; /* the first one where the process does not fit; HAMI_DEVICES: it fits on all */
};

static uint64_t resume_attempt(struct hami_region_view *view, void *of) {
    struct resumption *r = of;
    uint64_t limits[HAMI_DEVICES];
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        limits[device] = hami_charge_limit(device);
    }
    r->device = hami_ledger_resume(view->region, r->target->slot, r->target->owner, limits);
    return r->device == HAMI_DEVICES ? 0 : hami_ledger_sum(view->region, r->device) + 1;
}

/*
 * Counts a suspended process again. False: it does not fit, and stays suspended. A process that resumes itself makes
 * only one attempt: a retry asks the driver about this process's pools, and that call would wait until it is resumed.
 */
static bool target_resume(const struct target *t) {
    struct resumption r = {t, HAMI_DEVICES};
    bool other = !t->view->has_slot || t->slot != t->view->slot;
    bool fits = resume_attempt(t->view, &r) == 0 || (other && hami_charge_retry(t->view, resume_attempt, &r));
    if (!fits) {
        enum hami_reason denied = hami_state_known_limits()->denied;
        hami_region_refused(t->view, denied != HAMI_REASON_NONE ? denied : HAMI_REASON_OVER_LIMIT, r.device,
                            hami_ledger_of(t->view->region, t->slot, r.device) << HAMI_PAGE_SHIFT);
    }
    return fits;
}

/* ---- policies ---- */

/* Finds the slot of a live process of this pid namespace. */
static bool target_find(struct hami_region_view *view, int32_t pid, struct target *t) {
    unsigned count = hami_ledger_slots(view->region);
    for (unsigned slot = 0; slot < count; slot++) {
        uint64_t owner = atomic_load(&view->region->block.owners[slot]);
        bool named = hami_ledger_state(owner) != HAMI_SLOT_CLAIMED && hami_process_pid(owner) == pid &&
                     atomic_load(&view->region->block.slots[slot].pid_namespace) == hami_process_namespace();
        bool own = view->has_slot && slot == view->slot;
        if (named && (own || hami_region_owner_lives(view, slot, owner))) {
            *t = (struct target){view, slot, hami_ledger_who(owner)};
            return true;
        }
    }
    return false;
}

/*
 * The region, or NULL. Claims a slot for this process if it can: this frees the slot of the program that the process
 * ran before exec(2), which has the same pid.
 */
static struct hami_region_view *checkpoint_region(void) {
    (void)hami_state_region(NULL);
    return hami_state_mapped_region();
}

/* In enforce mode, true if a restore moves memory to other devices: the ledger would count it on the old ones. */
static bool moves_to_others(const struct hami_restore_args *args) {
    bool enforced = hami_state_limits()->mode == HAMI_MODE_ENFORCE;
    for (uint32_t i = 0; enforced && args != NULL && args->pairs != NULL && i < args->count; i++) {
        if (memcmp(&args->pairs[i].from, &args->pairs[i].to, sizeof args->pairs[i].to) != 0) {
            return true;
        }
    }
    return false;
}

/*
 * Sets the slot to MOVING before the driver suspends the process, or resumes it if `returns`. An error is the policy's
 * answer, without a call of the driver. Reconciles the slot first: a program without this library may have resumed the
 * process.
 */
static CUresult target_prepare(const struct target *t, const void *args, bool returns) {
    if (returns && moves_to_others(args)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    target_reconcile(t);
    (void)target_turn(t, HAMI_SLOT_COUNTED, HAMI_SLOT_MOVING);
    return !returns || target_resume(t) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Suspends a process, or resumes it if `returns`. For a process that has no slot, only calls the driver. */
static CUresult target_move(enum hami_hook hook, int32_t pid, void *args, bool returns) {
    struct hami_region_view *view = checkpoint_region();
    struct target t;
    if (view == NULL || !target_find(view, pid, &t)) {
        return hami_call_checkpoint_leave(hook, pid, args);
    }
    if (!target_lock(&t, PATIENCE_MS)) {
        return CUDA_ERROR_NOT_READY;
    }
    CUresult status = target_prepare(&t, args, returns);
    status = status == CUDA_SUCCESS ? hami_call_checkpoint_leave(hook, pid, args) : status;
    target_reconcile(&t);
    target_unlock(&t);
    return status;
}

int32_t hami_checkpoint_leave(enum hami_hook hook, int32_t pid, void *args) {
    return target_move(hook, pid, args, false);
}

int32_t hami_checkpoint_return(enum hami_hook hook, int32_t pid, void *args) {
    return target_move(hook, pid, args, true);
}

/*
 * A restore continues in the driver even if the process that asked for it dies; then the slot stays MOVING. A
 * successful unlock shows that the restore has ended, so the slot is reconciled.
 */
int32_t hami_checkpoint_unlock(enum hami_hook hook, int32_t pid, void *args) {
    struct hami_region_view *view = checkpoint_region();
    struct target t;
    CUresult status = hami_call_checkpoint_unlock(hook, pid, args);
    if (status == CUDA_SUCCESS && view != NULL && target_find(view, pid, &t)) {
        slot_reconcile(view, t.slot);
    }
    return status;
}

int32_t hami_checkpoint_complete(enum hami_hook hook, void *handle) {
    struct hami_region_view *view = checkpoint_region();
    CUresult status = hami_call_checkpoint_complete(hook, handle);
    if (view != NULL) {
        hami_checkpoint_reconcile_moving(view);
    }
    return status;
}
