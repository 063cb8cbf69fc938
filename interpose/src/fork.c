/* The one place that knows every part that keeps something of its process. */
#include "hami/fork.h"

#include "hami/account.h"
#include "hami/compute.h"
#include "hami/context.h"
#include "hami/context_limits.h"
#include "hami/graph.h"
#include "hami/guest.h"
#include "hami/hook.h"
#include "hami/module.h"
#include "hami/pool.h"
#include "hami/vmm.h"

void hami_fork_in_child(void) {
    hami_guest_after_fork();
    hami_resolve_after_fork();
    hami_account_after_fork();
    hami_contexts_after_fork();
    hami_context_limits_after_fork();
    hami_pools_after_fork();
    hami_vmm_after_fork();
    hami_graphs_after_fork();
    hami_modules_after_fork();
    hami_compute_after_fork();
}
