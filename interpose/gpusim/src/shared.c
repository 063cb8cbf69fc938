/* See shared.h. */
#define _GNU_SOURCE
#include "shared.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FREE, THERE, CHANGING };

static _Atomic uint32_t holds[SIM_MAX_SHARED]; /* by this process */

static struct sim_shared *at(unsigned entry) {
    return &sim_books->shared[entry];
}

static unsigned entries(void) {
    return atomic_load_explicit(&sim_books->shared_limit, memory_order_acquire);
}

static int open_file(void) {
    const char *state = getenv("HAMI_SIM_STATE");
    char path[4096];
    int length = state != NULL ? snprintf(path, sizeof path, "%s/shared", state) : -1;
    return length > 0 && (size_t)length < sizeof path ? open(path, O_RDWR | O_CLOEXEC) : -1;
}

static bool lock_byte(int fd, int command, unsigned entry, struct flock *lock) {
    *lock = (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)entry, .l_len = 1};
    return fcntl(fd, command, lock) == 0;
}

/* Whether a descriptor for the entry is open anywhere; when in doubt it is. */
static bool under_way(unsigned entry) {
    struct flock lock;
    int fd = open_file();
    bool asked = fd >= 0 && lock_byte(fd, F_OFD_GETLK, entry, &lock);
    if (fd >= 0) {
        close(fd);
    }
    return !asked || lock.l_type != F_UNLCK;
}

static bool is_held(unsigned entry) {
    for (unsigned word = 0; word < SIM_MAX_SLOTS / 64; word++) {
        if (atomic_load(&at(entry)->holders[word]) != 0) {
            return true;
        }
    }
    return false;
}

static void free_if_unused(unsigned entry) {
    uint32_t there = THERE;
    if (is_held(entry) || under_way(entry) || !atomic_compare_exchange_strong(&at(entry)->state, &there, CHANGING)) {
        return;
    }
    bool again = is_held(entry) || under_way(entry); /* by one who came while it was looked at */
    if (!again) {
        atomic_fetch_add(&at(entry)->generation, 1);
        atomic_store(&at(entry)->bytes, 0);
    }
    atomic_store(&at(entry)->state, again ? THERE : FREE);
}

static void raise_limit(unsigned limit) {
    uint32_t seen = atomic_load(&sim_books->shared_limit);
    while (seen < limit && !atomic_compare_exchange_weak(&sim_books->shared_limit, &seen, limit)) {
    }
}

int sim_share(unsigned device, uint64_t bytes) {
    int slot = sim_slot_claim();
    for (unsigned entry = 0; slot >= 0 && entry < SIM_MAX_SHARED; entry++) {
        uint32_t free = FREE;
        if (atomic_compare_exchange_strong(&at(entry)->state, &free, CHANGING)) {
            raise_limit(entry + 1);
            atomic_store(&holds[entry], 1);
            at(entry)->device = device;
            atomic_store(&at(entry)->bytes, bytes);
            atomic_store(&at(entry)->holders[slot / 64], UINT64_C(1) << (slot % 64));
            atomic_store(&at(entry)->state, THERE);
            sim_discharge(device, bytes);
            return (int)entry;
        }
    }
    return -1;
}

bool sim_share_grow(unsigned entry, uint64_t bytes) {
    bool fits = sim_charge(at(entry)->device, bytes);
    if (fits) {
        atomic_fetch_add(&at(entry)->bytes, bytes);
        sim_discharge(at(entry)->device, bytes);
    }
    return fits;
}

void sim_share_shrink(unsigned entry, uint64_t bytes) {
    atomic_fetch_sub(&at(entry)->bytes, bytes);
}

bool sim_share_hold(unsigned entry, uint32_t generation) {
    int slot = sim_slot_claim();
    if (slot < 0 || entry >= entries()) {
        return false;
    }
    atomic_fetch_add(&holds[entry], 1);
    atomic_fetch_or(&at(entry)->holders[slot / 64], UINT64_C(1) << (slot % 64));
    for (;;) {
        uint32_t state = atomic_load(&at(entry)->state);
        if (state == THERE && atomic_load(&at(entry)->generation) == generation) {
            return true;
        }
        if (state != CHANGING) {
            sim_share_drop(entry);
            return false;
        }
    }
}

void sim_share_drop(unsigned entry) {
    int slot = sim_slot_mine();
    if (slot >= 0 && atomic_fetch_sub(&holds[entry], 1) == 1) {
        atomic_fetch_and(&at(entry)->holders[slot / 64], ~(UINT64_C(1) << (slot % 64)));
        free_if_unused(entry);
    }
}

