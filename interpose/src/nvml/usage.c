/*
 * NVML's utilization samples, accounting and names of processes. A program gets the driver's answers about processes of
 * its own container, with their pids in the container. The generated wrappers call these functions.
 */
#include "ledger/state.h"
#include "memory/devices.h"
#include "nvml/container.h"
#include "policies.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 1 << 16, ENTRIES_TO_SPARE = 16, TRIES = 4 };

/* ---- lists ---- */

/* A list of entries, one for each process, that a program asks for. */
struct usage_list {
    enum hami_hook hook;
    nvmlDevice device;
    uint64_t since;
    /* Calls the driver, which fills `entries`. *count is the room in them, and becomes their number. */
    nvmlReturn (*ask)(const struct usage_list *wanted, void *entries, uint32_t *count);
    size_t entry_bytes, pid_offset;
    nvmlReturn if_empty; /* the answer of NVML if there are no entries */
    void *entries;       /* the program's memory; NULL: it asks for the number of entries only */
    uint32_t *count;     /* the program's count: its room, then the number of entries */
};

/*
 * Gets all entries of the driver, into memory that our caller frees. The program's own memory may be too small, since
 * the driver also has entries of other containers.
 */
static nvmlReturn usage_ask_all(const struct usage_list *wanted, void **entries, uint32_t *found) {
    nvmlReturn status = wanted->ask(wanted, NULL, found);
    for (unsigned try = 0; try < TRIES && status == NVML_ERROR_INSUFFICIENT_SIZE && *found <= ENTRIES_MAX; try++) {
        free(*entries);
        *found += ENTRIES_TO_SPARE;
        *entries = calloc(*found, wanted->entry_bytes);
        if (*entries == NULL) {
            return NVML_ERROR_MEMORY;
        }
        status = wanted->ask(wanted, *entries, found);
    }
    *found = *entries == NULL ? 0 : *found;
    return status;
}

/* Drops entries of other containers, and translates the pids in the rest. Returns how many entries remain. */
static uint32_t usage_keep_own(const struct hami_container *container, const struct usage_list *wanted, char *entries,
                               uint32_t count) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        char *from = entries + i * wanted->entry_bytes, *to = entries + kept * wanted->entry_bytes;
        uint32_t pid = 0;
        memcpy(&pid, from + wanted->pid_offset, sizeof pid);
        pid = hami_container_pid(container, pid, HAMI_PID_INSIDE);
        if (pid != 0) {
            memmove(to, from, wanted->entry_bytes);
            memcpy(to + wanted->pid_offset, &pid, sizeof pid);
            kept++;
        }
    }
    return kept;
}

static nvmlReturn usage_answer(const struct usage_list *wanted) {
    struct hami_container container = hami_container_of(wanted->device);
    void *entries = NULL;
    uint32_t found = 0;
    if (wanted->count == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return wanted->ask(wanted, wanted->entries, wanted->count);
    }
    nvmlReturn status = usage_ask_all(wanted, &entries, &found);
    if (status == NVML_SUCCESS) {
        hami_container_find_pids(&container, wanted->device);
        found = usage_keep_own(&container, wanted, entries, found);
        status = hami_container_fit(wanted->count, found, wanted->entries != NULL);
        if (status == NVML_SUCCESS && found != 0) {
            memcpy(wanted->entries, entries, found * wanted->entry_bytes);
        }
        status = found == 0 ? wanted->if_empty : status;
    }
    free(entries);
    return status;
}

static nvmlReturn usage_ask_samples(const struct usage_list *wanted, void *entries, uint32_t *count) {
    return hami_call_nvml_utilization(wanted->hook, wanted->device, entries, count, wanted->since);
}

int32_t hami_nvml_utilization(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_sample *samples,
                              uint32_t *count, uint64_t since) {
    size_t pid_offset = offsetof(struct nvml_utilization_sample, pid);
    return usage_answer(&(struct usage_list){hook, device, since, usage_ask_samples, sizeof *samples, pid_offset,
                                             NVML_ERROR_NOT_FOUND, samples, count});
}

