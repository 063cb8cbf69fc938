/* Fill every visible device to its last block through the CUDA driver API and say what happened.
 *
 * A plain C program, linked with libcuda.so.1 as any other: cc probe.c -l:libcuda.so.1. Prints one JSON line of the
 * same form as its Python sibling.
 *
 *     cuda-probe [look] [SECONDS]
 *
 * With "look" nothing is allocated; SECONDS is how long to stay, memory and all. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int CUresult;
typedef int CUdevice;
typedef void *CUcontext;
typedef unsigned long long CUdeviceptr;
typedef struct { unsigned char bytes[16]; } CUuuid;

extern CUresult cuInit(unsigned int flags);
extern CUresult cuDeviceGetCount(int *count);
extern CUresult cuDeviceGet(CUdevice *device, int ordinal);
extern CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
extern CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
extern CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
extern CUresult cuCtxSetCurrent(CUcontext context);
extern CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total);
extern CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes);
extern CUresult cuMemFree_v2(CUdeviceptr pointer);

enum { MIB = 1 << 20 };

static void must(CUresult result, const char *call)
{
    if (result != 0) {
        fprintf(stderr, "%s failed: %d\n", call, result);
        exit(1);
    }
}

static void visit(int index, int look, int *again)
{
    static const size_t steps[] = {1024, 256, 64, 16, 4, 2};
    CUdevice device;
    CUcontext context;
    CUuuid uuid;
    size_t total, free_before, ignored, size, last_size = 0, taken = 0;
    CUdeviceptr pointer, last = 0;
    CUresult result = 0;

    must(cuDeviceGet(&device, index), "cuDeviceGet");
    must(cuDeviceGetUuid_v2(&uuid, device), "cuDeviceGetUuid");
    must(cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    must(cuCtxSetCurrent(context), "cuCtxSetCurrent");
    must(cuDeviceTotalMem_v2(&total, device), "cuDeviceTotalMem");
    must(cuMemGetInfo_v2(&free_before, &ignored), "cuMemGetInfo");
    for (size_t i = 0; !look && i < sizeof steps / sizeof *steps; i++)
        for (;;) {
            size = steps[i] * MIB;
            result = cuMemAlloc_v2(&pointer, size);
            if (result != 0)
                break;
            taken += size;
            last = pointer;
            last_size = size;
        }
    if (last != 0) { /* one block given back must fit again */
        must(cuMemFree_v2(last), "cuMemFree");
        *again = *again && cuMemAlloc_v2(&last, last_size) == 0;
    }
    printf("%s{\"index\": %d, \"uuid\": \"GPU-", index ? ", " : "", index);
    for (int i = 0; i < 16; i++)
        printf("%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid.bytes[i]);
    printf("\", \"total_bytes\": %zu, \"free_before_bytes\": %zu", total, free_before);
    if (!look)
        printf(", \"allocated_bytes\": %zu, \"refusal\": %d", taken, result);
    printf("}");
}

int main(int argc, char **argv)
{
    int count = 0, again = 1;
    int look = argc > 1 && strcmp(argv[1], "look") == 0;
    const char *seconds = argc > 1 + look ? argv[1 + look] : "0";

    must(cuInit(0), "cuInit");
    must(cuDeviceGetCount(&count), "cuDeviceGetCount");
    printf("{\"program\": \"driver-api-c\", \"pid\": %d, \"devices\": [", (int)getpid());
    for (int index = 0; index < count; index++)
        visit(index, look, &again);
    printf("], \"again\": %s}\n", again ? "true" : "false");
    fflush(stdout);
    sleep((unsigned int)atoi(seconds));
    return 0;
}
