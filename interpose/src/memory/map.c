/*
 * The lock-free map (map.h). A place of a bucket is free while its value is 0. A thread that inserts writes the value
 * first, which takes the place, and then the key. A thread that removes clears the key first, which makes the place its
 * own, and then the value.
 */
#include "memory/map.h"

#include "doors/hook.h"

#include <stddef.h>
#include <sys/mman.h>

static size_t map_bucket_count(unsigned segment) {
    return (size_t)1 << (HAMI_MAP_FIRST_BITS + segment);
}

static uint64_t map_mix(uint64_t key) {
    key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return key ^ key >> 29;
}

static struct hami_map_bucket *map_segment_at(struct hami_map *map, unsigned segment) {
    return atomic_load_explicit(&map->segments[segment], memory_order_acquire);
}

/* The bucket for keys with this hash in a segment. */
static struct hami_map_bucket *map_bucket_of(struct hami_map *map, unsigned segment, uint64_t hash) {
    return &map_segment_at(map, segment)[hash & (map_bucket_count(segment) - 1)];
}

/* Puts a pair into the first free place of a bucket. False: the bucket is full. */
static bool map_put_in(struct hami_map_bucket *bucket, uint64_t key, uint64_t value) {
    for (unsigned i = 0; i < 8; i++) {
        uint64_t empty = 0;
        if (atomic_load_explicit(&bucket->values[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&bucket->values[i], &empty, value, memory_order_acq_rel,
                                                    memory_order_relaxed)) {
            atomic_store_explicit(&bucket->keys[i], key, memory_order_release);
            return true;
        }
    }
    return false;
}

/* Adds a segment to a map that has `count` segments. False: all segments exist, or memory is short. */
HAMI_COLD static bool map_grow(struct hami_map *map, unsigned count) {
    if (count == HAMI_MAP_SEGMENTS) {
        return false;
    }
    size_t size = map_bucket_count(count) * sizeof(struct hami_map_bucket);
    void *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct hami_map_bucket *none = NULL;
    if (fresh == MAP_FAILED) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&map->segments[count], &none, fresh)) {
        (void)munmap(fresh, size); /* another thread has added this segment */
    }
    (void)atomic_compare_exchange_strong(&map->count, &count, count + 1);
    return true;
}

HAMI_HOT bool hami_map_put(struct hami_map *map, uint64_t key, uint64_t value) {
    uint64_t hash = map_mix(key);
    for (;;) {
        unsigned count = atomic_load_explicit(&map->count, memory_order_acquire);
        for (unsigned segment = count; segment-- > 0;) {
            if (map_put_in(map_bucket_of(map, segment, hash), key, value)) {
                return true;
            }
        }
        if (!map_grow(map, count)) {
            return false;
        }
    }
}

/* Finds the bucket that has `key` with `value` (0: any value), or NULL. Sets `*index` to the place in the bucket. */
HAMI_HOT static struct hami_map_bucket *map_find(struct hami_map *map, uint64_t key, uint64_t value, unsigned *index) {
    uint64_t hash = map_mix(key);
    for (unsigned segment = atomic_load_explicit(&map->count, memory_order_acquire); segment-- > 0;) {
        struct hami_map_bucket *bucket = map_bucket_of(map, segment, hash);
        for (unsigned i = 0; i < 8; i++) {
            if (atomic_load_explicit(&bucket->keys[i], memory_order_acquire) == key &&
                (value == 0 || atomic_load_explicit(&bucket->values[i], memory_order_relaxed) == value)) {
                *index = i;
                return bucket;
            }
        }
    }
    return NULL;
}

HAMI_HOT uint64_t hami_map_get(struct hami_map *map, uint64_t key) {
    unsigned i = 0;
    struct hami_map_bucket *bucket = map_find(map, key, 0, &i);
    return bucket == NULL ? 0 : atomic_load_explicit(&bucket->values[i], memory_order_relaxed);
}

/* Removes `key` if its value is `value` (0: any value). Returns the value that was removed; 0: none. */
HAMI_HOT static uint64_t map_take(struct hami_map *map, uint64_t key, uint64_t value) {
    unsigned i = 0;
    struct hami_map_bucket *bucket = map_find(map, key, value, &i);
    uint64_t wanted = key;
    if (bucket == NULL || !atomic_compare_exchange_strong(&bucket->keys[i], &wanted, 0)) {
        return 0;
    }
    /* No other thread finds or takes a place that has a value and no key. */
    uint64_t found = atomic_load_explicit(&bucket->values[i], memory_order_relaxed);
    if (value != 0 && found != value) {
        atomic_store(&bucket->keys[i], key); /* after map_find, another thread put another value here */
        return 0;
    }
    atomic_store_explicit(&bucket->values[i], 0, memory_order_release);
    return found;
}

HAMI_HOT uint64_t hami_map_take(struct hami_map *map, uint64_t key) {
    return map_take(map, key, 0);
}

bool hami_map_take_pair(struct hami_map *map, uint64_t key, uint64_t value) {
    return map_take(map, key, value) != 0;
}

void hami_map_each(struct hami_map *map, void (*visit)(uint64_t, uint64_t, void *), void *data) {
    for (unsigned segment = 0; segment < HAMI_MAP_SEGMENTS; segment++) {
        struct hami_map_bucket *buckets = map_segment_at(map, segment);
        for (size_t b = 0; buckets != NULL && b < map_bucket_count(segment); b++) {
            for (unsigned i = 0; i < 8; i++) {
                uint64_t key = atomic_load_explicit(&buckets[b].keys[i], memory_order_acquire);
                uint64_t value = atomic_load_explicit(&buckets[b].values[i], memory_order_relaxed);
                if (key != 0 && value != 0) {
                    visit(key, value, data);
                }
            }
        }
    }
}

void hami_map_reset(struct hami_map *map) {
    for (unsigned segment = 0; segment < HAMI_MAP_SEGMENTS; segment++) {
        struct hami_map_bucket *buckets = map_segment_at(map, segment);
        if (buckets != NULL) {
            (void)munmap(buckets, map_bucket_count(segment) * sizeof *buckets);
            atomic_store(&map->segments[segment], NULL);
        }
    }
    atomic_store(&map->count, 0);
}
