/*
 * The reserve: what a process's first context takes of a device. The driver does not tell this in advance, so the
 * container's first process that makes a context measures it with NVML and stores it in the region. If NVML does not
 * list the process by its pid, the figure is a guess that may include what other containers took at the same time. Then
 * every process of the container measures, and the region keeps the least. context_calls.c is the caller.
 */
#ifndef HAMI_CONTEXT_RESERVE_H
#define HAMI_CONTEXT_RESERVE_H

#include "memory/charge.h"

enum { HAMI_SAMPLE_PROCESSES = 256 };

/* What NVML says about a device at one moment. */
struct hami_reserve_sample {
    bool told, listed; /* NVML has given `uncharged`; NVML has given `processes` */
    int64_t uncharged; /* bytes in use on the device, less the container's charges for all but contexts */
    unsigned count;
    struct nvml_process processes[HAMI_SAMPLE_PROCESSES];
};

/* The reserve of a first context that is being made. */
struct hami_reserve {
    CUdevice device;
    struct hami_device *counted; /* the device's figures in the region; NULL: the container's limits do not name it */
    bool measure;
    struct hami_reserve_sample before;
};

/* Loads NVML if it will be needed. Call it before the device is locked: the loader has a lock of its own. */
void hami_reserve_prepare(struct hami_reserve *r, CUdevice device);

/* Charges the stored reserve. Begins a measurement if it is a guess or 0 (not measured). False: it does not fit. */
bool hami_reserve_take(struct hami_reserve *r, struct hami_charge *charge);

/* Ends the measurement, after the driver has made the context, and charges the result. False: it does not fit. */
bool hami_reserve_charge_measured(struct hami_reserve *r, struct hami_charge *charge);

void hami_reserve_give_back(struct hami_charge *charge);

#endif
