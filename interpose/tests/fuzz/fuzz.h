/* For all fuzz targets: the check of a promise, and files for hostile bytes. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PROMISE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition);                      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* Makes a file for this process in the folder HAMI_FUZZ_DIR, which the test removes. Returns its descriptor. */
__attribute__((unused)) static int scratch_file(char *path, size_t size) {
    const char *folder = getenv("HAMI_FUZZ_DIR");
    int length = snprintf(path, size, "%s/scratch-%d-XXXXXX", folder == NULL ? "." : folder, (int)getpid());
    int file = length > 0 && (size_t)length < size ? mkstemp(path) : -1;
    if (file < 0) {
        perror(path);
        abort();
    }
    return file;
}

__attribute__((unused)) static void rewrite(int file, const void *data, size_t size) {
    if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) {
        perror("scratch file");
        abort();
    }
}

#endif
