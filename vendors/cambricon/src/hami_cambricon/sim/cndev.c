/*
 * A simulated libcndev.so: the functions of CNDev that the node side calls, over a folder of small text files.
 *
 * The environment variable HAMI_CNDEV_SIM names the folder. Every process that loads the library sees the same cards:
 *
 *   card<i>/uuid, model, memory_mib, numa     what the card is
 *   card<i>/health, driver, compute, mim, smlu, used_mib, percent     what it says of its state
 *   card<i>/error                   a CNDev error code that every call about the card answers
 *   card<i>/profiles/<id>           "quota bytes": an sMLU profile
 *   card<i>/instances/<id>          "profile quota bytes name": an sMLU instance
 *   card<i>/usage/<id>              "percent bytes": what an instance uses
 *   card<i>/busy                    no instance of this card can be destroyed
 *   card<i>/denied                  the process may not change this card
 *   card<i>/nameless                instances do not report their names
 *   dev/                            device nodes, as plain files
 *   init                            the code that cndevInit answers
 *
 * HAMI_CNDEV_SIM_END_AT=<n> ends the process at the n-th point. Each call that changes something has two points: one
 * before the change and one after it.
 *
 * Declarations and struct layouts follow the public header of Cambricon/cambricon-k8s-device-plugin,
 * device-plugin/pkg/cndev/include/cndev.h. What the driver allows (16 profiles, 64 instances, no instance beyond 100 %
 * or the card's memory, three profiles from the start) follows its source, jklincn/cambricon-mlu-driver, smlu/.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- the interface, version 6 ------------------------------------------------------------------------------------ */

#define CNDEV_VERSION_6 6
#define CNDEV_UUID_SIZE 37
#define CNDEV_MLUINSTANCE_PROFILE_NAME_BUFFER_SIZE 100
#define CNDEV_MLUINSTANCE_DEVICE_NODE_NAME_BUFFER_SIZE 100

typedef int32_t cndevDevice_t;
typedef int32_t cndevMluInstance_t;

typedef enum {
    CNDEV_SUCCESS = 0,
    CNDEV_ERROR_NO_DRIVER = 1,
    CNDEV_ERROR_UNSUPPORTED_API_VERSION = 3,
    CNDEV_ERROR_UNINITIALIZED = 4,
    CNDEV_ERROR_INVALID_ARGUMENT = 5,
    CNDEV_ERROR_INVALID_DEVICE_ID = 6,
    CNDEV_ERROR_UNKNOWN = 7,
    CNDEV_ERROR_INSUFFICIENT_SPACE = 9,
    CNDEV_ERROR_NOT_SUPPORTED = 10,
    CNDEV_ERROR_NO_DEVICES = 12,
    CNDEV_ERROR_NO_PERMISSION = 13,
    CNDEV_ERROR_NOT_FOUND = 14,
    CNDEV_ERROR_IN_USE = 15,
    CNDEV_ERROR_DUPLICATE = 16,
    CNDEV_ERROR_IN_PROBLEM = 18,
} cndevRet_t;

enum { CNDEV_SMLU_MAX = 0, CNDEV_SMLU_USAGE = 1, CNDEV_SMLU_ITEM_COUNT = 2 };
enum { CNDEV_HEALTH_STATE_DEVICE_IN_PROBLEM = 0, CNDEV_HEALTH_STATE_DEVICE_GOOD = 1 };
enum { CNDEV_HEALTH_STATE_DRIVER_RUNNING = 4 };

typedef struct {
    int32_t version;
    uint32_t number;
} cndevCardInfo_t;

typedef struct {
    int32_t version;
    uint8_t uuid[CNDEV_UUID_SIZE];
    uint64_t ncsUUID64;
} cndevUUID_t;

typedef struct {
    int64_t physicalMemoryTotal; /* MiB */
    int64_t physicalMemoryUsed;  /* MiB */
    int64_t reservedMemory;
    int64_t virtualMemoryTotal;
    int64_t virtualMemoryUsed;
    uint64_t globalMemory;
    uint64_t reserved[16];
} cndevMemoryInfoV2_t;

