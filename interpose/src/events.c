/* The one place that knows every part. */
#include "events.h"

#include "compute/compute.h"
#include "fault.h"
#include "ledger/guest.h"
#include "ledger/process.h"
#include "memory/account.h"
#include "memory/charge.h"
#include "memory/context.h"
#include "memory/graph.h"
#include "memory/pool.h"
#include "memory/shared.h"
#include "parts.h"

void hami_event_forked(void) {
    hami_process_after_fork();
    hami_guest_after_fork();
    hami_charge_after_fork();
    hami_account_after_fork();
    hami_contexts_after_fork();
    hami_context_limits_after_fork();
    hami_pools_after_fork();
    hami_vmm_after_fork();
    hami_ipc_after_fork();
    hami_shared_after_fork();
    hami_checkpoint_after_fork();
    hami_graphs_after_fork();
    hami_modules_after_fork();
    hami_compute_after_fork();
}

void hami_event_context_ending(CUcontext context) {
    hami_compute_context_ending(context);
}

void hami_event_context_freed(unsigned id, bool now) {
    hami_records_context_ending(id, now);
}

void hami_event_context_ended(unsigned id) {
    hami_records_drop_context(id);
    hami_vmm_context_gone(id);
    hami_ipc_context_gone(id);
    hami_context_limits_gone(id);
}

void hami_event_memory_short(void) {
    hami_pools_settle();
    hami_graphs_settle();
}

void hami_event_pool_memory_freed(unsigned pool) {
    hami_pool_settle(pool);
}

void hami_event_swept(struct hami_region_view *view) {
    hami_checkpoint_look_all(view);
}

void hami_event_awake(struct hami_region_view *view) {
    if (view->has_slot) {
        hami_checkpoint_look(view, view->slot);
    }
}

/* Added before they are cleared: a sweeper who dies between has them counted twice, not lost. */
void hami_event_process_gone(struct hami_region *region, unsigned slot) {
    uint64_t launches = atomic_load(&region->block.slots[slot].launches);
    (void)atomic_fetch_add(&region->block.launches, launches);
    hami_step();
    atomic_store(&region->block.slots[slot].launches, 0);
    hami_step();
    hami_compute_forget(region, slot);
}
