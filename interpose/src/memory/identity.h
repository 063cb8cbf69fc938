/*
 * Identities: numbers by which exporter and importer know the same memory. The identity of a handle that consists of
 * bytes is a hash of them. A file descriptor has another number in each process, so its identity is the offset of a
 * lock on its open file description (F_OFD_SETLK in fcntl(2)): all its duplicates share the lock, and /proc/self/fdinfo
 * shows it. Read locks do not exclude each other, so the lock blocks no one. 0: there is no identity, or it cannot be
 * read.
 */
#ifndef HAMI_IDENTITY_H
#define HAMI_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

uint64_t hami_identity_fresh(void);

/* Gives a descriptor an identity. */
void hami_identity_put(int fd, uint64_t identity);

/* The identity that a descriptor has been given. */
uint64_t hami_identity_on(int fd);

/* The identity of a descriptor. Gives it one if it has none. */
uint64_t hami_identity_of(int fd);

uint64_t hami_identity_of_bytes(const void *bytes, size_t size);

/*
 * The identity of the memory behind `shareable`, a handle of cuMemExportToShareableHandle or of a pool's export. An
 * exporter makes an identity, and puts it on the handle if that is a descriptor. An importer reads it there.
 */
uint64_t hami_identity_of_export(const void *shareable, int32_t type);
void hami_identity_put_on_export(const void *shareable, int32_t type, uint64_t identity);
uint64_t hami_identity_of_import(const void *shareable, int32_t type);

/* A number for this boot of the machine, the same in all processes. */
uint64_t hami_identity_of_boot(void);

#endif
