/*
 * MIG: modes, profiles, placements, instances. Instances exist in the books, so all processes see them, and each is a
 * device there, which libcuda runs on. A placement is taken by setting its bits in one word, so two processes never get
 * the same slices.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "engine.h"
#include "nvml_impl.h"
#include "nvml_library.h"

struct sim_gpu_instance {
    unsigned device, row;
};
struct sim_compute_instance {
    struct sim_gpu_instance *gpu_instance;
    unsigned id;
};

#define COMPUTE SIM_MAX_COMPUTE_INSTANCES
static struct sim_gpu_instance gpu_instances[SIM_MAX_CARDS][SIM_MAX_MIG_INSTANCES];
static struct sim_compute_instance compute_instances[SIM_MAX_CARDS][SIM_MAX_MIG_INSTANCES][COMPUTE];

static struct sim_gpu_instance *handle_of(unsigned device, unsigned row) {
    gpu_instances[device][row] = (struct sim_gpu_instance){device, row};
    return &gpu_instances[device][row];
}

static struct sim_compute_instance *compute_handle_of(struct sim_gpu_instance *gi, unsigned id) {
    struct sim_compute_instance *ci = &compute_instances[gi->device][gi->row][id];
    *ci = (struct sim_compute_instance){gi, id};
    return ci;
}

static bool is_gpu_instance(nvmlGpuInstance_t gi) {
    uintptr_t offset = (uintptr_t)gi - (uintptr_t)gpu_instances;
    return offset < sizeof gpu_instances && offset % sizeof gpu_instances[0][0] == 0;
}

static bool is_compute_instance(nvmlComputeInstance_t ci) {
    uintptr_t offset = (uintptr_t)ci - (uintptr_t)compute_instances;
    return offset < sizeof compute_instances && offset % sizeof compute_instances[0][0][0] == 0 &&
           ci->gpu_instance != NULL;
}

int sim_nvml_device_of_gpu_instance(nvmlGpuInstance_t handle) {
    return is_gpu_instance(handle) ? (int)handle->device : -1;
}

int sim_nvml_device_of_compute_instance(nvmlComputeInstance_t handle) {
    return is_compute_instance(handle) ? (int)handle->gpu_instance->device : -1;
}

/* The books' record behind a handle; NULL if the instance is gone. */
static struct sim_mig_instance *record_of(nvmlGpuInstance_t gi) {
    if (sim_nvml_ready() != NVML_SUCCESS || !is_gpu_instance(gi)) {
        return NULL;
    }
    struct sim_mig_instance *record = &sim_books->devices[gi->device].mig_instances[gi->row];
    return atomic_load(&record->state) == SIM_INSTANCE_THERE ? record : NULL;
}

/* The card of a call; NULL with *error set if it cannot do MIG, or is not in MIG mode where that is asked. */
static struct sim_device *mig_card(nvmlDevice_t device, bool in_mode, nvmlReturn_t *error) {
    struct sim_device *model = sim_nvml_card(device, error);
    if (model != NULL && (model->mig_capable == 0 || (in_mode && atomic_load(&model->mig_mode) == 0))) {
        *error = NVML_ERROR_NOT_SUPPORTED;
        return NULL;
    }
    return model;
}

nvmlReturn_t sim_nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned *currentMode, unsigned *pendingMode) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = mig_card(device, false, &error);
    if (model == NULL || currentMode == NULL || pendingMode == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *currentMode = atomic_load(&model->mig_mode);
    *pendingMode = atomic_load(&model->mig_pending);
    return NVML_SUCCESS;
}

/* Takes effect at once on an idle card; a busy one keeps its mode, with the new one pending. */
nvmlReturn_t sim_nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned mode, nvmlReturn_t *activationStatus) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = mig_card(device, false, &error);
    if (model == NULL || mode > 1 || activationStatus == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    bool busy = sim_device_used(device->device) != 0 || (mode == 0 && atomic_load(&model->mig_slices) != 0);
    atomic_store(&model->mig_pending, mode);
    *activationStatus = busy && atomic_load(&model->mig_mode) != mode ? NVML_ERROR_IN_USE : NVML_SUCCESS;
    if (*activationStatus == NVML_SUCCESS) {
        atomic_store(&model->mig_mode, mode);
    }
    return NVML_SUCCESS;
}

