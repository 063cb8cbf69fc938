/*
 * Asks NVML about processes on device 0. Each line of input is a command "WHAT ROOM ARGUMENTS", each line of output its
 * answer: the status, then the values, or "-" if NVML wrote none. ROOM is the length of the list that NVML gets, or
 * "null".
 */
#include "driver.h"

#include <stdbool.h>

enum { LIST = 64 };
#define UNTOUCHED 0xa5a5a5a5u

static nvmlDevice card;
static unsigned room;
static bool given;

/* Prints the status and the number of entries. Fails if NVML wrote behind these entries. */
static void head(int status, unsigned count, const void *list, size_t size) {
    const unsigned char *bytes = list;
    for (size_t i = (given && status == 0 ? count : 0) * size; i < LIST * size; i++)
        if (bytes[i] != 0xa5)
            fail("written where nothing should be", (int)(i / size));
    printf("%d %u", status, count);
}

static void samples(uint64_t since) {
    struct nvml_utilization_sample list[LIST];
    unsigned count = room;
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetProcessUtilization, card, given ? list : NULL, &count, since);
    head(status, count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < count; i++)
        printf(" %u:%u", list[i].pid, list[i].sm);
}

static void infos(unsigned version) {
    struct nvml_utilization_info list[LIST];
    struct nvml_utilization_infos asked = {version, room, 0, given ? list : NULL};
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetProcessesUtilizationInfo, card, &asked);
    head(status, asked.count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < asked.count; i++)
        printf(" %u:%u", list[i].pid, list[i].sm);
}

static void details(unsigned version, unsigned mode) {
    struct nvml_process_detail list[LIST];
    struct nvml_process_details asked = {version, mode, room, given ? list : NULL};
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetRunningProcessDetailList, card, &asked);
    head(status, asked.count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < asked.count; i++)
        printf(" %u:%llu", list[i].process.pid, (unsigned long long)list[i].process.used);
}

static void pids(void) {
    unsigned list[LIST], count = room;
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetAccountingPids, card, &count, given ? list : NULL);
    head(status, count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < count; i++)
        printf(" %u", list[i]);
}

/* Prints the status, whether the process runs, and the most memory that it used. */
static void show_stats(int status, unsigned running, unsigned long long most_used) {
    printf(running == UNTOUCHED ? "%d -" : "%d %u %llu", status, running, most_used);
}

static void stats(unsigned pid) {
    struct nvml_accounting found;
    memset(&found, 0xa5, sizeof found);
    int status = CALL(nvmlDeviceGetAccountingStats, card, pid, &found);
    show_stats(status, found.running, found.most_used);
}

static void stats_v2(unsigned pid) {
    struct nvml_accounting_v2 found;
    memset(&found, 0xa5, sizeof found);
    found.pid = pid;
    int status = CALL(nvmlDeviceGetAccountingStats_v2, card, &found);
    if (found.pid != pid)
        fail("about another", (int)found.pid);
    show_stats(status, found.running, found.most_used);
}

static void name(unsigned pid, unsigned length) {
    char found[256];
    memset(found, 0, sizeof found);
    int status = CALL(nvmlSystemGetProcessName, pid, found, length);
    printf("%d %s", status, found[0] == '\0' ? "-" : found);
}

static void protected_memory(void) {
    struct nvml_memory m = {0, 0, 0};
    int status = CALL(nvmlDeviceGetConfComputeProtectedMemoryUsage, card, &m);
    printf("%d %llu %llu %llu", status, (unsigned long long)m.total, (unsigned long long)m.used,
           (unsigned long long)m.free);
}

static void use(uint64_t bytes) {
    CUdeviceptr address = 0;
    use_device(0);
    printf("%d", cuMemAlloc_v2(&address, bytes));
}

/* A kernel that outlives the test. */
static void work(void) {
    printf("%d", cuLaunchKernel(find_kernel("k_900000ms"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
}

static int accounting(void) {
    unsigned enabled = 0;
    int status = CALL(nvmlDeviceGetAccountingMode, card, &enabled);
    return printf("%d %u", status, enabled);
}

static int buffer(void) {
    unsigned size = 0;
    int status = CALL(nvmlDeviceGetAccountingBufferSize, card, &size);
    return printf("%d %u", status, size);
}

static int answer(const char *what, const char *first, const char *second) {
    unsigned a = (unsigned)strtoul(first, NULL, 0), b = (unsigned)strtoul(second, NULL, 0);
    ON(what, "use", use(strtoull(first, NULL, 0)));
    ON(what, "work", work());
    ON(what, "samples", samples(strtoull(first, NULL, 0)));
    ON(what, "infos", infos(a));
    ON(what, "details", details(a, b));
    ON(what, "pids", pids());
    ON(what, "stats", stats(a));
    ON(what, "stats_v2", stats_v2(a));
    ON(what, "name", name(a, b));
    ON(what, "protected", protected_memory());
    ON(what, "set_accounting", printf("%d", CALL(nvmlDeviceSetAccountingMode, card, (int)a)));
    ON(what, "accounting", accounting());
    ON(what, "buffer", buffer());
    fail(what, 0);
}

int main(void) {
    char line[256], what[32], list[16], first[32], second[32];
    start_driver();
    card = card_at(0);
    say("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        strcpy(list, "null");
        strcpy(first, "0");
        strcpy(second, "0");
        if (sscanf(line, "%31s %15s %31s %31s", what, list, first, second) < 1)
            fail(line, 0);
        given = strcmp(list, "null") != 0;
        room = given ? (unsigned)strtoul(list, NULL, 0) : 0;
        (void)answer(what, first, second);
        say("");
    }
    return 0;
}
