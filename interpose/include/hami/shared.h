/*
 * Device memory that several processes of a container hold is counted once: in the process that took it, and after that
 * has let go of it, in the device's `orphaned` pages for as long as any other does. abi.h's table of shares says who.
 *
 * A share is known by a number that exporter and importer can both tell: of a file descriptor, a lock that the exporter
 * puts on it (identity.h); of handles that are bytes, those. What is imported and known to nobody here is counted as
 * its importer's own: another container took it.
 */
#ifndef HAMI_SHARED_H
#define HAMI_SHARED_H

#include "hami/charge.h"

/* A share as this process has it; -1: none. */
typedef int hami_share;

/*
 * Makes what a charge stands for a share. -1: this process is not counted there, or the table is full; then it is
 * counted as long as this process has it.
 */
hami_share hami_shared_export(uint64_t identity, const struct hami_charge *charge);

/* Gives the charge of an exported share back; the device's orphans have it as long as others hold the share. */
HAMI_APART void hami_shared_let_go(hami_share share, const struct hami_charge *charge);

/*
 * Holds a share of so many pages or more that somebody has, once more if this process does already. -1: nobody here has
 * it: what it was counted for may have been given to others since.
 */
hami_share hami_shared_hold(uint64_t identity, uint64_t pages);

/*
 * Same for what the driver has already given to this process. What nobody has had since its taker let go must fit under
 * the limit again; false: refuse. `*share` -1: nobody here knows it.
 */
bool hami_shared_take_up(uint64_t identity, hami_share *share);

/*
 * Makes a share of memory that nobody in this container took, or that nobody knows any more. `device` as in a charge.
 * False: it does not fit under the limit; refuse. `*share` -1: not counted there, or the table is full.
 */
bool hami_shared_adopt(uint64_t identity, int device, uint64_t pages, hami_share *share);

/* The charge of an exported share, which this process has, is now of so many pages. */
void hami_shared_resize(hami_share share, uint64_t pages);

/* More of an adopted share was seen. False: that does not fit under the limit; refuse. */
bool hami_shared_grow(hami_share share, uint64_t pages);

void hami_shared_close(hami_share share);

/* Pages of a device in the charge of a slot's owner that other processes hold as well. */
uint64_t hami_shared_by(const struct hami_region *region, unsigned slot, unsigned device);

/* Takes the dead owner of a slot out of the table, before its charges are taken off. */
void hami_shared_dead(struct hami_region *region, unsigned slot);

/* Brings the `orphaned` pages of all devices to what the table says. */
void hami_shared_settle(struct hami_region *region);

void hami_shared_after_fork(void);

#endif
