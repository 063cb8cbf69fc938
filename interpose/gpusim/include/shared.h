/*
 * Device memory that several processes hold. The books have an entry for each such allocation: its size, and a bit for
 * each slot that holds it. It is taken on the device as long as any live process does, or a file descriptor that stands
 * for it is open anywhere. Such a descriptor is an open file description of the state's file "shared": its offset says
 * which entry, and a lock on that byte, which the kernel drops with the last duplicate, that it is still open.
 */
#ifndef SIM_SHARED_H
#define SIM_SHARED_H

#include "books.h"
#include "cuda_abi.h"

/* Makes what this process has taken on a device an entry, held by it; -1: no room. */
int sim_share(unsigned device, uint64_t bytes);

/* More or less of it, by the process that made it; false: the device is full. */
bool sim_share_grow(unsigned entry, uint64_t bytes);
void sim_share_shrink(unsigned entry, uint64_t bytes);

/* Holds an entry, once more if it does already, as it was when `generation` was read; false: it is gone. */
bool sim_share_hold(unsigned entry, uint32_t generation);
void sim_share_drop(unsigned entry);

enum { POSIX_DESCRIPTOR = 1 }; /* CUmemAllocationHandleType */

/* What an importer has to know, in the state's file "shared" behind the bytes that are locked. */
struct sim_parcel {
    uint64_t size; /* 0: of a pool */
    CUmemAllocationProp properties;
    uint32_t device, generation;
};

/*
 * A new file descriptor for an entry, -1 on failure, with a parcel, of which it fills in the generation; and the entry
 * of one, -1 if it is none.
 */
int sim_share_send(unsigned entry, struct sim_parcel *parcel);
int sim_share_receive(int descriptor, struct sim_parcel *parcel);

/* Takes a dead process out of all entries; and frees those that nobody has any more. */
void sim_share_forget(unsigned slot);
void sim_share_sweep(void);

void sim_share_after_fork(void);

/* Bytes taken on a device by entries: as the books say, and without those that only dead processes hold. */
uint64_t sim_share_used(unsigned device);
uint64_t sim_share_living(unsigned device);

/* Bytes that NVML shows as a process's: those of entries of which it is the first holder. */
uint64_t sim_share_shown(unsigned device, unsigned slot);

#endif