typedef struct {
    int32_t version;
    int32_t averageCoreUtilization;
    int32_t coreUtilization[80];
} cndevUtilizationInfo_t;

typedef struct {
    int32_t version;
    int32_t health;
    int32_t deviceState;
    int32_t driverState;
} cndevCardHealthState_t;

typedef struct {
    int32_t version;
    int32_t nodeId;
} cndevNUMANodeId_t;

typedef struct {
    int32_t version;
    int32_t mode;
} cndevComputeMode_t;

typedef struct {
    int32_t version;
    int32_t mimMode;
} cndevMimMode_t;

typedef struct {
    int32_t version;
    int32_t smluMode;
} cndevSMLUMode_t;

typedef struct {
    int32_t version;
    uint32_t mluQuota;   /* percent */
    uint64_t memorySize; /* bytes */
} cndevSMluSet_t;

typedef struct {
    int32_t version;
    int32_t profileId;
    int32_t instanceId;
    uint8_t uuid[CNDEV_UUID_SIZE];
    int32_t domain;
    int32_t bus;
    int32_t device;
    int32_t function;
    char profileName[CNDEV_MLUINSTANCE_PROFILE_NAME_BUFFER_SIZE];
    char instanceName[CNDEV_MLUINSTANCE_PROFILE_NAME_BUFFER_SIZE];
    char devNodeName[CNDEV_MLUINSTANCE_DEVICE_NODE_NAME_BUFFER_SIZE];
    uint32_t mluQuota[CNDEV_SMLU_ITEM_COUNT];
    uint64_t memorySize[CNDEV_SMLU_ITEM_COUNT];
    uint32_t reserved[128];
} cndevSMluInfo_t;

typedef struct {
    int32_t version;
    int32_t count;
    int32_t profileId[128];
} cndevSMluProfileIdInfo_t;

typedef struct {
    int32_t version;
    int32_t profileId;
    char name[CNDEV_MLUINSTANCE_PROFILE_NAME_BUFFER_SIZE];
    uint32_t totalCapacity;
    uint32_t remainCapacity;
    uint32_t mluQuota[CNDEV_SMLU_ITEM_COUNT];
    uint64_t memorySize[CNDEV_SMLU_ITEM_COUNT];
} cndevSMluProfileInfo_t;

/* --- the library ---------------------------------------------------------------------------------------------------
 */

enum {
    MAX_PROFILES = 16,
    MAX_INSTANCES = 64,
    HANDLE_BASE = 0x40, /* a handle is not an index; a caller that confuses them gets an error */
    PATH_SIZE = 4096,
    END_STATUS = 9,
};

#define EXPORT __attribute__((visibility("default")))

static int initialised;

/* --- files ------------------------------------------------------------------------------------------------------- */

static void path_of(char *out, const char *form, va_list args) {
    const char *root = getenv("HAMI_CNDEV_SIM");
    int at = snprintf(out, PATH_SIZE, "%s/", root ? root : "/nonexistent");
    vsnprintf(out + at, (size_t)(PATH_SIZE - at), form, args);
}

/* Reads the file at a path below the folder. Returns the length, or -1 if there is no such file. */
__attribute__((format(printf, 3, 4))) static int file_read(char *text, int size, const char *form, ...) {
    char path[PATH_SIZE];
    va_list args;
    va_start(args, form);
    path_of(path, form, args);
    va_end(args);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t length = read(fd, text, (size_t)size - 1);
    close(fd);
    if (length < 0)
        return -1;
    while (length > 0 && text[length - 1] == '\n')
        length--;
    text[length] = 0;
    return (int)length;
}

