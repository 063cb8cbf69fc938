/* Looks symbols up in every way there is and checks that nothing but the driver's functions changes hands. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrapped(void *address) {
    Dl_info info = {0};
    return address != NULL && dladdr(address, &info) != 0 && strstr(info.dli_fname, "libvgpu") != NULL;
}

static void expect(int condition, const char *what) {
    if (!condition) {
        fprintf(stderr, "%s\n", what);
        exit(1);
    }
}

/* A function of the program's own with a driver's name: a handle of the program must give this one. */
__attribute__((visibility("default"))) int nvmlDeviceGetMemoryInfo_of_ours(void) {
    return 42;
}

int main(int argc, char **argv) {
    expect(argc == 2, "usage: doors OTHER_LIBRARY");
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    void *other = dlopen(argv[1], RTLD_NOW);
    expect(cuda != NULL && nvml != NULL && other != NULL, "dlopen");
    expect(wrapped(dlsym(cuda, "cuMemAlloc_v2")), "dlsym of a hooked CUDA function");
    expect(wrapped(dlsym(nvml, "nvmlDeviceGetMemoryInfo")), "dlsym of a hooked NVML function");
    expect(wrapped(dlsym(cuda, "cuGetProcAddress_v2")), "dlsym of cuGetProcAddress_v2");
    expect(!wrapped(dlsym(cuda, "cuInit")) && dlsym(cuda, "cuInit") != NULL, "a function that passes");
    expect(wrapped(dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")), "RTLD_DEFAULT");
    expect(dlerror() == NULL, "dlerror after successes");
    expect(dlsym(nvml, "cuMemAlloc_v2") == NULL, "a CUDA name in NVML's library");
    expect(dlerror() != NULL, "dlerror after a failure");
    expect(dlerror() == NULL, "dlerror once read");
    expect(dlsym(cuda, "cuNoSuchFunction") == NULL, "an unknown name");
    expect(dlerror() != NULL, "dlerror after an unknown name");
    int (*foreign)(void) = (int (*)(void))dlsym(other, "cuMemAlloc_v2");
    expect(foreign != NULL && !wrapped((void *)foreign) && foreign() == 4711, "a foreign library's own cuMemAlloc_v2");
    int (*next)(void) = (int (*)(void))dlsym(other, "find_next");
    expect(next != NULL && next() == 0, "RTLD_NEXT from another library");
    expect(dlvsym(RTLD_DEFAULT, "printf", "GLIBC_2.2.5") != NULL ||
               dlvsym(RTLD_DEFAULT, "printf", "GLIBC_2.17") != NULL,
           "dlvsym");
    expect(dlsym(RTLD_NEXT, "malloc") == dlsym(RTLD_NEXT, "malloc") && dlsym(RTLD_NEXT, "malloc") != NULL,
           "RTLD_NEXT twice");
    return 0;
}
