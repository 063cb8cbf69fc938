/*
 * With -DLIBRARY a libcuda.so.1 whose functions have versions. Without, a program that asks dlvsym for them. dlvsym
 * must answer as that of the C library does, with the wrapper in place of a wrapped function.
 */
#define _GNU_SOURCE
#ifdef LIBRARY
int cuInit(unsigned flags);
int cuMemAlloc_v2(unsigned long *address, unsigned long bytes);

int cuInit(unsigned flags) {
    return flags != 0;
}

int cuMemAlloc_v2(unsigned long *address, unsigned long bytes) {
    return address == 0 || bytes == 0;
}
#else
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void show(void *library, const char *name, const char *version) {
    Dl_info info = {0};
    void *found = dlvsym(library, name, version);
    int failed = dlerror() != NULL;
    if (found == NULL || dladdr(found, &info) == 0)
        printf("%s %s: none%s\n", name, version, failed ? ", dlerror" : "");
    else
        printf("%s %s: %s%s\n", name, version, strstr(info.dli_fname, "libvgpu") != NULL ? "wrapped" : "there",
               failed ? ", dlerror" : "");
}

int main(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda == NULL)
        return 1;
    show(cuda, "cuMemAlloc_v2", "CUDA_1");
    show(cuda, "cuMemAlloc_v2", "CUDA_2");
    show(cuda, "cuInit", "CUDA_1");
    show(cuda, "cuNoSuchFunction", "CUDA_1");
    return 0;
}
#endif
