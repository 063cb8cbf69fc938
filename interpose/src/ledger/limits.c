/*
 * Reads the limits: strictly from the file of the mounted folder, or from HAMi's environment variables where there is
 * no folder. What cannot be read denies all memory, since somebody has set a limit there.
 */
#include "ledger/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HAMI_ROOT "/usr/local/vgpu"

/* ---- the file: docs/reference/interposer.md has the format ---- */

/*
 * Whether the text at *at begins with these values, printed; if so goes on behind them. A number that the file writes
 * with a sign, with leading zeros or with more than 64 bits reads as a value that prints in another way.
 */
__attribute__((format(printf, 2, 3))) static bool limits_take(const char **at, const char *format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    bool same = strncmp(*at, line, (size_t)length) == 0;
    *at += same ? length : 0;
    return same;
}

/* Index of a word among three; 3: it is none of them. */
static unsigned limits_choice(const char *const words[3], const char *word) {
    unsigned i = 0;
    while (i < 3 && strcmp(words[i], word) != 0) {
        i++;
    }
    return i;
}

static bool limits_take_head(const char **at, struct hami_limits *limits) {
    static const char *const modes[] = {"off", "observe", "enforce"};      /* enum hami_mode */
    static const char *const policies[] = {"default", "force", "disable"}; /* enum hami_core_policy */
    char mode[8] = "", policy[8] = "";
    (void)sscanf(*at, "hami-limits 1 generation %" SCNu64 " mode %7s core_policy %7s priority %" SCNu32,
                 &limits->generation, mode, policy, &limits->priority);
    limits->mode = (enum hami_mode)limits_choice(modes, mode);
    limits->core_policy = (enum hami_core_policy)limits_choice(policies, policy);
    return limits->mode <= HAMI_MODE_ENFORCE && limits->core_policy <= HAMI_CORE_DISABLE && limits->priority <= 9 &&
           limits_take(at, "hami-limits 1\ngeneration %" PRIu64 "\nmode %s\ncore_policy %s\npriority %" PRIu32 "\n",
                       limits->generation, mode, policy, limits->priority);
}

/* A line "device <uuid> <memory> <physical> <cores>", whose UUID is of printable characters and not yet in `limits`. */
static bool limits_take_device(const char **at, struct hami_limits *limits) {
    struct hami_device_limit *device = &limits->devices[limits->device_count];
    bool ok = sscanf(*at, "device %95s %" SCNu64 " %" SCNu64 " %" SCNu32, device->uuid, &device->memory_bytes,
                     &device->physical_bytes, &device->cores) == 4;
    for (const char *c = device->uuid; ok && *c != '\0'; c++) {
        ok = *c > ' ' && *c <= '~';
    }
    for (unsigned i = 0; ok && i < limits->device_count; i++) {
        ok = strcmp(limits->devices[i].uuid, device->uuid) != 0;
    }
    limits->device_count += ok;
    return ok && device->cores <= 100 &&
           limits_take(at, "device %s %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", device->uuid, device->memory_bytes,
                       device->physical_bytes, device->cores);
}

/* Parses a file's text. False: some line is not as the format wants it. */
static bool limits_parse(const char *text, struct hami_limits *limits) {
    memset(limits, 0, sizeof *limits);
    bool taken = limits_take_head(&text, limits);
    while (taken && limits->device_count < HAMI_DEVICES && limits_take_device(&text, limits)) {
    }
    return taken && limits->device_count > 0 && strcmp(text, "end\n") == 0;
}

/* Reads at most `size` bytes of a file; returns how many, or -1. */
static ssize_t limits_read_file(const char *path, char *buffer, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        return -1;
    }
    size_t length = 0;
    ssize_t got = 1;
    while (length < size && got > 0) {
        got = TEMP_FAILURE_RETRY(read(fd, buffer + length, size - length));
        length += got > 0 ? (size_t)got : 0;
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
    char *text = calloc(1, HAMI_LIMITS_FILE_MAX + 2); /* one for a file that is too long, one for the end of the text */
    ssize_t length = text == NULL ? -1 : limits_read_file(path, text, HAMI_LIMITS_FILE_MAX + 1);
    if (length < 0) {
        limits_deny(limits, HAMI_REASON_NO_LIMITS);
    } else if (length > HAMI_LIMITS_FILE_MAX || strlen(text) != (size_t)length || !limits_parse(text, limits)) {
        limits_deny(limits, HAMI_REASON_BAD_LIMITS);
    }
    free(text);
}

/* ---- environment variables: HAMi's names and forms ---- */

static const char *variable_skip_blanks(const char *text) {
    return text + strspn(text, " \t");
}

/* The power of 1024 of a unit: k, m, g or t, alone or with "i", "b" or "ib" behind it; "b" or nothing is 0. -1: other
 * text. */
static int variable_power(const char *unit) {
    const char *letters = "kmgt";
    const char *found = *unit == '\0' ? NULL : strchr(letters, *unit | 0x20);
    unit += found != NULL;
    unit += found != NULL && (*unit | 0x20) == 'i';
    unit += (*unit | 0x20) == 'b';
    return *variable_skip_blanks(unit) != '\0' ? -1 : found == NULL ? 0 : (int)(found - letters) + 1;
}

/*
 * The number that a variable sets: an integer by C rules, as in HAMi, then a unit or, for a percentage, "%". An empty
 * variable says 0. False: the text is something else, or the number has more than 64 bits.
 */
static bool variable_parse(const char *text, bool percent, uint64_t *value) {
    char *end = NULL;
    text = variable_skip_blanks(text);
    if (*text == '\0') {
        return true;
    }
    errno = 0;
    unsigned long long number = *text >= '0' && *text <= '9' ? strtoull(text, &end, 0) : 0;
    const char *rest = end == NULL ? text : variable_skip_blanks(end);
    rest += percent && *rest == '%';
    int power = percent ? 0 - (*variable_skip_blanks(rest) != '\0') : variable_power(rest);
    if (end == NULL || errno != 0 || power < 0 || number > UINT64_MAX >> 10 * power) {
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
    variables->bad = variables->bad || (text != NULL && !variable_parse(text, percent, &value));
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
