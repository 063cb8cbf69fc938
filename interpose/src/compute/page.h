/*
 * The turn page of a device as a file: functions that open, read, write and lock it, and the addresses of its futexes.
 *
 * Every tenant of the device can write to this file or truncate it. A load from a mapping of a truncated file raises
 * SIGBUS. So the page is read by pread(2) and written by pwrite(2), which fail instead. The mapping only gives futex(2)
 * an address. No function here blocks or changes errno.
 */
#ifndef HAMI_COMPUTE_PAGE_H
#define HAMI_COMPUTE_PAGE_H

#include "compute_abi.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct page {
    _Atomic int file;               /* descriptor; 0: not open */
    _Atomic bool forbidden;         /* RLIMIT_FSIZE was below the page's size; the program may raise it again */
    _Atomic bool busy;              /* a thread of this process holds the page's lock or opens the file */
    _Atomic uint64_t device, inode; /* of the opened file */
    _Atomic(void *) futexes;        /* the mapping; NULL: never opened */
};

/* Opens the file in place of the one that is open, if any. If `path` is no regular file, nothing changes. */
void page_open(struct page *p, const char *path);
/* Reads the first `size` bytes. False: no file is open, it is no valid page, or RLIMIT_FSIZE forbids writing it. */
bool page_read(struct page *p, struct hami_turn_page *seen, size_t size);
bool page_write(struct page *p, size_t at, const void *from, size_t size);
/* Takes the page's record lock (compute_abi.h). False: another thread or process holds it. */
bool page_lock(struct page *p);
void page_unlock(struct page *p);
/* The futex at offset `at`, for futex(2) only. If the file was truncated, futex(2) returns EFAULT at once. */
const _Atomic uint32_t *page_futex(const struct page *p, size_t at);

#endif
