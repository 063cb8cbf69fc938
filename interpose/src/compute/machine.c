/* The limited devices of this process, its lock, and the ways it waits. */
#include "compute/machine.h"

#include "ledger/state.h"
#include "memory/devices.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { ALL = 1 << 30 }; /* waiters to wake */

_Atomic int compute_state = COMPUTE_FRESH;

static struct machine machines[HAMI_DEVICES];
static _Atomic(const struct hami_limits *) limits_seen;
static _Atomic uint32_t lock_word; /* 0 free, 1 held, 2 held and waited for */

/* ---- waiting ---- */

uint64_t compute_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

void compute_sleep_until(uint64_t due) {
    const struct timespec at = timespec_of(due);
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* futex(2); `bits` count for the operations that take them. errno stays as it was. */
static void futex(const _Atomic uint32_t *word, int operation, uint32_t value, uint64_t ns, uint32_t bits) {
    const struct timespec timeout = timespec_of(ns);
    int saved = errno;
    (void)syscall(SYS_futex, word, operation, value, &timeout, NULL, bits);
    errno = saved;
}

void compute_wait(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    futex(word, FUTEX_WAIT, value, ns, 0);
}

void compute_wake(const _Atomic uint32_t *word) {
    futex(word, FUTEX_WAKE, ALL, 0, 0);
}

void compute_wait_here(const _Atomic uint32_t *word, uint32_t value, uint64_t ns) {
    futex(word, FUTEX_WAIT_PRIVATE, value, ns, 0);
}

void compute_wake_here(const _Atomic uint32_t *word) {
    futex(word, FUTEX_WAKE_PRIVATE, ALL, 0, 0);
}

void compute_wait_number(const _Atomic uint32_t *word, uint32_t value, uint32_t number, uint64_t ns) {
    futex(word, FUTEX_WAIT_BITSET, value, compute_now() + ns, 1u << number % 32);
}

void compute_wake_number(const _Atomic uint32_t *word, uint32_t number) {
    futex(word, FUTEX_WAKE_BITSET, ALL, 0, 1u << number % 32);
}

void compute_lock(void) {
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong_explicit(&lock_word, &seen, 1, memory_order_acquire, memory_order_relaxed)) {
        return;
    }
    while (atomic_exchange_explicit(&lock_word, 2, memory_order_acquire) != 0) {
        compute_wait_here(&lock_word, 2, 1000000);
    }
}

void compute_unlock(void) {
    bool helper = helper_owed();
    if (atomic_exchange_explicit(&lock_word, 0, memory_order_release) == 2) {
        compute_wake_here(&lock_word);
    }
    if (helper) {
        helper_pay();
    }
}

/* ---- the devices ---- */

/* Percent, or 0 where nothing limits: HAMi's policy and its monitor's switch have their say. */
static uint32_t share_of(const struct hami_limits *limits, const struct hami_region_view *view, unsigned index) {
    if (limits->mode != HAMI_MODE_ENFORCE || index >= limits->device_count) {
        return 0;
    }
    uint32_t cores = limits->devices[index].cores;
    /* An agent that looks no more cannot say when others come: its word that there are none is void. */
    bool off = limits->core_policy == HAMI_CORE_DISABLE ||
               (limits->core_policy == HAMI_CORE_DEFAULT && view->region->v1.utilization_switch == 0 &&
                !suspend_agent_gone(view));
    return off || cores >= 100 ? 0 : cores;
}

static bool any_limit(const struct hami_limits *limits, const struct hami_region_view *view) {
    for (unsigned i = 0; i < limits->device_count; i++) {
        if (share_of(limits, view, i) != 0) {
            return true;
        }
    }
    return false;
}

/* What the container owes is device time: at another share it is paid in another time. The first who sees it says so.
 */
static void share_changes(struct machine *m, uint32_t share) {
    uint64_t before = atomic_load(&m->shared->share);
    if (share == 0 || before == share || !atomic_compare_exchange_strong(&m->shared->share, &before, share) ||
        before == 0) {
        return;
    }
    int64_t now = (int64_t)compute_now(), zero = atomic_load(&m->shared->zero);
    while (zero > now && !atomic_compare_exchange_weak(
                             &m->shared->zero, &zero, now + (int64_t)((double)(zero - now) * (double)before / share))) {
    }
}

static void set_share(struct machine *m, uint32_t share) {
    if (load_relaxed(&m->share) != share) {
        store_relaxed(&m->share, share);
        runners_changed();
        share_changes(m, share);
    }
}

int machines_refresh(void) {
    const struct hami_limits *limits = hami_state_limits();
    struct hami_region_view *view = limits->mode == HAMI_MODE_OFF ? NULL : hami_state_region(NULL);
    int state = COMPUTE_OFF;
    if (load_relaxed(&limits_seen) != limits) {
        store_relaxed(&limits_seen, limits);
        runners_changed();
    }
    if (view != NULL) {
        atomic_store_explicit(&suspend_word, &view->region->v1.recent_kernel, memory_order_release);
        for (unsigned i = 0; i < HAMI_DEVICES; i++) {
            if (atomic_load_explicit(&machines[i].ready, memory_order_acquire)) {
                set_share(&machines[i], share_of(limits, view, i));
            }
        }
        state = any_limit(limits, view) ? COMPUTE_ON : COMPUTE_OFF;
    }
    if (load_relaxed(&compute_state) != state) {
        atomic_store_explicit(&compute_state, state, memory_order_release);
    }
    return state;
}

static void set_up(struct machine *m, unsigned index, struct hami_region_view *view, const char *uuid) {
    struct hami_compute *compute = hami_compute_of(view->region);
    m->index = index;
    m->view = view;
    m->ratio = m->span_ratio = 1;
    m->shared = &compute->devices[index];
    m->own = &compute->processes[view->slot][index];
    int64_t never = 0;
    boot_check(m);
    (void)atomic_compare_exchange_strong(&m->shared->zero, &never, (int64_t)compute_now());
    turn_open(m, uuid);
    atomic_store_explicit(&m->ready, true, memory_order_release);
}

struct machine *machine_of(CUdevice device) {
    const struct hami_limits *limits = hami_state_known_limits();
    int index = hami_device_of_cuda(limits, device);
    if (index < 0 || (unsigned)index >= limits->device_count) {
        return NULL;
    }
    struct machine *m = &machines[index];
    if (!atomic_load_explicit(&m->ready, memory_order_acquire)) {
        struct hami_region_view *view = hami_state_region(NULL);
        if (view == NULL) {
            return NULL;
        }
        compute_lock();
        if (!load_relaxed(&m->ready)) {
            set_up(m, (unsigned)index, view, limits->devices[index].uuid);
        }
        compute_unlock();
        (void)machines_refresh();
    }
    return load_relaxed(&m->share) != 0 ? m : NULL;
}

bool machine_free(CUdevice device) {
    int index = hami_device_of_cuda(hami_state_known_limits(), device);
    const struct machine *m = index < 0 ? NULL : machine_at((unsigned)index);
    return m != NULL && load_relaxed(&m->share) == 0;
}

struct machine *machine_at(unsigned index) {
    bool ready = index < HAMI_DEVICES && atomic_load_explicit(&machines[index].ready, memory_order_acquire);
    return ready ? &machines[index] : NULL;
}

void hami_compute_after_fork(void) {
    atomic_store(&lock_word, 0);
    atomic_store(&compute_state, COMPUTE_FRESH);
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        page_after_fork(&machines[i].page);
    }
    memset(machines, 0, sizeof machines);
    runners_reset();
    cost_reset();
    helper_reset();
}
