/* Host memory in place of the device's; see oversubscribe.h. */
#include "hami/oversubscribe.h"

#include "hami/account.h"
#include "hami/context.h"
#include "hami/guest.h"
#include "hami/hook.h"

enum { SET_PREFERRED_LOCATION = 3, SET_ACCESSED_BY = 5 }; /* CUmem_advise */
enum { HOST = -1 };                                       /* CU_DEVICE_CPU */

/* Without this the driver would move pages to the device that touches them, past its share, and others' away. */
static bool keep_in_host(CUdeviceptr address, uint64_t bytes, CUdevice device) {
    CUresult (*advise)(CUdeviceptr, size_t, int, CUdevice) = hami_cuda_function("cuMemAdvise");
    return advise != NULL && advise(address, bytes, SET_PREFERRED_LOCATION, HOST) == CUDA_SUCCESS &&
           advise(address, bytes, SET_ACCESSED_BY, device) == CUDA_SUCCESS;
}

/* The allocation stands: recorded, and told to whoever reads the region. */
static bool keep(CUdeviceptr address, const struct hami_charge *charge, unsigned context) {
    struct hami_region_view *view = hami_guest_region(NULL);
    if (view == NULL || !hami_record_large(address, charge, context)) {
        return false;
    }
    struct hami_device *host = &view->region->block.devices[charge->device];
    (void)atomic_fetch_add_explicit(&host->placed, 1, memory_order_relaxed);
    (void)atomic_fetch_add_explicit(&host->placed_bytes, charge->pages << HAMI_PAGE_SHIFT, memory_order_relaxed);
    return true;
}

CUresult hami_allocate_in_host(CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    CUresult (*allocate)(CUdeviceptr *, size_t, uint32_t) = hami_driver_function(HAMI_cuMemAllocManaged);
    CUresult (*free_it)(CUdeviceptr) = hami_driver_function(HAMI_cuMemFree_v2);
    struct hami_context context;
    struct hami_charge charge;
    CUdeviceptr made = 0;
    if (!hami_context_current(&context) || !hami_charge_take_host(context.device, bytes, &charge)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = allocate(&made, bytes, flags);
    if (status != CUDA_SUCCESS) {
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        return status == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : status;
    }
    if (!keep_in_host(made, bytes, context.device) || !keep(made, &charge, context.id)) {
        (void)free_it(made);
        hami_charge_give_back(&charge, HAMI_COLUMN_DATA);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = made;
    return CUDA_SUCCESS;
}
