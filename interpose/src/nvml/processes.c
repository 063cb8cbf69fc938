/*
 * NVML's answers about processes: a container sees its own alone, by the pids that they have inside.
 *
 * What they use comes from the container's books. The rest is the driver's, looked through for processes of ours.
 * Recent drivers tell a process by its pid in the asker's pid namespace, older ones by the host's: then only those are
 * found whose host's pid the region names, and the others are left out.
 */
#include "doors/hook.h"
#include "ledger/state.h"
#include "memory/devices.h"
#include "policy.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_OURS = -1, LISTED = 1024, ROOM_MAX = 1 << 16, ROOM_TO_SPARE = 16, TRIES = 4, VERSIONED_MAX = 4096 };

/* ---- whose answer it is ---- */

/* The container's region; NULL where all may be seen, and where there is none: then nobody is the container's. */
static struct hami_region_view *own_region(void) {
    return hami_state_limits()->mode == HAMI_MODE_ENFORCE ? hami_state_region(NULL) : NULL;
}

static bool sees_all(void) {
    return hami_state_known_limits()->mode != HAMI_MODE_ENFORCE;
}

static unsigned slots_of(const struct hami_region_view *view) {
    return view == NULL ? 0 : hami_ledger_slots(view->region);
}

static void sweep(struct hami_region_view *view) {
    if (view != NULL) {
        (void)hami_region_sweep(view);
    }
}

#define WHOLE_CARD UINT32_MAX

/* Device in the limits, HAMI_DEVICE_DIVIDED for a card of them, or NOT_OURS where the driver's own answer stands. */
static int own_device(nvmlDevice device) {
    nvmlReturn asked = NVML_SUCCESS;
    const struct hami_limits *limits = hami_state_known_limits();
    int index = sees_all() ? NOT_OURS : hami_device_of_nvml(limits, device, &asked);
    bool named = index >= 0 && (uint32_t)index < limits->device_count;
    return named || index == HAMI_DEVICE_DIVIDED ? index : NOT_OURS;
}

/* ---- who is who ---- */

static bool lives_here(uint32_t pid) {
    int kept = errno;
    bool lives = kill((pid_t)pid, 0) == 0 || errno == EPERM;
    errno = kept;
    return lives;
}

/* Whether the driver tells processes by pids of this namespace: all that work on the device now are found here. */
static bool speaks_our_pids(nvmlDevice device) {
    struct nvml_process *processes = malloc(LISTED * sizeof *processes);
    nvmlReturn (*driver)(nvmlDevice, uint32_t *, struct nvml_process *) =
        hami_driver_function(HAMI_nvmlDeviceGetComputeRunningProcesses_v3);
    bool all_here = false;
    for (unsigned try = 0; !all_here && try < TRIES; try++) { /* one may end just after it was listed */
        uint32_t count = LISTED, i = 0;
        if (processes == NULL || driver(device, &count, processes) != NVML_SUCCESS) {
            break;
        }
        while (i < count && lives_here(processes[i].pid)) {
            i++;
        }
        all_here = i == count;
    }
    free(processes);
    return all_here;
}

/* The container's processes and how the driver tells them. */
struct family {
    const struct hami_region_view *view;
    bool our_pids;
};

static struct family family_on(struct hami_region_view *view, nvmlDevice device) {
    sweep(view);
    return (struct family){view, speaks_our_pids(device)};
}

/* What the driver calls the process in a slot; 0: nobody is there, or nobody knows. */
static uint32_t drivers_pid(const struct family *family, unsigned slot) {
    int32_t pid = hami_region_slot_pid(family->view, slot);
    return pid == 0 || family->our_pids ? (uint32_t)pid
                                        : (uint32_t)atomic_load(&family->view->region->v1.processes[slot].host_pid);
}

/* Pid in the container of the process that the driver calls `pid`, or 0 if it is none of ours. */
static uint32_t from_driver(const struct family *family, uint32_t pid) {
    for (unsigned slot = 0; pid != 0 && slot < slots_of(family->view); slot++) {
        if (drivers_pid(family, slot) == pid) {
            return (uint32_t)hami_region_slot_pid(family->view, slot);
        }
    }
    return 0;
}

/* The other way round. */
static uint32_t to_driver(const struct family *family, uint32_t pid) {
    for (unsigned slot = 0; pid != 0 && slot < slots_of(family->view); slot++) {
        if ((uint32_t)hami_region_slot_pid(family->view, slot) == pid) {
            return drivers_pid(family, slot);
        }
    }
    return 0;
}

/* ---- lists with what each process uses: from our books ---- */

