/* Limits: the file of the mounted folder, strictly; HAMi's environment variables where there is no folder. */
#include "ledger/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HAMI_ROOT "/usr/local/vgpu"

struct cursor {
    const char *at;
    const char *end;
};

/* Consumes `word` if the text goes on with it. */
static bool take_word(struct cursor *c, const char *word) {
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) {
        return false;
    }
    c->at += length;
    return true;
}

/* Consumes a decimal number without sign or leading zeros, at most `max`. */
static bool take_number(struct cursor *c, uint64_t max, uint64_t *value) {
    const char *start = c->at;
    uint64_t found = 0;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9') {
        uint64_t digit = (uint64_t)(*c->at - '0');
        if (found > (UINT64_MAX - digit) / 10) {
            return false;
        }
        found = found * 10 + digit;
        c->at++;
    }
    bool padded = c->at - start > 1 && *start == '0';
    *value = found;
    return c->at > start && !padded && found <= max;
}

/* Consumes a UUID: printable characters up to the next space. */
static bool take_uuid(struct cursor *c, char uuid[HAMI_UUID_BYTES]) {
    size_t length = 0;
    while (c->at + length < c->end && c->at[length] > ' ' && c->at[length] <= '~') {
        length++;
    }
    if (length == 0 || length >= HAMI_UUID_BYTES) {
        return false;
    }
    memcpy(uuid, c->at, length);
    uuid[length] = '\0';
    c->at += length;
    return true;
}

/* Consumes one of three words and returns its number, or -1. */
static int take_one_of(struct cursor *c, const char *const words[3]) {
    int found = 2;
    while (found >= 0 && !take_word(c, words[found])) {
        found--;
    }
    return found;
}

/* Consumes the rest of a line "device <uuid> <memory> <physical> <cores>". */
static bool take_device(struct cursor *c, struct hami_limits *limits) {
    uint64_t cores = 0;
    if (limits->device_count == HAMI_DEVICES) {
        return false;
    }
    struct hami_device_limit *device = &limits->devices[limits->device_count];
    bool ok = take_uuid(c, device->uuid) && take_word(c, " ") && take_number(c, UINT64_MAX, &device->memory_bytes) &&
              take_word(c, " ") && take_number(c, UINT64_MAX, &device->physical_bytes) && take_word(c, " ") &&
              take_number(c, 100, &cores) && take_word(c, "\n");
    for (unsigned i = 0; ok && i < limits->device_count; i++) {
        ok = strcmp(limits->devices[i].uuid, device->uuid) != 0;
    }
    device->cores = (uint32_t)cores;
    limits->device_count++;
    return ok;
}

unsigned hami_limits_parse(const char *text, size_t length, struct hami_limits *limits) {
    static const char *const modes[] = {"off", "observe", "enforce"}, *const policies[] = {"default", "force",
                                                                                           "disable"};
    struct cursor c = {text, text + length};
    uint64_t priority = 0;
    memset(limits, 0, sizeof *limits);
    if (!take_word(&c, "hami-limits 1\n")) {
        return 1;
    }
    if (!take_word(&c, "generation ") || !take_number(&c, UINT64_MAX, &limits->generation) || !take_word(&c, "\n")) {
        return 2;
    }
    int mode = take_word(&c, "mode ") ? take_one_of(&c, modes) : -1;
    if (mode < 0 || !take_word(&c, "\n")) {
        return 3;
    }
    int policy = take_word(&c, "core_policy ") ? take_one_of(&c, policies) : -1;
    if (policy < 0 || !take_word(&c, "\n")) {
        return 4;
    }
    limits->mode = (enum hami_mode)mode;
    limits->core_policy = (enum hami_core_policy)policy;
    if (!take_word(&c, "priority ") || !take_number(&c, 9, &priority) || !take_word(&c, "\n")) {
        return 5;
    }
    limits->priority = (uint32_t)priority;
    while (take_word(&c, "device ")) {
        if (!take_device(&c, limits)) {
            return 5 + limits->device_count + (limits->device_count == 0);
        }
    }
    bool ended = limits->device_count > 0 && take_word(&c, "end\n") && c.at == c.end;
    return ended ? 0 : 6 + limits->device_count;
}

/* Reads the whole file, at most one byte more than is allowed. Returns its length or -1. */
static ssize_t read_file(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    size_t length = 0;
    ssize_t got = 1;
    while (length < size && got > 0) {
        got = read(fd, buffer + length, size - length);
        if (got < 0 && errno == EINTR) {
            got = 1;
        } else if (got > 0) {
            length += (size_t)got;
        }
    }
    (void)close(fd);
    return got < 0 ? -1 : (ssize_t)length;
}

static void deny(struct hami_limits *limits, enum hami_reason reason) {
    memset(limits, 0, sizeof *limits);
    limits->mode = HAMI_MODE_ENFORCE;
    limits->denied = reason;
}

static void load_file(const char *path, struct hami_limits *limits) {
    char *text = malloc(HAMI_LIMITS_FILE_MAX + 1);
    ssize_t length = text == NULL ? -1 : read_file(path, text, HAMI_LIMITS_FILE_MAX + 1);
    if (length < 0) {
        deny(limits, HAMI_REASON_NO_LIMITS);
    } else if (length > HAMI_LIMITS_FILE_MAX || hami_limits_parse(text, (size_t)length, limits) != 0) {
        deny(limits, HAMI_REASON_BAD_LIMITS);
    }
    free(text);
}

static const char *skip_blanks(const char *text) {
    return text + strspn(text, " \t");
}

