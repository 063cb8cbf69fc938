/* A program that links the driver and NVML: fills a card, threads race, all is given back. */
#include <pthread.h>
#include <stdio.h>

#include "cuda_impl.h"
#include "nvml_abi.h"

CUresult cuInit(unsigned flags);
CUresult cuDeviceGetCount(int *count);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size);
CUresult cuMemFree_v2(CUdeviceptr address);
CUresult cuMemGetInfo_v2(size_t *free, size_t *total);
nvmlReturn_t nvmlInit_v2(void);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *device);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);

enum { THREADS = 8, ROUNDS = 20000, LIVE = 64 };
static CUcontext context;

static void *work(void *failed) {
    CUdeviceptr live[LIVE] = {0};
    unsigned seed = (unsigned)(uintptr_t)&live;
    cuCtxSetCurrent(context);
    for (int i = 0; i < ROUNDS; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned at = seed >> 16 & (LIVE - 1);
        size_t size = (size_t)1 << (seed >> 8) % 23;
        if (live[at] != 0 && cuMemFree_v2(live[at]) != CUDA_SUCCESS) {
            return failed;
        }
        if (cuMemAlloc_v2(&live[at], size) != CUDA_SUCCESS) {
            return failed;
        }
    }
    for (int i = 0; i < LIVE; i++) {
        if (live[i] != 0 && cuMemFree_v2(live[i]) != CUDA_SUCCESS) {
            return failed;
        }
    }
    return NULL;
}

int main(void) {
    static CUdeviceptr blocks[4096];
    int devices = 0, count = 0, finished = 0;
    size_t free_bytes = 0, total = 0;
    CUresult error = CUDA_SUCCESS;
    nvmlDevice_t card;
    nvmlMemory_t memory;
    if (cuInit(0) != 0 || cuDeviceGetCount(&devices) != 0 || cuDevicePrimaryCtxRetain(&context, 2) != 0 ||
        cuCtxSetCurrent(context) != 0) {
        return 1;
    }
    while ((error = cuMemAlloc_v2(&blocks[count], (size_t)1 << 30)) == CUDA_SUCCESS) {
        count++;
    }
    for (int i = 0; i < count; i++) {
        if (cuMemFree_v2(blocks[i]) != CUDA_SUCCESS) {
            return 2;
        }
    }
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&threads[i], NULL, work, blocks);
    }
    for (int i = 0; i < THREADS; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        finished += failed == NULL;
    }
    if (cuMemGetInfo_v2(&free_bytes, &total) != 0 || nvmlInit_v2() != 0 || nvmlDeviceGetHandleByIndex_v2(2, &card) != 0 ||
        nvmlDeviceGetMemoryInfo(card, &memory) != 0) {
        return 3;
    }
    printf("{\"devices\": %d, \"oom\": %d, \"blocks\": %d, \"threads\": %d, \"left\": %zu, \"nvml_used\": %llu}\n", devices,
           error, count, finished, (total - free_bytes) >> 20, memory.used >> 20);
    return 0;
}