/* The number that an NVML call gives a MIG device: of its GPU instance, or of its compute instance. */
static uint32_t instance_of(const struct hami_listed_device *device, nvmlReturn (*get)(nvmlDevice, unsigned *)) {
    unsigned id = 0;
    bool mig = hami_limits_mig(&hami_state_known_limits()->devices[device->index]);
    return mig && get != NULL && get(device->handle, &id) == NVML_SUCCESS ? id : WHOLE_CARD;
}

/* Adds the processes on a device, as many as there is room for, to `found` that there are already. */
static uint32_t add_users(struct hami_region_view *view, const struct hami_listed_device *device,
                          struct nvml_process *users, uint32_t room, uint32_t found) {
    uint32_t gpu_instance = instance_of(device, hami_nvml_function("nvmlDeviceGetGpuInstanceId"));
    uint32_t compute_instance = instance_of(device, hami_nvml_function("nvmlDeviceGetComputeInstanceId"));
    for (unsigned slot = 0; slot < slots_of(view); slot++) {
        int32_t pid = hami_region_slot_pid(view, slot);
        uint64_t pages = pid == 0 ? 0
                                  : hami_region_slot_used(view, slot, device->index) +
                                        hami_region_slot_used(view, slot, device->index + HAMI_DEVICES);
        if (pages != 0 && found < room) {
            uint64_t bytes = pages << HAMI_PAGE_SHIFT;
            users[found] = (struct nvml_process){(uint32_t)pid, 0, bytes, gpu_instance, compute_instance};
        }
        found += pages != 0;
    }
    return found;
}

/* Fills `users` with the processes on a device or on the parts of a card; returns how many there are, `room` at most.
 */
static uint32_t users_of(struct hami_region_view *view, int index, nvmlDevice handle, struct nvml_process *users,
                         uint32_t room) {
    struct hami_listed_device parts[HAMI_DEVICES] = {{(unsigned)index, handle}};
    unsigned count = index == HAMI_DEVICE_DIVIDED ? hami_device_mig_of(hami_state_known_limits(), handle, parts) : 1;
    uint32_t found = 0;
    sweep(view);
    for (unsigned i = 0; i < count; i++) {
        found = add_users(view, &parts[i], users, room, found);
    }
    return found < room ? found : room;
}

static bool is_compute(enum hami_hook hook) {
    return strncmp(hami_hooks[hook].name, "nvmlDeviceGetCompute", 20) == 0;
}

/* NVML's way with lists: in, the room; out, how many there are; nothing is written where they do not fit. */
static nvmlReturn fit(uint32_t *count, uint32_t found, bool given) {
    uint32_t room = given ? *count : 0;
    *count = found;
    return found <= room ? NVML_SUCCESS : NVML_ERROR_INSUFFICIENT_SIZE;
}

/* Whether the driver answers when asked for a list; with no room it can show nobody's. Its errors come before ours. */
static bool answers(nvmlReturn status) {
    return status == NVML_SUCCESS || status == NVML_ERROR_INSUFFICIENT_SIZE;
}

/* Puts a process into a caller's list, of one version or another. */
typedef void put_fn(void *list, uint32_t at, const struct nvml_process *user);

/* Fills a caller's list from our books, with none where it asks for others than those that compute. */
static nvmlReturn list_users(struct hami_region_view *view, int index, nvmlDevice device, bool compute, uint32_t *count,
                             void *list, put_fn *put) {
    struct nvml_process *users = compute ? malloc(HAMI_PROCESSES * sizeof *users) : NULL;
    if (compute && users == NULL) {
        return NVML_ERROR_MEMORY;
    }
    uint32_t found = compute ? users_of(view, index, device, users, HAMI_PROCESSES) : 0;
    nvmlReturn status = fit(count, found, list != NULL);
    for (uint32_t i = 0; status == NVML_SUCCESS && i < found; i++) {
        put(list, i, &users[i]);
    }
    free(users);
    return status;
}

static nvmlReturn list_processes(enum hami_hook hook, nvmlDevice device, uint32_t *count, void *infos, put_fn *put) {
    nvmlReturn (*driver)(nvmlDevice, uint32_t *, void *) = hami_driver_function(hook);
    struct hami_region_view *view = own_region();
    int index = own_device(device);
    uint32_t none = 0;
    if (count == NULL || index == NOT_OURS) {
        return driver(device, count, infos);
    }
    nvmlReturn status = driver(device, &none, NULL);
    return answers(status) ? list_users(view, index, device, is_compute(hook), count, infos, put) : status;
}

static void put_v1(void *list, uint32_t at, const struct nvml_process *user) {
    ((struct nvml_process_v1 *)list)[at] = (struct nvml_process_v1){user->pid, 0, user->used};
}

int32_t hami_nvml_processes_v1(enum hami_hook hook, nvmlDevice device, uint32_t *count, struct nvml_process_v1 *infos) {
    return list_processes(hook, device, count, infos, put_v1);
}

