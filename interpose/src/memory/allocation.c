/* Allocations under way; see allocation.h. Every allocation passes here: this file is on the hot path. */
#include "memory/allocation.h"

#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/records.h"

HAMI_HOT bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way) {
    struct hami_context context;
    *a = (struct hami_allocation){.charge = {-1, 0}, .large = (way & HAMI_LARGE) != 0};
    if (!hami_context_assumed(&context)) {
        return true; /* no context: the driver's answer says so */
    }
    a->context = context.id;
    if (!a->large && bytes < HAMI_SMALL_BELOW) {
        int index = hami_charge_counted(context.device);
        if (index >= 0 && hami_block_has_room(index, hami_block_order(bytes))) {
            a->charge.device = index;
            return true;
        }
    }
    bool taken = hami_charge_take_data(context.device, hami_large(bytes), (way & HAMI_OR_HOST) != 0, &a->charge);
    return taken || !hami_context_current(&context); /* without a context the driver says so */
}

/* The driver may start a block although the last one had room. Then the allocation needs a charge after all. */
HAMI_HOT static bool allocation_keep_small(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    unsigned order = hami_block_order(actual);
    enum hami_block_entry entry = hami_block_enter(address, order, &a->charge, a->context);
    if (entry == HAMI_BLOCK_REFUSED && a->charge.pages == 0 && hami_charge_grow(&a->charge, HAMI_LARGE_STEP)) {
        entry = hami_block_enter(address, order, &a->charge, a->context);
    }
    if (entry != HAMI_BLOCK_REFUSED) {
        hami_charge_lower(&a->charge, HAMI_COLUMN_DATA,
                          entry == HAMI_BLOCK_JOINED ? 0 : HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT);
    }
    return entry != HAMI_BLOCK_REFUSED;
}

HAMI_HOT static bool allocation_keep_large(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    uint64_t pages = actual == 0 ? a->charge.pages : hami_large(actual) >> HAMI_PAGE_SHIFT;
    if (pages > a->charge.pages && !hami_charge_grow(&a->charge, (pages - a->charge.pages) << HAMI_PAGE_SHIFT)) {
        return false;
    }
    hami_charge_lower(&a->charge, HAMI_COLUMN_DATA, pages);
    return hami_record_large(address, &a->charge, a->context);
}

HAMI_HOT CUresult hami_allocation_end(struct hami_allocation *a, CUresult status, uint64_t address, uint64_t actual,
                                      enum hami_hook destroy) {
    if (a->charge.device < 0) {
        return status;
    }
    bool small = !a->large && actual < HAMI_SMALL_BELOW;
    if (HAMI_LIKELY(status == CUDA_SUCCESS)) {
        bool kept = small ? allocation_keep_small(a, address, actual) : allocation_keep_large(a, address, actual);
        if (HAMI_LIKELY(kept)) {
            return status;
        }
        CUresult (*driver)(uint64_t) = hami_driver_function(destroy);
        (void)driver(address);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    hami_charge_give_back(&a->charge, HAMI_COLUMN_DATA);
    return status;
}
