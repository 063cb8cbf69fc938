/* The driver's functions for test programs, found in one of the ways programs find them. */
#ifndef DRIVER_H
#define DRIVER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "cuda_abi.h"

/* CUmemPoolProps; the first version of CUDA_ARRAY3D_DESCRIPTOR and of CUDA_ARRAY_DESCRIPTOR */
struct hami_pool_props {
    int32_t type, handle_types;
    struct hami_mem_location location;
    uint64_t rest[9];
};
struct hami_array3d_descriptor_v1 {
    uint32_t width, height, depth, format, channels, flags;
};
struct hami_array_descriptor_v1 {
    uint32_t width, height, format, channels;
};

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

#ifdef DIRECT
#define FUNCTION(name, result, ...) extern result name(__VA_ARGS__);
#else
#define FUNCTION(name, result, ...) static result (*name)(__VA_ARGS__);
#endif

#define FUNCTIONS                                                                                                      \
    FUNCTION(cuInit, int, unsigned)                                                                                    \
    FUNCTION(cuDeviceGetCount, int, int *)                                                                             \
    FUNCTION(cuDevicePrimaryCtxRetain, int, CUcontext *, int)                                                          \
    FUNCTION(cuDevicePrimaryCtxRelease_v2, int, int)                                                                   \
    FUNCTION(cuCtxCreate_v2, int, CUcontext *, unsigned, int)                                                          \
    FUNCTION(cuCtxDestroy_v2, int, CUcontext)                                                                          \
    FUNCTION(cuCtxSetCurrent, int, CUcontext)                                                                          \
    FUNCTION(cuMemAlloc_v2, int, CUdeviceptr *, size_t)                                                                \
    FUNCTION(cuMemAllocPitch_v2, int, CUdeviceptr *, size_t *, size_t, size_t, unsigned)                               \
    FUNCTION(cuMemAllocManaged, int, CUdeviceptr *, size_t, unsigned)                                                  \
    FUNCTION(cuMemFree_v2, int, CUdeviceptr)                                                                           \
    FUNCTION(cuMemGetInfo_v2, int, size_t *, size_t *)                                                                 \
    FUNCTION(cuDeviceTotalMem_v2, int, size_t *, int)                                                                  \
    FUNCTION(cuMemAllocAsync, int, CUdeviceptr *, size_t, CUstream)                                                    \
    FUNCTION(cuMemFreeAsync, int, CUdeviceptr, CUstream)                                                               \
    FUNCTION(cuStreamSynchronize, int, CUstream)                                                                       \
    FUNCTION(cuMemCreate, int, CUmemHandle *, size_t, const struct hami_allocation_prop *, uint64_t)                   \
    FUNCTION(cuMemRelease, int, CUmemHandle)                                                                           \
    FUNCTION(cuMemAddressReserve, int, CUdeviceptr *, size_t, size_t, CUdeviceptr, uint64_t)                           \
    FUNCTION(cuMemMap, int, CUdeviceptr, size_t, size_t, CUmemHandle, uint64_t)                                        \
    FUNCTION(cuMemUnmap, int, CUdeviceptr, size_t)                                                                     \
    FUNCTION(cuArray3DCreate_v2, int, CUarray *, const struct hami_array3d_descriptor *)                               \
    FUNCTION(cuArrayDestroy, int, CUarray)                                                                             \
    FUNCTION(cuModuleLoadData, int, void **, const void *)                                                             \
    FUNCTION(cuModuleGetFunction, int, void **, void *, const char *)                                                  \
    FUNCTION(cuLaunchKernel, int, void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
             CUstream, void **, void **)                                                                               \
    FUNCTION(cuStreamCreate, int, CUstream *, unsigned)                                                                \
    FUNCTION(cuStreamDestroy_v2, int, CUstream)                                                                        \
    FUNCTION(cuStreamBeginCapture_v2, int, CUstream, int)                                                              \
    FUNCTION(cuStreamEndCapture, int, CUstream, void **)                                                               \
    FUNCTION(cuGraphInstantiateWithFlags, int, void **, void *, uint64_t)                                              \
    FUNCTION(cuGraphLaunch, int, void *, CUstream)                                                                     \
    FUNCTION(cuDeviceGraphMemTrim, int, int)

