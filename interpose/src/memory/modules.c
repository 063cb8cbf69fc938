/*
 * Policies of code on the device: modules, libraries and functions, which the driver may load when they are first asked
 * for. The driver does not tell what they take. It is measured by what the device has left before and after, less what
 * the container's own allocations took meanwhile.
 */
#include "memory/around.h"

#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/memory.h"
#include "memory/records.h"
#include "policies.h"
#include "threads.h"

#include <stdatomic.h>

enum { CONTEXT_SHIFT = 48 }; /* user addresses have fewer bits */

/*
 * More than this is not charged for one load: the device's figures do not tell a neighbour's allocation from our code,
 * and a container must not run into its limit for what another one took.
 */
#define CODE_MAX_BYTES (INT64_C(64) << 20)

/* One device while code is on its way there. Loads that overlap share it. */
struct hami_code_site {
    atomic_flag busy;
    unsigned under_way;
    int64_t foreign; /* bytes that the device had given before and the container is not charged for; charging what came
                        brings the figure back to that */
};

static struct hami_code_site sites[HAMI_DEVICES];

/* INT64_MIN: the driver does not tell. */
static int64_t code_foreign_now(unsigned device) {
    size_t left = 0, total = 0;
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || hami_call_cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS) {
        return INT64_MIN;
    }
    return (int64_t)(total - left) - (int64_t)(hami_ledger_sum(view->region, device) << HAMI_PAGE_SHIFT);
}

/* What other threads are just taking or giving back makes the figure smaller, so the largest of several is nearest. */
static int64_t code_foreign_before(unsigned device) {
    enum { LOOKS = 3 };
    int64_t most = INT64_MIN;
    for (unsigned i = 0; i < LOOKS; i++) {
        int64_t now = code_foreign_now(device);
        most = now > most ? now : most;
    }
    return most;
}

/* Bytes that have come to the device since then and that are not charged yet. */
static uint64_t code_growth(const struct hami_code_site *site, unsigned device) {
    int64_t now = code_foreign_now(device);
    if (now == INT64_MIN || site->foreign == INT64_MIN || now <= site->foreign) {
        return 0;
    }
    int64_t grown = now - site->foreign;
    return (uint64_t)(grown < CODE_MAX_BYTES ? grown : CODE_MAX_BYTES);
}

/* Before the driver's call; loading_end comes after it. */
static void loading_begin(struct hami_loading *l) {
    const struct hami_limits *limits = hami_state_limits();
    bool current = limits->mode != HAMI_MODE_OFF && hami_context_current(&l->context);
    int index = current ? hami_charge_counted(l->context.device) : -1;
    l->site = NULL;
    if (index >= 0) {
        l->device = (unsigned)index;
        l->site = &sites[index];
        HAMI_HOLD(&l->site->busy);
        if (l->site->under_way++ == 0) {
            l->site->foreign = code_foreign_before(l->device);
        }
    }
}

/* The code of a library lies in each context apart. */
static uint64_t code_key(const void *code, unsigned context) {
    return (uint64_t)(uintptr_t)code | (uint64_t)context << CONTEXT_SHIFT;
}

static bool loading_record(const struct hami_loading *l, const void *code, const struct hami_charge *charge) {
    uint64_t key = code_key(code, l->context.id);
    if (charge->device < 0 || (key != 0 && hami_record_code(key, charge, l->context.id))) {
        return true;
    }
    hami_charge_give_back(charge, HAMI_COLUMN_MODULE);
    return false;
}

/*
 * Charges `code` with what came. Nothing came if the driver refused: what has grown meanwhile is other threads' code.
 * False: it does not fit, and the caller must unload it. Code that stays is charged whatever the limit, which then
 * refuses what comes next.
 */
static bool loading_end(struct hami_loading *l, CUresult status, const void *code, bool stays) {
    struct hami_charge charge = {-1, 0};
    bool fits = true;
    if (l->site == NULL) {
        return true;
    }
    HAMI_HOLD(&l->site->busy);
    uint64_t bytes = status == CUDA_SUCCESS ? code_growth(l->site, l->device) : 0;
    if (bytes != 0 && stays) {
        hami_charge_found(l->context.device, HAMI_COLUMN_MODULE, &charge, bytes >> HAMI_PAGE_SHIFT);
    } else if (bytes != 0) {
        fits = hami_charge_take(l->context.device, bytes, HAMI_COLUMN_MODULE, &charge);
    }
    l->site->under_way--;
    return fits && loading_record(l, code, &charge);
}

bool hami_loading_begin(struct hami_loading *l, enum hami_hook unload) {
    loading_begin(l);
    l->unload = unload;
    return true;
}

CUresult hami_loading_end(struct hami_loading *l, CUresult status, void *const *code) {
    if (loading_end(l, status, status == CUDA_SUCCESS ? *code : NULL, false)) {
        return status;
    }
    CUresult (*driver)(void *) = hami_driver_function(l->unload);
    (void)driver(*code);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* What a function of a library or module makes the driver load stays, and is charged to that. */
static CUresult loading_stayed(struct hami_loading *l, CUresult status, const void *code) {
    (void)loading_end(l, status, code, true);
    return status;
}

/* Records leave before the memory does, as everywhere. */
int32_t hami_module_unload(enum hami_hook hook, void *module) {
    uint64_t records[HAMI_CONTEXTS] = {0};
    for (unsigned context = 0; module != NULL && context < HAMI_CONTEXTS; context++) {
        records[context] = hami_record_take(code_key(module, context));
    }
    CUresult status = hami_call_module_unload(hook, module);
    for (unsigned context = 0; context < HAMI_CONTEXTS; context++) {
        (void)hami_record_freed(code_key(module, context), records[context], status);
    }
    return status;
}

int32_t hami_library_module(enum hami_hook hook, void **module, void *library) {
    struct hami_loading l;
    loading_begin(&l);
    return loading_stayed(&l, hami_call_library_module(hook, module, library), library);
}

int32_t hami_kernel_function(enum hami_hook hook, void **function, void *kernel) {
    void *library = NULL;
    struct hami_loading l;
    loading_begin(&l);
    CUresult status = hami_call_kernel_function(hook, function, kernel);
    if (status == CUDA_SUCCESS) {
        (void)hami_call_cuKernelGetLibrary(&library, kernel);
    }
    return loading_stayed(&l, status, library);
}

int32_t hami_function_load(enum hami_hook hook, void *function) {
    void *module = NULL;
    struct hami_loading l;
    loading_begin(&l);
    CUresult status = hami_call_function_load(hook, function);
    if (status == CUDA_SUCCESS) {
        (void)hami_call_cuFuncGetModule(&module, function);
    }
    return loading_stayed(&l, status, module);
}

void hami_modules_after_fork(void) {
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        atomic_flag_clear(&sites[i].busy);
        sites[i].under_way = 0;
    }
}
