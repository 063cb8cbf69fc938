/*
 * Records: what an address, handle or key stands for, and so how to give it back: a charge, a share, or an allocation
 * of a pool. A record is taken out before the driver frees the memory, since afterwards another thread may be given the
 * same address. If the driver refuses the free, the record is put back. The policies of memory call this file.
 */
#ifndef HAMI_RECORDS_H
#define HAMI_RECORDS_H

#include "memory/charge.h"

/* Takes out the record of an address, handle or key before the driver is asked to free it. 0: there is none. */
uint64_t hami_record_take(uint64_t address);

/*
 * After the driver's answer to the free: gives back what the record stands for, or puts the record back if `status` is
 * an error. Returns `status`.
 */
CUresult hami_record_freed(uint64_t address, uint64_t record, CUresult status);

/* Records an allocation that is charged already. False: this process has no memory left for the record. */
bool hami_record_large(uint64_t address, const struct hami_charge *charge, unsigned context);

/*
 * Adds a charge for code to the record at `key` (modules.c). Two threads must not do so for one key at once. False:
 * this process has no memory left for the record.
 */
bool hami_record_code(uint64_t key, const struct hami_charge *charge, unsigned context);

/* Makes a large allocation a share, which importers find by its identity. A small one stays a part of its block. */
void hami_record_share(uint64_t address, uint64_t identity);

/* Records that this process holds a share. False: this process has no memory left for the record. */
bool hami_record_held(uint64_t key, int share, unsigned context);

/*
 * hami_record_open_again counts one more opening of a held share, hami_record_closed one less. The last close ends the
 * hold. False: `key` has no record.
 */
bool hami_record_open_again(uint64_t key);
bool hami_record_closed(uint64_t key);

/* Records an allocation of a pool (stream_pool.h). False: this process has no memory left for the record. */
bool hami_record_pool(uint64_t address, const void *pool);

/* Gives back all that belongs to a context that has ended. */
void hami_records_drop_context(unsigned context);

void hami_records_after_fork(void);

#endif