/* A unit behind a number, as a power of 1024: k, m, g or t, alone or with "i", "b" or "ib". -1: none of these. */
static int take_unit(const char **text) {
    const char *unit = *text, *letters = "kmgt";
    const char *found = *unit == '\0' ? NULL : strchr(letters, *unit | 0x20);
    int power = found == NULL ? 0 : (int)(found - letters) + 1;
    unit += found != NULL;
    unit += found != NULL && (*unit | 0x20) == 'i';
    unit += (*unit | 0x20) == 'b';
    bool ended = *skip_blanks(unit) == '\0';
    *text = unit;
    return ended ? power : -1;
}

/*
 * The number that a variable sets: an integer by C rules, as in HAMi, and a unit or, for a percentage, "%". 0 where it
 * is not set or empty. False: it says something else, or more than 64 bits hold.
 */
static bool parse_variable(const char *text, bool percent, uint64_t *value) {
    char *end = NULL;
    *value = 0;
    text = text == NULL ? "" : skip_blanks(text);
    if (*text == '\0') {
        return true;
    }
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    const char *rest = skip_blanks(end);
    rest += percent && *rest == '%';
    int power = percent ? (*skip_blanks(rest) == '\0' ? 0 : -1) : take_unit(&rest);
    if (errno != 0 || power < 0 || number > UINT64_MAX >> 10 * power) {
        return false;
    }
    *value = (uint64_t)number << 10 * power;
    return true;
}

/* What was found in variables so far. */
struct variables {
    bool set; /* any is */
    bool bad; /* any cannot be read */
};

static uint64_t read_variable(const char *name, bool percent, struct variables *variables) {
    uint64_t value = 0;
    const char *text = secure_getenv(name);
    variables->set = variables->set || text != NULL;
    variables->bad = !parse_variable(text, percent, &value) || variables->bad;
    return value;
}

/* NAME_<i>, or NAME where that is not set or 0, as in HAMi. */
static uint64_t numbered(const char *name, unsigned i, bool percent, struct variables *variables) {
    char own[64];
    (void)snprintf(own, sizeof own, "%s_%u", name, i);
    uint64_t value = read_variable(own, percent, variables);
    return value != 0 ? value : read_variable(name, percent, variables);
}

static enum hami_core_policy policy_variable(void) {
    const char *text = secure_getenv("GPU_CORE_UTILIZATION_POLICY");
    if (text != NULL && strcasecmp(text, "force") == 0) {
        return HAMI_CORE_FORCE;
    }
    return text != NULL && strcasecmp(text, "disable") == 0 ? HAMI_CORE_DISABLE : HAMI_CORE_DEFAULT;
}

/* What cannot be read denies: it is a limit that somebody has set. */
static void load_environment(struct hami_limits *limits) {
    struct variables variables = {false, false};
    memset(limits, 0, sizeof *limits);
    limits->from_environment = true;
    limits->core_policy = policy_variable();
    limits->priority = 1;
    const char *priority = secure_getenv("CUDA_TASK_PRIORITY");
    if (priority != NULL && priority[0] >= '0' && priority[0] <= '9' && priority[1] == '\0') {
        limits->priority = (uint32_t)(priority[0] - '0');
    }
    limits->device_count = HAMI_DEVICES;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct hami_device_limit *device = &limits->devices[i];
        device->memory_bytes = numbered("CUDA_DEVICE_MEMORY_LIMIT", i, false, &variables);
        device->physical_bytes = device->memory_bytes;
        uint64_t cores = numbered("CUDA_DEVICE_SM_LIMIT", i, true, &variables);
        device->cores = cores > 100 ? 100 : (uint32_t)cores;
    }
    limits->mode = variables.set ? HAMI_MODE_ENFORCE : HAMI_MODE_OFF;
    if (variables.bad) {
        deny(limits, HAMI_REASON_BAD_LIMITS);
        limits->from_environment = true;
    }
}

static void under(char out[4096], const char *root, const char *name) {
    int length = snprintf(out, 4096, "%s/%s", root, name);
    if (length < 0 || length >= 4096) {
        out[0] = '\0';
    }
}

void hami_limits_locate(struct hami_limits_source *source) {
    struct stat found;
    const char *root = HAMI_ROOT;
    memset(source, 0, sizeof *source);
    if (stat(HAMI_ROOT "/limits", &found) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        root = secure_getenv("HAMI_VGPU_ROOT");
    }
    if (root != NULL && *root != '\0') {
        source->file = true;
        under(source->limits_path, root, "limits/limits");
        under(source->region_path, root, "region/vgpu.cache");
        return;
    }
    const char *path = secure_getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    bool fits = path == NULL || strlen(path) < sizeof source->region_path;
    (void)strcpy(source->region_path, path == NULL ? "" : fits ? path : "/"); /* no file: denies */
}

/* Scaled memory is divided into what the device has to give and the rest, for which host memory may stand in. */
static void divide(struct hami_device_limit *device) {
    bool scaled = device->physical_bytes != 0 && device->physical_bytes < device->memory_bytes;
    device->device_bytes = scaled ? device->physical_bytes : device->memory_bytes;
    device->host_bytes = device->memory_bytes - device->device_bytes;
}

void hami_limits_load(const struct hami_limits_source *source, struct hami_limits *limits) {
    if (source->file) {
        load_file(source->limits_path, limits);
    } else {
        load_environment(limits);
    }
    for (unsigned i = 0; i < limits->device_count; i++) {
        divide(&limits->devices[i]);
    }
}

int hami_limits_index(const struct hami_limits *limits, const char *uuid) {
    enum { PREFIX = 4 };
    const char *digits = strlen(uuid) > PREFIX ? uuid + PREFIX : uuid;
    for (unsigned i = 0; i < limits->device_count; i++) {
        const char *ours = limits->devices[i].uuid;
        if (strcasecmp(strlen(ours) > PREFIX ? ours + PREFIX : ours, digits) == 0) {
            return (int)i;
        }
    }
    return -1;
}
