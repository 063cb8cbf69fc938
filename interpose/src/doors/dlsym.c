/*
 * What dlsym and dlvsym answer; their entry is in dlsym.S. Runtimes of sanitizers call dlsym before they are up, so
 * this file and libc.c are built without instrumentation and, for names that are not the driver's, call nothing.
 */
#include "doors/hook.h"

#include <dlfcn.h>

/*
 * Called by dlsym.S, which jumps on to the C library's function when the answer is NULL. `caller` is where dlsym
 * returns to; what the third argument of dlsym is, nobody knows.
 */
void *hami_dlsym_answer(void *handle, const char *name, const char *none, const void *caller);
void *hami_dlvsym_answer(void *handle, const char *name, const char *version, const void *caller);

/*
 * The first letters decide for almost all names, before anything else of this library runs. Searches that depend on the
 * caller (RTLD_NEXT) or start at the program (RTLD_DEFAULT, which finds our exports first) are left alone.
 */
static bool concerns_driver(void *handle, const char *name) {
    if (name == NULL || handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
        return false;
    }
    bool cuda = name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z'; /* no cublas, no cudaMalloc */
    return cuda || (name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l');
}

void *hami_dlsym_answer(void *handle, const char *name, const char *none, const void *caller) {
    (void)none;
    if (!concerns_driver(handle, name)) {
        return NULL;
    }
    hami_dlsym_fn *libc_dlsym = hami_libc_dlsym();
    void *found = libc_dlsym == NULL ? NULL : libc_dlsym(handle, name);
    void *answer = found == NULL ? NULL : hami_lookup_answer(name, found, caller);
    if (answer != NULL) {
        (void)libc_dlsym(handle, name); /* the last thing dlerror hears of is a success */
    }
    return answer;
}

void *hami_dlvsym_answer(void *handle, const char *name, const char *version, const void *caller) {
    if (!concerns_driver(handle, name)) {
        return NULL;
    }
    hami_dlvsym_fn *libc_dlvsym = hami_libc_dlvsym();
    void *found = libc_dlvsym == NULL ? NULL : libc_dlvsym(handle, name, version);
    void *answer = found == NULL ? NULL : hami_lookup_answer(name, found, caller);
    if (answer != NULL) {
        (void)libc_dlvsym(handle, name, version);
    }
    return answer;
}
