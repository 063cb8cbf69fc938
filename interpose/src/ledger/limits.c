/*
 * Reads the limits, strictly: from the limits file or, where no folder is mounted, from HAMi's environment variables. A
 * file or variable that cannot be parsed denies all memory, since somebody has meant to set a limit there.
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
 * Prints the values that sscanf has read, and returns whether the file's text at *at is the same. If so, moves *at
 * behind it. A number with a sign, leading zeros or more than 64 bits, which sscanf accepts, prints in another way.
 */
__attribute__((format(printf, 2, 3))) static bool limits_match(const char **at, const char *format, ...) {
    char line[256];
    va_list values;
    va_start(values, format);
    int length = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    bool same = strncmp(*at, line, (size_t)length) == 0;
    *at += same ? length : 0;
    return same;
}

static const char *const mode_names[] = {"off", "observe", "enforce"};     /* in the order of enum hami_mode */
static const char *const policy_names[] = {"default", "force", "disable"}; /* in the order of enum hami_core_policy */

/* Index of a word among three; 3 if it is none of them. `compare` is strcmp or strcasecmp. */
static unsigned limits_choice(const char *const words[3], const char *word,
                              int (*compare)(const char *, const char *)) {
    unsigned i = 0;
    while (i < 3 && compare(words[i], word) != 0) {
        i++;
    }
    return i;
}

static bool limits_read_head(const char **at, struct hami_limits *limits) {
    char mode[8] = "", policy[8] = "";
    (void)sscanf(*at, "hami-limits 1 generation %" SCNu64 " mode %7s core_policy %7s priority %" SCNu32,
                 &limits->generation, mode, policy, &limits->priority);
    limits->mode = (enum hami_mode)limits_choice(mode_names, mode, strcmp);
    limits->core_policy = (enum hami_core_policy)limits_choice(policy_names, policy, strcmp);
    return limits->mode <= HAMI_MODE_ENFORCE && limits->core_policy <= HAMI_CORE_DISABLE && limits->priority <= 9 &&
           limits_match(at, "hami-limits 1\ngeneration %" PRIu64 "\nmode %s\ncore_policy %s\npriority %" PRIu32 "\n",
                        limits->generation, mode, policy, limits->priority);
}

/* Reads a line "device <uuid> <memory> <physical> <cores>". The UUID must be printable and not yet in `limits`. */
static bool limits_read_device(const char **at, struct hami_limits *limits) {
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
           limits_match(at, "device %s %" PRIu64 " %" PRIu64 " %" PRIu32 "\n", device->uuid, device->memory_bytes,
                        device->physical_bytes, device->cores);
}

/* Parses the text of a limits file. Returns false unless every line has exactly the documented format. */
static bool limits_parse(const char *text, struct hami_limits *limits) {
    bool right = limits_read_head(&text, limits);
    while (right && limits->device_count < HAMI_DEVICES && limits_read_device(&text, limits)) {
    }
    return right && limits->device_count > 0 && strcmp(text, "end\n") == 0;
}

static void limits_deny(struct hami_limits *limits, enum hami_reason reason) {
    memset(limits, 0, sizeof *limits);
    limits->mode = HAMI_MODE_ENFORCE;
    limits->denied = reason;
}

/* One read(2) returns a regular file whole. A text that was cut lacks the line "end", so it denies all memory. */
static void limits_load_file(const char *path, struct hami_limits *limits) {
    char *text = calloc(1, HAMI_LIMITS_FILE_MAX + 2); /* 1 byte to notice a longer file, 1 for the final NUL */
    int fd = text == NULL ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t length = fd < 0 ? -1 : TEMP_FAILURE_RETRY(read(fd, text, HAMI_LIMITS_FILE_MAX + 1));
    if (fd >= 0) {
        (void)close(fd);
    }
    if (length < 0) {
        limits_deny(limits, HAMI_REASON_NO_LIMITS);
    } else if (length > HAMI_LIMITS_FILE_MAX || strlen(text) != (size_t)length || !limits_parse(text, limits)) {
        limits_deny(limits, HAMI_REASON_BAD_LIMITS);
    }
    free(text);
}

/* ---- environment variables, with HAMi's names and formats ---- */

static const char *variable_skip_blanks(const char *text) {
    return text + strspn(text, " \t");
}

