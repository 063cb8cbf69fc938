/* The listeners of each event; parts.h tells what the events are. */
#include "parts.h"

#include "compute/compute.h"
#include "ledger/process.h"
#include "ledger/state.h"
#include "memory/charge.h"
#include "memory/contexts.h"
#include "memory/devices.h"
#include "memory/graph.h"
#include "memory/memory.h"
#include "memory/records.h"
#include "memory/shared.h"
#include "memory/stream_pool.h"

const struct hami_parts hami_parts = {
    .forked =
        {
            hami_process_after_fork,
            hami_state_after_fork,
            hami_charge_after_fork,
            hami_records_after_fork,
            hami_contexts_after_fork,
            hami_context_calls_after_fork,
            hami_context_limits_after_fork,
            hami_pools_after_fork,
            hami_vmm_after_fork,
            hami_sparse_after_fork,
            hami_ipc_after_fork,
            hami_shared_after_fork,
            hami_checkpoint_after_fork,
            hami_graphs_after_fork,
            hami_graph_pools_after_fork,
            hami_modules_after_fork,
            hami_compute_after_fork,
        },
    .limits_changed = {hami_devices_forget},
    .context_ending = {hami_compute_context_ending},
    .context_ended = {hami_records_drop_context, hami_sparse_context_gone, hami_context_limits_gone},
    .memory_short = {hami_pools_reconcile, hami_graph_pools_reconcile},
    .pool_memory_freed = {hami_pool_allocation_freed},
    .awake = {hami_checkpoint_awake},
    .swept = {hami_checkpoint_reconcile_moving},
    .process_gone = {hami_compute_forget},
};