/* Makes a file with this content in one step. Returns 0, or -1 if it exists already or can't be made. */
__attribute__((format(printf, 2, 3))) static int file_make(const char *text, const char *form, ...) {
    char path[PATH_SIZE], draft[PATH_SIZE + 32];
    va_list args;
    va_start(args, form);
    path_of(path, form, args);
    va_end(args);
    snprintf(draft, sizeof draft, "%s.%d", path, (int)getpid());
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, text, strlen(text));
    close(fd);
    int made = written == (ssize_t)strlen(text) ? link(draft, path) : -1;
    unlink(draft);
    return made;
}

__attribute__((format(printf, 1, 2))) static int file_remove(const char *form, ...) {
    char path[PATH_SIZE];
    va_list args;
    va_start(args, form);
    path_of(path, form, args);
    va_end(args);
    return unlink(path);
}

static long number(int card, const char *name, long otherwise) {
    char text[64];
    return file_read(text, sizeof text, "card%d/%s", card, name) > 0 ? strtol(text, NULL, 10) : otherwise;
}

/* --- points at which a test ends the process ---------------------------------------------------------------------- */

static void point(void) {
    static int passed;
    const char *end = getenv("HAMI_CNDEV_SIM_END_AT");
    if (end && ++passed == atoi(end))
        _exit(END_STATUS);
}

/* --- cards ------------------------------------------------------------------------------------------------------- */

static int count_cards(void) {
    char text[64];
    int count = 0;
    while (file_read(text, sizeof text, "card%d/uuid", count) >= 0)
        count++;
    return count;
}

/* Checks a call about a card. Sets its index. */
static cndevRet_t card_of(cndevDevice_t device, int *card) {
    if (!initialised)
        return CNDEV_ERROR_UNINITIALIZED;
    *card = device - HANDLE_BASE;
    if (*card < 0 || *card >= count_cards())
        return CNDEV_ERROR_INVALID_DEVICE_ID;
    return (cndevRet_t)number(*card, "error", CNDEV_SUCCESS);
}

#define CARD(version_ok)                                                                                               \
    int card;                                                                                                          \
    cndevRet_t problem = card_of(device, &card);                                                                       \
    if (problem)                                                                                                       \
        return problem;                                                                                                \
    if (!(version_ok))                                                                                                 \
    return CNDEV_ERROR_UNSUPPORTED_API_VERSION