/*
 * The power of 1024 that a unit stands for: 1 for "k", "ki", "kb" and "kib" in any case, 2 for "m", 3 for "g", 4 for
 * "t", and 0 for "b" or "". Returns -1 for other text.
 */
static int variable_power(const char *unit) {
    const char *letters = "kmgt";
    const char *found = *unit == '\0' ? NULL : strchr(letters, *unit | 0x20);
    unit += found != NULL;
    unit += found != NULL && (*unit | 0x20) == 'i';
    unit += (*unit | 0x20) == 'b';
    return *variable_skip_blanks(unit) != '\0' ? -1 : found == NULL ? 0 : (int)(found - letters) + 1;
}

/*
 * Parses the value of a variable: an integer by C rules ("0x10" is 16, as in HAMi), then a unit or, if `percent`, "%".
 * An empty text leaves *value as it is. Returns false for other text, and for a number of more than 64 bits.
 */
static bool variable_parse(const char *text, bool percent, uint64_t *value) {
    char *end = NULL;
    text = variable_skip_blanks(text);
    if (*text < '0' || *text > '9') {
        return *text == '\0';
    }
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    const char *rest = variable_skip_blanks(end);
    rest += percent && *rest == '%';
    int power = percent ? 0 - (*variable_skip_blanks(rest) != '\0') : variable_power(rest);
    *value = power < 0 ? 0 : (uint64_t)number << 10 * power;
    return errno == 0 && power >= 0 && number <= UINT64_MAX >> 10 * power;
}

/* The variables that have been read so far. */
struct variables {
    bool set; /* at least one variable is set */
    bool bad; /* at least one variable cannot be parsed */
};

static uint64_t variable_read(const char *name, bool percent, struct variables *variables) {
    uint64_t value = 0;
    const char *text = secure_getenv(name);
    variables->set = variables->set || text != NULL;
    variables->bad = variables->bad || (text != NULL && !variable_parse(text, percent, &value));
    return value;
}

/* Value of the variable NAME_<i>. If it is not set, or 0, the value of the variable NAME, as in HAMi. */
static uint64_t variable_numbered(const char *name, unsigned i, bool percent, struct variables *variables) {
    char own[64];
    (void)snprintf(own, sizeof own, "%s_%u", name, i);
    uint64_t value = variable_read(own, percent, variables);
    return value != 0 ? value : variable_read(name, percent, variables);
}

static void limits_load_environment(struct hami_limits *limits) {
    struct variables variables = {false, false};
    const char *policy = secure_getenv("GPU_CORE_UTILIZATION_POLICY");
    unsigned choice = policy == NULL ? HAMI_CORE_DEFAULT : limits_choice(policy_names, policy, strcasecmp);
    limits->core_policy = choice > HAMI_CORE_DISABLE ? HAMI_CORE_DEFAULT : (enum hami_core_policy)choice;
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
    }
}

/* Cuts a path that is too long for its field. Opening that file fails later, which denies every allocation. */
void hami_limits_locate(struct hami_limits_source *source) {
    struct stat found;
    const char *root = HAMI_ROOT, *region = secure_getenv("CUDA_DEVICE_MEMORY_SHARED_CACHE");
    memset(source, 0, sizeof *source);
    if (stat(HAMI_ROOT "/limits", &found) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
        root = secure_getenv("HAMI_VGPU_ROOT");
    }
    source->file = root != NULL && *root != '\0';
    if (source->file) {
        (void)snprintf(source->limits_path, sizeof source->limits_path, "%s/limits/limits", root);
        (void)snprintf(source->region_path, sizeof source->region_path, "%s/region/vgpu.cache", root);
    } else if (region != NULL) {
        (void)snprintf(source->region_path, sizeof source->region_path, "%s", region);
    }
}

void hami_limits_load(const struct hami_limits_source *source, struct hami_limits *limits) {
    memset(limits, 0, sizeof *limits);
    if (source->file) {
        limits_load_file(source->limits_path, limits);
    } else {
        limits_load_environment(limits);
    }
    limits->from_environment = !source->file;
    for (unsigned i = 0; i < limits->device_count; i++) {
        struct hami_device_limit *device = &limits->devices[i];
        bool scaled = device->physical_bytes != 0 && device->physical_bytes < device->memory_bytes;
        device->device_bytes = scaled ? device->physical_bytes : device->memory_bytes;
        device->host_bytes = device->memory_bytes - device->device_bytes;
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
