/*
 * Records: what an address, handle or key of the driver stands for, and so how to give it back: a charge, a share, or a
 * pool's allocation. A record is taken out before the driver frees the memory, since afterwards another thread may be
 * given the same address. If the driver refuses the free, the record is put back. The policies of memory call this
 * file.
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

/* Records an allocation that is charged already. False: this process has no memory left for the record. */
bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context);

/* Adds a charge for code to the record at `key` (modules.c). Two threads must not do so for one key at once. */
bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context);

/* Makes a large allocation a share, which importers find by its identity. A small one stays a part of its block. */
void hami_record_share(uint64_t address, uint64_t identity);

/* Records that this process holds a share. False: this process has no memory left for the record. */
bool hami_record_held(uint64_t address, int share, unsigned context);

/* Counts one more opening of a held share, or one less; the last ends the hold. False: there is no record at `key`. */
bool hami_record_open_again(uint64_t key);
bool hami_record_closed(uint64_t key);

/* Records an allocation of a pool (stream_pool.h). */
bool hami_record_pool(uint64_t address, const void *pool);

/* Gives back all that belongs to a context that has ended. */
void hami_records_drop_context(unsigned context);

void hami_records_after_fork(void);

#endif
