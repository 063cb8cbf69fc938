/*
 * cuCheckpointProcess...: what a suspended process has leaves the container's use, and must fit again before the
 * process comes back. abi.h has the states of a slot.
 *
 * A process that is about to ask the driver takes the suspend lock of the slot, turns the slot to MOVING and asks.
 * Afterwards the slot is brought to what the driver says of the process, whatever its answer was. That is also all
 * there is to do after a process that died meanwhile: its lock is gone, and MOVING tells other processes to ask the
 * driver. A slot that is MOVING is counted: its process leaves the sums after it has left the device, and is in them
 * before it returns.
 */
#include "memory/memory.h"

#include "doors/hook.h"
#include "ledger/process.h"
#include "ledger/state.h"
#include "memory/charge.h"
#include "policies.h"
#include "threads.h"

#include <string.h>

enum { PATIENCE_MS = 60000 };

static atomic_flag suspending = ATOMIC_FLAG_INIT; /* by a thread of this process, which the lock does not keep out */

/* A slot whose owner this process suspends, resumes or looks at. */
struct books {
    struct hami_region_view *view;
    unsigned slot;
    uint64_t owner; /* word, without a state */
};

static bool books_turn(const struct books *b, enum hami_slot_state from, enum hami_slot_state to) {
    return hami_ledger_turn(b->view->region, b->slot, b->owner, from, to);
}

/* The driver copies all that a process has before it answers; a process that is stopped meanwhile holds others up. */
static bool books_lock(const struct books *b, unsigned patience_ms) {
    return hami_region_lock(b->view, &suspending, HAMI_LOCK_SUSPEND + b->slot, patience_ms);
}

static void books_unlock(const struct books *b) {
    hami_region_unlock(b->view, &suspending, HAMI_LOCK_SUSPEND + b->slot);
}

void hami_checkpoint_after_fork(void) {
    atomic_flag_clear(&suspending);
}

/* ---- what the driver says ---- */

/* With the lock. Where the driver says nothing the slot stays as it is, for another process to look at. */
static void books_agree(const struct books *b) {
    CUresult (*get_state)(int32_t, int32_t *) = hami_cuda_function_there("cuCheckpointProcessGetState");
    int32_t state = 0;
    if (get_state == NULL || get_state(hami_process_pid(b->owner), &state) != CUDA_SUCCESS) {
        return;
    }
    if (state == CU_PROCESS_STATE_CHECKPOINTED) {
        (void)books_turn(b, HAMI_SLOT_MOVING, HAMI_SLOT_SUSPENDED);
    } else if (state != HAMI_PROCESS_STATE_CHECKPOINTING && state != HAMI_PROCESS_STATE_RESTORING) {
        (void)books_turn(b, HAMI_SLOT_MOVING, HAMI_SLOT_COUNTED);
        (void)books_turn(b, HAMI_SLOT_SUSPENDED, HAMI_SLOT_COUNTED); /* it is there, whether it fits or not */
    }
}

/* Asks about processes of our pid namespace alone: the driver knows a process by its pid in the asker's. */
void hami_checkpoint_look(struct hami_region_view *view, unsigned slot) {
    uint64_t owner = atomic_load(&view->region->block.owners[slot]);
    struct books b = {view, slot, hami_ledger_who(owner)};
    bool moved = hami_ledger_state(owner) == HAMI_SLOT_MOVING || hami_ledger_state(owner) == HAMI_SLOT_SUSPENDED;
    bool here = atomic_load(&view->region->block.slots[slot].pid_namespace) == hami_process_namespace();
    if (moved && here && books_lock(&b, 0)) {
        books_agree(&b);
        books_unlock(&b);
    }
}

void hami_checkpoint_awake(struct hami_region_view *view) {
    if (view->has_slot) {
        hami_checkpoint_look(view, view->slot);
    }
}

void hami_checkpoint_look_all(struct hami_region_view *view) {
    unsigned count = hami_ledger_slots(view->region);
    for (unsigned slot = 0; slot < count; slot++) {
        if (hami_ledger_state(atomic_load(&view->region->block.owners[slot])) == HAMI_SLOT_MOVING) {
            hami_checkpoint_look(view, slot);
        }
    }
}

/* ---- room to come back to ---- */

struct resumption {
    const struct books *books;
    unsigned device; /* where it does not fit */
};

static uint64_t resume_attempt(struct hami_region_view *view, void *of) {
    struct resumption *r = of;
    uint64_t limits[HAMI_DEVICES];
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        limits[device] = hami_charge_limit(hami_state_known_limits(), (int)device);
    }
    r->device = hami_ledger_resume(view->region, r->books->slot, r->books->owner, limits);
    return r->device == HAMI_DEVICES ? 0 : hami_ledger_sum(view->region, r->device) + 1;
}