static int row_of_profile(const struct sim_device *model, unsigned profile, bool by_id) {
    for (unsigned i = 0; i < model->mig_profile_count; i++) {
        const struct sim_mig_profile *row = &model->mig_profiles[i];
        if (by_id ? row->id == profile : row->profile == (int32_t)profile) {
            return (int)i;
        }
    }
    return -1;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned profile,
                                                     nvmlGpuInstanceProfileInfo_t *info) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = mig_card(device, false, &error);
    if (model == NULL || info == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    int row = row_of_profile(model, profile, false);
    if (row < 0) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    const struct sim_mig_profile *p = &model->mig_profiles[row];
    *info =
        (nvmlGpuInstanceProfileInfo_t){p->id,       0,           p->slices, p->instances, p->sms,       p->copy_engines,
                                       p->decoders, p->encoders, p->jpegs,  p->ofas,      p->memory_mib};
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned profile,
                                                      nvmlGpuInstanceProfileInfo_v2_t *info) {
    nvmlGpuInstanceProfileInfo_t plain;
    if (info == NULL) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    if (info->version != SIM_NVML_STRUCT_VERSION(nvmlGpuInstanceProfileInfo_v2_t, 2u)) {
        return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    }
    nvmlReturn_t error = sim_nvmlDeviceGetGpuInstanceProfileInfo(device, profile, &plain);
    if (error == NVML_SUCCESS) {
        const struct sim_device *model = &sim_books->devices[device->device];
        memcpy(&info->id, &plain.id, offsetof(nvmlGpuInstanceProfileInfo_t, memorySizeMB));
        info->memorySizeMB = plain.memorySizeMB;
        snprintf(info->name, sizeof info->name, "MIG %s",
                 model->mig_profiles[row_of_profile(model, profile, false)].name);
    }
    return error;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned profileId,
                                                               nvmlGpuInstancePlacement_t *placements,
                                                               unsigned *count) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = mig_card(device, false, &error);
    int row = model != NULL ? row_of_profile(model, profileId, true) : -1;
    if (model == NULL || count == NULL || row < 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_mig_profile *profile = &model->mig_profiles[row];
    unsigned room = *count;
    *count = profile->placement_count;
    if (placements == NULL) {
        return NVML_SUCCESS;
    }
    if (room < profile->placement_count) {
        return NVML_ERROR_INSUFFICIENT_SIZE;
    }
    for (unsigned i = 0; i < profile->placement_count; i++) {
        placements[i] = (nvmlGpuInstancePlacement_t){profile->placement_start[i], profile->placement_size};
    }
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned profileId,
                                                            nvmlGpuInstancePlacement_t *placements, unsigned *count) {
    return sim_nvmlDeviceGetGpuInstancePossiblePlacements_v2(device, profileId, placements, count);
}

static uint32_t slices_at(const struct sim_mig_profile *profile, unsigned start) {
    return ((1u << profile->placement_size) - 1u) << start;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned profileId, unsigned *count) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = mig_card(device, true, &error);
    int row = model != NULL ? row_of_profile(model, profileId, true) : -1;
    if (model == NULL || count == NULL || row < 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_mig_profile *profile = &model->mig_profiles[row];
    uint32_t taken = atomic_load(&model->mig_slices);
    *count = 0;
    for (unsigned i = 0; i < profile->placement_count; i++) {
        uint32_t wanted = slices_at(profile, profile->placement_start[i]);
        if ((taken & wanted) == 0) {
            taken |= wanted;
            ++*count;
        }
    }
    return NVML_SUCCESS;
}

