/*
 * Asks cuGetProcAddress_v2 for each "symbol version flags" on its input and prints status, symbol status and, for
 * what was found, the name under which the library that holds it exports that address ("*" marks libvgpu.so).
 */
#define _GNU_SOURCE
#include "hami/cuda_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
    char line[256];
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, uint64_t, int *) = library ? dlsym(library, "cuGetProcAddress_v2") : NULL;
    int (*init)(unsigned) = library ? dlsym(library, "cuInit") : NULL;
    if (get == NULL || init == NULL || init(0) != 0)
        return 1;
    while (fgets(line, sizeof line, stdin) != NULL) {
        char symbol[128] = "";
        int version = 0, status = -1, query = -1;
        unsigned long flags = 0;
        void *found = NULL;
        Dl_info info = {0};
        if (sscanf(line, "%127[^\t]\t%d\t%lu", symbol, &version, &flags) != 3)
            return 2;
        status = get(strcmp(symbol, "\"\"") == 0 ? "" : symbol, &found, version, flags, &query);
        if (found != NULL && (dladdr(found, &info) == 0 || info.dli_saddr != found))
            return 3;
        const char *ours = found != NULL && strstr(info.dli_fname, "libvgpu") != NULL ? "*" : "";
        printf("%d %d %s%s\n", status, query, found != NULL ? info.dli_sname : "-", ours);
    }
    return 0;
}