static bool books_resume(const struct books *b) {
    struct resumption r = {b, HAMI_DEVICES};
    bool fits = resume_attempt(b->view, &r) == 0;
    bool other = !b->view->has_slot || b->slot != b->view->slot;
    fits = fits || (other && hami_charge_retry(b->view, resume_attempt, &r)); /* asks the driver, which would wait */
    if (!fits) {
        enum hami_reason denied = hami_state_known_limits()->denied;
        bool known = r.device < HAMI_DEVICES;
        uint64_t bytes = known ? hami_ledger_of(b->view->region, b->slot, r.device) << HAMI_PAGE_SHIFT : 0;
        hami_region_refused(b->view, denied != HAMI_REASON_NONE ? denied : HAMI_REASON_OVER_LIMIT, r.device, bytes);
    }
    return fits;
}

/* ---- whose slot ---- */

static bool books_find(struct hami_region_view *view, int32_t pid, struct books *b) {
    unsigned count = hami_ledger_slots(view->region);
    for (unsigned slot = 0; slot < count; slot++) {
        uint64_t owner = atomic_load(&view->region->block.owners[slot]);
        bool named = hami_ledger_state(owner) != HAMI_SLOT_CLAIMED && hami_process_pid(owner) == pid &&
                     atomic_load(&view->region->block.slots[slot].pid_namespace) == hami_process_namespace();
        bool own = view->has_slot && slot == view->slot;
        if (named && (own || hami_region_owner_lives(view, slot, owner))) {
            *b = (struct books){view, slot, hami_ledger_who(owner)};
            return true;
        }
    }
    return false;
}

/* ---- the driver's functions ---- */

/* Claims a slot first where there is one, so that the program before an exec holds nothing any more. */
static struct hami_region_view *books_view(void) {
    (void)hami_state_region(NULL);
    return hami_state_mapped_region();
}

/* On another device the process would be beyond the reach of its own books, and perhaps beyond the container's. */
static bool moves_to_others(const struct hami_restore_args *args) {
    bool enforced = hami_state_limits()->mode == HAMI_MODE_ENFORCE;
    for (uint32_t i = 0; enforced && args != NULL && args->pairs != NULL && i < args->count; i++) {
        if (memcmp(&args->pairs[i].from, &args->pairs[i].to, sizeof args->pairs[i].to) != 0) {
            return true;
        }
    }
    return false;
}

/* Whether the driver may move a process. It would spoil one that it finds no room for to come back to. */
static CUresult books_prepare(const struct books *b, const void *args, bool returns) {
    if (returns && moves_to_others(args)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    books_agree(b); /* others may have resumed it who do not know of us */
    (void)books_turn(b, HAMI_SLOT_COUNTED, HAMI_SLOT_MOVING);
    return !returns || books_resume(b) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* With the lock of the process's slot; a process without one here is none of ours. */
static CUresult books_move(enum hami_hook hook, int32_t pid, void *args, bool returns) {
    struct hami_region_view *view = books_view();
    struct books b;
    if (view == NULL || !books_find(view, pid, &b)) {
        return hami_call_checkpoint_leave(hook, pid, args);
    }
    if (!books_lock(&b, PATIENCE_MS)) {
        return CUDA_ERROR_NOT_READY;
    }
    CUresult status = books_prepare(&b, args, returns);
    status = status == CUDA_SUCCESS ? hami_call_checkpoint_leave(hook, pid, args) : status;
    books_agree(&b);
    books_unlock(&b);
    return status;
}

int32_t hami_checkpoint_leave(enum hami_hook hook, int32_t pid, void *args) {
    return books_move(hook, pid, args, false);
}

int32_t hami_checkpoint_return(enum hami_hook hook, int32_t pid, void *args) {
    return books_move(hook, pid, args, true);
}

/* A restore goes on in a driver after the process that asked for it has died; here it has come to its end. */
int32_t hami_checkpoint_unlock(enum hami_hook hook, int32_t pid, void *args) {
    struct hami_region_view *view = books_view();
    struct books b;
    CUresult status = hami_call_checkpoint_unlock(hook, pid, args);
    if (status == CUDA_SUCCESS && view != NULL && books_find(view, pid, &b)) {
        hami_checkpoint_look(view, b.slot);
    }
    return status;
}

int32_t hami_checkpoint_complete(enum hami_hook hook, void *handle) {
    struct hami_region_view *view = books_view();
    CUresult status = hami_call_checkpoint_complete(hook, handle);
    if (view != NULL) {
        hami_checkpoint_look_all(view);
    }
    return status;
}
