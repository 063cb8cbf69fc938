/* Arithmetic of sizes in bytes. On overflow the result is UINT64_MAX, which no limit admits. */
#ifndef HAMI_SIZES_H
#define HAMI_SIZES_H

#include <stdint.h>

enum { HAMI_ROW_STEP = 512 }; /* bytes: drivers pad rows of pitched memory and arrays to a multiple of this */

static inline uint64_t hami_product(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX : result;
}

static inline uint64_t hami_sum(uint64_t a, uint64_t b) {
    uint64_t result = 0;
    return __builtin_add_overflow(a, b, &result) ? UINT64_MAX : result;
}

/* a - b, or 0 where b is larger. */
static inline uint64_t hami_excess(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

/* Bytes of a row with its padding. */
static inline uint64_t hami_row(uint64_t bytes) {
    uint64_t padded = hami_sum(bytes, HAMI_ROW_STEP - 1);
    return padded == UINT64_MAX ? padded : padded / HAMI_ROW_STEP * HAMI_ROW_STEP;
}

#endif