/* Random enough to be unique among simulated machines: time and the card's own UUID. */
static void new_uuid(const struct sim_device *model, unsigned row, uint8_t uuid[16]) {
    uint64_t value = sim_now() * 0x9e3779b97f4a7c15ull + row;
    for (unsigned i = 0; i < 16; i++) {
        value ^= value >> 29;
        value *= 0xbf58476d1ce4e5b9ull;
        uuid[i] = (uint8_t)(model->uuid[i] ^ (value >> 56));
    }
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x50);
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

static bool take_slices(struct sim_device *model, uint32_t wanted) {
    uint32_t taken = atomic_load(&model->mig_slices);
    while ((taken & wanted) == 0) {
        if (atomic_compare_exchange_weak(&model->mig_slices, &taken, taken | wanted)) {
            return true;
        }
    }
    return false;
}

/* CUdevice_attribute */
enum { MULTIPROCESSORS = 16, L2_BYTES = 38, COPY_ENGINES = 40, PERSISTING_L2_BYTES = 108 };

static void raise_device_limit(unsigned limit) {
    uint32_t seen = atomic_load(&sim_books->device_limit);
    while (seen < limit && !atomic_compare_exchange_weak(&sim_books->device_limit, &seen, limit)) {
    }
}

/* The instance as a device: its card's model with a part of what that has, and no links to others. */
static void become_device(const struct sim_device *model, const struct sim_mig_profile *profile, unsigned device) {
    struct sim_device *part = &sim_books->devices[device];
    const struct sim_engine *engine = &sim_engines->devices[sim_card_of(device)];
    char name[sizeof part->name];
    snprintf(name, sizeof name, "%.66s MIG %s", model->name, profile->name);
    memcpy(part, model, offsetof(struct sim_device, lost));
    memcpy(part->name, name, sizeof name);
    part->memory_total = profile->memory_mib << 20;
    part->memory_reserved = 0;
    part->mig_capable = part->mig_max_devices = part->mig_profile_count = part->link_count = 0;
    part->attributes[MULTIPROCESSORS] = (int32_t)profile->sms;
    part->attributes[COPY_ENGINES] = (int32_t)profile->copy_engines;
    part->attributes[L2_BYTES] = model->attributes[L2_BYTES] / 8 * (int32_t)profile->placement_size;
    part->attributes[PERSISTING_L2_BYTES] =
        model->attributes[PERSISTING_L2_BYTES] / 8 * (int32_t)profile->placement_size;
    sim_engines->devices[device].slice_ns = engine->slice_ns;
    sim_engines->devices[device].switch_ns = engine->switch_ns;
    sim_engines->devices[device].latency_ns = engine->latency_ns;
    raise_device_limit(device + 1);
}

static nvmlReturn_t make(unsigned device, unsigned profile_row, unsigned start, nvmlGpuInstance_t *made) {
    struct sim_device *model = &sim_books->devices[device];
    const struct sim_mig_profile *profile = &model->mig_profiles[profile_row];
    if (!take_slices(model, slices_at(profile, start))) {
        return NVML_ERROR_INSUFFICIENT_RESOURCES;
    }
    for (unsigned row = 0; row < SIM_MAX_MIG_INSTANCES; row++) {
        struct sim_mig_instance *record = &model->mig_instances[row];
        uint32_t none = SIM_INSTANCE_FREE;
        if (atomic_compare_exchange_strong(&record->state, &none, SIM_INSTANCE_BEING_MADE)) {
            record->profile_row = profile_row;
            record->start = start;
            record->size = profile->placement_size;
            atomic_store(&record->compute_instances, 0);
            new_uuid(model, row, record->uuid);
            become_device(model, profile, sim_mig_device(device, row));
            atomic_store(&record->state, SIM_INSTANCE_THERE);
            *made = handle_of(device, row);
            return NVML_SUCCESS;
        }
    }
    atomic_fetch_and(&model->mig_slices, ~slices_at(profile, start));
    return NVML_ERROR_INSUFFICIENT_RESOURCES;
}

