/*
 * Reserves and records the charges of allocations (allocation.h), and has the policies of linear memory. Where the
 * limits offer host memory, an allocation that does not fit on the device is placed there. The 32-bit calls of CUDA 3.1
 * and before have generated wrappers instead of policies (spec/cuda.toml), and get no host memory.
 */
#include "memory/allocation.h"

#include "ledger/state.h"
#include "memory/blocks.h"
#include "memory/contexts.h"
#include "memory/records.h"
#include "policies.h"

HAMI_HOT bool hami_allocation_begin(struct hami_allocation *a, uint64_t bytes, unsigned way) {
    struct hami_context context;
    *a = (struct hami_allocation){.charge = {-1, 0}, .large = (way & HAMI_LARGE) != 0};
    if (!hami_context_assumed(&context)) {
        return true; /* the driver will answer CUDA_ERROR_INVALID_CONTEXT */
    }
    a->context = context.id;
    if (!a->large && bytes < HAMI_SMALL_BELOW) {
        int index = hami_block_with_room(hami_block_order(bytes));
        if (index >= 0 && index == hami_charge_counted(context.device)) {
            a->charge.device = index;
            return true;
        }
    }
    bool taken = hami_charge_take_or_host(context.device, hami_large(bytes), HAMI_COLUMN_DATA,
                                          (way & HAMI_OR_HOST) != 0, &a->charge);
    return taken || !hami_context_current(&context); /* without a context, the driver will refuse the call */
}

/*
 * If hami_allocation_begin expected room in a block and reserved nothing, the driver may still have started a new
 * block. Then the allocation needs a charge after all.
 */
HAMI_HOT static bool allocation_keep_small(struct hami_allocation *a, uint64_t address, uint64_t actual) {
    unsigned order = hami_block_order(actual);
    bool kept = hami_block_enter(address, order, &a->charge, a->context);
    if (!kept && a->charge.pages == 0 && hami_charge_grow(&a->charge, HAMI_LARGE_STEP)) {
        kept = hami_block_enter(address, order, &a->charge, a->context);
    }
    if (kept) {
        hami_charge_lower(&a->charge, HAMI_COLUMN_DATA, 0); /* gives back what the block does not need */
    }
    return kept;
}

/* Charges `actual` bytes (0: what was reserved) and records the allocation. False: no room, or not recorded. */
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

/* ---- host memory in place of device memory (docs/explanation/oversubscription.md) ---- */

/* Advises the driver to keep the memory in the host. Otherwise it would move pages to the device that accesses them. */
static bool host_advise(CUdeviceptr address, uint64_t bytes, CUdevice device) {
    return hami_call_cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU) == CUDA_SUCCESS &&
           hami_call_cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device) == CUDA_SUCCESS;
}

/* Records an allocation in host memory, and adds it to the region's figures (struct hami_device). */
static bool host_record(CUdeviceptr address, const struct hami_charge *charge, unsigned context) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || !hami_record_large(address, charge, context)) {
        return false;
    }
    struct hami_device *host = &view->region->block.devices[charge->device];
    (void)atomic_fetch_add_explicit(&host->placed, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&host->placed_bytes, charge->pages << HAMI_PAGE_SHIFT, memory_order_relaxed);
    return true;
}

/*
 * Allocates managed memory that stays in the host. `flags` are those of cuMemAllocManaged. CUDA_ERROR_OUT_OF_MEMORY:
 * the limits offer no host memory, or too little is left.
 */
HAMI_COLD static CUresult host_allocate(CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    struct hami_context context;
    struct hami_charge charge;
    CUdeviceptr made = 0;
    if (!hami_context_current(&context) || !hami_charge_take_host(context.device, bytes, &charge)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_cuMemAllocManaged(&made, bytes, flags);
    if (status == CUDA_SUCCESS &&
        (!host_advise(made, bytes, context.device) || !host_record(made, &charge, context.id))) {
        (void)hami_call_cuMemFree_v2(made);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status != CUDA_SUCCESS) {
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        return status == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : status;
    }
    *address = made;
    return CUDA_SUCCESS;
}

/* ---- policies ---- */

HAMI_FLAT int32_t hami_mem_alloc(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes) {
    struct hami_allocation a;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    if (address == NULL || bytes == 0) {
        return hami_call_mem_alloc(hook, address, bytes);
    }
    if (hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        status = hami_call_mem_alloc(hook, address, bytes);
        status = hami_allocation_end(&a, status, *address, bytes, HAMI_cuMemFree_v2);
    }
    bool full = status == CUDA_ERROR_OUT_OF_MEMORY; /* the limit is reached, or the device itself is full */
    return full ? host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL) : status;
}

int32_t hami_mem_alloc_pitch(enum hami_hook hook, CUdeviceptr *address, size_t *pitch, uint64_t width, uint64_t height,
                             uint32_t element) {
    struct hami_allocation a;
    CUresult status = CUDA_ERROR_OUT_OF_MEMORY;
    size_t padded = hami_row(width);
    uint64_t bytes = hami_product(padded, height);
    bool sensible = element == 4 || element == 8 || element == 16;
    if (address == NULL || pitch == NULL || width == 0 || height == 0 || !sensible) {
        return hami_call_mem_alloc_pitch(hook, address, pitch, width, height, element);
    }
    if (hami_allocation_begin(&a, bytes, HAMI_PACKED | HAMI_OR_HOST)) {
        status = hami_call_mem_alloc_pitch(hook, address, &padded, width, height, element);
        status = hami_allocation_end(&a, status, *address, hami_product(padded, height), HAMI_cuMemFree_v2);
    }
    if (status == CUDA_ERROR_OUT_OF_MEMORY) {
        padded = hami_row(width);
        status = host_allocate(address, bytes, CU_MEM_ATTACH_GLOBAL);
    }
    *pitch = status == CUDA_SUCCESS ? padded : *pitch;
    return status;
}

/*
 * The driver may move managed memory to the device at any time without a call of the program, so all of it is charged
 * to the device. Memory that does not fit under the device's limit is charged to the host and stays there.
 */
int32_t hami_mem_alloc_managed(enum hami_hook hook, CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    struct hami_allocation a;
    bool sensible = flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST;
    if (address == NULL || bytes == 0 || !sensible) {
        return hami_call_mem_alloc_managed(hook, address, bytes, flags);
    }
    if (!hami_allocation_begin(&a, bytes, HAMI_LARGE | HAMI_OR_HOST)) {
        return host_allocate(address, bytes, flags);
    }
    CUresult status = hami_call_mem_alloc_managed(hook, address, bytes, flags);
    return hami_allocation_end(&a, status, *address, 0, HAMI_cuMemFree_v2);
}

HAMI_FLAT int32_t hami_mem_free(enum hami_hook hook, CUdeviceptr address) {
    uint64_t record = hami_record_take(address);
    return hami_record_freed(address, record, hami_call_mem_free(hook, address));
}
