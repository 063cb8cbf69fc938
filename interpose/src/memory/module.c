/*
 * Code on the device. What a module or library takes is not told by the driver: it is measured by what the device has
 * left before and after, less what the container's own allocations took meanwhile.
 */
#include "memory/memory.h"

#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/account.h"
#include "memory/context.h"
#include "memory/devices.h"
#include "policies.h"
#include "threads.h"

#include <stdatomic.h>

enum { CONTEXT_SHIFT = 48, CONTEXTS = 256 };

/*
 * More than this is not charged for one load: the device's figures do not tell a neighbour's allocation from our code,
 * and a container must not run into its limit for what another one took.
 */
#define CODE_MAX (INT64_C(64) << 20)

/*
 * One device while code is on its way there; loads that overlap share it. `foreign` is what the device has given and
 * the container is not charged for, before: neighbours' memory, and what nobody counts. Charging what came brings it
 * back to that.
 */
struct site {
    atomic_flag busy;
    unsigned under_way;
    int64_t foreign;
};

/* Code that may be about to come to the current context's device. */
struct arrival {
    struct site *site; /* NULL: nobody counts */
    struct hami_context context;
    unsigned device; /* in the limits */
};

static struct site sites[HAMI_DEVICES];

/* INT64_MIN: the driver does not tell. */
static int64_t foreign_now(unsigned device) {
    size_t left = 0, total = 0;
    CUresult (*info)(size_t *, size_t *) = hami_driver_function(HAMI_cuMemGetInfo_v2);
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || info(&left, &total) != CUDA_SUCCESS) {
        return INT64_MIN;
    }
    return (int64_t)(total - left) - (int64_t)(hami_ledger_sum(view->region, device) << HAMI_PAGE_SHIFT);
}

/* What other threads are just taking or giving back makes the figure smaller, so the largest of several is nearest. */
static int64_t foreign_before(unsigned device) {
    enum { LOOKS = 3 };
    int64_t most = INT64_MIN;
    for (unsigned i = 0; i < LOOKS; i++) {
        int64_t now = foreign_now(device);
        most = now > most ? now : most;
    }
    return most;
}

/* Bytes that have come to the device since and that nobody has been charged for. */
static uint64_t growth(const struct site *site, unsigned device) {
    int64_t now = foreign_now(device);
    if (now == INT64_MIN || site->foreign == INT64_MIN || now <= site->foreign) {
        return 0;
    }
    int64_t grown = now - site->foreign;
    return (uint64_t)(grown < CODE_MAX ? grown : CODE_MAX);
}

/* Before the driver's call; `arrived` comes after it. */
static void watch(struct arrival *a) {
    const struct hami_limits *limits = hami_state_limits();
    a->site = NULL;
    if (limits->mode == HAMI_MODE_OFF || limits->denied != HAMI_REASON_NONE || !hami_context_current(&a->context)) {
        return;
    }
    int index = hami_device_of_cuda(limits, a->context.device);
    if (index >= 0 && (uint32_t)index < limits->device_count) {
        a->device = (unsigned)index;
        a->site = &sites[index];
        hami_spin_lock(&a->site->busy);
        if (a->site->under_way++ == 0) {
            a->site->foreign = foreign_before(a->device);
        }
        hami_spin_unlock(&a->site->busy);
    }
}

/* The code of a library lies in each context apart. */
static uint64_t key_of(const void *code, unsigned context) {
    return (uint64_t)(uintptr_t)code | (uint64_t)context << CONTEXT_SHIFT;
}

static bool record(const struct arrival *a, const void *code, const struct hami_charge *charge) {
    uint64_t key = key_of(code, a->context.id);
    if (charge->device < 0 || (key != 0 && hami_record_code(key, charge, a->context.id))) {
        return true;
    }
    hami_charge_give_back(charge, HAMI_COLUMN_MODULE);
    return false;
}

/*
 * Charges `code` with what came; nothing did if the driver refused, and what has grown meanwhile is for other threads
 * that load. False: it does not fit, and the caller must unload it. Code that stays is charged whatever the limit,
 * which then refuses what comes next.
 */
