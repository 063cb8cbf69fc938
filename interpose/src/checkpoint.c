/*
 * cuCheckpointProcess…: what a suspended process has charged leaves the container's use, and is reserved again before
 * it comes back. abi.h has the layout.
 *
 * Whoever is about to ask the driver becomes the slot's keeper, writes MOVING and asks. Afterwards the books are
 * brought to what the driver says of the process, whatever its answer was; that is also all that is to be done after a
 * keeper who died. In between they hold too much at worst: a process leaves them after it has left the device, and is
 * in them again before it returns.
 *
 * Only the devices' counters are concerned. What lies in the host in place of a device's memory stays there.
 */
#include "hami/checkpoint.h"

#include "hami/cells.h"
#include "hami/charge.h"
#include "hami/events.h"
#include "hami/fault.h"
#include "hami/guest.h"
#include "hami/hook.h"
#include "hami/policy.h"
#include "hami/process.h"
#include "hami/shared.h"

#include <string.h>
#include <time.h>

enum { CHECKPOINTED = 2, CHECKPOINTING = 4, RESTORING = 5 }; /* CUprocessState */
enum { STEP_NS = 1000000, PATIENCE = 60000 };

/* ---- the books of one slot ---- */

static void note(struct hami_region *region, unsigned slot, enum hami_suspension suspension) {
    atomic_store(&region->block.slots[slot].suspension, suspension);
    hami_step();
}

static enum hami_suspension noted(const struct hami_region *region, unsigned slot) {
    return (enum hami_suspension)atomic_load(&region->block.slots[slot].suspension);
}

/* Brings what is away of a device to `pages`. False: so much more does not fit below the limit. */
static bool set_away(struct hami_region *region, unsigned slot, unsigned device, int64_t pages, uint64_t limit) {
    const struct hami_cell *cell = &region->block.slots[slot].cells[device][HAMI_CELL_AWAY];
    int64_t change = hami_cells_sum(-pages, (int64_t)(0 - (uint64_t)hami_cells_total(cell)));
    bool sane = change <= (int64_t)HAMI_PAGES_MAX && change >= -(int64_t)HAMI_PAGES_MAX;
    return change == 0 || (sane && hami_cells_change(&region->block, device, slot, HAMI_CELL_AWAY, change, limit));
}

/* What leaves with the process: not what others hold as well. */
static int64_t leaving(const struct hami_region *region, unsigned slot, unsigned device) {
    int64_t charged = hami_cells_charged(&region->block, slot, device);
    int64_t shared = (int64_t)hami_shared_by(region, slot, device);
    return charged > shared && charged <= (int64_t)HAMI_PAGES_MAX ? charged - shared : 0;
}

/* By the keeper: brings the books to what the driver says. Where it says nothing they wait for somebody else. */
static void agree(struct hami_region *region, unsigned slot, int32_t pid) {
    CUresult (*get_state)(int32_t, int32_t *) = hami_cuda_function_there("cuCheckpointProcessGetState");
    int32_t state = 0;
    if (get_state == NULL || get_state(pid, &state) != CUDA_SUCCESS) {
        return;
    }
    for (unsigned device = 0; device < HAMI_DEVICES; device++) {
        int64_t away = state == CHECKPOINTED ? leaving(region, slot, device) : 0;
        (void)set_away(region, slot, device, away, HAMI_PAGES_MAX); /* it is there, whether it fits or not */
    }
    bool under_way = state == CHECKPOINTING || state == RESTORING;
    note(region, slot,
         under_way               ? HAMI_SUSPENSION_MOVING
         : state == CHECKPOINTED ? HAMI_SUSPENSION_AWAY
                                 : HAMI_SUSPENSION_HOME);
}

/* Reserves what the process had. HAMI_DEVICES, or the device that has no room for it. */
static unsigned reserve(struct hami_region *region, unsigned slot) {
    const struct hami_limits *limits = hami_guest_known_limits();
    unsigned device = 0;
    while (device < HAMI_DEVICES) {
        uint64_t limit = hami_charge_limit(limits, (int)device);
        if (!set_away(region, slot, device, 0, limit < HAMI_PAGES_MAX ? limit : HAMI_PAGES_MAX)) {
            break;
        }
        device++;
    }
    return device;
}

/* Same; before giving up asks for newer limits and for memory of dead processes, as every allocation does. */
static bool reserve_or_refuse(struct hami_region_view *view, unsigned slot) {
    if (reserve(view->region, slot) == HAMI_DEVICES) {
        return true;
    }
    if (!view->has_slot || slot != view->slot) {
        hami_event_memory_short(); /* asks the driver, whose calls wait in a process that is suspended */
    }
    (void)hami_guest_reload();
    (void)hami_region_sweep(view);
    unsigned device = reserve(view->region, slot);
    if (device < HAMI_DEVICES) {
        enum hami_reason denied = hami_guest_known_limits()->denied;
        const struct hami_cell *cell = &view->region->block.slots[slot].cells[device][HAMI_CELL_AWAY];
        uint64_t bytes = (0 - (uint64_t)hami_cells_total(cell)) << HAMI_PAGE_SHIFT;
        hami_region_refused(view, denied != HAMI_REASON_NONE ? denied : HAMI_REASON_OVER_LIMIT, device, bytes);
    }
    return device == HAMI_DEVICES;
}

/* ---- whose slot ---- */

static bool is_of(const struct hami_region *region, unsigned slot, int32_t pid) {
    const struct hami_slot *found = &region->block.slots[slot];
    uint64_t owner = atomic_load(&found->owner);
    return owner != 0 && hami_process_pid(owner) == pid && hami_process_lives(owner, atomic_load(&found->image));
}

