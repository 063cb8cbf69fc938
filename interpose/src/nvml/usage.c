/*
 * NVML's samples, accounts and names of processes: the driver's answers, of which a container gets those about its own
 * processes, with the pids that they have inside. Called through the generated wrappers.
 */
#include "ledger/state.h"
#include "memory/devices.h"
#include "nvml/container.h"
#include "policies.h"

#include <stdlib.h>
#include <string.h>

enum { ENTRIES_MAX = 1 << 16, ENTRIES_TO_SPARE = 16, TRIES = 4 };

/* ---- lists ---- */

/* Asks the driver to fill `list`, which has room for `*count` entries. */
typedef nvmlReturn usage_ask_fn(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since);

/* A list that a caller wants. */
struct usage_list {
    usage_ask_fn *ask;
    uint64_t since;
    size_t entry_bytes, pid_offset;
    void *entries; /* NULL: the caller wants the number alone */
    uint32_t *count;
    nvmlReturn if_empty; /* NVML's answer where there are no entries */
};

/*
 * Gets all entries that the driver has into memory that the caller of this frees. The program's own list would not do:
 * entries of neighbours may fill it.
 */
static nvmlReturn usage_ask_all(enum hami_hook hook, nvmlDevice device, const struct usage_list *wanted, void **entries,
                                uint32_t *found) {
    nvmlReturn status = wanted->ask(hook, device, NULL, found, wanted->since);
    for (unsigned try = 0; try < TRIES && status == NVML_ERROR_INSUFFICIENT_SIZE && *found <= ENTRIES_MAX; try++) {
        free(*entries);
        *found += ENTRIES_TO_SPARE;
        *entries = calloc(*found, wanted->entry_bytes);
        if (*entries == NULL) {
            return NVML_ERROR_MEMORY;
        }
        status = wanted->ask(hook, device, *entries, found, wanted->since);
    }
    *found = *entries == NULL ? 0 : *found;
    return status;
}

/* Keeps the entries of the container's processes and gives them their pids inside. Returns how many it keeps. */
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

static nvmlReturn usage_answer(enum hami_hook hook, struct hami_container container, nvmlDevice device,
                               const struct usage_list *wanted) {
    void *entries = NULL;
    uint32_t found = 0;
    nvmlReturn status = usage_ask_all(hook, device, wanted, &entries, &found);
    if (status == NVML_SUCCESS) {
        hami_container_find_pids(&container, device);
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

static nvmlReturn usage_ask_samples(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count,
                                    uint64_t since) {
    nvmlReturn (*driver)(nvmlDevice, void *, uint32_t *, uint64_t) = hami_driver_function(hook);
    return driver(device, list, count, since);
}

int32_t hami_nvml_utilization(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_sample *samples,
                              uint32_t *count, uint64_t since) {
    struct hami_container container = hami_container_of(device);
    const struct usage_list wanted = {
        usage_ask_samples, since, sizeof *samples,      offsetof(struct nvml_utilization_sample, pid),
        samples,           count, NVML_ERROR_NOT_FOUND,
    };
    bool passed_on = count == NULL || container.device == HAMI_DEVICE_UNNAMED;
    return passed_on ? usage_ask_samples(hook, device, samples, count, since)
                     : usage_answer(hook, container, device, &wanted);
}

static nvmlReturn usage_ask_infos(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_utilization_infos *) = hami_driver_function(hook);
    struct nvml_utilization_infos infos = {NVML_STRUCT_VERSION(infos, 1), *count, since, list};
    nvmlReturn status = driver(device, &infos);
    *count = infos.count;
    return status;
}

int32_t hami_nvml_utilization_infos(enum hami_hook hook, nvmlDevice device, struct nvml_utilization_infos *infos) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_utilization_infos *) = hami_driver_function(hook);
    struct hami_container container = hami_container_of(device);
    if (infos == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return driver(device, infos);
    }
    if (infos->version != NVML_STRUCT_VERSION(*infos, 1)) {
        return hami_container_ask_empty(hook, device, infos, sizeof infos->version, false);
    }
    const struct usage_list wanted = {
        usage_ask_infos, infos->since,  sizeof *infos->list,  offsetof(struct nvml_utilization_info, pid),
        infos->list,     &infos->count, NVML_ERROR_NOT_FOUND,
    };
    return usage_answer(hook, container, device, &wanted);
}