static off_t parcel_at(unsigned entry) {
    return (off_t)(SIM_MAX_SHARED + entry * sizeof(struct sim_parcel));
}

static int descriptor_of(unsigned entry) {
    struct flock lock;
    int fd = open_file();
    /* Several may be open for one entry: a lock for reading keeps another from nobody but one who asks to write. */
    lock = (struct flock){.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)entry, .l_len = 1};
    if (fd >= 0 && (fcntl(fd, F_OFD_SETLK, &lock) != 0 || lseek(fd, (off_t)entry + 1, SEEK_SET) < 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int sim_share_send(unsigned entry, struct sim_parcel *parcel) {
    int fd = descriptor_of(entry);
    parcel->generation = atomic_load(&at(entry)->generation);
    if (fd >= 0 && pwrite(fd, parcel, sizeof *parcel, parcel_at(entry)) != (ssize_t)sizeof *parcel) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static int entry_of(int descriptor) {
    struct stat wanted, found;
    int fd = open_file();
    bool same = fd >= 0 && fstat(fd, &wanted) == 0 && fstat(descriptor, &found) == 0 && wanted.st_dev == found.st_dev &&
                wanted.st_ino == found.st_ino;
    off_t place = same ? lseek(descriptor, 0, SEEK_CUR) : 0;
    if (fd >= 0) {
        close(fd);
    }
    return place > 0 && place <= (off_t)entries() ? (int)place - 1 : -1;
}

int sim_share_receive(int descriptor, struct sim_parcel *parcel) {
    int entry = entry_of(descriptor);
    bool known =
        entry >= 0 && pread(descriptor, parcel, sizeof *parcel, parcel_at((unsigned)entry)) == (ssize_t)sizeof *parcel;
    return known && sim_device_exists(parcel->device) ? entry : -1;
}

void sim_share_after_fork(void) {
    for (unsigned entry = 0; entry < SIM_MAX_SHARED; entry++) {
        atomic_store(&holds[entry], 0);
    }
}

static bool lives(unsigned slot) {
    return sim_slot_pid(slot) != 0;
}

static bool has_living_holder(unsigned entry) {
    for (unsigned word = 0; word < SIM_MAX_SLOTS / 64; word++) {
        for (uint64_t left = atomic_load(&at(entry)->holders[word]); left != 0; left &= left - 1) {
            if (lives(word * 64 + (unsigned)__builtin_ctzll(left))) {
                return true;
            }
        }
    }
    return false;
}

void sim_share_forget(unsigned slot) {
    for (unsigned entry = 0; entry < entries(); entry++) {
        atomic_fetch_and(&at(entry)->holders[slot / 64], ~(UINT64_C(1) << (slot % 64)));
    }
}

void sim_share_sweep(void) {
    for (unsigned entry = 0; entry < entries(); entry++) {
        if (atomic_load(&at(entry)->state) == THERE) {
            free_if_unused(entry);
        }
    }
}

static bool is_on(unsigned entry, unsigned device) {
    return atomic_load(&at(entry)->state) != FREE && at(entry)->device == device;
}

uint64_t sim_share_used(unsigned device) {
    uint64_t sum = 0;
    for (unsigned entry = 0; entry < entries(); entry++) {
        sum += is_on(entry, device) ? atomic_load(&at(entry)->bytes) : 0;
    }
    return sum;
}

uint64_t sim_share_living(unsigned device) {
    uint64_t sum = 0;
    for (unsigned entry = 0; entry < entries(); entry++) {
        bool counts = is_on(entry, device) && (has_living_holder(entry) || under_way(entry));
        sum += counts ? atomic_load(&at(entry)->bytes) : 0;
    }
    return sum;
}

uint64_t sim_share_shown(unsigned device, unsigned slot) {
    uint64_t sum = 0;
    for (unsigned entry = 0; entry < entries(); entry++) {
        bool first = is_on(entry, device) && (atomic_load(&at(entry)->holders[slot / 64]) >> (slot % 64) & 1) != 0;
        for (unsigned before = 0; first && before < slot; before++) {
            first = (atomic_load(&at(entry)->holders[before / 64]) >> (before % 64) & 1) == 0 || !lives(before);
        }
        sum += first ? atomic_load(&at(entry)->bytes) : 0;
    }
    return sum;
}