static bool find(const struct hami_region *region, int32_t pid, unsigned *slot) {
    unsigned count = hami_region_slots(region);
    for (*slot = 0; *slot < count; (*slot)++) {
        if (is_of(region, *slot, pid)) {
            return true;
        }
    }
    return false;
}

enum turn { NOT_OURS, OURS, BUSY };

/*
 * Becomes the keeper of the process's slot. Somebody else may be until the driver has copied all that the process has;
 * one who is stopped meanwhile holds the others up, but not for ever. NOT_OURS: it has no slot here.
 */
static enum turn begin(struct hami_region *region, int32_t pid, unsigned *slot) {
    const struct timespec step = {0, STEP_NS};
    for (unsigned tries = 0; tries < PATIENCE; tries++) {
        if (!find(region, pid, slot)) {
            return NOT_OURS;
        }
        if (hami_region_keep(region, *slot)) {
            if (is_of(region, *slot, pid)) {
                return OURS;
            }
            hami_region_keep_no_more(region, *slot); /* it died, and the slot may be another's */
        }
        (void)nanosleep(&step, NULL);
    }
    return BUSY;
}

void hami_checkpoint_settle(struct hami_region *region) {
    unsigned count = hami_region_slots(region);
    for (unsigned slot = 0; slot < count; slot++) {
        if (noted(region, slot) == HAMI_SUSPENSION_MOVING) {
            hami_checkpoint_look(region, slot);
        }
    }
}

void hami_checkpoint_look(struct hami_region *region, unsigned slot) {
    if (noted(region, slot) == HAMI_SUSPENSION_HOME || !hami_region_keep(region, slot)) {
        return;
    }
    uint64_t owner = atomic_load(&region->block.slots[slot].owner);
    if (owner != 0 && noted(region, slot) != HAMI_SUSPENSION_HOME) {
        agree(region, slot, hami_process_pid(owner));
    }
    hami_region_keep_no_more(region, slot);
}

/* ---- the driver's functions ---- */

/* A slot is taken first where there is one: its claim ends what the program before an exec has kept, and only that. */
static struct hami_region_view *books(void) {
    (void)hami_guest_region(NULL);
    return hami_guest_mapped_region();
}

/* CUcheckpointRestoreArgs, as far as it matters here. */
struct restore_args {
    const struct {
        uint8_t from[16], to[16];
    } *pairs;
    uint32_t count;
};

/* On another device the process would be beyond the reach of its own books, and perhaps beyond the container's. */
static bool moves_to_others(const struct restore_args *args) {
    bool enforced = hami_guest_limits()->mode == HAMI_MODE_ENFORCE;
    for (uint32_t i = 0; enforced && args != NULL && args->pairs != NULL && i < args->count; i++) {
        if (memcmp(args->pairs[i].from, args->pairs[i].to, sizeof args->pairs[i].to) != 0) {
            return true;
        }
    }
    return false;
}

int32_t hami_checkpoint_leave(enum hami_hook hook, int32_t pid, void *args) {
    CUresult (*driver)(int32_t, void *) = hami_driver_function(hook);
    struct hami_region_view *view = books();
    unsigned slot = 0;
    enum turn turn = view == NULL ? NOT_OURS : begin(view->region, pid, &slot);
    if (turn != OURS) {
        return turn == BUSY ? CUDA_ERROR_NOT_READY : driver(pid, args);
    }
    note(view->region, slot, HAMI_SUSPENSION_MOVING);
    CUresult status = driver(pid, args);
    agree(view->region, slot, pid);
    hami_region_keep_no_more(view->region, slot);
    return status;
}

/* The driver would spoil a process that it finds no room for: it is not asked then. */
int32_t hami_checkpoint_return(enum hami_hook hook, int32_t pid, void *args) {
    CUresult (*driver)(int32_t, void *) = hami_driver_function(hook);
    struct hami_region_view *view = books();
    unsigned slot = 0;
    enum turn turn = view == NULL ? NOT_OURS : begin(view->region, pid, &slot);
    if (turn != OURS) {
        return turn == BUSY ? CUDA_ERROR_NOT_READY : driver(pid, args);
    }
    if (moves_to_others(args)) {
        hami_region_keep_no_more(view->region, slot);
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    if (noted(view->region, slot) != HAMI_SUSPENSION_HOME) {
        agree(view->region, slot, pid); /* others may have resumed it who do not know of us */
    }
    note(view->region, slot, HAMI_SUSPENSION_MOVING);
    CUresult status = reserve_or_refuse(view, slot) ? driver(pid, args) : CUDA_ERROR_OUT_OF_MEMORY;
    agree(view->region, slot, pid);
    hami_region_keep_no_more(view->region, slot);
    return status;
}

/* A restore goes on in a driver after the one who asked for it has died; here it has come to its end. */
int32_t hami_checkpoint_unlock(enum hami_hook hook, int32_t pid, void *args) {
    CUresult (*driver)(int32_t, void *) = hami_driver_function(hook);
    struct hami_region_view *view = books();
    unsigned slot = 0;
    CUresult status = driver(pid, args);
    if (status == CUDA_SUCCESS && view != NULL && find(view->region, pid, &slot)) {
        hami_checkpoint_look(view->region, slot);
    }
    return status;
}

int32_t hami_checkpoint_complete(enum hami_hook hook, void *handle) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    struct hami_region_view *view = books();
    CUresult status = driver(handle);
    if (view != NULL) {
        hami_checkpoint_settle(view->region);
    }
    return status;
}
