/*
 * What of NVML belongs to the container: which devices, which processes, and what the driver calls these processes.
 * A container sees its own processes alone, by the pids that they have inside.
 *
 * Recent drivers name a process by its pid in the caller's pid namespace, older ones by its pid on the host. The agent
 * writes the host pids into the region; until it has, an older driver's answers about a process are left out.
 */
#ifndef HAMI_NVML_CONTAINER_H
#define HAMI_NVML_CONTAINER_H

#include "cuda_abi.h"
#include "doors/hook.h"
#include "ledger/region.h"

struct hami_container {
    struct hami_region_view *view; /* NULL: without a region no process is the container's */
    int device;    /* index in the limits or HAMI_DEVICE_DIVIDED; HAMI_DEVICE_UNNAMED: the driver's answer stands */
    bool our_pids; /* the driver names processes by pids of this namespace */
};

/* The container and its device with this handle. */
struct hami_container hami_container_of(nvmlDevice device);

/* Frees the slots of dead processes and learns how the driver names processes on this device. */
void hami_container_find_pids(struct hami_container *container, nvmlDevice device);

/*
 * Translates a pid of a process of the container. HAMI_PID_INSIDE: from the driver's pid to the one inside.
 * HAMI_PID_OF_DRIVER: the other way. 0: no process of the container is known by this pid.
 */
enum hami_pid_of { HAMI_PID_INSIDE, HAMI_PID_OF_DRIVER };
uint32_t hami_container_pid(const struct hami_container *container, uint32_t pid, enum hami_pid_of of);

/*
 * NVML's rule for lists: `count` is the room before the call and the number of entries after it, and nothing is written
 * where they do not fit.
 */
nvmlReturn hami_container_fit(uint32_t *count, uint32_t found, bool has_list);

/*
 * Asks the driver with a versioned structure of which only the first `head` bytes are filled, to learn its errors: they
 * come before ours. Refuses a version that the driver knows and we do not (`known` false): we could not filter it.
 */
nvmlReturn hami_container_ask_empty(enum hami_hook hook, nvmlDevice device, const void *asked, size_t head, bool known);

#endif
