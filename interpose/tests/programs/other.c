/* A library that has a function with a driver's name, and looks behind itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int cuMemAlloc_v2(void);
int find_next(void);

int cuMemAlloc_v2(void) {
    return 4711;
}

/* Behind this library in its own scope there is nobody with its functions' names; 0 when RTLD_NEXT knows that. */
int find_next(void) {
    return dlsym(RTLD_NEXT, "find_next") != NULL;
}
