/*
 * Records of what this process has taken, by address, handle or key. A record says how to give back what it stands
 * for: a charge, a share, or a pool's allocation. It leaves before the driver frees the memory, since afterwards
 * another thread may be given the same address; a failed free puts it back.
 */
#ifndef HAMI_RECORDS_H
#define HAMI_RECORDS_H

#include "memory/charge.h"

/*
 * Takes out the record at `address` before a free, of an object by its handle, or of code by its key. Returns 0 if
 * there is none.
 */
uint64_t hami_record_take(uint64_t address);

/* After the driver's answer to the free: puts the record back, or gives back what it stands for. Returns the answer. */
CUresult hami_record_freed(uint64_t address, uint64_t record, CUresult status);

/* Records an allocation that is charged already. False: this process's own memory is full. */
bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context);

/* Adds a charge for code to the record at `key`, which belongs to a context; one thread at a time for each key. */
bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context);

/* Makes a large allocation a share: other processes may be given it under that identity. Small ones stay as they are.
 */
void hami_record_share(uint64_t address, uint64_t identity);

/* Records that this process holds a share. False: this process's own memory is full. */
bool hami_record_held(uint64_t address, int share, unsigned context);

/* Records an allocation of a pool (stream_pool.h). */
bool hami_record_pool(uint64_t address, const void *pool);

/* Gives back everything that belongs to a context that has ended. */
void hami_records_drop_context(unsigned context);

void hami_records_after_fork(void);

#endif
