/*
 * The turn page as a file (page.h).
 *
 * The program may close the page's descriptor, and may then open a file of its own that gets the same number. So before
 * each use, fstat(2) checks that the descriptor still refers to the turn page.
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

enum {
    SIZE = sizeof(struct hami_turn_page),
    LOWEST_DESCRIPTOR = 64 /* for the page; programs may expect to get lower numbers themselves */
};

static bool page_is_same_file(const struct page *p, int file) {
    struct stat found;
    return file > 0 && fstat(file, &found) == 0 && found.st_ino == atomic_load(&p->inode) &&
           found.st_dev == atomic_load(&p->device);
}

/* False: RLIMIT_FSIZE is below the page's size. A write beyond it would raise SIGXFSZ, which kills a program. */
static bool page_may_write(struct page *p) {
    struct rlimit limit;
    bool may = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur >= SIZE;
    store_relaxed(&p->forbidden, !may);
    return may;
}

/* Excludes this process's other threads, which fcntl(2) locks do not. False: another thread is in. Does not wait. */
static bool page_enter(struct page *p) {
    return !atomic_exchange_explicit(&p->busy, true, memory_order_acquire);
}

static void page_leave(struct page *p) {
    atomic_store_explicit(&p->busy, false, memory_order_release);
}

/* ---- opening ---- */

/*
 * Makes `fd` the page's file. dup3(2) and MAP_FIXED replace the old descriptor and mapping in place, so a thread that
 * still uses them reaches the new file and never a file of the program.
 */
static void page_replace(struct page *p, int fd, const struct stat *found) {
    int before = atomic_load(&p->file);
    void *at = mmap(p->futexes, SIZE, PROT_READ, MAP_SHARED | (p->futexes == NULL ? 0 : MAP_FIXED), fd, 0);
    if (at == MAP_FAILED) {
        return;
    }
    p->futexes = at;
    int file =
        page_is_same_file(p, before) ? dup3(fd, before, O_CLOEXEC) : fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
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
    bool entered = page_enter(p), locked = entered && page_record_lock(p, F_WRLCK);
    if (entered && !locked) {
        page_leave(p);
    }
    hami_step();
    return locked;
}

void page_unlock(struct page *p) {
    (void)page_record_lock(p, F_UNLCK);
    page_leave(p);
}

const _Atomic uint32_t *page_futex(const struct page *p, size_t at) {
    return (const _Atomic uint32_t *)(const void *)((const char *)p->futexes + at);
}
