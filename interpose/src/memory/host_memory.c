/*
 * Host memory in place of the device's, where the administrator scales memory beyond the device: managed memory that
 * stays in the host, which the device reads and writes over its link (docs/explanation/oversubscription.md).
 */
#include "memory/allocation.h"

#include "ledger/state.h"
#include "memory/contexts.h"
#include "memory/records.h"
#include "policies.h"

/* Without this advice the driver would move pages to the device that touches them, past its share, and others' away. */
static bool host_keep(CUdeviceptr address, uint64_t bytes, CUdevice device) {
    return hami_call_cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU) == CUDA_SUCCESS &&
           hami_call_cuMemAdvise(address, bytes, CU_MEM_ADVISE_SET_ACCESSED_BY, device) == CUDA_SUCCESS;
}

/* The allocation stands: records it, and counts it in the region for its readers. */
static bool host_record(CUdeviceptr address, const struct hami_charge *charge, unsigned context) {
    struct hami_region_view *view = hami_state_region(NULL);
    if (view == NULL || !hami_record_large(address, charge, context)) {
        return false;
    }
    struct hami_device *host = &view->region->block.devices[charge->device];
    (void)atomic_fetch_add_explicit(&host->placed, 1, memory_order_relaxed); /* figures for people */
    (void)atomic_fetch_add_explicit(&host->placed_bytes, charge->pages << HAMI_PAGE_SHIFT, memory_order_relaxed);
    return true;
}

CUresult hami_host_allocate(CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    struct hami_context context;
    struct hami_charge charge;
    CUdeviceptr made = 0;
    if (!hami_context_current(&context) || !hami_charge_take_host(context.device, bytes, &charge)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_cuMemAllocManaged(&made, bytes, flags);
    if (status == CUDA_SUCCESS &&
        (!host_keep(made, bytes, context.device) || !host_record(made, &charge, context.id))) {
        (void)hami_call_cuMemFree_v2(made);
        status = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (status == CUDA_SUCCESS) {
        *address = made;
    } else {
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
    }
    return status == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : status;
}