nvmlReturn_t sim_nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned profileId,
                                                          const nvmlGpuInstancePlacement_t *placement,
                                                          nvmlGpuInstance_t *gpuInstance) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = mig_card(device, true, &error);
    int row = model != NULL ? row_of_profile(model, profileId, true) : -1;
    if (model == NULL || row < 0 || placement == NULL || gpuInstance == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_mig_profile *profile = &model->mig_profiles[row];
    for (unsigned i = 0; i < profile->placement_count; i++) {
        if (profile->placement_start[i] == placement->start && profile->placement_size == placement->size) {
            return make(device->device, (unsigned)row, placement->start, gpuInstance);
        }
    }
    return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t sim_nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned profileId, nvmlGpuInstance_t *gpuInstance) {
    nvmlReturn_t error = NVML_SUCCESS;
    const struct sim_device *model = mig_card(device, true, &error);
    int row = model != NULL ? row_of_profile(model, profileId, true) : -1;
    if (model == NULL || row < 0 || gpuInstance == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_mig_profile *profile = &model->mig_profiles[row];
    error = NVML_ERROR_INSUFFICIENT_RESOURCES;
    for (unsigned i = 0; i < profile->placement_count && error != NVML_SUCCESS; i++) {
        error = make(device->device, (unsigned)row, profile->placement_start[i], gpuInstance);
    }
    return error;
}

nvmlReturn_t sim_nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpuInstance) {
    struct sim_mig_instance *record = record_of(gpuInstance);
    if (record == NULL) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (atomic_load(&record->compute_instances) != 0) {
        return NVML_ERROR_IN_USE;
    }
    struct sim_device *model = &sim_books->devices[gpuInstance->device];
    uint32_t slices = slices_at(&model->mig_profiles[record->profile_row], record->start);
    uint32_t there = SIM_INSTANCE_THERE;
    if (!atomic_compare_exchange_strong(&record->state, &there, SIM_INSTANCE_FREE)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    atomic_fetch_and(&model->mig_slices, ~slices);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned profileId, nvmlGpuInstance_t *gpuInstances,
                                           unsigned *count) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = mig_card(device, true, &error);
    if (model == NULL || gpuInstances == NULL || count == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *count = 0;
    for (unsigned row = 0; row < SIM_MAX_MIG_INSTANCES; row++) {
        const struct sim_mig_instance *record = &model->mig_instances[row];
        if (atomic_load(&record->state) == SIM_INSTANCE_THERE &&
            model->mig_profiles[record->profile_row].id == profileId) {
            gpuInstances[(*count)++] = handle_of(device->device, row);
        }
    }
    return NVML_SUCCESS;
}

/* Instance ids are 1-based; 0 is the whole card's. */
nvmlReturn_t sim_nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned id, nvmlGpuInstance_t *gpuInstance) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = mig_card(device, true, &error);
    if (model == NULL || gpuInstance == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    if (id == 0 || id > SIM_MAX_MIG_INSTANCES ||
        atomic_load(&model->mig_instances[id - 1].state) != SIM_INSTANCE_THERE) {
        return NVML_ERROR_NOT_FOUND;
    }
    *gpuInstance = handle_of(device->device, id - 1);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpuInstance, nvmlGpuInstanceInfo_t *info) {
    const struct sim_mig_instance *record = record_of(gpuInstance);
    if (record == NULL || info == NULL) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_device *model = &sim_books->devices[gpuInstance->device];
    *info = (nvmlGpuInstanceInfo_t){sim_nvml_card_of(gpuInstance->device),
                                    gpuInstance->row + 1,
                                    model->mig_profiles[record->profile_row].id,
                                    {record->start, record->size}};
    return NVML_SUCCESS;
}

/* Compute instance profiles by number, as the slices that an instance of each has. Its id is the number. */
static const unsigned slices_of[] = {1, 2, 3, 4, 7, 8, 6};
#define COMPUTE_PROFILES (sizeof slices_of / sizeof slices_of[0])