#define NVML_FUNCTIONS                                                                                                 \
    FUNCTION(nvmlInit_v2, int, void)                                                                                   \
    FUNCTION(nvmlDeviceGetHandleByIndex_v2, int, unsigned, nvmlDevice *)                                               \
    FUNCTION(nvmlDeviceGetMemoryInfo, int, nvmlDevice, struct nvml_memory *)                                           \
    FUNCTION(nvmlDeviceGetComputeRunningProcesses_v3, int, nvmlDevice, unsigned *, struct nvml_process *)

FUNCTIONS
NVML_FUNCTIONS
#undef FUNCTION

__attribute__((unused, noreturn)) static void fail(const char *what, int status) {
    fprintf(stderr, "%s: %d\n", what, status);
    exit(1);
}

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        int check_status = (call);                                                                                     \
        if (check_status != 0)                                                                                         \
            fail(#call, check_status);                                                                                 \
    } while (0)

#ifndef DIRECT
static void *library_function(void *library, const char *name) {
#ifdef GET_PROC_ADDRESS
    int (*get)(const char *, void **, int, uint64_t, void *) = dlsym(library, "cuGetProcAddress_v2");
    char base[64];
    void *found = NULL;
    size_t length = strlen(name);
    snprintf(base, sizeof base, "%.*s", (int)(strcmp(name + length - 3, "_v2") == 0 ? length - 3 : length), name);
    if (get != NULL && strncmp(name, "cu", 2) == 0) {
        CHECK(get(base, &found, 12000, 0, NULL));
        return found;
    }
#endif
    return dlsym(library, name);
}
#endif

/*
 * Opens libraries, which a variable may name in place of the usual one, and returns the last. One behind a "+" is
 * opened in a namespace of its own.
 */
__attribute__((unused)) static void *open_libraries(const char *variable, const char *usual) {
    const char *asked = getenv(variable);
    char *names = strdup(asked != NULL ? asked : usual), *rest = NULL;
    void *library = NULL;
    for (char *name = strtok_r(names, " ", &rest); name != NULL; name = strtok_r(NULL, " ", &rest))
        if ((library = *name == '+' ? dlmopen(LM_ID_NEWLM, name + 1, RTLD_NOW) : dlopen(name, RTLD_NOW)) == NULL)
            fail(dlerror(), 0);
    free(names);
    return library;
}

static void *cuda_library, *nvml_library; /* with DIRECT, NULL: RTLD_DEFAULT */

