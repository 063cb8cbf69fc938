/*
 * The reserve of a device's first context. The driver does not tell it in advance: the first process of a container
 * that makes a context measures it with NVML and keeps it in the region. Where NVML does not show that process by its
 * pid the figure is a guess, which may hold what others took meanwhile; then every process guesses, and the least is
 * kept. context_calls.c calls this with the device locked.
 */
#ifndef HAMI_CONTEXT_RESERVE_H
#define HAMI_CONTEXT_RESERVE_H

#include "memory/charge.h"

enum { HAMI_SAMPLE_PROCESSES = 256 };

/* What NVML says of a device at one moment. */
struct hami_reserve_sample {
    bool told, listed;
    int64_t uncharged; /* bytes that the device has given and the container is not charged for, contexts left out */
    unsigned count;
    struct nvml_process processes[HAMI_SAMPLE_PROCESSES];
};

/* A first context about to be made. */
struct hami_reserve {
    CUdevice device;
    struct hami_device *counted; /* of the region; NULL: this process is not counted there */
    bool measure;
    struct hami_reserve_sample before;
};

/* Before the device is locked: loads NVML if the reserve has yet to be measured, since the loader has a lock itself. */
void hami_reserve_prepare(struct hami_reserve *r, CUdevice device);

/* Charges what is known of the reserve, and begins to measure if it is not sure. False: refuse. */
bool hami_reserve_take(struct hami_reserve *r, struct hami_charge *charge);

/* After the driver has made the context: charges what it was seen to take. False: it does not fit. */
bool hami_reserve_charge_measured(struct hami_reserve *r, struct hami_charge *charge);

/* Gives a reserve back whole. */
void hami_reserve_give_back(struct hami_charge *charge);

#endif
