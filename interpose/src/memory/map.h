/*
 * A map from 64-bit keys to 64-bit values for many threads, without locks. A key is inserted at most once at a time
 * and removed by the thread that inserted it or was handed it. Addresses and handles of the driver are used like that.
 * Keys and values are not zero.
 *
 * Buckets of eight keys fill one cache line. A key goes into the largest segment; where its bucket is full there, into
 * a smaller one, and where all are, a segment of twice the size is added. Segments are never moved or freed, so an
 * operation costs a bucket or two, and at worst one in each of the few segments.
 */
#ifndef HAMI_MAP_H
#define HAMI_MAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { HAMI_MAP_SEGMENTS = 24, HAMI_MAP_FIRST_BITS = 7 };

struct hami_map_bucket {
    _Alignas(64) _Atomic uint64_t keys[8];
    _Atomic uint64_t values[8];
};

struct hami_map {
    _Atomic(struct hami_map_bucket *) segments[HAMI_MAP_SEGMENTS];
    _Atomic unsigned count; /* of segments; the last is the largest and is tried first */
};

/* False only when the machine has no memory left for a segment. */
bool hami_map_put(struct hami_map *map, uint64_t key, uint64_t value);

/* Value of `key`, or 0. */
uint64_t hami_map_get(struct hami_map *map, uint64_t key);

/* Removes `key` and returns its value, or 0 if there was none. */
uint64_t hami_map_take(struct hami_map *map, uint64_t key);

/* A pointer as key or value, and the value of `key` as a pointer: NULL if there is none. */
static inline uint64_t hami_map_key(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

static inline void *hami_map_pointer(struct hami_map *map, uint64_t key) {
    return (void *)(uintptr_t)hami_map_get(map, key);
}

/* Removes this pair if it is still there, from any thread. */
bool hami_map_take_pair(struct hami_map *map, uint64_t key, uint64_t value);

/* Calls `visit` for every entry; entries that come and go meanwhile may be missed. */
void hami_map_each(struct hami_map *map, void (*visit)(uint64_t key, uint64_t value, void *data), void *data);

/* Forgets everything; for the child of a fork, where no other thread is left. */
void hami_map_reset(struct hami_map *map);

#endif
