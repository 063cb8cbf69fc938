/*
 * Device memory that several processes of a container hold is counted once: from its export on in the region's table
 * of shares, for as long as any process holds it.
 *
 * A share is known by an identity that exporter and importer can both tell (identity.h). Memory that is imported and
 * has no share in this container was taken by another container, and becomes a share of its importer's.
 */
#ifndef HAMI_SHARED_H
#define HAMI_SHARED_H

#include "memory/charge.h"

/* A share as this process has it; -1: none. */
typedef int hami_share;

/*
 * Makes what a charge stands for a share; the charge tells from then on what the share is to be given back with
 * (hami_shared_give_back). -1: this process is not counted there, or the table is full; then the memory counts as long
 * as this process has it.
 */
hami_share hami_shared_export(uint64_t identity, const struct hami_charge *charge);

/* Lets an exported share go whose charge is not kept. The share counts as long as other processes hold it. */
HAMI_APART void hami_shared_let_go(hami_share share);

/*
 * Holds a share of so many pages or more, once more if this process does already. False: it does not fit under the
 * limit (again, where no process holds it now); refuse. `*share` -1: the container has no such share.
 */
bool hami_shared_take_up(uint64_t identity, uint64_t pages, hami_share *share);

/*
 * Makes a share of memory that no process of this container took, or whose share is gone. `device` as in a charge.
 * False: it does not fit under the limit; refuse. `*share` -1: not counted there, or the table is full.
 */
bool hami_shared_adopt(uint64_t identity, int device, uint64_t pages, hami_share *share);

/*
 * Brings an exported share, and its charge, to `pages`: what was charged since the last time moves to the share. More
 * than is charged is what the driver has taken already; the limit is not asked.
 */
void hami_shared_resize(hami_share share, struct hami_charge *charge, uint64_t pages);

/* More of an adopted share was seen. False: that does not fit under the limit; refuse. */
bool hami_shared_grow(hami_share share, uint64_t pages);

void hami_shared_close(hami_share share);

/*
 * Gives back what this process has of some memory: a charge, where there is no share; an exported share, whose charge
 * is on a device; or the hold of an imported one.
 */
void hami_shared_give_back(hami_share share, const struct hami_charge *charge);

void hami_shared_after_fork(void);

#endif
