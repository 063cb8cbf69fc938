/* Argument kinds that C has no type for: structures passed by value, known by their size alone. */
#ifndef HAMI_KINDS_H
#define HAMI_KINDS_H

#include <stddef.h>
#include <stdint.h>

/* CUmemLocation, nvmlMask-like pairs: two words, one register. */
struct hami_bytes8 {
    uint32_t words[2];
};

/* CUipcMemHandle, CUipcEventHandle: passed in memory. */
struct hami_bytes64 {
    char bytes[64];
};

#endif