__attribute__((unused)) static void find_driver(void) {
#ifndef DIRECT
    void *library = cuda_library = open_libraries("CUDA_FILES", "libcuda.so.1");
#define FUNCTION(name, result, ...)                                                                                    \
    name = (result (*)(__VA_ARGS__))library_function(library, #name);                                                  \
    if (name == NULL)                                                                                                  \
        fail("no " #name, 0);
    FUNCTIONS
    library = nvml_library = open_libraries("NVML_FILES", "libnvidia-ml.so.1");
    NVML_FUNCTIONS
#undef FUNCTION
#endif
}

__attribute__((unused)) static void start_driver(void) {
    find_driver();
    CHECK(cuInit(0));
    CHECK(nvmlInit_v2());
}

/* A function that few programs need, of CUDA's or NVML's; arguments must have the sizes of its parameters. */
__attribute__((unused)) static int (*driver_function(const char *name))() {
    int (*found)() = (int (*)())dlsym(strncmp(name, "nvml", 4) == 0 ? nvml_library : cuda_library, name);
    if (found == NULL)
        fail(name, 0);
    return found;
}

#define CALL(name, ...) (driver_function(#name)(__VA_ARGS__))

/* Does what a command is for, if it is this one, and returns from the function that obeys. */
#define ON(word, command, action)                                                                                      \
    do {                                                                                                               \
        if (strcmp(word, command) == 0)                                                                                \
            return action, 1;                                                                                          \
    } while (0)

/* CUDA_MEM_ALLOC_NODE_PARAMS */
struct memory_node {
    int type, handle_types, location_type, location_id;
    char rest_of_pool[72];
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr address;
};

__attribute__((unused)) static struct hami_bytes64 bytes_of(const char *hex) {
    struct hami_bytes64 handle;
    for (unsigned i = 0; i < sizeof handle.bytes; i++) {
        unsigned byte = 0;
        if (hex == NULL || sscanf(hex + 2 * i, "%2x", &byte) != 1)
            fail("handle", 0);
        handle.bytes[i] = (char)byte;
    }
    return handle;
}

/* Opens memory of another process by its handle in hexadecimal digits. */
__attribute__((unused)) static int open_shared_memory(CUdeviceptr *address, const char *hex) {
    int (*open)(CUdeviceptr *, struct hami_bytes64, unsigned) =
        (int (*)(CUdeviceptr *, struct hami_bytes64, unsigned))driver_function("cuIpcOpenMemHandle_v2");
    return open(address, bytes_of(hex), 1);
}

__attribute__((unused)) static void say(const char *line) {
    puts(line);
    fflush(stdout);
}

__attribute__((unused)) static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What modules are made of: the file that KERNELS names, which a real driver needs, or any text for the simulated one.
 */
__attribute__((unused)) static const char *image(void) {
    static char text[1 << 16];
    const char *path = getenv("KERNELS");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    if (path == NULL)
        return "image";
    if (file == NULL || fread(text, 1, sizeof text - 1, file) == 0)
        fail(path, 0);
    fclose(file);
    return text;
}

/* How a fat binary starts. */
struct fat_binary {
    unsigned magic;
    unsigned short version, header;
    uint64_t bytes;
};

/* An image of code that takes so much of the device. */
__attribute__((unused)) static struct fat_binary code_of(uint64_t bytes) {
    return (struct fat_binary){0xba55ed50, 1, sizeof(struct fat_binary), bytes};
}

/* A kernel of the current context's; the simulated driver reads in its name how long it runs. */
__attribute__((unused)) static void *find_kernel(const char *name) {
    void *module = NULL, *kernel = NULL;
    CHECK(cuModuleLoadData(&module, image()));
    CHECK(cuModuleGetFunction(&kernel, module, name));
    return kernel;
}

__attribute__((unused)) static size_t free_bytes(void) {
    size_t bytes = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

__attribute__((unused)) static nvmlDevice card_at(unsigned index) {
    nvmlDevice card = NULL;
    CHECK(nvmlDeviceGetHandleByIndex_v2(index, &card));
    return card;
}

__attribute__((unused)) static struct nvml_memory memory_of(nvmlDevice card) {
    struct nvml_memory memory = {0, 0, 0};
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory));
    return memory;
}

__attribute__((unused)) static uint64_t next_random(uint64_t *state) {
    return *state = *state * 6364136223846793005u + 1442695040888963407u;
}

/* Runs threads, 64 at most, to their ends. The i-th gets DATA + i * STRIDE. */
__attribute__((unused)) static void run_threads(unsigned long count, void *(*body)(void *), void *data, size_t stride) {
    pthread_t threads[64];
    for (unsigned long i = 0; i < count && i < 64; i++)
        CHECK(pthread_create(&threads[i], NULL, body, (char *)data + i * stride));
    for (unsigned long i = 0; i < count && i < 64; i++)
        CHECK(pthread_join(threads[i], NULL));
}

/* Makes a context, allocates there in both ways, and ends it. */
__attribute__((unused)) static void use_own_context(void) {
    CUcontext context = NULL;
    CUdeviceptr address = 0, ordered = 0;
    CHECK(cuCtxCreate_v2(&context, 0, 0));
    CHECK(cuMemAlloc_v2(&address, MIB));
    CHECK(cuMemAllocAsync(&ordered, MIB, NULL));
    CHECK(cuMemFreeAsync(ordered, NULL));
    CHECK(cuMemFree_v2(address));
    CHECK(cuCtxDestroy_v2(context));
}

/* Makes the primary context of a device current. */
__attribute__((unused)) static void use_device(int device) {
    CUcontext context = NULL;
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
}

#endif