static nvmlReturn usage_ask_pids(enum hami_hook hook, nvmlDevice device, void *list, uint32_t *count, uint64_t since) {
    nvmlReturn (*driver)(nvmlDevice, uint32_t *, uint32_t *) = hami_driver_function(hook);
    (void)since;
    return driver(device, count, list);
}

int32_t hami_nvml_accounting_pids(enum hami_hook hook, nvmlDevice device, uint32_t *count, uint32_t *pids) {
    struct hami_container container = hami_container_of(device);
    const struct usage_list wanted = {usage_ask_pids, 0, sizeof *pids, 0, pids, count, NVML_SUCCESS};
    bool passed_on = count == NULL || container.device == HAMI_DEVICE_UNNAMED;
    return passed_on ? usage_ask_pids(hook, device, pids, count, 0) : usage_answer(hook, container, device, &wanted);
}

/* ---- one process ---- */

/* For a process that is not the container's: the driver's refusal is passed on, its answer is not. */
static nvmlReturn usage_hide(nvmlReturn status) {
    return status == NVML_SUCCESS ? NVML_ERROR_NOT_FOUND : status;
}

int32_t hami_nvml_accounting(enum hami_hook hook, nvmlDevice device, uint32_t pid, struct nvml_accounting *stats) {
    nvmlReturn (*driver)(nvmlDevice, uint32_t, struct nvml_accounting *) = hami_driver_function(hook);
    struct hami_container container = hami_container_of(device);
    struct nvml_accounting unseen;
    if (stats == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return driver(device, pid, stats);
    }
    hami_container_find_pids(&container, device);
    uint32_t theirs = hami_container_pid(&container, pid, HAMI_PID_OF_DRIVER);
    return theirs != 0 ? driver(device, theirs, stats) : usage_hide(driver(device, pid, &unseen));
}

int32_t hami_nvml_accounting_v2(enum hami_hook hook, nvmlDevice device, struct nvml_accounting_v2 *stats) {
    nvmlReturn (*driver)(nvmlDevice, struct nvml_accounting_v2 *) = hami_driver_function(hook);
    struct hami_container container = hami_container_of(device);
    if (stats == NULL || container.device == HAMI_DEVICE_UNNAMED) {
        return driver(device, stats);
    }
    hami_container_find_pids(&container, device);
    struct nvml_accounting_v2 answer = *stats;
    uint32_t theirs = hami_container_pid(&container, stats->pid, HAMI_PID_OF_DRIVER);
    answer.pid = theirs != 0 ? theirs : stats->pid;
    nvmlReturn status = driver(device, &answer);
    if (theirs == 0) {
        return usage_hide(status);
    }
    if (status == NVML_SUCCESS) {
        answer.pid = stats->pid;
        *stats = answer;
    }
    return status;
}

/* NVML reads names from this process's /proc, so it takes pids of this namespace from every driver. */
int32_t hami_nvml_process_name(enum hami_hook hook, uint32_t pid, char *name, uint32_t length) {
    nvmlReturn (*driver)(uint32_t, char *, uint32_t) = hami_driver_function(hook);
    char unseen[64];
    if (hami_state_limits()->mode != HAMI_MODE_ENFORCE || name == NULL || length == 0) {
        return driver(pid, name, length);
    }
    const struct hami_container container = {hami_state_region(NULL), HAMI_DEVICE_UNNAMED, true};
    if (container.view != NULL) {
        (void)hami_region_sweep(container.view);
    }
    bool own = hami_container_pid(&container, pid, HAMI_PID_OF_DRIVER) != 0;
    return own ? driver(pid, name, length) : usage_hide(driver(pid, unseen, sizeof unseen));
}
