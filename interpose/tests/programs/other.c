/*
 * A library that has a function with a driver's name, and looks behind itself: in its own scope, not the program's, where
 * a library that it needs has functions of the same names.
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

/* Whichever version of the C library's, as long as it is found behind this library. */
static void *print_behind(void) {
    void *found = dlvsym(RTLD_NEXT, "printf", "GLIBC_2.2.5");
    return found != NULL ? found : dlvsym(RTLD_NEXT, "printf", "GLIBC_2.17");
}

/* 0 when RTLD_NEXT is what is behind this library. */
int find_next(void) {
    if (answer(dlsym(RTLD_NEXT, "behind")) != 2 || answer(dlsym(RTLD_NEXT, "cuMemAlloc_v2")) != 4712)
        return 1;
    return dlsym(RTLD_NEXT, "find_next") != NULL || print_behind() == NULL ? 2 : 0;
}
