/*
 * Which devices and processes belong to the container, and which pids the driver knows these processes by. NVML calls
 * in a container show only the container's processes, by their pids in the container. This room calls these functions.
 *
 * Recent drivers know a process by its pid in the caller's pid namespace, older ones by its pid on the host. The agent
 * writes host pids into the region. Until it has, an older driver's answers about that process are hidden.
 */
#ifndef HAMI_NVML_CONTAINER_H
#define HAMI_NVML_CONTAINER_H

#include "cuda_abi.h"
#include "doors/hook.h"
#include "ledger/region.h"

struct hami_container {
    struct hami_region_view *view; /* NULL: there is no region, so no process is known to be the container's */
    int device;    /* index in the limits, or HAMI_DEVICE_DIVIDED; HAMI_DEVICE_UNNAMED: the driver's answer stays */
    bool our_pids; /* the driver knows processes by their pids in our pid namespace */
};

/* The container's region, and the index of the device with this NVML handle. */
struct hami_container hami_container_of(nvmlDevice device);

/* Sets our_pids, by the pids that the driver lists on this device. Also frees the slots of dead processes. */
void hami_container_find_pids(struct hami_container *container, nvmlDevice device);

/*
 * Translates the pid of a process of the container: HAMI_PID_INSIDE from the driver's pid to that in the container,
 * HAMI_PID_OF_DRIVER the other way. Returns 0 if no process of the container has the pid.
 */
enum hami_pid_of { HAMI_PID_INSIDE, HAMI_PID_OF_DRIVER };
uint32_t hami_container_pid(const struct hami_container *container, uint32_t pid, enum hami_pid_of of);

/*
 * Follows NVML's rule for lists: *count is the caller's room, and becomes the number of entries. If they do not fit, or
 * if there is no list, returns NVML_ERROR_INSUFFICIENT_SIZE, and the caller writes no entry.
 */
nvmlReturn hami_container_fit(uint32_t *count, uint32_t found, bool has_list);

/*
 * Asks the driver whether it would refuse a call with the versioned structure `asked`, and returns its error. The
 * driver gets a copy of the first `head` bytes, with zeros behind. If the driver knows the structure's version and we
 * do not (`known` is false), returns a version mismatch: we could not hide other containers' processes in it.
 */
nvmlReturn hami_container_ask_empty(enum hami_hook hook, nvmlDevice device, const void *asked, size_t head, bool known);

#endif
