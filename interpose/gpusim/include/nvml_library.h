/* State of the simulated libnvidia-ml in one process. It only reads the books (and sets modes the caller asks for). */
#ifndef SIM_NVML_LIBRARY_H
#define SIM_NVML_LIBRARY_H

#include "books.h"
#include "nvml_abi.h"

/* What an nvmlDevice_t points to: a card, or a MIG device on it. Static; handles stay valid across shutdown. */
struct sim_nvml_device {
    unsigned device; /* the card's index in the books */
    int instance;    /* row of mig_instances, -1: the card */
    int compute;     /* compute instance, -1: the card */
};

/* The card behind a handle; NULL with *error set if NVML is down, the handle is not ours or the MIG device is gone. */
struct sim_device *sim_nvml_model(nvmlDevice_t handle, nvmlReturn_t *error);
/* As above, but cards only: MIG devices answer "not supported". */
struct sim_device *sim_nvml_card(nvmlDevice_t handle, nvmlReturn_t *error);
nvmlReturn_t sim_nvml_ready(void);
unsigned sim_nvml_count(void);
nvmlDevice_t sim_nvml_at(unsigned index);         /* by NVML index */
nvmlDevice_t sim_nvml_card_of(unsigned device);   /* by index in the books; NULL if not visible */
unsigned sim_nvml_mig_index(nvmlDevice_t device); /* among the MIG devices of its card */
nvmlDevice_t sim_nvml_mig_handle(unsigned device, unsigned instance, unsigned compute);
unsigned sim_nvml_compute_slices(unsigned device, unsigned row, unsigned id); /* of a compute instance */

/* The card's index in the books; -1 if the handle is not ours. */
int sim_nvml_device_of(nvmlDevice_t handle);
int sim_nvml_device_at(unsigned index);
int sim_nvml_device_of_gpu_instance(nvmlGpuInstance_t handle);
int sim_nvml_device_of_compute_instance(nvmlComputeInstance_t handle);
int sim_nvml_device_of_event_set(nvmlEventSet_t handle); /* -1 also if several cards are registered, or none */

/* Device in the books that a handle's memory and time are of: a card or a GPU instance. */
static inline unsigned sim_nvml_pool(const struct sim_nvml_device *handle) {
    return handle->instance < 0 ? handle->device : sim_mig_device(handle->device, (unsigned)handle->instance);
}

/* A live process with memory on a device, as far as the caller can see it. */
struct sim_nvml_user {
    int pid; /* as NVML tells it; see README.md on HAMI_SIM_HOST_PROC */
    unsigned slot, device;
    uint64_t bytes;
    unsigned gpu_instance, compute_instance; /* UINT_MAX: none */
};

/* Of a card: those on its MIG devices, too. */
unsigned sim_nvml_users(const struct sim_nvml_device *handle, struct sim_nvml_user found[SIM_MAX_SLOTS]);

/* Percent of the last half second that a slot kept a device busy; all of a card, MIG devices by their size. */
unsigned sim_nvml_slot_utilization(unsigned device, unsigned slot);
unsigned sim_nvml_utilization(unsigned card);

#endif
