/* Physical memory and its references; see physical.h. */
#include "memory/physical.h"

#include "doors/calls.h"
#include "memory/map.h"

#include <stdlib.h>

atomic_flag hami_physical_busy = ATOMIC_FLAG_INIT;

static struct hami_map handles; /* handle → physical */

struct hami_physical *hami_physical_of(CUmemHandle handle) {
    return handle == 0 ? NULL : hami_map_pointer(&handles, handle);
}

CUresult hami_physical_enter(CUmemHandle handle, struct hami_physical *memory) {
    if (memory != NULL && hami_map_put(&handles, handle, hami_map_key(memory))) {
        return CUDA_SUCCESS;
    }
    if (memory != NULL) {
        hami_physical_drop_handle(memory);
    }
    (void)hami_call_cuMemRelease(handle);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

struct hami_physical *hami_physical_new(void) {
    struct hami_physical *memory = calloc(1, sizeof *memory);
    if (memory != NULL) {
        memory->charge.device = memory->share = -1;
        memory->handles = 1;
    }
    return memory;
}

static void physical_drop_if_unused(struct hami_physical *memory) {
    if (memory->handles != 0 || memory->uses != 0) {
        return;
    }
    hami_shared_give_back(memory->share, &memory->charge);
    hami_uses_drop(&memory->bindings, NULL, NULL);
    free(memory);
}

void hami_physical_drop_handle(struct hami_physical *memory) {
    memory->handles--;
    physical_drop_if_unused(memory);
}

void hami_physical_released(CUmemHandle handle) {
    struct hami_physical *memory = hami_physical_of(handle);
    if (memory != NULL && memory->handles == 1) {
        (void)hami_map_take(&handles, handle);
    }
    if (memory != NULL) {
        hami_physical_drop_handle(memory);
    }
}

void hami_physical_drop_use(struct hami_physical *memory) {
    memory->uses--;
    physical_drop_if_unused(memory);
}

void hami_uses_drop(struct hami_use **list, hami_use_test *gone, const void *by) {
    for (struct hami_use **at = list; *at != NULL;) {
        struct hami_use *use = *at;
        if (gone != NULL && !gone(use, by)) {
            at = &use->next;
            continue;
        }
        *at = use->next;
        hami_physical_drop_use(use->memory);
        free(use);
    }
}

/* The child leaks the parent's few records rather than touch its allocator between fork and exec. */
void hami_physical_after_fork(void) {
    hami_map_reset(&handles);
    atomic_flag_clear(&hami_physical_busy);
}
