/* The state of this process: limits, region, and which device is which. */
#include "ledger/guest.h"

#include "cancel.h"
#include "doors/hook.h"
#include "ledger/process.h"
#include "parts.h"
#include "spin.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>

enum { FRESH, STARTING, STARTED };
enum { GENERATIONS = 8, NVML_HANDLES = 32, LOOK_MS = 250 };

static struct {
    _Atomic int state;
    _Atomic bool fork_handler;
    struct hami_limits_source source;
    struct hami_limits generations[GENERATIONS]; /* a reader may hold one while the next comes into force */
    atomic_flag reloading;
    struct hami_limits read; /* from the file, only by who is reloading */
    _Atomic int64_t next_look;
    struct timespec modified;
    uint64_t inode;
    struct hami_region_view view;
    _Atomic bool mapped;   /* `view` has a region */
    _Atomic int no_region; /* enum hami_reason: why there is none */
    atomic_flag claiming;
} guest = {.reloading = ATOMIC_FLAG_INIT, .claiming = ATOMIC_FLAG_INIT};

_Atomic(const struct hami_limits *) hami_guest_limits_now;
_Atomic(struct hami_region_view *) hami_guest_region_now;
_Atomic int8_t hami_guest_cuda_devices[HAMI_CUDA_DEVICES];

/*
 * Handles stay with their device for the life of a process; one seen before needs no asking. Handle << 8 | index + 2,
 * with 255 = divided, in one word, so that no handle is found with another's index; 0 = empty. Addresses have 56 bits.
 */
static _Atomic uint64_t nvml_devices[NVML_HANDLES];

static void forget_devices(void) {
    for (unsigned i = 0; i < HAMI_CUDA_DEVICES; i++) {
        atomic_store(&hami_guest_cuda_devices[i], 0);
    }
    for (unsigned i = 0; i < NVML_HANDLES; i++) {
        atomic_store(&nvml_devices[i], 0);
    }
}

