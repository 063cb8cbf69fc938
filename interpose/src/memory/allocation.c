/* Allocations under way; see allocation.h. Every allocation passes here: this file is on the hot path. */
#include "memory/allocation.h"

#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/records.h"

#include <string.h>

HAMI_HOT bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way) {
    struct hami_context context;
    memset(a, 0, sizeof *a);
    a->charge.device = -1;
    if (!hami_context_assumed(&context)) {
        return true; /* no context: the driver's answer says so */
    }
    a->context = context.id;
    a->device = context.device;
    a->large = (way & HAMI_LARGE) != 0;
    if (!a->large && bytes < HAMI_SMALL_BELOW) {
        int index = hami_charge_index(context.device);
        a->in_room = index >= 0 && hami_block_has_room(index, hami_block_order(bytes));
        a->charge.device = a->in_room ? index : -1;
    }
    if (!a->in_room) {
        bool taken = (way & HAMI_OR_HOST) != 0
                         ? hami_charge_take_or_host(context.device, hami_large(bytes), &a->charge)
                         : hami_charge_take(context.device, hami_large(bytes), HAMI_COLUMN_DATA, &a->charge);
        if (!taken) {
            return !hami_context_current(&context); /* without a context the driver says so */
        }
    }
    a->counted = a->charge.device >= 0;
    return true;
}

static enum hami_block_entry allocation_enter(const struct hami_allocation *a, uint64_t address, unsigned order) {
    return hami_block_enter(address, order, a->charge.device, a->context, !a->in_room);
}

/* The driver started a block although the last one had room: it needs a charge after all. */
HAMI_COLD static enum hami_block_entry allocation_enter_charged(struct hami_allocation *a, uint64_t address,
                                                                unsigned order) {
    a->in_room = false;
    bool taken = hami_charge_take(a->device, HAMI_LARGE_STEP, HAMI_COLUMN_DATA, &a->charge);
    return taken ? allocation_enter(a, address, order) : HAMI_BLOCK_REFUSED;
}

HAMI_HOT static bool allocation_end_small(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    const uint64_t block_pages = HAMI_LARGE_STEP >> HAMI_PAGE_SHIFT;
    unsigned order = hami_block_order(actual);
    enum hami_block_entry entry = allocation_enter(a, address, order);
    if (entry == HAMI_BLOCK_REFUSED && a->in_room) {
        entry = allocation_enter_charged(a, address, order);
    }
    if (entry != HAMI_BLOCK_REFUSED && !a->in_room) {
        uint64_t needed = entry == HAMI_BLOCK_JOINED ? 0 : block_pages;
        hami_charge_shrink(&a->charge, a->charge.pages - needed);
    }
    return entry != HAMI_BLOCK_REFUSED;
}

HAMI_HOT static bool allocation_end_large(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    uint64_t pages = hami_large(actual) >> HAMI_PAGE_SHIFT;
    if (pages > a->charge.pages && !hami_charge_grow(&a->charge, (pages - a->charge.pages) << HAMI_PAGE_SHIFT)) {
        return false;
    }
    hami_charge_shrink(&a->charge, a->charge.pages - pages);
    return hami_record_large(address, &a->charge, a->context);
}

HAMI_HOT bool hami_allocation_end(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    if (!a->counted) {
        return true;
    }
    bool small = !a->large && actual < HAMI_SMALL_BELOW;
    bool stands = small ? allocation_end_small(a, address, actual) : allocation_end_large(a, address, actual);
    if (!HAMI_LIKELY(stands)) {
        hami_allocation_cancel(a);
    }
    return stands;
}

void hami_allocation_cancel(struct hami_allocation *a) {
    if (a->counted) {
        hami_charge_give_back(&a->charge, HAMI_COLUMN_DATA);
    }
}

CUresult hami_allocation_kept(struct hami_allocation *a, CUresult status, uint64_t address, uint64_t actual,
                              enum hami_hook destroy) {
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(a);
        return status;
    }
    if (hami_allocation_end(a, address, actual)) {
        return status;
    }
    CUresult (*driver)(uint64_t) = hami_driver_function(destroy);
    (void)driver(address);
    return CUDA_ERROR_OUT_OF_MEMORY;
}
