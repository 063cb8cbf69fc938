/* A library that looks a function of the driver up as it is loaded, while the loader's lock is held. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

__attribute__((constructor)) static void load(void) {
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda == NULL || dlsym(cuda, "cuMemAlloc_v2") == NULL)
        abort();
}
