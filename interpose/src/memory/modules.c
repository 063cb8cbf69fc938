/*
 * Charges for code on the device: modules, libraries and functions, which the driver may load when a program first asks
 * for them. The driver does not tell how much memory code takes, so this file measures by how much the device's memory
 * in use grows during the driver's call, and subtracts what the container's allocations took meanwhile. The generated
 * wrappers call hami_loading_begin before the driver's function, and hami_loading_end or hami_loading_stays after it.
 */
#include "memory/around.h"

#include "ledger/state.h"
#include "memory/memory.h"
#include "memory/records.h"
#include "policies.h"
#include "threads.h"

#include <string.h>

enum { CONTEXT_SHIFT = 48 }; /* addresses in programs have at most 48 bits */

/*
 * The most that is charged for one load. In the device's figures an allocation of another container looks like our
 * code, and a container must not reach its limit because of another one.
 */
#define CODE_MAX_BYTES (INT64_C(64) << 20)

/* One device while the driver may be loading code onto it. Loads that overlap in time share it. */
struct hami_code_site {
    atomic_flag busy;
    unsigned under_way; /* number of loads that have begun and not ended */
    int64_t foreign;    /* bytes in use on the device, less the container's charges, before the first of these loads */
};

static struct hami_code_site sites[HAMI_DEVICES];

/* Bytes in use on the device that are not charged to the container. INT64_MIN: the driver does not tell. */
static int64_t code_foreign_now(unsigned device) {
    size_t left = 0, total = 0;
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || hami_call_cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS) {
        return INT64_MIN;
    }
    return (int64_t)(total - left) - (int64_t)(hami_ledger_sum(view->region, device) << HAMI_PAGE_SHIFT);
}

/* Takes the largest of three figures: one is too low while an allocation is charged and not yet on the device. */
static int64_t code_foreign_before(unsigned device) {
    enum { LOOKS = 3 };
    int64_t most = INT64_MIN;
    for (unsigned i = 0; i < LOOKS; i++) {
        int64_t now = code_foreign_now(device);
        most = now > most ? now : most;
    }
    return most;
}

/* By how many bytes uncharged memory has grown since the loads began; at most CODE_MAX_BYTES. */
static uint64_t code_growth(const struct hami_code_site *site, unsigned device) {
    int64_t now = code_foreign_now(device);
    if (now == INT64_MIN || site->foreign == INT64_MIN || now <= site->foreign) {
        return 0;
    }
    int64_t grown = now - site->foreign;
    return (uint64_t)(grown < CODE_MAX_BYTES ? grown : CODE_MAX_BYTES);
}

struct hami_loading hami_loading_begin(void) {
    struct hami_loading l = {.site = NULL};
    bool current = hami_state_limits()->mode != HAMI_MODE_OFF && hami_context_current(&l.context);
    l.device = current ? hami_charge_counted(l.context.device) : -1;
    if (l.device >= 0) {
        l.site = &sites[l.device];
        HAMI_HOLD(&l.site->busy);
        if (l.site->under_way++ == 0) {
            l.site->foreign = code_foreign_before((unsigned)l.device);
        }
    }
    return l;
}

/* The key of a record. A library has one handle and code in several contexts, so the key includes the context's id. */
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
 * Charges `code` for the growth since the loads began. If the driver refused this load, the growth is code that
 * another thread loads and charges. If `stays`, the limit is not checked, since the driver cannot unload this code
 * alone. False: the charge does not fit, or cannot be recorded.
 */
static bool loading_charge(struct hami_loading *l, CUresult status, const void *code, bool stays) {
    struct hami_charge charge = {-1, 0};
    bool fits = true;
    if (l->site == NULL) {
        return true;
    }
    HAMI_HOLD(&l->site->busy);
    uint64_t bytes = status == CUDA_SUCCESS ? code_growth(l->site, (unsigned)l->device) : 0;
    if (bytes != 0 && stays) {
        hami_charge_found(l->context.device, HAMI_COLUMN_MODULE, &charge, bytes >> HAMI_PAGE_SHIFT);
    } else if (bytes != 0) {
        fits = hami_charge_take(l->context.device, bytes, HAMI_COLUMN_MODULE, &charge);
    }
    l->site->under_way--;
    return fits && loading_record(l, code, &charge);
}

CUresult hami_loading_end(struct hami_loading *l, CUresult status, void *const *code, enum hami_hook unload) {
    if (loading_charge(l, status, status == CUDA_SUCCESS ? *code : NULL, false)) {
        return status;
    }
    CUresult (*driver)(void *) = hami_driver_function(unload);
    (void)driver(*code);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult hami_loading_stays(struct hami_loading *l, CUresult status, hami_code_owner *ask, void *of) {
    void *owner = of;
    if (status == CUDA_SUCCESS && ask != NULL && ask(&owner, of) != CUDA_SUCCESS) {
        owner = NULL;
    }
    (void)loading_charge(l, status, owner, true);
    return status;
}

/* Takes the records out before the driver unloads the code: afterwards another thread may be given the same handle. */
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

void hami_modules_after_fork(void) {
    memset(sites, 0, sizeof sites); /* an atomic_flag of zeros is clear */
}
