/*
 * requests [DOOR [idle]]: starts CUDA unless it is idle, then asks DOOR (cuGetProcAddress_v2 or another form of it) for
 * each "symbol version flags" of its input. Prints the status, the symbol status (-1: this form has none) and the name
 * under which a library exports the address found: "*" marks libvgpu.so, "?" an address that no library exports.
 */
#define _GNU_SOURCE
#include "cuda_abi.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    char line[256];
    const char *door = argc > 1 ? argv[1] : "cuGetProcAddress_v2";
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    int (*get)(const char *, void **, int, uint64_t, int *) = library ? dlsym(library, door) : NULL;
    int (*init)(unsigned) = library ? dlsym(library, "cuInit") : NULL;
    if (get == NULL || init == NULL || (argc < 3 && init(0) != 0))
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
        int exported = found != NULL && dladdr(found, &info) != 0 && info.dli_saddr == found;
        const char *ours = exported && strstr(info.dli_fname, "libvgpu") != NULL ? "*" : "";
        printf("%d %d %s%s\n", status, query, exported ? info.dli_sname : found != NULL ? "?" : "-", ours);
    }
    return 0;
}
