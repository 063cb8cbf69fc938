/* The lock-free map; see map.h. */
#include "memory/map.h"

#include "doors/hook.h"

#include <stddef.h>
#include <sys/mman.h>

static size_t bucket_count(unsigned segment) {
    return (size_t)1 << (HAMI_MAP_FIRST_BITS + segment);
}

static uint64_t mix(uint64_t key) {
    key = (key ^ key >> 33) * UINT64_C(0xff51afd7ed558ccd);
    return key ^ key >> 29;
}

static struct hami_map_bucket *segment_at(struct hami_map *map, unsigned segment) {
    return atomic_load_explicit(&map->segments[segment], memory_order_acquire);
}

/* The bucket of a segment in which a key with this hash lies. */
static struct hami_map_bucket *bucket_of(struct hami_map *map, unsigned segment, uint64_t hash) {
    return &segment_at(map, segment)[hash & (bucket_count(segment) - 1)];
}

/* Puts the pair into the first free place of the bucket: the value first, so that whoever finds the key finds it. */
static bool put_in(struct hami_map_bucket *bucket, uint64_t key, uint64_t value) {
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

/* Adds a segment to a map that has `count`. False: it is full, or there is no memory. */
HAMI_COLD static bool grow(struct hami_map *map, unsigned count) {
    if (count == HAMI_MAP_SEGMENTS) {
        return false;
    }
    size_t size = bucket_count(count) * sizeof(struct hami_map_bucket);
    void *fresh = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct hami_map_bucket *none = NULL;
    if (fresh == MAP_FAILED) {
        return false;
    }
    if (!atomic_compare_exchange_strong(&map->segments[count], &none, fresh)) {
        (void)munmap(fresh, size); /* another thread was faster */
    }
    (void)atomic_compare_exchange_strong(&map->count, &count, count + 1);
    return true;
}

HAMI_HOT bool hami_map_put(struct hami_map *map, uint64_t key, uint64_t value) {
    uint64_t hash = mix(key);
    for (;;) {
        unsigned count = atomic_load_explicit(&map->count, memory_order_acquire);
        for (unsigned segment = count; segment-- > 0;) {
            if (put_in(bucket_of(map, segment, hash), key, value)) {
                return true;
            }
        }
        if (!grow(map, count)) {
            return false;
        }
    }
}

bool hami_map_take_pair(struct hami_map *map, uint64_t key, uint64_t value) {
    uint64_t hash = mix(key);
    for (unsigned segment = atomic_load(&map->count); segment-- > 0;) {
        struct hami_map_bucket *bucket = bucket_of(map, segment, hash);
        for (unsigned i = 0; i < 8; i++) {
            uint64_t wanted = key;
            if (atomic_load(&bucket->keys[i]) != key || atomic_load(&bucket->values[i]) != value ||
                !atomic_compare_exchange_strong(&bucket->keys[i], &wanted, 0)) {
                continue;
            }
            if (atomic_load(&bucket->values[i]) == value) {
                atomic_store(&bucket->values[i], 0);
                return true;
            }
            atomic_store(&bucket->keys[i], key); /* another thread has replaced the pair meanwhile */
        }
    }
    return false;
}

/* The bucket that has `key`, or NULL; `index` is the key's place in it. */
HAMI_HOT static struct hami_map_bucket *find(struct hami_map *map, uint64_t key, unsigned *index) {
    uint64_t hash = mix(key);
    for (unsigned segment = atomic_load_explicit(&map->count, memory_order_acquire); segment-- > 0;) {
        struct hami_map_bucket *bucket = bucket_of(map, segment, hash);
        for (unsigned i = 0; i < 8; i++) {
            if (atomic_load_explicit(&bucket->keys[i], memory_order_acquire) == key) {
                *index = i;
                return bucket;
            }
        }
    }
    return NULL;
}

HAMI_HOT uint64_t hami_map_get(struct hami_map *map, uint64_t key) {
    unsigned i = 0;
    struct hami_map_bucket *bucket = find(map, key, &i);
    return bucket == NULL ? 0 : atomic_load_explicit(&bucket->values[i], memory_order_relaxed);
}

HAMI_HOT uint64_t hami_map_take(struct hami_map *map, uint64_t key) {
    unsigned i = 0;
    struct hami_map_bucket *bucket = find(map, key, &i);
    uint64_t wanted = key;
    if (bucket == NULL || !atomic_compare_exchange_strong(&bucket->keys[i], &wanted, 0)) {
        return 0;
    }
    /* No thread finds or reuses a place that has a value and no key, so it is ours until the value is cleared. */
    uint64_t value = atomic_load_explicit(&bucket->values[i], memory_order_relaxed);
    atomic_store_explicit(&bucket->values[i], 0, memory_order_release);
    return value;
}

void hami_map_each(struct hami_map *map, void (*visit)(uint64_t, uint64_t, void *), void *data) {
    for (unsigned segment = 0; segment < HAMI_MAP_SEGMENTS; segment++) {
        struct hami_map_bucket *buckets = segment_at(map, segment);
        for (size_t b = 0; buckets != NULL && b < bucket_count(segment); b++) {
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
        struct hami_map_bucket *buckets = segment_at(map, segment);
        if (buckets != NULL) {
            (void)munmap(buckets, bucket_count(segment) * sizeof *buckets);
            atomic_store(&map->segments[segment], NULL);
        }
    }
    atomic_store(&map->count, 0);
}
