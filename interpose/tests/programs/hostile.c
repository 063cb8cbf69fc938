/*
 * hostile PAGE DEED AT_MS SECONDS: a tenant that means harm to those who share a turn page with it. It starts then and
 * goes on, mostly every millisecond, to the end.
 *
 *   cut      cuts the file off
 *   empty    cuts it off and makes it as long as it was
 *   grow     makes it a terabyte
 *   blink    cuts it off and puts back what there was
 *   noise    random bytes all over it
 *   slots    random bytes behind its head, so that it still looks like a page
 *   hold     says that the turn is its own and that it lives, works long and waits
 *   give     gives the turn now to this, now to that slot
 *   claim    says that the device was busy for others until now
 *   evict    takes the slots of all others
 *   lock     locks the file; one that is stopped in the middle of a change does the same
 *   close    takes away everybody's permission to it
 */
#include "driver.h"
#include "compute_abi.h"

#include <fcntl.h>
#include <sys/stat.h>

enum { MILLISECOND = 1000000, FIRST = 16 /* of the head: magic, version, size */ };

static void sleep_to(uint64_t due) {
    struct timespec t = {(time_t)(due / 1000000000u), (long)(due % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void random_bytes(unsigned char *at, size_t size) {
    static uint64_t state = 7;
    for (size_t i = 0; i < size; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        at[i] = (unsigned char)(state >> 56);
    }
}

static void hold(struct hami_turn_page *page, uint64_t at) {
    unsigned slot = HAMI_TURN_SLOTS - 1;
    page->slots[slot] = (struct hami_turn_slot){
        .owner = 1, .life = {.beat = at, .longest_launch = UINT64_MAX}, .wish = {.arrears = INT64_MAX, .waiting = 1}};
    page->turn = slot + 1;
    page->since = at;
}

/* Returns whether there is more of it to do. */
static int act(int fd, const char *deed, uint64_t at) {
    struct hami_turn_page page;
    memset(&page, 0, sizeof page);
    int failed = pread(fd, &page, sizeof page, 0) < 0, more = 1, sized = 1;
    if (strcmp(deed, "cut") == 0) {
        failed |= ftruncate(fd, 0);
        more = sized = 0;
    } else if (strcmp(deed, "empty") == 0) {
        failed |= ftruncate(fd, 0);
        memset(&page, 0, sizeof page);
        more = 0;
    } else if (strcmp(deed, "grow") == 0) {
        failed |= ftruncate(fd, (off_t)1 << 40);
        more = 0;
    } else if (strcmp(deed, "blink") == 0) {
        failed |= ftruncate(fd, 0);
        sleep_to(at + MILLISECOND);
    } else if (strcmp(deed, "noise") == 0) {
        random_bytes((unsigned char *)&page, sizeof page);
    } else if (strcmp(deed, "slots") == 0) {
        random_bytes((unsigned char *)&page + FIRST, sizeof page - FIRST);
    } else if (strcmp(deed, "hold") == 0) {
        hold(&page, at);
    } else if (strcmp(deed, "give") == 0) {
        page.turn = at / MILLISECOND << 16 | (at / MILLISECOND % 8 + 1);
        page.since = at;
    } else if (strcmp(deed, "claim") == 0) {
        failed |= pwrite(fd, &at, sizeof at, offsetof(struct hami_turn_page, frontier)) != sizeof at;
        sized = 0;
    } else if (strcmp(deed, "evict") == 0) {
        for (unsigned i = 0; i < HAMI_TURN_SLOTS; i++)
            page.slots[i] = (struct hami_turn_slot){.owner = i + 1, .life = {.beat = at}};
    } else if (strcmp(deed, "lock") == 0) {
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        failed |= fcntl(fd, F_SETLKW, &lock);
        more = sized = 0;
    } else if (strcmp(deed, "close") == 0) {
        failed |= fchmod(fd, 0);
        more = sized = 0;
    } else {
        failed = 1;
    }
    if (failed || (sized && pwrite(fd, &page, sizeof page, 0) != sizeof page)) {
        perror(deed);
        exit(2);
    }
    return more;
}

int main(int argc, char **argv) {
    int fd = argc == 5 ? open(argv[1], O_RDWR) : -1, more = 1;
    if (fd < 0)
        return 2;
    uint64_t began = now(), end = began + strtoull(argv[4], NULL, 10) * 1000000000u;
    uint64_t due = began + strtoull(argv[3], NULL, 10) * MILLISECOND;
    for (; due < end && more; due = now() + MILLISECOND) {
        sleep_to(due);
        more = act(fd, argv[2], now());
    }
    sleep_to(end);
    return 0;
}
