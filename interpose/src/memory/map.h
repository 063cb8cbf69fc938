/*
 * A map from 64-bit keys to 64-bit values for many threads, without locks. Keys and values are not zero. The caller
 * sees to it that a key is inserted only while it is absent, and that one thread removes it. Addresses and handles meet
 * this: the driver gives one out only once at a time, and a program frees it once.
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

/* False: this process cannot map memory for another segment, or all segments are full. */
bool hami_map_put(struct hami_map *map, uint64_t key, uint64_t value);

/* Value of `key`, or 0. */
uint64_t hami_map_get(struct hami_map *map, uint64_t key);

/* Removes `key` and returns its value, or 0 if there was none. */
uint64_t hami_map_take(struct hami_map *map, uint64_t key);

/* Pointers as keys and values. hami_map_pointer is NULL if the key is absent. */
static inline uint64_t hami_map_key(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

static inline void *hami_map_pointer(struct hami_map *map, uint64_t key) {
    return (void *)(uintptr_t)hami_map_get(map, key);
}

/* Removes this pair if it is still there. Several threads may try; one of them gets true. */
bool hami_map_take_pair(struct hami_map *map, uint64_t key, uint64_t value);

/* Calls `visit` for every entry; entries that come and go meanwhile may be missed. */
void hami_map_each(struct hami_map *map, void (*visit)(uint64_t key, uint64_t value, void *data), void *data);

/* Empties the map, in the child of a fork. No other thread may use it meanwhile. */
void hami_map_reset(struct hami_map *map);

#endif
