/*
 * Calls the functions that the driver has and prints dlerror() after each call. The program makes no error of its own,
 * so an error is one of ours.
 */
#include <dlfcn.h>
#include <stdio.h>

static void show(const char *call) {
    const char *error = dlerror();
    printf("%s: %s\n", call, error == NULL ? "none" : error);
}

int main(void) {
    void *context = NULL, *found = NULL, *cuda = dlopen("libcuda.so.1", RTLD_NOW);
    unsigned long address = 0;
    if (cuda == NULL)
        return 1;
    int (*init)(unsigned) = (int (*)(unsigned))dlsym(cuda, "cuInit");
    int (*allocate)(unsigned long *, unsigned long) =
        (int (*)(unsigned long *, unsigned long))dlsym(cuda, "cuMemAlloc_v2");
    show("dlsym");
    int (*create)(void **, unsigned, int) = (int (*)(void **, unsigned, int))dlsym(cuda, "cuCtxCreate_v2");
    int (*get)(const char *, void **, int, unsigned long long) =
        (int (*)(const char *, void **, int, unsigned long long))dlsym(cuda, "cuGetProcAddress");
    (void)dlerror(); /* the driver may lack both */
    if (get != NULL && get("cuInit", &found, 12000, 0) == 0)
        show("cuGetProcAddress");
    if (init(0) == 0)
        show("cuInit");
    if (create != NULL && create(&context, 0, 0) == 0)
        show("cuCtxCreate");
    for (int i = 0; i < 2; i++)
        if (allocate(&address, 1ul << 20) == 0)
            show("cuMemAlloc");
    return 0;
}