/* The profile of a compute instance, from the word of its GPU instance. */
static unsigned compute_profile(uint64_t word, unsigned id) {
    return (unsigned)(word >> (32 + 4 * id)) & 0xFu;
}

static unsigned compute_slices_taken(uint64_t word) {
    unsigned taken = 0;
    for (unsigned id = 0; id < COMPUTE; id++) {
        taken += (word >> id & 1u) != 0 ? slices_of[compute_profile(word, id)] : 0;
    }
    return taken;
}

unsigned sim_nvml_compute_slices(unsigned device, unsigned row, unsigned id) {
    uint64_t word = atomic_load(&sim_books->devices[device].mig_instances[row].compute_instances);
    return slices_of[compute_profile(word, id)];
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpuInstance, unsigned profile,
                                                              unsigned engProfile,
                                                              nvmlComputeInstanceProfileInfo_t *info) {
    const struct sim_mig_instance *record = record_of(gpuInstance);
    if (record == NULL || info == NULL || engProfile != 0) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_mig_profile *row = &sim_books->devices[gpuInstance->device].mig_profiles[record->profile_row];
    if (profile >= COMPUTE_PROFILES || slices_of[profile] > row->slices) {
        return NVML_ERROR_NOT_SUPPORTED;
    }
    unsigned slices = slices_of[profile];
    *info = (nvmlComputeInstanceProfileInfo_t){.id = profile,
                                               .sliceCount = slices,
                                               .instanceCount = row->slices / slices,
                                               .multiprocessorCount = row->sms / row->slices * slices,
                                               .sharedCopyEngineCount = row->copy_engines,
                                               .sharedDecoderCount = row->decoders,
                                               .sharedEncoderCount = row->encoders,
                                               .sharedJpegCount = row->jpegs,
                                               .sharedOfaCount = row->ofas};
    return NVML_SUCCESS;
}

/* Compute instances share the slices of their GPU instance. */
nvmlReturn_t sim_nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpuInstance, unsigned profileId,
                                                      nvmlComputeInstance_t *computeInstance) {
    struct sim_mig_instance *record = record_of(gpuInstance);
    if (record == NULL || computeInstance == NULL || profileId >= COMPUTE_PROFILES) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned slices = sim_books->devices[gpuInstance->device].mig_profiles[record->profile_row].slices;
    uint64_t before = atomic_load(&record->compute_instances), after;
    unsigned id;
    do {
        if (compute_slices_taken(before) + slices_of[profileId] > slices) {
            return NVML_ERROR_INSUFFICIENT_RESOURCES;
        }
        for (id = 0; (before >> id & 1u) != 0; id++) {
        }
        after = before | UINT64_C(1) << id | (uint64_t)profileId << (32 + 4 * id);
    } while (!atomic_compare_exchange_weak(&record->compute_instances, &before, after));
    *computeInstance = compute_handle_of(gpuInstance, id);
    return NVML_SUCCESS;
}

static bool compute_exists(nvmlComputeInstance_t ci) {
    if (!is_compute_instance(ci)) {
        return false;
    }
    struct sim_mig_instance *record = record_of(ci->gpu_instance);
    return record != NULL && (atomic_load(&record->compute_instances) >> ci->id & 1u) != 0;
}

/* Whether a process has something on a compute instance. */
static bool works(unsigned device, unsigned compute) {
    unsigned limit = atomic_load_explicit(&sim_books->slot_limit, memory_order_acquire);
    for (unsigned slot = 0; slot < limit; slot++) {
        if (atomic_load(&sim_books->used[device][slot]) != 0 && sim_slot_pid(slot) != 0 &&
            atomic_load(&sim_books->engines[device][slot].compute_instance) == compute) {
            return true;
        }
    }
    return false;
}

