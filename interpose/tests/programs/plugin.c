/*
 * A library that looks a function of the driver up as it is loaded, while the loader's lock is held; with -DCONTEXT it
 * makes a context and allocates.
 */
#include "driver.h"

__attribute__((constructor)) static void load(void) {
#ifdef CONTEXT
    start_driver();
    use_own_context();
#else
    void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    if (cuda == NULL || dlsym(cuda, "cuMemAlloc_v2") == NULL)
        abort();
#endif
}
