/*
 * Policy of sparse arrays (cuMemMapArrayAsync). A tile is a part of an array into which one call has mapped memory. The
 * memory counts until another call maps or unmaps all of the tile, or until the array or its context ends.
 */
#include "memory/contexts.h"
#include "memory/memory.h"
#include "memory/vmm.h"
#include "policies.h"

#include <stdlib.h>

static struct hami_use *tiles; /* of all arrays of this process; guarded by hami_physical_busy */

static bool range_within(uint64_t start, uint64_t size, uint64_t whole_start, uint64_t whole_size) {
    return start >= whole_start && start - whole_start <= whole_size && size <= whole_size - (start - whole_start);
}

/* True if `part` lies completely in `whole`. */
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

static bool tile_is_covered(const struct hami_use *tile, const void *part) {
    return part_covers(part, &tile->part);
}

static bool tile_is_of_array(const struct hami_use *tile, const void *array) {
    return tile->part.array == array;
}

static bool tile_is_of_context(const struct hami_use *tile, const void *context) {
    return tile->context == *(const unsigned *)context;
}

/*
 * Makes a tile for each entry of the list of cuMemMapArrayAsync, in the same order, before the driver is called: a
 * mapping could not be undone. A tile's memory is NULL if the entry unmaps, or if the memory is not counted. False:
 * this process has no memory left; the caller frees what was made.
 */
static bool tiles_make(struct hami_use **made, const struct hami_array_map *list, uint32_t count) {
    unsigned context = hami_context_current_id();
    for (uint32_t i = count; i-- > 0;) {
        struct hami_use *tile = malloc(sizeof *tile);
        if (tile == NULL) {
            return false;
        }
        bool maps = list[i].operation == CU_MEM_OPERATION_MAP;
        struct hami_physical *memory = maps ? hami_physical_of(list[i].handle) : NULL;
        *tile = (struct hami_use){.next = *made, .memory = memory, .part = list[i].part, .context = context};
        *made = tile;
    }
    return true;
}

/*
 * Puts a tile in place of those that it covers. Adds its use first: if theirs were the last uses of the same memory,
 * their end would give the charge back.
 */
static void tile_replace(struct hami_use *tile) {
    if (tile->memory != NULL) {
        tile->memory->uses++;
    }
    hami_uses_drop(&tiles, tile_is_covered, &tile->part);
    if (tile->memory != NULL) {
        tile->next = tiles;
        tiles = tile;
    } else {
        free(tile);
    }
}

int32_t hami_array_map(enum hami_hook hook, struct hami_array_map *list, uint32_t count, CUstream stream) {
    struct hami_use *made = NULL;
    HAMI_HOLD(&hami_physical_busy);
    bool ready = tiles_make(&made, list, list == NULL ? 0 : count);
    CUresult status = ready ? hami_call_array_map(hook, list, count, stream) : CUDA_ERROR_OUT_OF_MEMORY;
    while (made != NULL) {
        struct hami_use *tile = made;
        made = tile->next;
        if (status == CUDA_SUCCESS) {
            tile_replace(tile);
        } else {
            free(tile);
        }
    }
    return status;
}

void hami_sparse_array_gone(const void *array) {
    HAMI_HOLD(&hami_physical_busy);
    hami_uses_drop(&tiles, tile_is_of_array, array);
}

void hami_sparse_context_gone(unsigned context) {
    HAMI_HOLD(&hami_physical_busy);
    hami_uses_drop(&tiles, tile_is_of_context, &context);
}

void hami_sparse_after_fork(void) {
    tiles = NULL;
}
