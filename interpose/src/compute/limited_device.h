/*
 * The devices on which this process has a core limit. A limited_device is set up when the process first launches there
 * and stays until the process ends or forks. Files above this one keep their state of a device in it.
 */
#ifndef HAMI_COMPUTE_LIMITED_DEVICE_H
#define HAMI_COMPUTE_LIMITED_DEVICE_H

#include "compute/page.h"
#include "cuda_abi.h"
#include "ledger/region.h"

struct limited_device {
    _Atomic bool ready;     /* the fields down to `page` are set up */
    unsigned index;         /* in the limits */
    _Atomic uint32_t share; /* percent; 0: not limited now */
    struct hami_compute_device *shared;
    struct hami_compute_process *own;
    struct hami_region_view *view;

    /* turn.c */
    struct page page;                /* closed: no turns */
    _Atomic uint32_t turn_slot;      /* ours on the page, last known */
    _Atomic uint64_t page_sought_at; /* when the page was last opened, or was missing */
    _Atomic uint64_t others_looked_at;
    _Atomic uint64_t others_longest; /* launch of other containers, at that time */

    /* stream.c, span.c; written under the process's lock */
    _Atomic uint32_t busy_streams; /* with work under way */
    double slow_part;              /* part of timing events whose launches came more slowly than they ran, smoothed */
    _Atomic double charge_ratio;   /* part of the estimates that was charged: below 1 where streams overlap */

    /* gate.c */
    _Atomic int64_t last_grant, peers_granted; /* our last grant, and what other processes had been granted then */
};

enum { COMPUTE_FRESH, COMPUTE_OFF, COMPUTE_ON };
extern _Atomic int compute_state; /* ON: some device has a limit; FRESH: the limits were not read yet */

/*
 * A launching thread remembers streams, and what is left of their grants, for as long as this number stays. It moves
 * when limits change, a stream_account gets another stream, a stream ends, or a capture begins. Never 0.
 */
extern _Atomic uint32_t limited_device_epoch;
void limited_device_end_epoch(void);

/* Reads limits, policy and switches again. Returns the new state. */
int limited_devices_refresh(void);

/* The limited_device of a CUDA device; its share may be 0. NULL: it is not among the limits. */
struct limited_device *limited_device_of(CUdevice device);
/* The i-th of the limits; NULL: this process never used it. */
struct limited_device *limited_device_at(unsigned index);

void limited_device_open_page(struct limited_device *d, const char *uuid);

void limited_devices_after_fork(void);

#endif
