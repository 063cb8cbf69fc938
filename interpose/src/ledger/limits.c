/*
 * Reads the limits: strictly from the file of the mounted folder, or from HAMi's environment variables where there is
 * no folder. What cannot be read denies all memory, since somebody has set a limit there.
 */
#include "ledger/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HAMI_ROOT "/usr/local/vgpu"

/* ---- the file: docs/reference/interposer.md has the format ---- */

struct cursor {
    const char *at;
    const char *end;
};

/* Each of these consumes what it is named for and returns true, or returns false. */

static bool limits_take(struct cursor *c, const char *text) {
    size_t length = strlen(text);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, text, length) != 0) {
        return false;
    }
    c->at += length;
    return true;
}

/* A decimal number without sign or leading zeros, at most `max`. */
static bool limits_take_number(struct cursor *c, uint64_t max, uint64_t *value) {
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

/* A UUID: printable characters up to the next space. */
static bool limits_take_uuid(struct cursor *c, char uuid[HAMI_UUID_BYTES]) {
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

/* A line of `key` and a number. */
static bool limits_take_number_line(struct cursor *c, const char *key, uint64_t max, uint64_t *value) {
    return limits_take(c, key) && limits_take_number(c, max, value) && limits_take(c, "\n");
}

/* A line of `key` and one of three words, whose number goes to *found. */
static bool limits_take_choice_line(struct cursor *c, const char *key, const char *const words[3], unsigned *found) {
    bool taken = limits_take(c, key);
    for (*found = 0; taken && *found < 3 && !limits_take(c, words[*found]);) {
        ++*found;
    }
    return taken && *found < 3 && limits_take(c, "\n");
}

/* The rest of a line "device <uuid> <memory> <physical> <cores>". */
static bool limits_take_device(struct cursor *c, struct hami_limits *limits) {
    uint64_t cores = 0;
    if (limits->device_count == HAMI_DEVICES) {
        return false;
    }
    struct hami_device_limit *device = &limits->devices[limits->device_count];
    bool ok = limits_take_uuid(c, device->uuid) && limits_take(c, " ") &&
              limits_take_number(c, UINT64_MAX, &device->memory_bytes) && limits_take(c, " ") &&
              limits_take_number(c, UINT64_MAX, &device->physical_bytes) &&
              limits_take_number_line(c, " ", 100, &cores);
    for (unsigned i = 0; ok && i < limits->device_count; i++) {
        ok = strcmp(limits->devices[i].uuid, device->uuid) != 0;
    }
    device->cores = (uint32_t)cores;
    limits->device_count++;
    return ok;
}

unsigned hami_limits_parse(const char *text, size_t length, struct hami_limits *limits) {
    static const char *const modes[] = {"off", "observe", "enforce"};      /* enum hami_mode */
    static const char *const policies[] = {"default", "force", "disable"}; /* enum hami_core_policy */
    struct cursor c = {text, text + length};
    uint64_t priority = 0;
    unsigned mode = 0, policy = 0;
    memset(limits, 0, sizeof *limits);
    unsigned wrong_line = !limits_take(&c, "hami-limits 1\n")                                            ? 1
                          : !limits_take_number_line(&c, "generation ", UINT64_MAX, &limits->generation) ? 2
                          : !limits_take_choice_line(&c, "mode ", modes, &mode)                          ? 3
                          : !limits_take_choice_line(&c, "core_policy ", policies, &policy)              ? 4
                          : !limits_take_number_line(&c, "priority ", 9, &priority)                      ? 5
                                                                                                         : 0;
    if (wrong_line != 0) {
        return wrong_line;
    }
    limits->mode = (enum hami_mode)mode;
    limits->core_policy = (enum hami_core_policy)policy;
    limits->priority = (uint32_t)priority;
    while (limits_take(&c, "device ")) {
        if (!limits_take_device(&c, limits)) {
            return 5 + limits->device_count + (limits->device_count == 0);
        }
    }
    bool ended = limits->device_count > 0 && limits_take(&c, "end\n") && c.at == c.end;
    return ended ? 0 : 6 + limits->device_count;
}

/* Reads a file of at most `size` bytes; returns its length, or -1. */
static ssize_t limits_read_file(const char *path, char *buffer, size_t size) {
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

static void limits_deny(struct hami_limits *limits, enum hami_reason reason) {
    memset(limits, 0, sizeof *limits);
    limits->mode = HAMI_MODE_ENFORCE;
    limits->denied = reason;
}

static void limits_load_file(const char *path, struct hami_limits *limits) {
    char *text = malloc(HAMI_LIMITS_FILE_MAX + 1);
    ssize_t length = text == NULL ? -1 : limits_read_file(path, text, HAMI_LIMITS_FILE_MAX + 1);
    if (length < 0) {
        limits_deny(limits, HAMI_REASON_NO_LIMITS);
    } else if (length > HAMI_LIMITS_FILE_MAX || hami_limits_parse(text, (size_t)length, limits) != 0) {
        limits_deny(limits, HAMI_REASON_BAD_LIMITS);
    }
    free(text);
}

/* ---- environment variables: HAMi's names and forms ---- */

static const char *variable_skip_blanks(const char *text) {
    return text + strspn(text, " \t");
}

/* Consumes a unit, k, m, g or t, alone or with "i", "b" or "ib". Returns it as a power of 1024, or -1 for other text.
 */
static int variable_take_unit(const char **text) {
    const char *unit = *text, *letters = "kmgt";
    const char *found = *unit == '\0' ? NULL : strchr(letters, *unit | 0x20);
    int power = found == NULL ? 0 : (int)(found - letters) + 1;
    unit += found != NULL;
    unit += found != NULL && (*unit | 0x20) == 'i';
    unit += (*unit | 0x20) == 'b';
    bool ended = *variable_skip_blanks(unit) == '\0';
    *text = unit;
    return ended ? power : -1;
}

/*
 * The number that a variable sets: an integer by C rules, as in HAMi, then a unit or, for a percentage, "%". An empty
 * variable says 0. False: the text is something else, or the number has more than 64 bits.
 */
static bool variable_parse(const char *text, bool percent, uint64_t *value) {
    char *end = NULL;
    *value = 0;
    text = text == NULL ? "" : variable_skip_blanks(text);
    if (*text == '\0') {
        return true;
    }
    if (*text < '0' || *text > '9') {
        return false;
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    const char *rest = variable_skip_blanks(end);
    rest += percent && *rest == '%';
    int power = percent ? (*variable_skip_blanks(rest) == '\0' ? 0 : -1) : variable_take_unit(&rest);
    if (errno != 0 || power < 0 || number > UINT64_MAX >> 10 * power) {
        return false;
    }
    *value = (uint64_t)number << 10 * power;
    return true;
}

/* What the variables read so far say. */
struct variables {
    bool set; /* one of them is set */
    bool bad; /* one of them cannot be parsed */
};

static uint64_t variable_read(const char *name, bool percent, struct variables *variables) {
    uint64_t value = 0;
    const char *text = secure_getenv(name);
    variables->set = variables->set || text != NULL;
    variables->bad = !variable_parse(text, percent, &value) || variables->bad;
    return value;
}

/* The variable NAME_<i>, or NAME if that is not set or 0, as in HAMi. */
static uint64_t variable_numbered(const char *name, unsigned i, bool percent, struct variables *variables) {
    char own[64];
    (void)snprintf(own, sizeof own, "%s_%u", name, i);
    uint64_t value = variable_read(own, percent, variables);
    return value != 0 ? value : variable_read(name, percent, variables);
}

static enum hami_core_policy variable_policy(void) {
    const char *text = secure_getenv("GPU_CORE_UTILIZATION_POLICY");
    if (text != NULL && strcasecmp(text, "force") == 0) {
        return HAMI_CORE_FORCE;
    }
    return text != NULL && strcasecmp(text, "disable") == 0 ? HAMI_CORE_DISABLE : HAMI_CORE_DEFAULT;
}

static void limits_load_environment(struct hami_limits *limits) {
    struct variables variables = {false, false};
    memset(limits, 0, sizeof *limits);
    limits->from_environment = true;
    limits->core_policy = variable_policy();
    limits->priority = 1;
    const char *priority = secure_getenv("CUDA_TASK_PRIORITY");
    if (priority != NULL && priority[0] >= '0' && priority[0] <= '9' && priority[1] == '\0') {
        limits->priority = (uint32_t)(priority[0] - '0');
    }
    limits->device_count = HAMI_DEVICES;
    for (unsigned i = 0; i < HAMI_DEVICES; i++) {
        struct hami_device_limit *device = &limits->devices[i];
        device->memory_bytes = variable_numbered("CUDA_DEVICE_MEMORY_LIMIT", i, false, &variables);
        device->physical_bytes = device->memory_bytes;
        uint64_t cores = variable_numbered("CUDA_DEVICE_SM_LIMIT", i, true, &variables);
        device->cores = cores > 100 ? 100 : (uint32_t)cores;
    }
    limits->mode = variables.set ? HAMI_MODE_ENFORCE : HAMI_MODE_OFF;
    if (variables.bad) {
        limits_deny(limits, HAMI_REASON_BAD_LIMITS);
        limits->from_environment = true;
    }
}

static void limits_path(char out[4096], const char *root, const char *name) {
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
        limits_path(source->limits_path, root, "limits/limits");
        limits_path(source->region_path, root, "region/vgpu.cache");
        return;
    }
    const char *path = secure_getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    bool fits = path == NULL || strlen(path) < sizeof source->region_path;
    (void)strcpy(source->region_path, path == NULL ? "" : fits ? path : "/"); /* "/" is no region: denies */
}

/* Divides scaled memory into the part on the device and the rest, which may lie in host memory. */
static void limits_divide(struct hami_device_limit *device) {
    bool scaled = device->physical_bytes != 0 && device->physical_bytes < device->memory_bytes;
    device->device_bytes = scaled ? device->physical_bytes : device->memory_bytes;
    device->host_bytes = device->memory_bytes - device->device_bytes;
}

void hami_limits_load(const struct hami_limits_source *source, struct hami_limits *limits) {
    if (source->file) {
        limits_load_file(source->limits_path, limits);
    } else {
        limits_load_environment(limits);
    }
    for (unsigned i = 0; i < limits->device_count; i++) {
        limits_divide(&limits->devices[i]);
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
