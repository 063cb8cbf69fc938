/*
 * The devices on which this process has, or may get, a core limit. The process sets a limited_device up when it first
 * launches work on the device, and keeps it until it ends or forks. Other files of the room keep their state of one
 * device in it.
 */
#ifndef HAMI_COMPUTE_LIMITED_DEVICE_H
#define HAMI_COMPUTE_LIMITED_DEVICE_H

#include "compute/page.h"
#include "cuda_abi.h"
#include "ledger/region.h"

struct limited_device {
    _Atomic bool ready;                 /* the fields from here to `page` are set up */
    unsigned index;                     /* of the device in the limits file */
    _Atomic uint32_t share;             /* percent; 0: the device has no limit now */
    struct hami_compute_device *shared; /* the container's account, in the region */
    struct hami_compute_process *own;   /* this process's record, in the region */
    struct hami_region_view *view;

    /* State of turn.c. */
    struct page page;                /* if it is not open, there are no turns */
    _Atomic uint32_t turn_slot;      /* the container's slot on the page, as this process last knew it */
    _Atomic uint64_t page_sought_at; /* when this process last tried to open the page */
    _Atomic uint64_t others_longest; /* the longest launch of other containers when the page was last read, ns */

    /* State of stream.c and span.c. A change needs the lock. */
    _Atomic uint32_t busy_streams; /* how many streams have work under way */
    double slow_part;              /* smoothed part of timing events between whose launches the device rested */
    _Atomic double charge_ratio;   /* smoothed charge / estimate: below 1 where streams overlap */

    /* State of gate.c. */
    _Atomic int64_t last_grant;    /* size of this process's last grant, ns */
    _Atomic int64_t peers_granted; /* what the container's other processes had been granted in all by then, ns */
};

/* OFF: no device has a limit. ON: at least one has. FRESH: this process has not read its limits yet. */
enum { COMPUTE_FRESH, COMPUTE_OFF, COMPUTE_ON };
extern _Atomic int compute_state;

/*
 * Each launching thread remembers streams, and device time that it took from their grants in advance. When this number
 * changes, the threads forget both. It changes when limits change, a stream_account gets another stream, a stream ends,
 * or a capture begins. It is never 0, so 0 marks an entry that is not valid.
 */
extern _Atomic uint32_t limited_device_epoch;
void limited_device_end_epoch(void);

/* Reads the limits, the core policy and the monitor's switch again. Returns the new compute_state. */
int limited_devices_refresh(void);

/* The limited_device of a CUDA device; its share may be 0. NULL: the limits do not list it, or there is no region. */
struct limited_device *limited_device_of(CUdevice device);
/* The limited_device at this index in the limits file. NULL: this process has not launched work there. */
struct limited_device *limited_device_at(unsigned index);

/* Opens the device's turn page, if the container has one. */
void limited_device_open_page(struct limited_device *d);

void limited_devices_after_fork(void);

/*
 * ---- suspend.c: priorities, as in HAMi ----
 *
 * The agent, in HAMi the monitor, writes -1 into the region's recent_kernel while a container of higher priority is
 * active on the same device. Then launches of this container wait, whether it has a core limit or not.
 */

enum { SUSPEND_ACTIVE = 2 }; /* a launch sets recent_kernel to this; the agent counts it down to 0 */

/* Points to the region's recent_kernel, or to a constant SUSPEND_ACTIVE before there is a region. Never NULL. */
extern _Atomic(_Atomic int32_t *) suspend_word;

/* Waits while recent_kernel is negative, then sets it to SUSPEND_ACTIVE. Does not wait for an agent that died. */
void suspend_check(void);
/* True: an agent has written agent_beat, its sign of life, but not in the last minute. */
bool suspend_agent_is_gone(const struct hami_region_view *view);

#endif
