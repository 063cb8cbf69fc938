/* Looks symbols up by dlsym and dlvsym in every way and checks that only functions of the driver are wrapped. */
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

/* Functions of the simulated driver have no versions: dlvsym finds none. versioned.c has a driver with versions. */
static void versions(void *cuda) {
    void *libc = dlopen("libc.so.6", RTLD_NOW);
    expect(dlvsym(cuda, "cuMemAlloc_v2", "ANY") == NULL, "dlvsym of a version that is not there");
    expect(dlerror() != NULL, "dlerror after a failure of dlvsym");
    expect(dlerror() == NULL, "dlerror of dlvsym once read");
    void *print = dlvsym(libc, "printf", "GLIBC_2.2.5");
    print = print != NULL ? print : dlvsym(libc, "printf", "GLIBC_2.17");
    (void)dlerror();
    expect(print != NULL && print == dlsym(libc, "printf"), "dlvsym with the right version");
    expect(dlvsym(libc, "printf", "GLIBC_9.9") == NULL && dlerror() != NULL, "dlvsym with a wrong version");
}

int main(int argc, char **argv) {
    expect(argc == 3, "usage: doors OTHER_LIBRARY ASTRAY");
    /* Both are global: a search that does not know its caller would find them. */
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    expect(dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL) != NULL, "dlopen");
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
    versions(cuda);
    expect(dlsym(RTLD_NEXT, "malloc") == dlsym(RTLD_NEXT, "malloc") && dlsym(RTLD_NEXT, "malloc") != NULL,
           "RTLD_NEXT twice");
    return 0;
}
