/*
 * Physical memory of the virtual memory management calls. One record per allocation; handles, mappings, bindings of
 * multicast objects and tiles of sparse arrays refer to it. Its charge goes back with the last of them: cuMemRelease of
 * a mapped handle, the documented idiom, frees nothing yet. vmm.c, multicast.c, sparse.c call this, with the lock.
 */
#ifndef HAMI_PHYSICAL_H
#define HAMI_PHYSICAL_H

#include "memory/shared.h"
#include "threads.h"

struct hami_physical {
    struct hami_charge charge;
    bool imported;
    hami_share share;  /* -1: neither exported nor imported, or not counted */
    uint64_t identity; /* by which its importers know it; 0: none */
    unsigned handles;
    unsigned uses;                 /* mappings, bindings, tiles */
    struct hami_binding *bindings; /* of a multicast object */
};

/* Memory that a multicast object holds. */
struct hami_binding {
    struct hami_binding *next;
    struct hami_physical *memory;
    uint64_t offset;
};

extern atomic_flag hami_physical_busy;

/* With one handle, and nothing charged. NULL: this process's own memory is full. */
struct hami_physical *hami_physical_new(void);

/* NULL: it is not followed. */
struct hami_physical *hami_physical_of(CUmemHandle handle);

/* False: this process's own memory is full. */
bool hami_physical_enter(CUmemHandle handle, struct hami_physical *memory);

/* The memory mapped around an address (vmm.c), or NULL. */
struct hami_physical *hami_vmm_memory_at(CUdeviceptr address);

/* Takes a handle out of the map. */
void hami_physical_leave(CUmemHandle handle);

/* What cannot be followed is not to be had: releases a handle and returns CUDA_ERROR_OUT_OF_MEMORY. */
HAMI_COLD CUresult hami_physical_refuse(CUmemHandle handle);

/* One handle, or one use, less. */
void hami_physical_drop_handle(struct hami_physical *memory);
void hami_physical_drop_use(struct hami_physical *memory);
void hami_physical_drop_binding(struct hami_binding **at);

void hami_physical_after_fork(void);

#endif
