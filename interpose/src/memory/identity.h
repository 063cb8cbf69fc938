/*
 * Numbers by which exporter and importer know the same memory. Bytes that are handed over make one by themselves. A
 * file descriptor, which looks different everywhere, gets one as a record lock at that offset: locks of an open file
 * description go wherever its duplicates do, and /proc/self/fdinfo shows them. The lock is for reading, so it never
 * keeps anybody from anything. 0: there is none, or it cannot be told.
 */
#ifndef HAMI_IDENTITY_H
#define HAMI_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

uint64_t hami_identity_fresh(void);

/* Gives a descriptor a number. */
void hami_identity_put(int fd, uint64_t identity);

/* The number that a descriptor has been given. */
uint64_t hami_identity_on(int fd);

/* Same; one that has none yet gets one. */
uint64_t hami_identity_of(int fd);

uint64_t hami_identity_of_bytes(const void *bytes, size_t size);

/* Of this start of the machine. */
uint64_t hami_identity_of_boot(void);

#endif
