/*
 * Small allocations, packed into 2 MiB blocks of one size class. A block belongs to one shard of one heap; which shard
 * an allocation goes to depends on the thread, so threads rarely meet. The block, and with it the device memory, goes
 * back when it is empty; one empty block a shard is kept as address space, charged to nobody.
 */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

struct sim_block {
    struct sim_span *span;
    struct sim_heap *heap;
    struct sim_block *next, *previous; /* in the shard's list of blocks with room */
    unsigned shard, class, slots, live, hint;
    bool listed;
    uint64_t taken[64]; /* bit per slot */
    uint32_t sizes[];   /* as asked for */
};

#define MIN_SHIFT 9u

static unsigned class_of(uint64_t size) {
    unsigned shift = size <= (1u << MIN_SHIFT) ? MIN_SHIFT : 64u - (unsigned)__builtin_clzll(size - 1);
    return shift - MIN_SHIFT;
}

static unsigned my_shard(void) {
    static _Atomic unsigned next;
    static _Thread_local unsigned shard = UINT32_MAX;
    if (shard == UINT32_MAX) {
        shard = atomic_fetch_add(&next, 1) % SIM_HEAP_SHARDS;
    }
    return shard;
}

static void list_add(struct sim_heap *heap, struct sim_block *block) {
    struct sim_block **head = &heap->shards[block->shard].partial[block->class];
    block->previous = NULL;
    block->next = *head;
    if (*head != NULL) {
        (*head)->previous = block;
    }
    *head = block;
    block->listed = true;
}

static void list_remove(struct sim_heap *heap, struct sim_block *block) {
    if (block->previous != NULL) {
        block->previous->next = block->next;
    } else {
        heap->shards[block->shard].partial[block->class] = block->next;
    }
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
    block->listed = false;
}

static void set_class(struct sim_block *block, unsigned class) {
    block->class = class;
    block->slots = (unsigned)(SIM_GRANULE >> (class + MIN_SHIFT));
    block->live = block->hint = 0;
    memset(block->taken, 0, sizeof block->taken);
}

/* Records are never returned to the C library: a question about a stale pointer may still look at one. */
static struct sim_block *unused_records;
static pthread_mutex_t record_lock = PTHREAD_MUTEX_INITIALIZER;

static void record_delete(struct sim_block *block) {
    pthread_mutex_lock(&record_lock);
    block->next = unused_records;
    unused_records = block;
    pthread_mutex_unlock(&record_lock);
}

/* Room for the smallest class: a spare block can then serve any. The sizes are touched only as far as used. */
static struct sim_block *record_new(void) {
    pthread_mutex_lock(&record_lock);
    struct sim_block *block = unused_records;
    if (block != NULL) {
        unused_records = block->next;
    }
    pthread_mutex_unlock(&record_lock);
    if (block == NULL) {
        block = malloc(sizeof *block + (SIM_GRANULE >> MIN_SHIFT) * sizeof block->sizes[0]);
    }
    return block;
}

static struct sim_block *block_new(struct sim_heap *heap, unsigned shard) {
    struct sim_block *block = record_new();
    struct sim_span *span = block != NULL ? sim_span_new(SIM_KIND_BLOCK, SIM_GRANULE, 0) : NULL;
    if (span == NULL) {
        if (block != NULL) {
            record_delete(block);
        }
        return NULL;
    }
    memset(block, 0, sizeof *block);
    block->span = span;
    block->heap = heap;
    block->shard = shard;
    span->device = heap->device;
    span->context = heap->context;
    span->pool = heap->pool;
    span->block = block;
    return block;
}

static struct sim_block *block_with_room(struct sim_heap *heap, unsigned shard, unsigned class) {
    struct sim_block *block = heap->shards[shard].partial[class];
    if (block != NULL) {
        return block;
    }
    if (!sim_heap_charge(heap, SIM_GRANULE)) {
        return NULL;
    }
    block = heap->shards[shard].spare;
    heap->shards[shard].spare = NULL;
    if (block == NULL) {
        block = block_new(heap, shard);
    }
    if (block == NULL) {
        sim_heap_discharge(heap, SIM_GRANULE);
        return NULL;
    }
    set_class(block, class);
    list_add(heap, block);
    return block;
}

static unsigned slot_take(struct sim_block *block) {
    unsigned words = (block->slots + 63) / 64;
    for (unsigned i = 0; i < words; i++) {
        unsigned word = (block->hint + i) % words;
        unsigned valid = block->slots - word * 64;
        uint64_t room = ~block->taken[word] & (valid >= 64 ? ~0ull : (1ull << valid) - 1);
        if (room != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(room);
            block->taken[word] |= 1ull << bit;
            block->hint = word;
            return word * 64 + bit;
        }
    }
    return UINT32_MAX; /* not reached: a listed block has room */
}

