/*
 * Identities: numbers by which exporter and importer know the same memory. The identity of a handle that consists of
 * bytes is a hash of them. A file descriptor has another number in each process, so its identity is the offset of a
 * lock on its open file description (F_OFD_SETLK in fcntl(2)): all its duplicates share the lock, and /proc/self/fdinfo
 * shows it. Read locks do not exclude each other, so the lock blocks no one. An identity of 0 means that there is none,
 * or that it cannot be read.
 */
#ifndef HAMI_IDENTITY_H
#define HAMI_IDENTITY_H

#include <stddef.h>
#include <stdint.h>

/* The identity of a file descriptor. Gives the descriptor one if it has none. */
uint64_t hami_identity_of(int fd);

uint64_t hami_identity_of_bytes(const void *bytes, size_t size);

/*
 * Identities of handles of type `type`, as cuMemExportToShareableHandle and cuMemPoolExportToShareableHandle make them.
 * An exporter asks for the identity of its export and then puts it on the handle, which does something only for a file
 * descriptor. An importer reads the identity from the handle. `shareable` is the argument of CUDA's call: a pointer to
 * the handle, or, at the import of a file descriptor, its number cast to a pointer.
 */
uint64_t hami_identity_of_export(const void *shareable, int32_t type);
void hami_identity_put_on_export(const void *shareable, int32_t type, uint64_t identity);
uint64_t hami_identity_of_import(const void *shareable, int32_t type);

/* A number for this boot of the machine, the same in all processes. */
uint64_t hami_identity_of_boot(void);

#endif
