/*
 * Implements page.h.
 *
 * The program may close our descriptor and reuse its number, so each use first compares the file behind it with the one
 * that was opened. The lock is a record lock of fcntl(2), as for the region's slots: a forked child does not inherit
 * it, and the kernel releases it when the process dies.
 */
#include "compute/page.h"

#include "compute/wait.h"
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_DESCRIPTOR = 64, SIZE = sizeof(struct hami_turn_page) };

static bool page_is_same_file(const struct page *p, int file) {
    struct stat found;
    return file > 0 && fstat(file, &found) == 0 && found.st_ino == atomic_load(&p->inode) &&
           found.st_dev == atomic_load(&p->device);
}

/* A write beyond RLIMIT_FSIZE raises SIGXFSZ. */
static bool page_may_write(struct page *p) {
    struct rlimit limit;
    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= SIZE;
    store_relaxed(&p->forbidden, !may);
    return may;
}

/* Threads of this process exclude each other: a record lock excludes only other processes. Acquire and release order
 * what is done in between. */
static bool page_enter(struct page *p) {
    return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire);
}

static void page_leave(struct page *p) {
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

/* ---- opening ---- */

/*
 * Replaces the descriptor and the mapping in place (dup3, MAP_FIXED). Another thread that still uses them then finds
 * the new file there, never one of the program's.
 */
static void page_replace(struct page *p, int fd, const struct stat *found) {
    int before = atomic_load(&p->file), file = -1;
    void *at = mmap(p->futexes, SIZE, PROT_READ, MAP_SHARED | (p->futexes == NULL ? 0 : MAP_FIXED), fd, 0);
    if (at == MAP_FAILED) {
        return;
    }
    p->futexes = at;
    if (page_is_same_file(p, before)) {
        file = dup3(fd, before, O_CLOEXEC);
    } else {
        file = fcntl(fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR); /* programs may count on low numbers */
    }
    atomic_store(&p->inode, found->st_ino);
    atomic_store(&p->device, found->st_dev);
    atomic_store(&p->file, file < 0 ? 0 : file);
}

void page_open(struct page *p, const char *path) {
    struct stat found;
    int saved = errno;
    if (page_enter(p)) {
        int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
        if (fd >= 0) {
            if (fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
                page_replace(p, fd, &found);
            }
            (void)close(fd);
        }
        page_leave(p);
    }
    errno = saved;
}

void page_after_fork(struct page *p) {
    int saved = errno, file = atomic_load(&p->file);
    if (page_is_same_file(p, file)) {
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
    bool may = !load_relaxed(&p->forbidden) || page_may_write(p);
    bool good = may && page_is_same_file(p, file) && pread(file, seen, size, 0) == (ssize_t)size &&
                seen->magic == HAMI_TURN_MAGIC && seen->version == HAMI_TURN_VERSION && seen->size == sizeof *seen;
    errno = saved;
    return good;
}

bool page_write(struct page *p, size_t at, const void *from, size_t size) {
    int saved = errno, file = atomic_load(&p->file);
    bool done = page_is_same_file(p, file) && page_may_write(p) && pwrite(file, from, size, (off_t)at) == (ssize_t)size;
    errno = saved;
    hami_step();
    return done;
}

/* ---- the record lock ---- */

static bool page_record_lock(const struct page *p, short how) {
    struct flock lock = {.l_type = how,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)offsetof(struct hami_turn_page, turn),
                         .l_len = sizeof(uint64_t)};
    int saved = errno, file = atomic_load(&p->file);
    bool done = page_is_same_file(p, file) && fcntl(file, F_SETLK, &lock) == 0;
    errno = saved;
    return done;
}

bool page_lock(struct page *p) {
    if (!page_enter(p)) {
        return false;
    }
    if (!page_record_lock(p, F_WRLCK)) {
        page_leave(p);
        return false;
    }
    hami_step();
    return true;
}

void page_unlock(struct page *p) {
    (void)page_record_lock(p, F_UNLCK);
    page_leave(p);
}

/* ---- futexes; on a page that was cut short futex(2) returns EFAULT at once ---- */

static const _Atomic uint32_t *page_futex(const struct page *p, size_t at) {
    return (const _Atomic uint32_t *)(const void *)((const char *)p->futexes + at);
}

void page_wait(const struct page *p, size_t at, uint32_t value, uint64_t ns) {
    compute_wait(page_futex(p, at), value, ns);
}

void page_wake(const struct page *p, size_t at) {
    compute_wake(page_futex(p, at));
}
