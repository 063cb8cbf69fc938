/*
 * The turn page, by system calls only. Every tenant of the device can write this file, and cut it short: a load from a
 * mapping of it would then be a SIGBUS in somebody else's program. read(2) and write(2) answer with an error instead,
 * and so does futex(2) with the address of a mapping, which is all that the mapping is for.
 *
 * The descriptor is the program's to close, and its number then to use again: each use looks first whether it is still
 * ours. The lock is one of fcntl(2), as those of the region's slots: a child does not inherit it, and the kernel takes
 * it back from the dead.
 */
#include "compute/machine.h"

#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_DESCRIPTOR = 64, SIZE = sizeof(struct hami_turn_page) };

static bool same_file(const struct page *p, int file) {
    struct stat found;
    return file > 0 && fstat(file, &found) == 0 && found.st_ino == atomic_load(&p->inode) &&
           found.st_dev == atomic_load(&p->device);
}

/* Beyond RLIMIT_FSIZE a write would be a signal, SIGXFSZ. */
static bool may_write(struct page *p) {
    struct rlimit limit;
    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= SIZE;
    store_relaxed(&p->forbidden, !may);
    return may;
}

static bool enter(struct page *p) {
    return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire);
}

static void leave(struct page *p) {
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

/* ---- opening ---- */

/* In place of the descriptor and mapping that there are, so that no other thread finds something else there. */
static void replace(struct page *p, int fd, const struct stat *found) {
    int before = atomic_load(&p->file), file = -1;
    void *at = mmap(p->futexes, SIZE, PROT_READ, MAP_SHARED | (p->futexes == NULL ? 0 : MAP_FIXED), fd, 0);
    if (at == MAP_FAILED) {
        return;
    }
    p->futexes = at;
    if (same_file(p, before)) {
        file = dup3(fd, before, O_CLOEXEC);
    } else {
        file = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR); /* out of the way of programs that count on low numbers */
    }
    atomic_store(&p->inode, found->st_ino);
    atomic_store(&p->device, found->st_dev);
    atomic_store(&p->file, file < 0 ? 0 : file);
}

void page_open(struct page *p, const char *path) {
    struct stat found;
    int saved = errno;
    if (enter(p)) {
        int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0) {
            if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
                replace(p, fd, &found);
            }
            (void)close(fd);
        }
        leave(p);
    }
    errno = saved;
}

void page_after_fork(struct page *p) {
    int saved = errno, file = atomic_load(&p->file);
    if (same_file(p, file)) {
        (void)close(file);
    }
    if (p->futexes != NULL) {
        (void)munmap(p->futexes, SIZE);
    }
    errno = saved;
}

/* ---- reading and writing ---- */

bool page_read(struct page *p, struct hami_turn_page *seen, size_t size) {
    int saved = errno, file = atomic_load(&p->file);
    bool may = !load_relaxed(&p->forbidden) || may_write(p);
    bool good = may && same_file(p, file) && pread(file, seen, size, 0) == (ssize_t)size &&
                seen->magic == HAMI_TURN_MAGIC && seen->version == HAMI_TURN_VERSION && seen->size == sizeof *seen;
    errno = saved;
    return good;
}

bool page_write(struct page *p, size_t at, const void *from, size_t size) {
    int saved = errno, file = atomic_load(&p->file);
    bool done = same_file(p, file) && may_write(p) && pwrite(file, from, size, (off_t)at) == (ssize_t)size;
    errno = saved;
    hami_step();
    return done;
}

/* ---- changes that must not meet others ---- */

static bool lock_word(const struct page *p, short how) {
    struct flock lock = {.l_type = how,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)offsetof(struct hami_turn_page, turn),
                         .l_len = sizeof(uint64_t)};
    int saved = errno, file = atomic_load(&p->file);
    bool done = same_file(p, file) && fcntl(file, F_SETLK, &lock) == 0;
    errno = saved;
    return done;
}

bool page_lock(struct page *p) {
    if (!enter(p)) {
        return false;
    }
    if (!lock_word(p, F_WRLCK)) {
        leave(p);
        return false;
    }
    hami_step();
    return true;
}

void page_unlock(struct page *p) {
    (void)lock_word(p, F_UNLCK);
    leave(p);
}

/* ---- futexes: what is cut off answers EFAULT at once ---- */

static const _Atomic uint32_t *futex(const struct page *p, size_t at) {
    return (const _Atomic uint32_t *)(const void *)((const char *)p->futexes + at);
}

void page_wait(const struct page *p, size_t at, uint32_t value, uint64_t ns) {
    compute_wait(futex(p, at), value, ns);
}

void page_wake(const struct page *p, size_t at) {
    compute_wake(futex(p, at));
}