static nvmlReturn usage_ask_infos(const struct usage_list *wanted, void *entries, uint32_t *count) {
    struct nvml_utilization_infos infos = {NVML_STRUCT_VERSION(infos, 1), *count, wanted->since, entries};
    nvmlReturn status = hami_call_nvml_utilization_infos(wanted->hook, wanted->device, &infos);
    *count = infos.count;
    return status;
}

int32_t hami_nvml_utilization_infos(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_infos *infos) {
    size_t pid_offset = offsetof(struct nvml_utilization_info, pid);
    if (infos != NULL && infos->version == NVML_STRUCT_VERSION(*infos, 1)) {
        return usage_answer(&(struct usage_list){hook, device, infos->since, usage_ask_infos, sizeof *infos->list,
                                                 pid_offset, NVML_ERROR_NOT_FOUND, infos->list, &infos->count});
    }
    return infos == NULL || hami_container_of(device).device == HAMI_DEVICE_UNNAMED
               ? hami_call_nvml_utilization_infos(hook, device, infos)
               : hami_container_ask_empty(hook, device, infos, sizeof infos->version, false);
}

static nvmlReturn usage_ask_pids(const struct usage_list *wanted, void *entries, uint32_t *count) {
    return hami_call_nvml_accounting_pids(wanted->hook, wanted->device, count, entries);
}

int32_t hami_nvml_accounting_pids(enum hami_hook hook, nvmlDevice device, uint32_t *count, uint32_t *pids) {
    return usage_answer(
        &(struct usage_list){hook, device, 0, usage_ask_pids, sizeof *pids, 0, NVML_SUCCESS, pids, count});
}

/* ---- one process ---- */

/* Hides an answer about a process that is not the container's own. An error of the driver is returned as it is. */
static nvmlReturn usage_hide(nvmlReturn status, bool own) {
    return status == NVML_SUCCESS && !own ? NVML_ERROR_NOT_FOUND : status;
}

int32_t hami_nvml_accounting(enum hami_hook hook, nvmlDevice device, uint32_t pid, struct nvml_accounting *stats) {
    struct hami_container container = hami_container_of(device);
    struct nvml_accounting unseen;
    if (stats == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return hami_call_nvml_accounting(hook, device, pid, stats);
    }
    hami_container_find_pids(&container, device);
    uint32_t theirs = hami_container_pid(&container, pid, HAMI_PID_OF_DRIVER);
    bool own = theirs != 0;
    return usage_hide(hami_call_nvml_accounting(hook, device, own ? theirs : pid, own ? stats : &unseen), own);
}

int32_t hami_nvml_accounting_v2(enum hami_hook hook, nvmlDevice device, struct nvml_accounting_v2 *stats) {
    struct hami_container container = hami_container_of(device);
    if (stats == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return hami_call_nvml_accounting_v2(hook, device, stats);
    }
    hami_container_find_pids(&container, device);
    struct nvml_accounting_v2 answer = *stats;
    uint32_t theirs = hami_container_pid(&container, stats->pid, HAMI_PID_OF_DRIVER);
    answer.pid = theirs != 0 ? theirs : stats->pid;
    nvmlReturn status = usage_hide(hami_call_nvml_accounting_v2(hook, device, &answer), theirs != 0);
    if (status == NVML_SUCCESS) {
        answer.pid = stats->pid;
        *stats = answer;
    }
    return status;
}

/* NVML reads names from the caller's /proc. So every driver takes pids of our pid namespace, even an old one. */
int32_t hami_nvml_process_name(enum hami_hook hook, uint32_t pid, char *name, uint32_t length) {
    char unseen[64];
    if (hami_state_limits()->mode != HAMI_MODE_ENFORCE || name == NULL || length == 0) {
        return hami_call_nvml_process_name(hook, pid, name, length);
    }
    const struct hami_container container = {hami_state_region(NULL), HAMI_DEVICE_UNNAMED, true};
    if (container.view != NULL) {
        (void)hami_region_sweep(container.view);
    }
    bool own = hami_container_pid(&container, pid, HAMI_PID_OF_DRIVER) != 0;
    return usage_hide(hami_call_nvml_process_name(hook, pid, own ? name : unseen, own ? length : sizeof unseen), own);
}
