/*
 * Charges for the limits of contexts: cuCtxSetLimit makes the driver take device memory for stacks, heap and buffers of
 * kernels. The context's reserve covers what they take when the context starts. When a program raises a limit, the
 * policy charges the difference at once, although the driver may take the memory only with the first kernel that needs
 * it. The driver does not tell how much it takes. A stack counts for every thread that the device can hold at once;
 * heap and print buffer count as their size; the two constants below give the rest.
 */
#include "ledger/state.h"
#include "memory/charge.h"
#include "memory/contexts.h"
#include "memory/memory.h"
#include "memory/sizes.h"
#include "policies.h"
#include "threads.h"

#include <string.h>

enum {
    THREAD_STATE_BYTES = 5 << 10, /* per thread and level of CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH. CUDA's programming guide:
                                     up to 150 MB with 15 multiprocessors, 860 MB with 84 */
    LAUNCH_PARAMETERS_BYTES = 4 << 10 /* per pending launch: the most that a kernel's parameters take */
};

/* One limit of a context: what it took when the context started, and the charge for what it takes beyond that. */
struct limit_charge {
    bool known;
    uint64_t initial_pages;
    struct hami_charge charge;
};

/* By context id. Entry 0, HAMI_CONTEXT_UNKNOWN, stands for all contexts that have no place in the table. */
static struct context_limits {
    atomic_flag busy; /* held while the driver changes a limit, which may wait for work to end */
    struct limit_charge charges[HAMI_CONTEXT_LIMITS];
} contexts[HAMI_CONTEXTS];

/* How many threads a device holds at once; 0: the driver does not tell. */
static uint64_t limit_resident_threads(CUdevice device) {
    int multiprocessors = 0, threads = 0;
    bool known = hami_call_cuDeviceGetAttribute(&multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device) ==
                     CUDA_SUCCESS &&
                 hami_call_cuDeviceGetAttribute(&threads, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, device) ==
                     CUDA_SUCCESS;
    return known && multiprocessors > 0 && threads > 0 ? (uint64_t)multiprocessors * (uint64_t)threads : 0;
}

/* Pages that a limit of this value takes. On overflow returns more than any memory limit admits. */
static uint64_t limit_pages(int32_t limit, uint64_t value, CUdevice device) {
    uint64_t unit = 1; /* heap and print buffer: the value is in bytes */
    if (limit == CU_LIMIT_STACK_SIZE) {
        unit = limit_resident_threads(device);
    } else if (limit == CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) {
        unit = limit_resident_threads(device) * THREAD_STATE_BYTES;
    } else if (limit == CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT) {
        unit = LAUNCH_PARAMETERS_BYTES;
    }
    return hami_large(hami_product(unit, value)) >> HAMI_PAGE_SHIFT;
}

static uint64_t limit_pages_beyond(const struct limit_charge *of, int32_t limit, uint64_t value, CUdevice device) {
    return hami_excess(limit_pages(limit, value, device), of->initial_pages);
}

/* The limit in force, which the driver may have rounded. UINT64_MAX: the driver does not tell. */
static uint64_t limit_now(int32_t limit) {
    size_t value = 0;
    return hami_call_cuCtxGetLimit(&value, limit) == CUDA_SUCCESS ? value : UINT64_MAX;
}

static CUresult limit_set(enum hami_hook hook, int32_t limit, uint64_t value, CUdevice device,
                          struct limit_charge *of) {
    uint64_t before = limit_now(limit);
    if (before == UINT64_MAX) {
        return hami_call_ctx_set_limit(hook, limit, value); /* no such limit on this device */
    }
    if (!of->known) {
        *of = (struct limit_charge){true, limit_pages(limit, before, device), {-1, 0}};
    }
    uint64_t charged = of->charge.pages, wanted = limit_pages_beyond(of, limit, value, device);
    if (wanted > charged && !hami_charge_resize(device, HAMI_COLUMN_CONTEXT, &of->charge, wanted)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_ctx_set_limit(hook, limit, value);
    if (status == CUDA_SUCCESS) {
        uint64_t now = limit_now(limit);
        wanted = limit_pages_beyond(of, limit, now == UINT64_MAX ? value : now, device);
        if (hami_charge_resize(device, HAMI_COLUMN_CONTEXT, &of->charge, wanted)) {
            return CUDA_SUCCESS;
        }
        (void)hami_call_ctx_set_limit(hook, limit, before);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    (void)hami_charge_resize(device, HAMI_COLUMN_CONTEXT, &of->charge, charged);
    return status;
}

int32_t hami_ctx_set_limit(enum hami_hook hook, int32_t limit, uint64_t value) {
    struct hami_context context;
    bool in_memory = limit >= 0 && limit < HAMI_CONTEXT_LIMITS;
    if (!in_memory || hami_state_limits()->mode == HAMI_MODE_OFF || !hami_context_current(&context)) {
        return hami_call_ctx_set_limit(hook, limit, value);
    }
    struct context_limits *in = &contexts[context.id];
    hami_spin_lock_asleep(&in->busy);
    if (context.id == HAMI_CONTEXT_UNKNOWN) {
        in->charges[limit].known = false; /* the charge may be another context's, and is then never given back */
    }
    CUresult status = limit_set(hook, limit, value, context.device, &in->charges[limit]);
    hami_spin_unlock(&in->busy);
    return status;
}

void hami_context_limits_gone(unsigned context) {
    struct context_limits *in = &contexts[context];
    hami_spin_lock_asleep(&in->busy);
    for (unsigned limit = 0; limit < HAMI_CONTEXT_LIMITS; limit++) {
        if (in->charges[limit].known) {
            hami_charge_give_back(&in->charges[limit].charge, HAMI_COLUMN_CONTEXT);
            in->charges[limit].known = false;
        }
    }
    hami_spin_unlock(&in->busy);
}

void hami_context_limits_after_fork(void) {
    memset(contexts, 0, sizeof contexts); /* an atomic_flag of zeros is clear */
}
