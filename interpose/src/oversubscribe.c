/* Host memory in place of the device's; see oversubscribe.h. */
#include "hami/oversubscribe.h"

#include "hami/account.h"
#include "hami/hook.h"

enum { CONCURRENT_MANAGED_ACCESS = 89 };                  /* CUdevice_attribute */
enum { SET_PREFERRED_LOCATION = 3, SET_ACCESSED_BY = 5 }; /* CUmem_advise */
enum { HOST = -1 };                                       /* CU_DEVICE_CPU */

bool hami_host_reachable(CUdevice device) {
    int can = 0;
    CUresult (*attribute)(int *, int, CUdevice) = hami_cuda_function("cuDeviceGetAttribute");
    return attribute != NULL && attribute(&can, CONCURRENT_MANAGED_ACCESS, device) == CUDA_SUCCESS && can != 0;
}

/* Without this the driver would move pages to the device that touches them, past its share, and others' away. */
static bool keep_in_host(CUdeviceptr address, uint64_t bytes, CUdevice device) {
    CUresult (*advise)(CUdeviceptr, size_t, int, CUdevice) = hami_cuda_function("cuMemAdvise");
    return advise != NULL && advise(address, bytes, SET_PREFERRED_LOCATION, HOST) == CUDA_SUCCESS &&
           advise(address, bytes, SET_ACCESSED_BY, device) == CUDA_SUCCESS;
}

CUresult hami_allocate_in_host(CUdeviceptr *address, uint64_t bytes, uint32_t flags) {
    CUresult (*allocate)(CUdeviceptr *, size_t, uint32_t) = hami_driver_function(HAMI_cuMemAllocManaged);
    CUresult (*free_it)(CUdeviceptr) = hami_driver_function(HAMI_cuMemFree_v2);
    struct hami_allocation a;
    CUdeviceptr made = 0;
    if (!hami_allocation_begin_in_host(&a, bytes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = allocate(&made, bytes, flags);
    if (status != CUDA_SUCCESS) {
        hami_allocation_cancel(&a);
        return status == CUDA_ERROR_NOT_SUPPORTED ? CUDA_ERROR_OUT_OF_MEMORY : status;
    }
    if (!keep_in_host(made, bytes, a.device)) {
        (void)free_it(made);
        hami_allocation_cancel(&a);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!hami_allocation_end_in_host(&a, made)) {
        (void)free_it(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = made;
    return CUDA_SUCCESS;
}
