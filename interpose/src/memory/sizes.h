/* Arithmetic of sizes in bytes. On overflow the result is UINT64_MAX, which no limit admits. */
#ifndef HAMI_SIZES_H
#define HAMI_SIZES_H

#include <stdint.h>

enum { HAMI_ROW_STEP = 512 }; /* bytes: drivers pad rows of pitched memory and arrays to a multiple of it */
#define HAMI_LARGE_STEP (UINT64_C(2) << 20) /* bytes: drivers round large allocations up to a multiple of it */

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

/* `bytes` rounded up to a multiple of `step`. */
static inline uint64_t hami_rounded(uint64_t bytes, uint64_t step) {
    uint64_t sum = hami_sum(bytes, step - 1);
    return sum == UINT64_MAX ? sum : sum / step * step;
}

/* Bytes of a row with its padding. */
static inline uint64_t hami_row(uint64_t bytes) {
    return hami_rounded(bytes, HAMI_ROW_STEP);
}

/* Bytes that a large allocation takes of the device. */
static inline uint64_t hami_large(uint64_t bytes) {
    return hami_rounded(bytes, HAMI_LARGE_STEP);
}

#endif
