/*
 * Shares: device memory that several processes of a container hold, and that is counted once. From its first export on
 * it stands in the region's table of shares (abi.h), for as long as any process holds it. Exporter and importer know it
 * by its identity (identity.h). Memory whose identity is not in the table was taken by another container: its importer
 * makes a share of it. The policies of exports and imports call this file.
 */
#ifndef HAMI_SHARED_H
#define HAMI_SHARED_H

#include "memory/charge.h"

/* Index in the region's table of shares; -1: none. */
typedef int hami_share;

/*
 * Moves a charge into a new share. The caller keeps the charge as a note of its size, for hami_shared_give_back. -1:
 * this process is not counted on the device, or the table is full; then the memory counts as long as this process has
 * it.
 */
hami_share hami_shared_export(uint64_t identity, const struct hami_charge *charge);

/* As hami_shared_give_back, for an exporter that has not kept the charge. The share counts while others hold it. */
HAMI_APART void hami_shared_let_go(hami_share share);

/*
 * Holds a share of at least so many pages. A process may hold a share several times. False: refuse, the share does not
 * fit under the limit; that can be where no process held it any more. `*share` -1: the container has no such share.
 */
bool hami_shared_take_up(uint64_t identity, uint64_t pages, hami_share *share);

/*
 * Charges imported memory that has no share in this container, and makes a share of it. `device` as in a charge. False:
 * refuse, it does not fit under the limit. `*share` -1: this process is not counted there, or the table is full.
 */
bool hami_shared_adopt(uint64_t identity, int device, uint64_t pages, hami_share *share);

/*
 * Changes an exported share to `pages`, the present size of its pool. What was charged since the last call moves into
 * the share. The limit is not checked: the driver has taken the memory already.
 */
void hami_shared_resize(hami_share share, struct hami_charge *charge, uint64_t pages);

/* Raises an adopted share to `pages`, after a mapping showed that it is larger. False: refuse, it does not fit. */
bool hami_shared_grow(hami_share share, uint64_t pages);

/* Ends one hold of a share. */
void hami_shared_close(hami_share share);

/*
 * Gives back what this process has of some memory. Without a share it is the charge. With one it is a hold of the
 * share; a charge with pages is then the exporter's note.
 */
void hami_shared_give_back(hami_share share, const struct hami_charge *charge);

void hami_shared_after_fork(void);

#endif