EXPORT cndevRet_t cndevInit(int32_t reserved) {
    char text[64];
    (void)reserved;
    if (file_read(text, sizeof text, "init") > 0 && atoi(text))
        return (cndevRet_t)atoi(text);
    if (count_cards() == 0)
        return CNDEV_ERROR_NO_DEVICES;
    initialised = 1;
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevRelease(void) {
    if (!initialised)
        return CNDEV_ERROR_UNINITIALIZED;
    initialised = 0;
    return CNDEV_SUCCESS;
}

EXPORT const char *cndevGetErrorString(cndevRet_t error) {
    switch (error) {
    case CNDEV_SUCCESS:
        return "success";
    case CNDEV_ERROR_INSUFFICIENT_SPACE:
        return "not enough space or resources";
    case CNDEV_ERROR_IN_USE:
        return "the device is in use";
    case CNDEV_ERROR_DUPLICATE:
        return "the name exists already";
    case CNDEV_ERROR_NO_DEVICES:
        return "no usable MLU device";
    default:
        return "simulated error";
    }
}

EXPORT cndevRet_t cndevGetDeviceCount(cndevCardInfo_t *info) {
    if (!initialised)
        return CNDEV_ERROR_UNINITIALIZED;
    if (info->version != CNDEV_VERSION_6)
        return CNDEV_ERROR_UNSUPPORTED_API_VERSION;
    info->number = (uint32_t)count_cards();
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetDeviceHandleByIndex(int32_t index, cndevDevice_t *handle) {
    if (!initialised)
        return CNDEV_ERROR_UNINITIALIZED;
    if (index < 0 || index >= count_cards())
        return CNDEV_ERROR_NOT_FOUND;
    *handle = index + HANDLE_BASE;
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetUUID(cndevUUID_t *info, cndevDevice_t device) {
    CARD(info->version == CNDEV_VERSION_6);
    char text[CNDEV_UUID_SIZE + 1] = "";
    file_read(text, sizeof text, "card%d/uuid", card);
    memcpy(info->uuid, text, sizeof info->uuid);
    return CNDEV_SUCCESS;
}

EXPORT const char *cndevGetCardNameStringByDevId(cndevDevice_t device) {
    static _Thread_local char text[64];
    int card;
    if (card_of(device, &card))
        return "Unknown";
    if (file_read(text, sizeof text, "card%d/model", card) <= 0)
        return "Unknown";
    return text;
}

EXPORT cndevRet_t cndevGetMemoryUsageV2(cndevMemoryInfoV2_t *info, cndevDevice_t device) {
    CARD(1);
    memset(info, 0, sizeof *info);
    info->physicalMemoryTotal = number(card, "memory_mib", 0);
    info->physicalMemoryUsed = number(card, "used_mib", 0);
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetNUMANodeIdByDevId(cndevNUMANodeId_t *info, cndevDevice_t device) {
    CARD(info->version == CNDEV_VERSION_6);
    info->nodeId = (int32_t)number(card, "numa", -1);
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetCardHealthState(cndevCardHealthState_t *info, cndevDevice_t device) {
    CARD(info->version == CNDEV_VERSION_6);
    info->health = (int32_t)number(card, "health", 1);
    info->deviceState = info->health ? CNDEV_HEALTH_STATE_DEVICE_GOOD : CNDEV_HEALTH_STATE_DEVICE_IN_PROBLEM;
    info->driverState = (int32_t)number(card, "driver", CNDEV_HEALTH_STATE_DRIVER_RUNNING);
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetComputeMode(cndevComputeMode_t *mode, cndevDevice_t device) {
    CARD(mode->version == CNDEV_VERSION_6);
    mode->mode = (int32_t)number(card, "compute", 0);
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetDeviceUtilizationInfo(cndevUtilizationInfo_t *info, cndevDevice_t device) {
    CARD(info->version == CNDEV_VERSION_6);
    info->averageCoreUtilization = (int32_t)number(card, "percent", 0);
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetMimMode(cndevMimMode_t *mode, cndevDevice_t device) {
    CARD(mode->version == CNDEV_VERSION_6);
    long found = number(card, "mim", -1);
    if (found < 0)
        return CNDEV_ERROR_NOT_SUPPORTED;
    mode->mimMode = (int32_t)found;
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetSMLUMode(cndevSMLUMode_t *mode, cndevDevice_t device) {
    CARD(mode->version == CNDEV_VERSION_6);
    long found = number(card, "smlu", -1);
    if (found < 0)
        return CNDEV_ERROR_NOT_SUPPORTED;
    mode->smluMode = (int32_t)found;
    return CNDEV_SUCCESS;
}

/* --- sMLU profiles ------------------------------------------------------------------------------------------------ */

struct profile {
    int exists;
    unsigned quota;
    uint64_t bytes;
};

struct instance {
    int exists, profile;
    unsigned quota, percent;
    uint64_t bytes, used;
    char name[CNDEV_MLUINSTANCE_PROFILE_NAME_BUFFER_SIZE];
};

static struct profile profile_read(int card, int id) {
    struct profile found = {0};
    char text[128];
    if (file_read(text, sizeof text, "card%d/profiles/%d", card, id) > 0)
        found.exists = sscanf(text, "%u %lu", &found.quota, &found.bytes) == 2;
    return found;
}

static struct instance instance_read(int card, int id) {
    struct instance found = {0};
    char text[256];
    if (file_read(text, sizeof text, "card%d/instances/%d", card, id) <= 0)
        return found;
    int fields = sscanf(text, "%d %u %lu %99s", &found.profile, &found.quota, &found.bytes, found.name);
    found.exists = fields >= 3; /* an instance of another program may have no name */
    if (file_read(text, sizeof text, "card%d/usage/%d", card, id) > 0)
        sscanf(text, "%u %lu", &found.percent, &found.used);
    return found;
}

/* Percent of compute and bytes of memory that nobody holds on the card. */
static void card_left(int card, unsigned *quota, uint64_t *bytes) {
    *quota = 100;
    *bytes = (uint64_t)number(card, "memory_mib", 0) << 20;
    for (int id = 1; id <= MAX_INSTANCES; id++) {
        struct instance one = instance_read(card, id);
        *quota -= one.quota;
        *bytes -= one.bytes;
    }
}

#define SMLU(version_ok)                                                                                               \
    CARD(version_ok);                                                                                                  \
    if (number(card, "smlu", -1) != 1)                                                                                 \
    return CNDEV_ERROR_NOT_SUPPORTED

EXPORT cndevRet_t cndevGetSMluProfileIdInfo(cndevSMluProfileIdInfo_t *info, cndevDevice_t device) {
    SMLU(info->version == CNDEV_VERSION_6);
    info->count = 0;
    for (int id = 0; id < MAX_PROFILES; id++)
        if (profile_read(card, id).exists)
            info->profileId[info->count++] = id;
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevGetSMluProfileInfo(cndevSMluProfileInfo_t *info, int32_t id, cndevDevice_t device) {
    SMLU(info->version == CNDEV_VERSION_6);
    struct profile found = profile_read(card, id);
    if (!found.exists)
        return CNDEV_ERROR_INVALID_ARGUMENT;
    unsigned quota;
    uint64_t bytes;
    card_left(card, &quota, &bytes);
    info->profileId = id;
    info->mluQuota[CNDEV_SMLU_MAX] = found.quota;
    info->memorySize[CNDEV_SMLU_MAX] = found.bytes;
    snprintf(info->name, sizeof info->name, "%up.%lumb", found.quota, found.bytes >> 20);
    uint64_t room = quota / found.quota, most = 100 / found.quota;
    info->totalCapacity = (uint32_t)most;
    info->remainCapacity = (uint32_t)(room < bytes / found.bytes ? room : bytes / found.bytes);
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevCreateSMluProfileInfo(cndevSMluSet_t *set, int32_t *id, cndevDevice_t device) {
    SMLU(set->version == CNDEV_VERSION_6);
    uint64_t total = (uint64_t)number(card, "memory_mib", 0) << 20;
    if (set->mluQuota < 1 || set->mluQuota > 100 || set->memorySize < 1 || set->memorySize > total)
        return CNDEV_ERROR_INVALID_ARGUMENT;
    if (number(card, "denied", 0))
        return CNDEV_ERROR_NO_PERMISSION;
    point();
    char text[64];
    snprintf(text, sizeof text, "%u %lu\n", set->mluQuota, set->memorySize);
    for (*id = 0; *id < MAX_PROFILES; (*id)++)
        if (file_make(text, "card%d/profiles/%d", card, *id) == 0)
            break;
    if (*id == MAX_PROFILES)
        return CNDEV_ERROR_INSUFFICIENT_SPACE;
    point();
    return CNDEV_SUCCESS;
}

/* Like the driver, it removes a profile that still has instances, and gives its id to the next profile. */
EXPORT cndevRet_t cndevDestroySMluProfileInfo(int32_t id, cndevDevice_t device) {
    SMLU(1);
    if (!profile_read(card, id).exists)
        return CNDEV_ERROR_INVALID_ARGUMENT;
    point();
    file_remove("card%d/profiles/%d", card, id);
    point();
    return CNDEV_SUCCESS;
}

/* --- sMLU instances ----------------------------------------------------------------------------------------------- */

EXPORT cndevRet_t cndevCreateSMluInstanceByProfileId(cndevMluInstance_t *handle, uint32_t profile, cndevDevice_t device,
                                                     char *name) {
    SMLU(1);
    struct profile of = profile_read(card, (int)profile);
    if (!of.exists || strlen(name) >= CNDEV_MLUINSTANCE_PROFILE_NAME_BUFFER_SIZE)
        return CNDEV_ERROR_INVALID_ARGUMENT;
    for (int id = 1; *name && id <= MAX_INSTANCES; id++)
        if (strcmp(instance_read(card, id).name, name) == 0)
            return CNDEV_ERROR_DUPLICATE;
    unsigned quota;
    uint64_t bytes;
    card_left(card, &quota, &bytes);
    if (of.quota > quota || of.bytes > bytes)
        return CNDEV_ERROR_INSUFFICIENT_SPACE;
    point();
    char text[256];
    snprintf(text, sizeof text, "%u %u %lu %s\n", profile, of.quota, of.bytes, name);
    int id = 1;
    while (id <= MAX_INSTANCES && file_make(text, "card%d/instances/%d", card, id))
        id++;
    if (id > MAX_INSTANCES)
        return CNDEV_ERROR_INSUFFICIENT_SPACE;
    file_make("", "dev/cambricon-caps/cap_dev%d_mi%d", card, id);
    *handle = id << 8 | card;
    point();
    return CNDEV_SUCCESS;
}

static cndevRet_t instance_destroy(int card, int id) {
    if (number(card, "busy", 0))
        return CNDEV_ERROR_IN_USE;
    point();
    file_remove("card%d/usage/%d", card, id);
    file_remove("dev/cambricon-caps/cap_dev%d_mi%d", card, id);
    file_remove("card%d/instances/%d", card, id);
    point();
    return CNDEV_SUCCESS;
}

EXPORT cndevRet_t cndevDestroySMluInstanceByHandle(cndevMluInstance_t handle) {
    cndevDevice_t device = (handle & 0xff) + HANDLE_BASE;
    SMLU(1);
    if (!instance_read(card, handle >> 8).exists)
        return CNDEV_ERROR_INVALID_ARGUMENT;
    return instance_destroy(card, handle >> 8);
}

EXPORT cndevRet_t cndevDestroySMluInstanceByInstanceName(cndevDevice_t device, char *name) {
    SMLU(1);
    for (int id = 1; *name && id <= MAX_INSTANCES; id++)
        if (strcmp(instance_read(card, id).name, name) == 0)
            return instance_destroy(card, id);
    return CNDEV_ERROR_INVALID_ARGUMENT;
}

EXPORT cndevRet_t cndevGetAllSMluInstanceInfo(int32_t *count, cndevSMluInfo_t *infos, cndevDevice_t device) {
    SMLU(infos->version == CNDEV_VERSION_6);
    int found = 0;
    for (int id = 1; id <= MAX_INSTANCES; id++) {
        struct instance one = instance_read(card, id);
        if (!one.exists)
            continue;
        if (found++ >= *count)
            continue;
        cndevSMluInfo_t *info = &infos[found - 1];
        memset(info, 0, sizeof *info);
        info->profileId = one.profile;
        info->instanceId = id;
        info->mluQuota[CNDEV_SMLU_MAX] = one.quota;
        info->mluQuota[CNDEV_SMLU_USAGE] = one.percent;
        info->memorySize[CNDEV_SMLU_MAX] = one.bytes;
        info->memorySize[CNDEV_SMLU_USAGE] = one.used;
        snprintf(info->profileName, sizeof info->profileName, "%up.%lumb", one.quota, one.bytes >> 20);
        if (!number(card, "nameless", 0))
            snprintf(info->instanceName, sizeof info->instanceName, "%s", one.name);
        snprintf(info->devNodeName, sizeof info->devNodeName, "/dev/cambricon-caps/cap_dev%d_mi%d", card, id);
    }
    int space = *count;
    *count = found;
    return found > space ? CNDEV_ERROR_INSUFFICIENT_SPACE : CNDEV_SUCCESS;
}