static int64_t now_ms(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The child has no CUDA until it starts anew: it gets its own slot then, and what the parent had is not its. */
void hami_guest_after_fork(void) {
    atomic_store(&guest.state, guest.state == STARTED ? STARTED : FRESH);
    atomic_flag_clear(&guest.reloading);
    atomic_flag_clear(&guest.claiming);
    atomic_store(&hami_guest_region_now, NULL);
    hami_region_after_fork(&guest.view);
    guest.inode = 0; /* somebody may have been reading the file */
}

static void note_file(void) {
    struct stat found;
    if (guest.source.file && stat(guest.source.limits_path, &found) == 0) {
        guest.modified = found.st_mtim;
        guest.inode = found.st_ino;
    }
}

/* Shows readers of the region which limits are in force. */
static void publish(const struct hami_limits *limits) {
    struct hami_region *region = guest.view.region;
    if (!atomic_load(&guest.mapped) || limits->denied != HAMI_REASON_NONE) {
        return;
    }
    for (unsigned i = 0; i < limits->device_count; i++) {
        atomic_store(&region->block.devices[i].limit_bytes, limits->devices[i].memory_bytes);
        atomic_store(&region->block.devices[HAMI_DEVICES + i].limit_bytes, limits->devices[i].host_bytes);
        atomic_store(&region->block.devices[i].cores, limits->devices[i].cores);
        region->v1.limit[i] = limits->devices[i].memory_bytes;
    }
    atomic_store(&region->block.generation, limits->generation);
}

/* Until there is a region, or none is needed: the agent may replace a bad one, and a mode may come that counts. */
static void attach(const struct hami_limits *limits) {
    hami_spin_lock(&guest.claiming);
    if (limits->mode != HAMI_MODE_OFF && !atomic_load(&guest.mapped)) {
        enum hami_reason why = hami_region_attach(&guest.view, guest.source.region_path, !guest.source.file, limits);
        atomic_store(&guest.no_region, (int)why);
        atomic_store_explicit(&guest.mapped, why == HAMI_REASON_NONE, memory_order_release);
        publish(limits);
    }
    hami_spin_unlock(&guest.claiming);
}

/* Perhaps for want of a descriptor or of memory: the file need not change before it is read again. */
static void note_unread(enum hami_reason denied) {
    guest.inode = denied == HAMI_REASON_NO_LIMITS ? 0 : guest.inode;
}

static void start(void) {
    struct hami_limits *limits = &guest.generations[0];
    hami_limits_locate(&guest.source);
    note_file();
    hami_limits_load(&guest.source, limits);
    note_unread(limits->denied);
    attach(limits);
    atomic_store(&guest.next_look, now_ms() + LOOK_MS);
    atomic_store_explicit(&hami_guest_limits_now, limits, memory_order_release);
}

/* Before anything is begun that a child must begin anew. Threads may do so at once: twice does no harm. */
static void watch_forks(void) {
    if (!atomic_load(&guest.fork_handler) && pthread_atfork(NULL, NULL, hami_event_forked) == 0) {
        atomic_store(&guest.fork_handler, true);
    }
}

static void ensure_started(void) {
    int fresh = FRESH;
    if (atomic_load_explicit(&guest.state, memory_order_acquire) == STARTED) {
        return;
    }
    HAMI_UNCANCELLED;
    watch_forks();
    hami_process_watch();
    if (atomic_compare_exchange_strong(&guest.state, &fresh, STARTING)) {
        start();
        atomic_store_explicit(&guest.state, STARTED, memory_order_release);
    }
    while (atomic_load_explicit(&guest.state, memory_order_acquire) != STARTED) {
        (void)sched_yield();
    }
}

/*
 * A file that cannot be read denies memory. It says nothing of compute: shares stay what they were, and where none was
 * in force none comes.
 */
static void keep_what_holds(struct hami_limits *limits, const struct hami_limits *before) {
    enum hami_reason denied = limits->denied;
    if (denied == HAMI_REASON_NONE) {
        return;
    }
    memcpy(limits, before, sizeof *limits);
    for (unsigned i = 0; before->mode != HAMI_MODE_ENFORCE && i < limits->device_count; i++) {
        limits->devices[i].cores = 100;
    }
    limits->denied = denied;
    limits->mode = HAMI_MODE_ENFORCE;
}

static bool file_changed(void) {
    struct stat found;
    bool there = stat(guest.source.limits_path, &found) == 0;
    return !there || found.st_ino != guest.inode || found.st_mtim.tv_sec != guest.modified.tv_sec ||
           found.st_mtim.tv_nsec != guest.modified.tv_nsec;
}

/* What was read comes into force. */
static void replace(const struct hami_limits *before) {
    struct hami_limits *next = &guest.generations[(before - guest.generations + 1) % GENERATIONS];
    memcpy(next, &guest.read, sizeof *next);
    forget_devices();
    attach(next);
    publish(next);
    atomic_store(&hami_guest_limits_now, next);
    forget_devices(); /* what somebody has just learnt by the old limits */
}

/* What says the same again takes no place: it may be read without end, each time that memory is denied. */
static bool read_again(void) {
    const struct hami_limits *before = atomic_load(&hami_guest_limits_now);
    note_file();
    hami_limits_load(&guest.source, &guest.read);
    note_unread(guest.read.denied);
    keep_what_holds(&guest.read, before);
    bool others = memcmp(&guest.read, before, sizeof *before) != 0;
    if (others) {
        replace(before);
    }
    return others;
}

bool hami_guest_reload(void) {
    HAMI_UNCANCELLED;
    ensure_started();
    if (!guest.source.file || atomic_flag_test_and_set(&guest.reloading)) {
        return false;
    }
    bool others = file_changed() && read_again();
    atomic_flag_clear(&guest.reloading);
    return others;
}

/* The time has come to look again: whoever is first does. */
HAMI_COLD static const struct hami_limits *look(int64_t now, int64_t due) {
    if (atomic_compare_exchange_strong(&guest.next_look, &due, now + LOOK_MS)) {
        HAMI_UNCANCELLED;
        (void)hami_guest_reload();
        if (!atomic_load(&guest.mapped)) {
            attach(hami_guest_known_limits());
        } else if (guest.view.has_slot) {
            hami_region_relock(&guest.view);
            hami_region_sweep_in_turn(&guest.view);
            hami_event_awake(&guest.view);
        }
    }
    return hami_guest_known_limits();
}

HAMI_HOT const struct hami_limits *hami_guest_limits(void) {
    if (hami_process_is_child()) {
        hami_event_forked(); /* made without fork handlers */
    }
    const struct hami_limits *limits = hami_guest_known_limits();
    int64_t now = now_ms();
    int64_t due = atomic_load_explicit(&guest.next_look, memory_order_relaxed);
    return HAMI_LIKELY(now < due) ? limits : look(now, due);
}

const struct hami_limits *hami_guest_started_limits(void) {
    ensure_started();
    return atomic_load_explicit(&hami_guest_limits_now, memory_order_acquire);
}

struct hami_region_view *hami_guest_claimed_region(enum hami_reason *why) {
    ensure_started();
    bool mapped = atomic_load_explicit(&guest.mapped, memory_order_acquire);
    enum hami_reason reason = mapped ? HAMI_REASON_NONE : (enum hami_reason)atomic_load(&guest.no_region);
    if (mapped && !guest.view.has_slot) {
        HAMI_UNCANCELLED;
        hami_spin_lock(&guest.claiming);
        if (!guest.view.has_slot && !hami_region_claim(&guest.view)) {
            reason = HAMI_REASON_NO_SLOT;
            hami_region_refused(&guest.view, reason, HAMI_DEVICES, 0);
        }
        hami_spin_unlock(&guest.claiming);
    }
    if (!mapped && reason == HAMI_REASON_NONE) {
        reason = HAMI_REASON_BAD_REGION;
    }
    if (why != NULL) {
        *why = reason;
    }
    if (reason != HAMI_REASON_NONE) {
        return NULL;
    }
    atomic_store_explicit(&hami_guest_region_now, &guest.view, memory_order_release);
    return &guest.view;
}

struct hami_region_view *hami_guest_mapped_region(void) {
    ensure_started();
    return atomic_load_explicit(&guest.mapped, memory_order_acquire) ? &guest.view : NULL;
}

bool hami_guest_turn_path(const char *uuid, char path[4096]) {
    const char *limits = guest.source.limits_path, *end = strstr(limits, "limits/limits");
    if (!guest.source.file || end == NULL || strchr(uuid, '/') != NULL) {
        return false;
    }
    int length = snprintf(path, 4096, "%.*sturns/%s", (int)(end - limits), limits, uuid);
    return length > 0 && length < 4096;
}

/* ---- which device is which ---- */

/* Index of the device with this UUID; the part behind "GPU-" or "MIG-" decides. */
static int index_of_uuid(const struct hami_limits *limits, const char *uuid) {
    const char *digits = strlen(uuid) > 4 ? uuid + 4 : uuid;
    for (unsigned i = 0; i < limits->device_count; i++) {
        const char *ours = limits->devices[i].uuid;
        if (strcasecmp(strlen(ours) > 4 ? ours + 4 : ours, digits) == 0) {
            return (int)i;
        }
    }
    return -1;
}

static CUresult cuda_uuid(CUdevice device, char text[48]) {
    struct hami_uuid uuid;
    CUresult (*get)(struct hami_uuid *, CUdevice) = hami_cuda_function("cuDeviceGetUuid_v2");
    if (get == NULL) {
        get = hami_cuda_function("cuDeviceGetUuid");
    }
    CUresult status = get == NULL ? CUDA_ERROR_NOT_SUPPORTED : get(&uuid, device);
    if (status != CUDA_SUCCESS) {
        return status;
    }
    const uint8_t *b = uuid.bytes;
    (void)snprintf(text, 48, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
                   b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return CUDA_SUCCESS;
}

/* HAMi's variables count devices as NVML does. Without NVML, CUDA's own count has to do. */
static int index_by_nvml(CUdevice device, const char *uuid) {
    nvmlReturn (*init)(void) = hami_nvml_function("nvmlInit_v2");
    nvmlReturn (*by_uuid)(const char *, nvmlDevice *) = hami_nvml_function("nvmlDeviceGetHandleByUUID");
    nvmlReturn (*get_index)(nvmlDevice, unsigned *) = hami_nvml_function("nvmlDeviceGetIndex");
    nvmlDevice handle = NULL;
    unsigned index = 0;
    if (init == NULL || by_uuid == NULL || get_index == NULL || init() != NVML_SUCCESS) {
        return device < HAMI_DEVICES ? device : -1;
    }
    bool known = by_uuid(uuid, &handle) == NVML_SUCCESS && get_index(handle, &index) == NVML_SUCCESS;
    nvmlReturn (*shutdown)(void) = hami_nvml_function("nvmlShutdown");
    if (shutdown != NULL) {
        (void)shutdown();
    }
    return known && index < HAMI_DEVICES ? (int)index : -1;
}

/* Whether what these limits call a device may be kept. Asked after it is: limits that come now make all forgotten. */
static bool still_in_force(const struct hami_limits *limits) {
    return atomic_load(&hami_guest_limits_now) == limits;
}

int hami_guest_ask_cuda_device(const struct hami_limits *limits, CUdevice device) {
    char uuid[48];
    CUresult status = cuda_uuid(device, uuid);
    if (status != CUDA_SUCCESS) {
        bool none = status == CUDA_ERROR_NOT_INITIALIZED || status == CUDA_ERROR_DEINITIALIZED ||
                    status == CUDA_ERROR_NO_DEVICE || status == CUDA_ERROR_INVALID_DEVICE;
        return none ? -2 : -1;
    }
    int index = limits->from_environment ? index_by_nvml(device, uuid) : index_of_uuid(limits, uuid);
    atomic_store(&hami_guest_cuda_devices[device], (int8_t)(index + 2));
    if (!still_in_force(limits)) {
        atomic_store(&hami_guest_cuda_devices[device], 0);
    }
    return index;
}

static int ask_nvml_device(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status);

/* Of a handle that is not at its place. */
HAMI_COLD static int find_nvml_device(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status,
                                      _Atomic uint64_t *place) {
    int index = ask_nvml_device(limits, device, status);
    uint64_t empty = 0, found = (uint64_t)(uintptr_t)device << 8 | (uint8_t)(index + 2);
    bool fits = found >> 8 == (uintptr_t)device;
    if (*status == NVML_SUCCESS && fits && atomic_compare_exchange_strong(place, &empty, found) &&
        !still_in_force(limits)) {
        (void)atomic_compare_exchange_strong(place, &found, 0);
    }
    return index;
}

int hami_guest_nvml_device(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status) {
    _Atomic uint64_t *place = &nvml_devices[(uintptr_t)device >> 4 & (NVML_HANDLES - 1)];
    uint64_t known = atomic_load_explicit(place, memory_order_acquire);
    if (HAMI_LIKELY(known != 0 && known >> 8 == (uintptr_t)device)) {
        return (int8_t)known - 2;
    }
    return find_nvml_device(limits, device, status, place);
}

/* NVML counts MIG devices within their card, so their indices are no cards'. */
static bool is_mig_handle(nvmlDevice device) {
    nvmlReturn (*is_mig)(nvmlDevice, unsigned *) = hami_nvml_function("nvmlDeviceIsMigDeviceHandle");
    unsigned mig = 0;
    return is_mig != NULL && is_mig(device, &mig) == NVML_SUCCESS && mig != 0;
}

static int ask_nvml_device(const struct hami_limits *limits, nvmlDevice device, nvmlReturn *status) {
    if (limits->from_environment) {
        nvmlReturn (*get_index)(nvmlDevice, unsigned *) = hami_nvml_function("nvmlDeviceGetIndex");
        unsigned index = HAMI_DEVICES;
        *status = get_index == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : get_index(device, &index);
        return *status == NVML_SUCCESS && index < HAMI_DEVICES && !is_mig_handle(device) ? (int)index : -1;
    }
    char uuid[HAMI_UUID_BYTES];
    nvmlReturn (*get_uuid)(nvmlDevice, char *, unsigned) = hami_nvml_function("nvmlDeviceGetUUID");
    *status = get_uuid == NULL ? NVML_ERROR_FUNCTION_NOT_FOUND : get_uuid(device, uuid, sizeof uuid);
    int index = *status == NVML_SUCCESS ? index_of_uuid(limits, uuid) : -1;
    struct hami_part parts[HAMI_DEVICES];
    if (*status == NVML_SUCCESS && index < 0 &&
        (limits->denied != HAMI_REASON_NONE || hami_guest_parts(limits, device, parts) != 0)) {
        index = HAMI_DIVIDED;
    }
    return index;
}

static bool same_card(nvmlDevice one, nvmlDevice other) {
    char first[HAMI_UUID_BYTES], second[HAMI_UUID_BYTES];
    nvmlReturn (*get_uuid)(nvmlDevice, char *, unsigned) = hami_nvml_function("nvmlDeviceGetUUID");
    return get_uuid != NULL && get_uuid(one, first, sizeof first) == NVML_SUCCESS &&
           get_uuid(other, second, sizeof second) == NVML_SUCCESS && strcmp(first, second) == 0;
}

unsigned hami_guest_parts(const struct hami_limits *limits, nvmlDevice card, struct hami_part parts[HAMI_DEVICES]) {
    nvmlReturn (*by_uuid)(const char *, nvmlDevice *) = hami_nvml_function("nvmlDeviceGetHandleByUUID");
    nvmlReturn (*card_of)(nvmlDevice, nvmlDevice *) =
        hami_nvml_function("nvmlDeviceGetDeviceHandleFromMigDeviceHandle");
    unsigned count = 0;
    for (unsigned i = 0; by_uuid != NULL && card_of != NULL && i < limits->device_count; i++) {
        nvmlDevice handle = NULL, its_card = NULL;
        if (hami_limits_mig(&limits->devices[i]) && by_uuid(limits->devices[i].uuid, &handle) == NVML_SUCCESS &&
            card_of(handle, &its_card) == NVML_SUCCESS && same_card(its_card, card)) {
            parts[count++] = (struct hami_part){i, handle};
        }
    }
    return count;
}
