/*
 * The turn page of a device as a file: opening, reading, writing, locking, and its futexes.
 *
 * Every tenant of the device can write this file or cut it short. A load from a mapping of a file that was cut short
 * raises SIGBUS, so the page is read by pread(2) and written by pwrite(2), which return an error instead. Its mapping
 * only gives futex(2) an address. No function here blocks, except page_wait, and none changes errno.
 */
#ifndef HAMI_COMPUTE_PAGE_H
#define HAMI_COMPUTE_PAGE_H

#include "compute_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page {
    _Atomic int file;       /* 0: not open */
    _Atomic bool forbidden; /* RLIMIT_FSIZE forbids writes that far; the program may raise it again */
    _Atomic bool busy;      /* a thread of this process holds the lock or opens the file */
    _Atomic uint64_t device, inode;
    _Atomic(void *) futexes; /* the mapping */
};

void page_open(struct page *p, const char *path); /* may be called again */
void page_after_fork(struct page *p);
/* Reads the first `size` bytes. False: the file is gone, cut short, not a turn page, or may not be written. */
bool page_read(struct page *p, struct hami_turn_page *seen, size_t size);
bool page_write(struct page *p, size_t at, const void *from, size_t size);
/* Takes the record lock for one change. False: another thread or process has it. */
bool page_lock(struct page *p);
void page_unlock(struct page *p);
void page_wait(const struct page *p, size_t at, uint32_t value, uint64_t ns);
void page_wake(const struct page *p, size_t at);

#endif