uint64_t sim_small_allocate(struct sim_heap *heap, uint64_t size) {
    unsigned shard = my_shard(), class = class_of(size);
    uint64_t address = 0;
    pthread_mutex_lock(&heap->shards[shard].lock);
    struct sim_block *block = block_with_room(heap, shard, class);
    unsigned slot = block != NULL ? slot_take(block) : UINT32_MAX;
    if (slot != UINT32_MAX) {
        block->sizes[slot] = (uint32_t)size;
        address = block->span->base + ((uint64_t)slot << (class + MIN_SHIFT));
        if (++block->live == block->slots) {
            list_remove(heap, block);
        }
    }
    pthread_mutex_unlock(&heap->shards[shard].lock);
    return address;
}

static void block_emptied(struct sim_heap *heap, struct sim_block *block, struct sim_span **unused) {
    list_remove(heap, block);
    sim_heap_discharge(heap, SIM_GRANULE);
    if (heap->shards[block->shard].spare == NULL) {
        heap->shards[block->shard].spare = block;
    } else {
        *unused = block->span;
    }
}

static bool slot_at(const struct sim_block *block, uint64_t address, unsigned *slot) {
    *slot = (unsigned)((address - block->span->base) >> (block->class + MIN_SHIFT));
    return *slot < block->slots && (block->taken[*slot / 64] >> (*slot % 64) & 1) != 0;
}

bool sim_small_release(struct sim_span *span, uint64_t address) {
    struct sim_block *block = span->block;
    struct sim_heap *heap = block->heap;
    struct sim_span *unused = NULL;
    unsigned slot = 0;
    pthread_mutex_lock(&heap->shards[block->shard].lock);
    bool known =
        slot_at(block, address, &slot) && address == span->base + ((uint64_t)slot << (block->class + MIN_SHIFT));
    if (known) {
        block->taken[slot / 64] &= ~(1ull << (slot % 64));
        block->hint = slot / 64;
        block->live--;
        if (!block->listed) {
            list_add(heap, block);
        }
        if (block->live == 0) {
            block_emptied(heap, block, &unused);
        }
    }
    pthread_mutex_unlock(&heap->shards[block->shard].lock);
    if (unused != NULL) {
        sim_span_delete(unused);
        record_delete(block);
    }
    return known;
}

bool sim_small_find(struct sim_span *span, uint64_t address, uint64_t *base, uint64_t *size, unsigned long long *id) {
    struct sim_block *block = span->block;
    struct sim_heap *heap = block->heap;
    unsigned slot = 0;
    pthread_mutex_lock(&heap->shards[block->shard].lock);
    bool known = block->live > 0 && slot_at(block, address, &slot);
    if (known) {
        *base = span->base + ((uint64_t)slot << (block->class + MIN_SHIFT));
        *size = block->sizes[slot];
        *id = span->id << 16 | slot;
        known = address - *base < *size;
    }
    pthread_mutex_unlock(&heap->shards[block->shard].lock);
    return known;
}

void sim_block_forget(struct sim_block *block) {
    struct sim_heap *heap = block->heap;
    pthread_mutex_lock(&heap->shards[block->shard].lock);
    if (heap->shards[block->shard].spare == block) {
        heap->shards[block->shard].spare = NULL;
    } else {
        sim_heap_discharge(heap, SIM_GRANULE);
    }
    if (block->listed) {
        list_remove(heap, block);
    }
    pthread_mutex_unlock(&heap->shards[block->shard].lock);
    record_delete(block);
}

void sim_heap_init(struct sim_heap *heap, struct sim_context *context, unsigned device, struct sim_pool *pool) {
    memset(heap, 0, sizeof *heap);
    heap->device = device;
    heap->context = context;
    heap->pool = pool;
    for (unsigned i = 0; i < SIM_HEAP_SHARDS; i++) {
        pthread_mutex_init(&heap->shards[i].lock, NULL);
    }
}

bool sim_heap_charge(struct sim_heap *heap, uint64_t bytes) {
    return heap->pool != NULL ? sim_pool_take(heap->pool, bytes) : sim_charge(heap->device, bytes);
}

void sim_heap_discharge(struct sim_heap *heap, uint64_t bytes) {
    if (heap->pool != NULL) {
        sim_pool_return(heap->pool, bytes);
    } else {
        sim_discharge(heap->device, bytes);
    }
}
