/*
 * The limits file with hostile bytes. An accepted file is canonical: its values, written again, give the same bytes, so
 * no number has wrapped and no byte was skipped. A refused file denies all memory and names the reason.
 */
#include "../../src/ledger/limits.c"

#include "fuzz.h"

#include <inttypes.h>

static struct hami_limits_source source = {.file = true};
static int file = -1;

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    file = scratch_file(source.limits_path, sizeof source.limits_path);
    return 0;
}

/* All values are within the bounds of the format. */
static void bounded(const struct hami_limits *limits) {
    PROMISE(limits->device_count >= 1 && limits->device_count <= HAMI_DEVICES);
    PROMISE(limits->mode <= HAMI_MODE_ENFORCE && limits->core_policy <= HAMI_CORE_DISABLE && limits->priority <= 9);
    PROMISE(limits->denied == HAMI_REASON_NONE && !limits->from_environment);
    for (unsigned i = 0; i < limits->device_count; i++) {
        const struct hami_device_limit *device = &limits->devices[i];
        size_t length = strnlen(device->uuid, HAMI_UUID_BYTES);
        PROMISE(length > 0 && length < HAMI_UUID_BYTES && device->cores <= 100);
        for (size_t at = 0; at < length; at++) {
            PROMISE(device->uuid[at] > ' ' && device->uuid[at] <= '~');
        }
        for (unsigned other = 0; other < i; other++) {
            PROMISE(strcmp(limits->devices[other].uuid, device->uuid) != 0);
        }
    }
}

static size_t encode(const struct hami_limits *limits, char *out, size_t size) {
    static const char *const modes[] = {"off", "observe", "enforce"};
    static const char *const policies[] = {"default", "force", "disable"};
    int length = snprintf(out, size, "hami-limits 1\ngeneration %" PRIu64 "\nmode %s\ncore_policy %s\npriority %u\n",
                          limits->generation, modes[limits->mode], policies[limits->core_policy], limits->priority);
    for (unsigned i = 0; i < limits->device_count; i++) {
        const struct hami_device_limit *device = &limits->devices[i];
        length += snprintf(out + length, size - (size_t)length, "device %s %" PRIu64 " %" PRIu64 " %u\n", device->uuid,
                           device->memory_bytes, device->physical_bytes, device->cores);
    }
    length += snprintf(out + length, size - (size_t)length, "end\n");
    PROMISE((size_t)length < size);
    return (size_t)length;
}

static void denies(const struct hami_limits *limits, enum hami_reason reason) {
    struct hami_limits nothing;
    memset(&nothing, 0, sizeof nothing);
    nothing.mode = HAMI_MODE_ENFORCE;
    nothing.denied = reason;
    PROMISE(memcmp(&nothing, limits, sizeof nothing) == 0);
}

static void divided(const struct hami_limits *limits) {
    for (unsigned i = 0; i < limits->device_count; i++) {
        const struct hami_device_limit *device = &limits->devices[i];
        PROMISE(device->device_bytes <= device->memory_bytes);
        PROMISE(device->device_bytes + device->host_bytes == device->memory_bytes);
        PROMISE(device->host_bytes == 0 || device->device_bytes == device->physical_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char again[8192];
    static struct hami_limits loaded;
    rewrite(file, data, size);
    memset(&loaded, 0xa5, sizeof loaded);
    hami_limits_load(&source, &loaded);
    if (loaded.denied == HAMI_REASON_NONE) {
        bounded(&loaded);
        divided(&loaded);
        PROMISE(encode(&loaded, again, sizeof again) == size && memcmp(again, data, size) == 0);
    } else {
        denies(&loaded, HAMI_REASON_BAD_LIMITS);
    }
    return 0;
}
