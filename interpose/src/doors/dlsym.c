/*
 * What dlsym and dlvsym answer; their entry is in dlsym.S. A sanitizer's runtime calls dlsym before it is up itself. So
 * this file and libc.c are built without instrumentation and call nothing for names that are not a driver's.
 */
#include "doors/hook.h"

#include <dlfcn.h>

/*
 * Called by dlsym.S, which goes on to the C library's function when the answer is NULL. `caller` is the return address
 * of dlsym. The third argument of dlsym is whatever the register holds.
 */
void *hami_dlsym_answer(void *handle, const char *name, const char *none, const void *caller);
void *hami_dlvsym_answer(void *handle, const char *name, const char *version, const void *caller);

/*
 * The first letters decide for almost all names. Searches that depend on the caller (RTLD_NEXT) or start at the program
 * (RTLD_DEFAULT, which finds our exports first) are left to the C library.
 */
static bool dlsym_concerns_driver(void *handle, const char *name) {
    if (name == NULL || handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
        return false;
    }
    bool cuda = name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z'; /* no cublas, no cudaMalloc */
    return cuda || (name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l');
}

static void *dlsym_find(void *handle, const char *name, const char *version) {
    if (version == NULL) {
        hami_dlsym_fn *libc_dlsym = hami_libc_dlsym();
        return libc_dlsym == NULL ? NULL : libc_dlsym(handle, name);
    }
    hami_dlvsym_fn *libc_dlvsym = hami_libc_dlvsym();
    return libc_dlvsym == NULL ? NULL : libc_dlvsym(handle, name, version);
}

void *hami_dlvsym_answer(void *handle, const char *name, const char *version, const void *caller) {
    bool concerns = dlsym_concerns_driver(handle, name);
    void *found = concerns ? dlsym_find(handle, name, version) : NULL;
    void *answer = found == NULL ? NULL : hami_lookup_answer(name, found, caller);
    if (answer != NULL) {
        (void)dlsym_find(handle, name, version); /* so that dlerror last hears of a success */
    }
    return answer;
}

void *hami_dlsym_answer(void *handle, const char *name, const char *none, const void *caller) {
    (void)none;
    return hami_dlvsym_answer(handle, name, NULL, caller);
}
