/*
 * A map from 64-bit keys to 64-bit values for many threads, without locks. Neither keys nor values are 0. The caller
 * inserts a key only while it is absent. Only one thread removes a key, except with hami_map_take_pair. Addresses and
 * handles of the driver meet this: the driver gives each out once until the program frees it.
 *
 * A segment is an array of buckets; a key's hash picks one of them. Each bucket has eight keys, which fill one cache
 * line, and eight values. A key goes into the largest segment. If its bucket there is full it goes into a smaller one,
 * and if all are full a segment of twice the size is added. Segments are never moved, and freed only by hami_map_reset.
 * So an operation usually reads one or two buckets, and at most one of each segment.
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
    _Atomic unsigned count; /* of segments; the last one is the largest and is tried first */
};

/* False: this process cannot map memory for another segment, or all segments are full. */
bool hami_map_put(struct hami_map *map, uint64_t key, uint64_t value);

/* The value of `key`. 0: the key is absent. */
uint64_t hami_map_get(struct hami_map *map, uint64_t key);

/* Removes `key` and returns its value. 0: the key is absent. */
uint64_t hami_map_take(struct hami_map *map, uint64_t key);

/* Removes `key` if its value is `value`. Several threads may try at once; one of them gets true. */
bool hami_map_take_pair(struct hami_map *map, uint64_t key, uint64_t value);

/* A pointer as a key or value. */
static inline uint64_t hami_map_key(const void *pointer) {
    return (uint64_t)(uintptr_t)pointer;
}

/* The value of `key`, which is a pointer. NULL: the key is absent. */
static inline void *hami_map_pointer(struct hami_map *map, uint64_t key) {
    return (void *)(uintptr_t)hami_map_get(map, key);
}

/* Calls `visit` for every pair. May miss pairs that other threads insert or remove meanwhile. */
void hami_map_each(struct hami_map *map, void (*visit)(uint64_t key, uint64_t value, void *data), void *data);

/* Empties the map in the child of a fork, where no other thread uses it. */
void hami_map_reset(struct hami_map *map);

#endif
