/* Makes identities, and writes them to file descriptors and reads them there (identity.h). */
#include "memory/identity.h"

#include "cuda_abi.h"
#include "ledger/process.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/*
 * Brings a number into the range of identities: from 2³², since a program's own locks begin at lower offsets, up to
 * 2⁶², since the offset of a lock must be below 2⁶³.
 */
static uint64_t identity_in_range(uint64_t number) {
    return (number & ((UINT64_C(1) << 62) - 1)) | UINT64_C(1) << 32;
}

uint64_t hami_identity_of_bytes(const void *bytes, size_t size) {
    const unsigned char *at = bytes;
    uint64_t sum = size;
    for (size_t i = 0; i < size; i++) {
        sum = (sum ^ at[i]) * UINT64_C(0x9e3779b97f4a7c15);
        sum ^= sum >> 29;
    }
    return identity_in_range(sum);
}

/* A number that no other memory has. */
static uint64_t identity_fresh(void) {
    static _Atomic uint64_t made;
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t seed[] = {hami_process_self(), (uint64_t)now.tv_sec, (uint64_t)now.tv_nsec,
                             atomic_fetch_add(&made, 1)};
    return hami_identity_of_bytes(seed, sizeof seed);
}

uint64_t hami_identity_of_boot(void) {
    char text[64];
    ssize_t length = hami_process_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    return length <= 0 ? 0 : hami_identity_of_bytes(text, (size_t)length);
}

/* Writes an identity to a file descriptor, which must have none. */
static void identity_put(int fd, uint64_t identity) {
    int before = errno;
    struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)identity, .l_len = 1};
    (void)fcntl(fd, F_OFD_SETLK, &lock);
    errno = before;
}

/* Reads the identity that a file descriptor has been given. */
static uint64_t identity_on(int fd) {
    char path[48], text[4096];
    uint64_t number = 0;
    (void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
    int before = errno;
    (void)hami_process_read(path, text, sizeof text);
    errno = before;
    for (const char *at = strstr(text, "OFDLCK"); at != NULL && number == 0; at = strstr(at + 1, "OFDLCK")) {
        /* proc_pid_fdinfo(5): "lock: 1: OFDLCK ADVISORY READ -1 00:2f:1234 FIRST LAST" */
        uint64_t first = 0, last = 0;
        int found = sscanf(at, "OFDLCK %*s %*s %*s %*s %" SCNu64 " %" SCNu64, &first, &last);
        number = found == 2 && first == last && first >> 32 != 0 ? first : 0;
    }
    return number;
}

/*
 * Two processes may give one descriptor an identity at once. The kernel lists locks by offset, so the first process may
 * read its own number and the second one a lower number. Then each of them is charged for the memory.
 */
uint64_t hami_identity_of(int fd) {
    uint64_t identity = identity_on(fd);
    if (identity == 0) {
        identity_put(fd, identity_fresh());
        identity = identity_on(fd);
    }
    return identity;
}

uint64_t hami_identity_of_export(const void *shareable, int32_t type) {
    bool bytes = type == CU_MEM_HANDLE_TYPE_FABRIC;
    return bytes ? hami_identity_of_bytes(shareable, HAMI_FABRIC_HANDLE_BYTES) : identity_fresh();
}

void hami_identity_put_on_export(const void *shareable, int32_t type, uint64_t identity) {
    if (type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        int fd = -1;
        memcpy(&fd, shareable, sizeof fd);
        identity_put(fd, identity);
    }
}

uint64_t hami_identity_of_import(const void *shareable, int32_t type) {
    return type == CU_MEM_HANDLE_TYPE_FABRIC ? hami_identity_of_bytes(shareable, HAMI_FABRIC_HANDLE_BYTES)
           : type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? identity_on((int)(intptr_t)shareable)
                                                              : 0;
}