nvmlReturn_t sim_nvmlComputeInstanceDestroy(nvmlComputeInstance_t computeInstance) {
    if (sim_nvml_ready() != NVML_SUCCESS || !compute_exists(computeInstance)) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    const struct sim_gpu_instance *gi = computeInstance->gpu_instance;
    if (works(sim_mig_device(gi->device, gi->row), computeInstance->id)) {
        return NVML_ERROR_IN_USE;
    }
    uint64_t own = UINT64_C(1) << computeInstance->id | UINT64_C(0xF) << (32 + 4 * computeInstance->id);
    atomic_fetch_and(&record_of(computeInstance->gpu_instance)->compute_instances, ~own);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpuInstance, unsigned profileId,
                                                    nvmlComputeInstance_t *computeInstances, unsigned *count) {
    struct sim_mig_instance *record = record_of(gpuInstance);
    if (record == NULL || computeInstances == NULL || count == NULL) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    uint64_t there = atomic_load(&record->compute_instances);
    *count = 0;
    for (unsigned id = 0; id < COMPUTE; id++) {
        if ((there >> id & 1u) != 0 && compute_profile(there, id) == profileId) {
            computeInstances[(*count)++] = compute_handle_of(gpuInstance, id);
        }
    }
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t computeInstance, nvmlComputeInstanceInfo_t *info) {
    if (sim_nvml_ready() != NVML_SUCCESS || !compute_exists(computeInstance) || info == NULL) {
        return sim_nvml_ready() != NVML_SUCCESS ? sim_nvml_ready() : NVML_ERROR_INVALID_ARGUMENT;
    }
    struct sim_gpu_instance *gi = computeInstance->gpu_instance;
    uint64_t word = atomic_load(&record_of(gi)->compute_instances);
    unsigned profile = compute_profile(word, computeInstance->id);
    /* Those with smaller numbers lie before it. */
    unsigned start = compute_slices_taken(word & (UINT64_MAX << 32 | ((UINT64_C(1) << computeInstance->id) - 1)));
    *info = (nvmlComputeInstanceInfo_t){
        sim_nvml_card_of(gi->device), gi, computeInstance->id, profile, {start, slices_of[profile]}};
    return NVML_SUCCESS;
}

/* MIG devices: one per compute instance. */

nvmlReturn_t sim_nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *migDevice) {
    nvmlReturn_t error = NVML_SUCCESS;
    struct sim_device *model = mig_card(device, true, &error);
    if (model == NULL || migDevice == NULL || index >= model->mig_max_devices) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    unsigned at = 0;
    for (unsigned i = 0; i < SIM_MAX_MIG_INSTANCES * COMPUTE; i++) {
        if (sim_mig_visible(device->device, i / COMPUTE, i % COMPUTE) && at++ == index) {
            *migDevice = sim_nvml_mig_handle(device->device, i / COMPUTE, i % COMPUTE);
            return NVML_SUCCESS;
        }
    }
    return NVML_ERROR_NOT_FOUND;
}

unsigned sim_nvml_mig_index(nvmlDevice_t device) {
    unsigned index = 0;
    for (unsigned i = 0; i < (unsigned)device->instance * COMPUTE + (unsigned)device->compute; i++) {
        index += sim_mig_visible(device->device, i / COMPUTE, i % COMPUTE);
    }
    return index;
}

nvmlReturn_t sim_nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice, nvmlDevice_t *device) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(migDevice, &error) == NULL || device == NULL || migDevice->instance < 0) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *device = sim_nvml_card_of(migDevice->device);
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned *isMigDevice) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(device, &error) == NULL || isMigDevice == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *isMigDevice = device->instance >= 0;
    return NVML_SUCCESS;
}

nvmlReturn_t sim_nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *id) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(device, &error) == NULL || id == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *id = (unsigned)(device->instance + 1);
    return device->instance >= 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t sim_nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *id) {
    nvmlReturn_t error = NVML_SUCCESS;
    if (sim_nvml_model(device, &error) == NULL || id == NULL) {
        return error != NVML_SUCCESS ? error : NVML_ERROR_INVALID_ARGUMENT;
    }
    *id = (unsigned)(device->compute >= 0 ? device->compute : 0);
    return device->compute >= 0 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}
