/* Sizes of arrays and mipmapped arrays, for the generated wrappers (around.h), and the policy of their destruction. */
#include "memory/around.h"
#include "memory/memory.h"
#include "memory/records.h"
#include "memory/sizes.h"
#include "policies.h"

/* Bytes of one channel of a texel. `format` is a CUarray_format (cuda.h). */
static uint64_t array_channel_bytes(int32_t format) {
    switch (format) {
    case 0x01: /* 8-bit integers */
    case 0x08:
        return 1;
    case 0x02: /* 16-bit integers, half */
    case 0x09:
    case 0x10:
        return 2;
    default: /* 32 bits. Block-compressed and video formats take less, so 4 is an upper bound for them */
        return 4;
    }
}

/* Bytes of one mipmap level: each level has half the width, height and, unless layered, depth of the one before. */
static uint64_t array_level_bytes(const struct hami_array3d_descriptor *d, unsigned level) {
    uint64_t width = d->width >> level;
    uint64_t height = d->height >> level;
    bool layered = (d->flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
    uint64_t depth = layered ? d->depth : d->depth >> level;
    uint64_t bytes = hami_row(hami_product(width == 0 ? 1 : width, array_channel_bytes(d->format) * d->channels));
    return hami_product(hami_product(bytes, height == 0 ? 1 : height), depth == 0 ? 1 : depth);
}

/*
 * Converts the descriptor of any call that makes arrays to that of cuArray3DCreate_v2, which has the most fields. The
 * descriptors of cuArrayCreate and cuArrayCreate_v2 have neither depth nor flags. Those of cuArrayCreate and
 * cuArray3DCreate, from CUDA 3.1 and before, consist of 32-bit words.
 */
static struct hami_array3d_descriptor array_described(enum hami_hook hook, const void *wanted) {
    const uint32_t *words = wanted;
    const struct {
        size_t width, height;
        int32_t format;
        uint32_t channels;
    } *flat = wanted;
    switch (hook) {
    case HAMI_cuArrayCreate:
        return (struct hami_array3d_descriptor){words[0], words[1], 0, (int32_t)words[2], words[3], 0};
    case HAMI_cuArrayCreate_v2:
        return (struct hami_array3d_descriptor){flat->width, flat->height, 0, flat->format, flat->channels, 0};
    case HAMI_cuArray3DCreate:
        return (struct hami_array3d_descriptor){words[0], words[1], words[2], (int32_t)words[3], words[4], words[5]};
    default:
        return *(const struct hami_array3d_descriptor *)wanted;
    }
}

uint64_t hami_array_bytes(enum hami_hook hook, const void *wanted, uint32_t levels) {
    struct hami_array3d_descriptor d =
        wanted == NULL ? (struct hami_array3d_descriptor){0} : array_described(hook, wanted);
    uint64_t sum = 0;
    bool takes = wanted != NULL && (d.flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
    for (unsigned level = 0; takes && (level == 0 || level < levels) && level < 32; level++) {
        sum = hami_sum(sum, array_level_bytes(&d, level));
    }
    return sum;
}

int32_t hami_array_destroy(enum hami_hook hook, CUarray array) {
    uint64_t key = (uint64_t)(uintptr_t)array, record = hami_record_take(key);
    CUresult status = hami_record_freed(key, record, hami_call_array_destroy(hook, array));
    if (status == CUDA_SUCCESS) {
        hami_sparse_array_gone(array);
    }
    return status;
}
