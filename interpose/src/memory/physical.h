/*
 * Physical memory of CUDA's virtual memory management (cuMemCreate). Each allocation has one record. Handles, mappings,
 * bindings of multicast objects and tiles of sparse arrays refer to it, and the last of them to end gives the charge
 * back. So cuMemRelease of a mapped handle, which CUDA's manual recommends, gives nothing back yet. vmm.c, multicast.c
 * and sparse.c call this file, with the lock.
 */
#ifndef HAMI_PHYSICAL_H
#define HAMI_PHYSICAL_H

#include "memory/shared.h"
#include "threads.h"

struct hami_physical {
    struct hami_charge charge;
    bool imported;
    hami_share share;  /* -1: it is neither exported nor imported, or could not be made a share */
    uint64_t identity; /* by which its importers know it; 0: none */
    unsigned handles;
    unsigned uses;             /* mappings, bindings, tiles */
    struct hami_use *bindings; /* of a multicast object: the memory that it holds */
};

/* A binding of a multicast object, or a tile of a sparse array. */
struct hami_use {
    struct hami_use *next;
    struct hami_physical *memory;
    uint64_t offset;             /* of a binding */
    struct hami_array_part part; /* of a tile */
    unsigned context;            /* of a tile */
};

extern atomic_flag hami_physical_busy;

/* Makes a record with one handle and no charge. NULL: this process has no memory left for it. */
struct hami_physical *hami_physical_new(void);

/* The record of a handle's memory, or NULL. */
struct hami_physical *hami_physical_of(CUmemHandle handle);

/*
 * Enters memory under a handle that the driver has just given. CUDA_ERROR_OUT_OF_MEMORY: `memory` is NULL or the map
 * cannot grow; then the handle is released, since it would not be counted.
 */
CUresult hami_physical_enter(CUmemHandle handle, struct hami_physical *memory);

/* The memory mapped around an address (vmm.c), or NULL. */
struct hami_physical *hami_vmm_memory_at(CUdeviceptr address);

/* The driver has released a handle. */
void hami_physical_released(CUmemHandle handle);

/* One handle, or one use, less. */
void hami_physical_drop_handle(struct hami_physical *memory);
void hami_physical_drop_use(struct hami_physical *memory);

/* Drops those uses of a list for which `gone` holds; NULL: all. */
typedef bool hami_use_test(const struct hami_use *use, const void *by);
void hami_uses_drop(struct hami_use **list, hami_use_test *gone, const void *by);

void hami_physical_after_fork(void);

#endif
