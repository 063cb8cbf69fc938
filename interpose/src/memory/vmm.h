/*
 * Physical memory of CUDA's virtual memory management (cuMemCreate). Each allocation has one record. Handles, mappings,
 * bindings to multicast objects and tiles of sparse arrays refer to the record, and the last of them to end gives the
 * charge back. So cuMemRelease of a handle whose memory is still mapped, which CUDA's manual recommends, gives nothing
 * back yet. sparse.c calls this file.
 */
#ifndef HAMI_VMM_H
#define HAMI_VMM_H

#include "memory/shared.h"
#include "threads.h"

struct hami_physical {
    struct hami_charge charge;
    bool imported;
    hami_share share;  /* -1: the memory is neither exported nor imported, or could not be made a share */
    uint64_t identity; /* number by which importers find the share (identity.h); 0: none */
    unsigned handles;
    unsigned uses;             /* mappings, bindings and tiles that refer to this memory */
    struct hami_use *bindings; /* of a multicast object: the memory that is bound to it */
};

/* A binding of memory to a multicast object, or a tile of a sparse array. */
struct hami_use {
    struct hami_use *next;
    struct hami_physical *memory;
    uint64_t offset;             /* of a binding: where it begins in the multicast object, in bytes */
    struct hami_array_part part; /* of a tile: which part of which array */
    unsigned context;            /* of a tile: id of the context that mapped it */
};

/* Guards all records, mappings and uses of this process. The caller of each function below holds this lock. */
extern atomic_flag hami_physical_busy;

/* The record of the memory behind a handle. NULL: the memory is not counted, or the handle is not known. */
struct hami_physical *hami_physical_of(CUmemHandle handle);

/* Ends and frees those uses of a list for which `gone` returns true. If `gone` is NULL, ends all of them. */
typedef bool hami_use_test(const struct hami_use *use, const void *by);
void hami_uses_drop(struct hami_use **list, hami_use_test *gone, const void *by);

#endif
