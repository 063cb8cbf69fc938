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
 * Moves a charge into a new share, of which this process is the exporter. -1: the memory is not counted, or the table
 * is full; then the charge stays as it was.
 */
hami_share hami_shared_export(uint64_t identity, const struct hami_charge *charge);

/* Ends the exporter's hold of a share. The share counts while other processes hold it. */
HAMI_APART void hami_shared_let_go(hami_share share);

/*
 * Holds the share with this identity, if it has at least `pages` pages. A process may hold a share several times.
 * `*share` -1: the container has no such share. False: refuse, since with the share the sum exceeds the limit. A share
 * that a running process holds is in the sum already, and adds nothing.
 */
bool hami_shared_take_up(uint64_t identity, uint64_t pages, hami_share *share);

/*
 * Charges imported memory that has no share in this container, and makes a share of it. `device` is the index of the
 * memory's device in the limits, or negative. False: refuse, the memory does not fit under the limit. `*share` -1: this
 * process is not counted on the device, or the table is full.
 */
bool hami_shared_adopt(uint64_t identity, int device, uint64_t pages, hami_share *share);

/*
 * Sets the size of an exported pool's share to `pages`. What was added to `charge` since the last call moves into the
 * share. The limit is not checked: the driver has taken the memory already.
 */
void hami_shared_resize(hami_share share, struct hami_charge *charge, uint64_t pages);

/* Raises an adopted share to `pages`, after a mapping showed that it is larger. False: refuse, it does not fit. */
bool hami_shared_grow(hami_share share, uint64_t pages);

/* Ends one hold of a share by an importer. */
void hami_shared_close(hami_share share);

/*
 * Gives back what this process has of some memory. If `share` is -1 that is the charge, else one hold of the share. The
 * exporter passes the charge that it moved into the share, an importer a charge of 0 pages.
 */
void hami_shared_give_back(hami_share share, const struct hami_charge *charge);

void hami_shared_after_fork(void);

#endif
