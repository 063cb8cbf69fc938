/*
 * What dlsym and dlvsym answer; their entry is in dlsym.S. Runtimes of sanitizers call dlsym before they are up, so
 * this file and libc.c are built without instrumentation and, for names that are not the driver's, call nothing.
 */
#include "hami/hook.h"

#include <dlfcn.h>

/* Called by dlsym.S, which jumps on to the C library's function when the answer is NULL. */
void *hami_dlsym_answer(void *handle, const char *name);
void *hami_dlvsym_answer(void *handle, const char *name, const char *version);

/* The first letters decide for almost all names, before anything else of this library runs. */
static bool ours(void *handle, const char *name) {
    if (name == NULL || handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
        return false;
    }
    bool cuda = name[0] == 'c' && name[1] == 'u';
    bool nvml = name[0] == 'n' && name[1] == 'v' && name[2] == 'm' && name[3] == 'l';
    return (cuda || nvml) && hami_hook_named(name) != HAMI_HOOKS;
}

static enum hami_library library_of(const char *name) {
    return name[0] == 'c' ? HAMI_CUDA : HAMI_NVML;
}

/*
 * A wrapper is the answer when the C library would answer with the driver's function of that name. Searches that
 * depend on the caller (RTLD_NEXT) or start at the program (RTLD_DEFAULT, which finds our exports first) are left
 * alone.
 */
void *hami_dlsym_answer(void *handle, const char *name) {
    if (!ours(handle, name)) {
        return NULL;
    }
    hami_dlsym_fn *libc_dlsym = hami_libc_dlsym();
    void *found = libc_dlsym == NULL ? NULL : libc_dlsym(handle, name);
    void *wrapper = found == NULL ? NULL : hami_wrapper_at(found, library_of(name));
    if (wrapper == NULL) {
        return NULL;
    }
    (void)libc_dlsym(handle, name); /* the last thing dlerror hears of is a success */
    return wrapper;
}

void *hami_dlvsym_answer(void *handle, const char *name, const char *version) {
    if (!ours(handle, name)) {
        return NULL;
    }
    hami_dlvsym_fn *libc_dlvsym = hami_libc_dlvsym();
    void *found = libc_dlvsym == NULL ? NULL : libc_dlvsym(handle, name, version);
    return found == NULL ? NULL : hami_wrapper_at(found, library_of(name));
}