static void put_v2(void *list, uint32_t at, const struct nvml_process *user) {
    ((struct nvml_process *)list)[at] = *user;
}

int32_t hami_nvml_processes(enum hami_hook hook, nvmlDevice device, uint32_t *count, struct nvml_process *infos) {
    return list_processes(hook, device, count, infos, put_v2);
}

/*
 * The driver's answer for a structure that begins with `version` and asks for nothing: its errors come before ours. A
 * version that it knows and we do not must not show what we cannot look through.
 */
static nvmlReturn ask_empty(enum hami_hook hook, nvmlDevice device, const void *asked, size_t head, bool known) {
    nvmlReturn (*driver)(nvmlDevice, void *) = hami_driver_function(hook);
    void *empty = calloc(1, VERSIONED_MAX); /* the stack is the program's */
    if (empty == NULL) {
        return NVML_ERROR_MEMORY;
    }
    memcpy(empty, asked, head);
    nvmlReturn status = driver(device, empty);
    free(empty);
    bool good = answers(status) || status == NVML_ERROR_NOT_FOUND;
    return !good ? status : known ? NVML_SUCCESS : NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
}

static void put_detail(void *list, uint32_t at, const struct nvml_process *user) {
    ((struct nvml_process_detail *)list)[at] = (struct nvml_process_detail){*user, 0};
}

int32_t hami_nvml_process_details(enum hami_hook hook, nvmlDevice device, struct nvml_process_details *details) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_process_details *) = hami_driver_function(hook);
    struct hami_region_view *view = own_region();
    int index = own_device(device);
    if (details == NULL || index == NOT_OURS) {
        return driver(device, details);
    }
    bool known = details->version == NVML_STRUCT_VERSION(struct nvml_process_details, 1);
    nvmlReturn status = ask_empty(hook, device, details, offsetof(struct nvml_process_details, count), known);
    bool compute = details->mode == NVML_PROCESS_MODE_COMPUTE;
    return status != NVML_SUCCESS
               ? status
               : list_users(view, index, device, compute, &details->count, details->list, put_detail);
}

/* ---- samples and accounts: the driver's, looked through ---- */

/* How the driver fills `list`, `*count` long, of one kind or another. */
typedef nvmlReturn fill_fn(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since);

/*
 * All that the driver has, in memory for the caller to free, and their number in *found. The caller's own room would
 * not do, since neighbours may fill it.
 */
static nvmlReturn ask_all(fill_fn *fill, enum hami_hook hook, nvmlDevice device, uint64_t since, size_t size,
                          void **list, uint32_t *found) {
    *list = NULL;
    *found = 0;
    nvmlReturn status = fill(hook, device, NULL, found, since);
    for (unsigned try = 0; try < TRIES && status == NVML_ERROR_INSUFFICIENT_SIZE && *found <= ROOM_MAX; try++) {
        free(*list);
        *found += ROOM_TO_SPARE;
        *list = calloc(*found, size);
        if (*list == NULL) {
            return NVML_ERROR_MEMORY;
        }
        status = fill(hook, device, *list, found, since);
    }
    *found = *list == NULL ? 0 : *found;
    return status;
}

/* Keeps the entries of processes of ours, with their pids here. Returns how many. */
static uint32_t keep_own(const struct family *family, void *list, uint32_t count, size_t size, size_t pid_at) {
    uint32_t kept = 0;
    uint8_t *entries = list;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pid = 0;
        memcpy(&pid, entries + i * size + pid_at, sizeof pid);
        pid = from_driver(family, pid);
        if (pid != 0) {
            memmove(entries + kept * size, entries + i * size, size);
            memcpy(entries + kept * size + pid_at, &pid, sizeof pid);
            kept++;
        }
    }
    return kept;
}

/* Where what a caller asked for goes, and of what kind it is. */
struct wanted {
    fill_fn *fill;
    uint64_t since;
    size_t size, pid_at;
    void *list; /* NULL: the number alone */
    uint32_t *count;
    nvmlReturn none; /* the answer where there are none */
};

static nvmlReturn answer_own(enum hami_hook hook, struct hami_region_view *view, nvmlDevice device,
                             const struct wanted *w) {
    void *list = NULL;
    uint32_t found = 0;
    nvmlReturn status = ask_all(w->fill, hook, device, w->since, w->size, &list, &found);
    if (status == NVML_SUCCESS) {
        struct family family = family_on(view, device);
        found = keep_own(&family, list, found, w->size, w->pid_at);
        status = fit(w->count, found, w->list != NULL);
        if (status == NVML_SUCCESS && found != 0) {
            memcpy(w->list, list, found * w->size);
        }
        status = found == 0 ? w->none : status;
    }
    free(list);
    return status;
}

