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

/* The number of a descriptor, which is given one if it has none. */
uint64_t hami_identity_of(int fd);

uint64_t hami_identity_of_bytes(const void *bytes, size_t size);

/*
 * The number of what is exported or imported by `shareable` (cuMemExportToShareableHandle and others): of a fabric
 * handle its bytes; of a descriptor the lock on it, which the exporter puts there. hami_identity_of_import: 0 if there
 * is none.
 */
uint64_t hami_identity_of_export(const void *shareable, int32_t type);
void hami_identity_put_on_export(const void *shareable, int32_t type, uint64_t identity);
uint64_t hami_identity_of_import(const void *shareable, int32_t type);

/* Of this start of the machine. */
uint64_t hami_identity_of_boot(void);

#endif
