/*
 * A library with a function of a driver's name. It searches by RTLD_NEXT, which starts behind it in its own scope:
 * there behind.c, which it links with, has functions of the same names.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

int cuMemAlloc_v2(void);
int behind(void);
int find_next(void);

int cuMemAlloc_v2(void) {
    return 4711;
}

int behind(void) {
    return 1;
}

static int answer(void *function) {
    int (*found)(void) = NULL;
    *(void **)&found = function;
    return found == NULL ? -1 : found();
}

/* The printf of the C library, in the version of either machine. */
static void *print_behind(void) {
    void *found = dlvsym(RTLD_NEXT, "printf", "GLIBC_2.2.5");
    return found != NULL ? found : dlvsym(RTLD_NEXT, "printf", "GLIBC_2.17");
}

/* Returns 0 if RTLD_NEXT finds the functions of behind.c and of the C library. */
int find_next(void) {
    if (answer(dlsym(RTLD_NEXT, "behind")) != 2 || answer(dlsym(RTLD_NEXT, "cuMemAlloc_v2")) != 4712)
        return 1;
    return dlsym(RTLD_NEXT, "find_next") != NULL || print_behind() == NULL ? 2 : 0;
}