static bool arrived(struct arrival *a, CUresult status, const void *code, bool stays) {
    struct hami_charge charge = {-1, 0};
    bool fits = true;
    if (a->site == NULL) {
        return true;
    }
    hami_spin_lock(&a->site->busy);
    uint64_t bytes = status == CUDA_SUCCESS ? growth(a->site, a->device) : 0;
    if (bytes != 0 && stays) {
        hami_charge_found(a->context.device, HAMI_COLUMN_MODULE, &charge, bytes >> HAMI_PAGE_SHIFT);
    } else if (bytes != 0) {
        fits = hami_charge_take(a->context.device, bytes, HAMI_COLUMN_MODULE, &charge);
    }
    fits = fits && record(a, code, &charge);
    a->site->under_way--;
    hami_spin_unlock(&a->site->busy);
    return fits;
}

static CUresult loaded(struct arrival *a, CUresult status, void *const *code, enum hami_hook unload) {
    if (arrived(a, status, status == CUDA_SUCCESS ? *code : NULL, false)) {
        return status;
    }
    CUresult (*driver)(void *) = hami_driver_function(unload);
    (void)driver(*code);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

int32_t hami_module_load(enum hami_hook hook, void **module, const void *image) {
    CUresult (*driver)(void **, const void *) = hami_driver_function(hook);
    struct arrival a;
    watch(&a);
    return loaded(&a, driver(module, image), module, HAMI_cuModuleUnload);
}

int32_t hami_module_load_ex(enum hami_hook hook, void **module, const void *image, uint32_t count, void *options,
                            void **values) {
    CUresult (*driver)(void **, const void *, uint32_t, void *, void **) = hami_driver_function(hook);
    struct arrival a;
    watch(&a);
    return loaded(&a, driver(module, image, count, options, values), module, HAMI_cuModuleUnload);
}

int32_t hami_library_load(enum hami_hook hook, void **library, const void *code, void *options, void **values,
                          uint32_t count, void *library_options, void **library_values, uint32_t library_count) {
    CUresult (*driver)(void **, const void *, void *, void **, uint32_t, void *, void **, uint32_t) =
        hami_driver_function(hook);
    struct arrival a;
    watch(&a);
    CUresult status = driver(library, code, options, values, count, library_options, library_values, library_count);
    return loaded(&a, status, library, HAMI_cuLibraryUnload);
}

/* Records leave before the memory does, as everywhere. */
int32_t hami_module_unload(enum hami_hook hook, void *module) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    uint64_t records[CONTEXTS] = {0};
    for (unsigned context = 0; module != NULL && context < CONTEXTS; context++) {
        records[context] = hami_object_take(key_of(module, context));
    }
    CUresult status = driver(module);
    for (unsigned context = 0; context < CONTEXTS; context++) {
        (void)hami_record_freed(key_of(module, context), records[context], status);
    }
    return status;
}

int32_t hami_library_module(enum hami_hook hook, void **module, void *library) {
    CUresult (*driver)(void **, void *) = hami_driver_function(hook);
    struct arrival a;
    watch(&a);
    CUresult status = driver(module, library);
    (void)arrived(&a, status, library, true);
    return status;
}

int32_t hami_kernel_function(enum hami_hook hook, void **function, void *kernel) {
    CUresult (*driver)(void **, void *) = hami_driver_function(hook);
    CUresult (*library_of)(void **, void *) = hami_cuda_function("cuKernelGetLibrary");
    void *library = NULL;
    struct arrival a;
    watch(&a);
    CUresult status = driver(function, kernel);
    if (status == CUDA_SUCCESS && library_of != NULL) {
        (void)library_of(&library, kernel);
    }
    (void)arrived(&a, status, library, true);
    return status;
}

int32_t hami_function_load(enum hami_hook hook, void *function) {
    CUresult (*driver)(void *) = hami_driver_function(hook);
    CUresult (*module_of)(void **, void *) = hami_cuda_function("cuFuncGetModule");
    void *module = NULL;
    struct arrival a;
    watch(&a);
    CUresult status = driver(function);
    if (status == CUDA_SUCCESS && module_of != NULL) {
        (void)module_of(&module, function);
    }
    (void)arrived(&a, status, module, true);
    return status;
}

void hami_modules_after_fork(void) {
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        atomic_flag_clear(&sites[i].busy);
        sites[i].under_way = 0;
    }
}
