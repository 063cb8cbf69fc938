/*
 * What the limits of contexts (cuCtxSetLimit) take of the device: stacks, heap, print buffer, device runtime. What they
 * take when a context starts is part of its reserve. Above that, the room that the driver needs is reserved when a
 * limit is raised, as if it were taken at once: a driver may wait for the first kernel that needs it, which must then
 * find it.
 *
 * Sizes: a stack for every thread that the device can hold at once; the heap and the print buffer as they are; for
 * each level of synchronisation in the device runtime the state of all those threads (CUDA's programming guide tells
 * up to 150 MB on 15 and 860 MB on 84 multiprocessors: 5 KiB a thread); for each pending launch its largest parameters.
 */
#include "memory/memory.h"

#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/charge.h"
#include "memory/context.h"
#include "policies.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

enum { CONTEXTS = 256, THREAD_STATE = 5 << 10, LAUNCH_PARAMETERS = 4 << 10 };

/* What one limit of a context took at first, and what is charged for what it takes beyond that. */
struct share {
    bool known;
    uint64_t initial_pages;
    struct hami_charge charge;
};

/* By context id; entry 0 is of all contexts that cannot be told apart. */
static struct account {
    atomic_flag busy;
    struct share shares[HAMI_CONTEXT_LIMITS];
} accounts[CONTEXTS];

/* The driver may wait for work to end before it changes a limit. */
static struct account *lock(unsigned context) {
    const struct timespec pause = {0, 100000};
    while (atomic_flag_test_and_set_explicit(&accounts[context].busy, memory_order_acquire)) {
        (void)nanosleep(&pause, NULL);
    }
    return &accounts[context];
}

static void unlock(struct account *account) {
    atomic_flag_clear_explicit(&account->busy, memory_order_release);
}

/* Threads that a device holds at once, or 0. */
static uint64_t resident_threads(CUdevice device) {
    int multiprocessors = 0, threads = 0;
    CUresult (*get)(int *, int32_t, CUdevice) = hami_cuda_function("cuDeviceGetAttribute");
    bool known = get != NULL &&
                 get(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) == CUDA_SUCCESS &&
                 get(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) == CUDA_SUCCESS;
    return known && multiprocessors > 0 && threads > 0 ? (uint64_t)multiprocessors * (uint64_t)threads : 0;
}

/* Pages that a limit of this value takes; beyond all limits if that overflows. */
static uint64_t pages_for(int32_t limit, uint64_t value, CUdevice device) {
    uint64_t unit = 1, bytes = 0;
    switch (limit) {
    case CU_LIMIT_STACK_SIZE:
        unit = resident_threads(device);
        break;
    case CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH:
        unit = resident_threads(device) * THREAD_STATE;
        break;
    case CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT:
        unit = LAUNCH_PARAMETERS;
        break;
    default: /* already bytes */
        break;
    }
    bool overflows = __builtin_mul_overflow(unit, value, &bytes);
    return hami_large(overflows ? UINT64_MAX : bytes) >> HAMI_PAGE_SHIFT;
}

static uint64_t beyond_initial(const struct share *share, uint64_t pages) {
    return pages > share->initial_pages ? pages - share->initial_pages : 0;
}

/* Charges as many more pages as there must be for `pages` in all. False: refuse. */
static bool take_up_to(struct share *share, CUdevice device, uint64_t pages) {
    struct hami_charge more = {-1, 0};
    if (pages <= share->charge.pages) {
        return true;
    }
    uint64_t bytes = (pages - share->charge.pages) << HAMI_PAGE_SHIFT;
    if (!hami_charge_take(device, bytes, HAMI_COLUMN_CONTEXT, &more)) {
        return false;
    }
    if (more.device >= 0) {
        share->charge = (struct hami_charge){more.device, share->charge.pages + more.pages};
    }
    return true;
}

/* Gives back all but `pages`. */
static void give_back_to(struct share *share, uint64_t pages) {
    if (share->charge.pages > pages) {
        struct hami_charge rest = {share->charge.device, share->charge.pages - pages};
        hami_charge_give_back(&rest, HAMI_COLUMN_CONTEXT);
        share->charge.pages = pages;
    }
}

/* What the driver has set, which it may have rounded. UINT64_MAX: it does not tell. */
static uint64_t value_now(int32_t limit) {
    size_t value = 0;
    CUresult (*get)(size_t *, int32_t) = hami_cuda_function("cuCtxGetLimit");
    return get != NULL && get(&value, limit) == CUDA_SUCCESS ? value : UINT64_MAX;
}

static CUresult set(enum hami_hook hook, int32_t limit, uint64_t value, const struct hami_context *context,
                    struct share *share) {
    CUresult (*driver)(int32_t, size_t) = hami_driver_function(hook);
    uint64_t before = value_now(limit);
    if (before == UINT64_MAX) {
        return driver(limit, value); /* no such limit on this device */
    }
    if (!share->known) {
        *share = (struct share){true, pages_for(limit, before, context->device), {-1, 0}};
    }
    uint64_t charged = share->charge.pages;
    if (!take_up_to(share, context->device, beyond_initial(share, pages_for(limit, value, context->device)))) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = driver(limit, value);
    if (status != CUDA_SUCCESS) {
        give_back_to(share, charged);
        return status;
    }
    uint64_t now = value_now(limit);
    uint64_t pages = beyond_initial(share, pages_for(limit, now == UINT64_MAX ? value : now, context->device));
    if (!take_up_to(share, context->device, pages)) {
        (void)driver(limit, before);
        give_back_to(share, charged);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    give_back_to(share, pages);
    return CUDA_SUCCESS;
}

int32_t hami_ctx_set_limit(enum hami_hook hook, int32_t limit, uint64_t value) {
    CUresult (*driver)(int32_t, size_t) = hami_driver_function(hook);
    struct hami_context context;
    bool in_memory = limit >= 0 && limit < HAMI_CONTEXT_LIMITS;
    if (!in_memory || hami_state_limits()->mode == HAMI_MODE_OFF || !hami_context_current(&context)) {
        return driver(limit, value);
    }
    struct account *account = lock(context.id);
    struct share *share = &account->shares[limit];
    if (context.id == HAMI_CONTEXT_UNKNOWN) {
        share->known = false; /* was another context's; what that took stays charged until the process ends */
    }
    CUresult status = set(hook, limit, value, &context, share);
    unlock(account);
    return status;
}

void hami_context_limits_gone(unsigned context) {
    struct account *account = lock(context);
    for (unsigned limit = 0; limit < HAMI_CONTEXT_LIMITS; limit++) {
        struct share *share = &account->shares[limit];
        if (share->known) {
            hami_charge_give_back(&share->charge, HAMI_COLUMN_CONTEXT);
            share->known = false;
        }
    }
    unlock(account);
}

void hami_context_limits_after_fork(void) {
    memset(accounts, 0, sizeof accounts);
}