static nvmlReturn fill_samples(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_utilization_sample *, uint32_t *, uint64_t) =
        hami_driver_function(hook);
    return driver(device, list, count, since);
}

int32_t hami_nvml_utilization(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_sample *samples,
                              uint32_t *count, uint64_t since) {
    struct hami_region_view *view = own_region();
    if (count == NULL || own_device(device) == NOT_OURS) {
        return fill_samples(hook, device, samples, count, since);
    }
    const struct wanted w = {
        fill_samples, since, sizeof *samples,      offsetof(struct nvml_utilization_sample, pid),
        samples,      count, NVML_ERROR_NOT_FOUND,
    };
    return answer_own(hook, view, device, &w);
}

static nvmlReturn fill_infos(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_utilization_infos *) = hami_driver_function(hook);
    struct nvml_utilization_infos infos = {NVML_STRUCT_VERSION(infos, 1), *count, since, list};
    nvmlReturn status = driver(device, &infos);
    *count = infos.count;
    return status;
}

int32_t hami_nvml_utilization_infos(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_infos *infos) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_utilization_infos *) = hami_driver_function(hook);
    struct hami_region_view *view = own_region();
    if (infos == NULL || own_device(device) == NOT_OURS) {
        return driver(device, infos);
    }
    if (infos->version != NVML_STRUCT_VERSION(*infos, 1)) {
        return ask_empty(hook, device, infos, sizeof infos->version, false);
    }
    const struct wanted w = {
        fill_infos,  infos->since,  sizeof *infos->list,  offsetof(struct nvml_utilization_info, pid),
        infos->list, &infos->count, NVML_ERROR_NOT_FOUND,
    };
    return answer_own(hook, view, device, &w);
}

static nvmlReturn fill_pids(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since) {
    nvmlReturn (*driver)(nvmlDevice, uint32_t *, uint32_t *) = hami_driver_function(hook);
    (void)since;
    return driver(device, count, list);
}

int32_t hami_nvml_accounting_pids(enum hami_hook hook, nvmlDevice device, uint32_t *count, uint32_t *pids) {
    struct hami_region_view *view = own_region();
    if (count == NULL || own_device(device) == NOT_OURS) {
        return fill_pids(hook, device, pids, count, 0);
    }
    const struct wanted w = {fill_pids, 0, sizeof *pids, 0, pids, count, NVML_SUCCESS};
    return answer_own(hook, view, device, &w);
}

/* The driver's refusal is passed on; its answer about somebody else is not. */
static nvmlReturn about_another(nvmlReturn status) {
    return status == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : status;
}

int32_t hami_nvml_accounting(enum hami_hook hook, nvmlDevice device, uint32_t pid, struct nvml_accounting *stats) {
    nvmlReturn (*driver)(nvmlDevice, uint32_t, struct nvml_accounting *) = hami_driver_function(hook);
    struct hami_region_view *view = own_region();
    struct nvml_accounting unseen;
    if (stats == NULL || own_device(device) == NOT_OURS) {
        return driver(device, pid, stats);
    }
    struct family family = family_on(view, device);
    uint32_t theirs = to_driver(&family, pid);
    return theirs != 0 ? driver(device, theirs, stats) : about_another(driver(device, pid, &unseen));
}

int32_t hami_nvml_accounting_v2(enum hami_hook hook, nvmlDevice device, struct nvml_accounting_v2 *stats) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_accounting_v2 *) = hami_driver_function(hook);
    struct hami_region_view *view = own_region();
    if (stats == NULL || own_device(device) == NOT_OURS) {
        return driver(device, stats);
    }
    struct family family = family_on(view, device);
    struct nvml_accounting_v2 answer = *stats;
    uint32_t theirs = to_driver(&family, stats->pid);
    answer.pid = theirs != 0 ? theirs : stats->pid;
    nvmlReturn status = driver(device, &answer);
    if (theirs == 0) {
        return about_another(status);
    }
    if (status == NVML_SUCCESS) {
        answer.pid = stats->pid;
        *stats = answer;
    }
    return status;
}

/* NVML reads names from /proc as this process sees it, whatever the driver calls processes. */
int32_t hami_nvml_process_name(enum hami_hook hook, uint32_t pid, char *name, uint32_t length) {
    nvmlReturn (*driver)(uint32_t, char *, uint32_t) = hami_driver_function(hook);
    struct hami_region_view *view = own_region();
    char unseen[64];
    if (sees_all() || name == NULL || length == 0) {
        return driver(pid, name, length);
    }
    sweep(view);
    struct family family = {view, true};
    return to_driver(&family, pid) != 0 ? driver(pid, name, length) : about_another(driver(pid, unseen, sizeof unseen));
}
