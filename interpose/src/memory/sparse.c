/*
 * Policy of sparse arrays: memory mapped into a part of one, a tile, counts until all of that part is mapped anew or
 * unmapped by one call, or the array or its context ends.
 */

#include "memory/contexts.h"
#include "memory/memory.h"
#include "memory/physical.h"
#include "policies.h"

#include <stdlib.h>

struct tile {
    struct tile *next;
    struct hami_physical *memory;
    struct hami_array_part part;
    unsigned context;
};

static struct tile *tiles;

static bool range_within(uint64_t start, uint64_t size, uint64_t whole_start, uint64_t whole_size) {
    return start >= whole_start && start - whole_start <= whole_size && size <= whole_size - (start - whole_start);
}

/* Whether one part of an array lies in another. */
static bool part_covers(const struct hami_array_part *whole, const struct hami_array_part *part) {
    if (whole->array != part->array || whole->kind != part->kind) {
        return false;
    }
    if (part->kind == CU_ARRAY_MIPTAIL) {
        return whole->tail.layer == part->tail.layer &&
               range_within(part->tail.offset, part->tail.bytes, whole->tail.offset, whole->tail.bytes);
    }
    bool inside = whole->box.level == part->box.level && whole->box.layer == part->box.layer;
    for (unsigned i = 0; i < 3; i++) {
        inside = inside &&
                 range_within(part->box.offset[i], part->box.extent[i], whole->box.offset[i], whole->box.extent[i]);
    }
    return inside;
}

/* Drops the tiles for which `gone` holds. */
static void tiles_drop(bool (*gone)(const struct tile *tile, const void *by), const void *by) {
    for (struct tile **at = &tiles; *at != NULL;) {
        struct tile *tile = *at;
        if (!gone(tile, by)) {
            at = &tile->next;
            continue;
        }
        *at = tile->next;
        hami_physical_drop_use(tile->memory);
        free(tile);
    }
}

static bool tile_is_covered(const struct tile *tile, const void *part) {
    return part_covers(part, &tile->part);
}

static bool tile_is_of_array(const struct tile *tile, const void *array) {
    return tile->part.array == array;
}

static bool tile_is_of_context(const struct tile *tile, const void *context) {
    return tile->context == *(const unsigned *)context;
}

/* Notes what one operation has done. The new memory is referred to before the old is dropped: they may be the same. */
static void tile_note(const struct hami_array_map *change, unsigned context, struct tile *tile) {
    if (tile != NULL) {
        *tile = (struct tile){NULL, hami_physical_of(change->handle), change->part, context};
        tile->memory->uses++;
    }
    tiles_drop(tile_is_covered, &change->part);
    if (tile != NULL) {
        tile->next = tiles;
        tiles = tile;
    }
}

static void tiles_free(struct tile **made, uint32_t count) {
    for (uint32_t i = 0; made != NULL && i < count; i++) {
        free(made[i]);
    }
    free(made);
}

/* Records for what a call is about to map, by change, before the driver maps it, which cannot be undone. */
static bool tiles_make(struct tile ***made, const struct hami_array_map *list, uint32_t count) {
    *made = count == 0 ? NULL : calloc(count, sizeof **made);
    bool fine = *made != NULL || count == 0;
    for (uint32_t i = 0; fine && i < count; i++) {
        if (list[i].operation == CU_MEM_OPERATION_MAP && hami_physical_of(list[i].handle) != NULL) {
            fine = ((*made)[i] = malloc(sizeof ***made)) != NULL;
        }
    }
    if (!fine) {
        tiles_free(*made, count);
    }
    return fine;
}

int32_t hami_array_map(enum hami_hook hook, struct hami_array_map *list, uint32_t count, CUstream stream) {
    struct tile **made = NULL;
    uint32_t changes = list == NULL ? 0 : count;
    HAMI_HOLD(&hami_physical_busy);
    if (!tiles_make(&made, list, changes)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult status = hami_call_array_map(hook, list, count, stream);
    if (status != CUDA_SUCCESS) {
        tiles_free(made, changes);
        return status;
    }
    unsigned context = hami_context_current_id();
    for (uint32_t i = 0; i < changes; i++) {
        tile_note(&list[i], context, made[i]);
    }
    free(made);
    return status;
}

void hami_sparse_array_gone(const void *array) {
    HAMI_HOLD(&hami_physical_busy);
    tiles_drop(tile_is_of_array, array);
}

void hami_sparse_context_gone(unsigned context) {
    HAMI_HOLD(&hami_physical_busy);
    tiles_drop(tile_is_of_context, &context);
}

void hami_sparse_after_fork(void) {
    tiles = NULL;
}
