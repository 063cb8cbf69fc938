/*
 * The answers of our dlsym and dlvsym, which dlsym.S exports. A sanitizer's runtime calls dlsym before it has started.
 * So this file and libc.c are built without its instrumentation. They call other files only for names that begin like a
 * driver's functions.
 */
#include "doors/hook.h"

#include <dlfcn.h>

/*
 * dlsym.S calls these functions first. If the answer is NULL, it goes on to the C library's function. `caller` is the
 * return address of the call of dlsym. dlsym has two arguments: `none` is whatever the register of the third one holds.
 */
void *hami_dlsym_answer(void *handle, const char *name, const char *none, const void *caller);
void *hami_dlvsym_answer(void *handle, const char *name, const char *version, const void *caller);

/*
 * Whether we may have to change the answer for `name`: it begins like a driver's function. RTLD_NEXT is left to the C
 * library, since its answer depends on the caller; RTLD_DEFAULT too, since it finds our exported wrappers by itself.
 */
static bool dlsym_concerns_driver(void *handle, const char *name) {
    if (name == NULL || handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
        return false;
    }
    /* The capital letter leaves out cublasCreate and cudaMalloc. */
    bool cuda = name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
    return cuda || (name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l');
}

/* Calls the C library's dlsym or, with a version, its dlvsym. */
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
        /* Repeats the look-up, which succeeds again, so that dlerror(3) reports no error of our other look-ups. */
        (void)dlsym_find(handle, name, version);
    }
    return answer;
}

void *hami_dlsym_answer(void *handle, const char *name, const char *none, const void *caller) {
    (void)none;
    return hami_dlvsym_answer(handle, name, NULL, caller);
}
