/*
 * negative STATE: calls functions with arguments that make no sense and prints their answers. STATE: "none" (CUDA and
 * NVML are not started), "started" (no context), "context", "thread" (calls come from a thread without a context),
 * "ended" (NVML was started, asked and shut down).
 *
 * A line of input is "FUNCTION VARIANT KINDS". KINDS has a letter for each argument: p is a pointer, i an integer, b 64
 * bytes by value. VARIANT says what they are:
 *
 *   null    NULL and 0
 *   zero    pointers to zeroed memory, and 0
 *   one     pointers to zeroed memory, and 1
 *   handle  an NVML handle, then NULL
 *   valid   an NVML handle, then pointers to memory that begins with 64: room for a list of that length
 *
 * A line of output has the function, the status, and for each pointer whether something was written there; after an
 * error also a checksum of it.
 */
#include "driver.h"

enum { ARGUMENTS = 12, ROOM = 4096, LISTED = 64 };

static unsigned char room[ARGUMENTS][ROOM];
static void *cuda, *nvml;
static nvmlDevice card;

static void show(const unsigned char *content, int status, int first) {
    uint32_t sum = 2166136261u;
    int changed = content[0] != first;
    for (unsigned i = 0; i < ROOM; i++) {
        changed |= i > 0 && content[i] != 0;
        sum = (sum ^ content[i]) * 16777619u;
    }
    if (changed && status != 0)
        printf("w%08x", sum);
    else
        printf("%c", changed ? 'w' : '.');
}

static void call(const char *name, const char *variant, const char *kinds) {
    uint64_t argument[ARGUMENTS] = {0};
    uint64_t (*function)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                         uint64_t, uint64_t, uint64_t) = dlsym(strncmp(name, "nvml", 4) == 0 ? nvml : cuda, name);
    if (function == NULL)
        fail(name, 0);
    memset(room, 0, sizeof room);
    for (unsigned i = 0; kinds[i] != '\0' && i < ARGUMENTS; i++) {
        if (kinds[i] == 'p' && strcmp(variant, "null") != 0)
            argument[i] = (uint64_t)(uintptr_t)room[i];
        else if (kinds[i] == 'i')
            argument[i] = strcmp(variant, "one") == 0;
    }
    int first = strcmp(variant, "valid") == 0 ? LISTED : 0;
    for (unsigned i = 0; i < ARGUMENTS; i++)
        room[i][0] = (unsigned char)first;
    if (strcmp(variant, "handle") == 0)
        memset(argument, 0, sizeof argument);
    if (strcmp(variant, "handle") == 0 || first != 0)
        argument[0] = (uint64_t)(uintptr_t)card;
    int status = 0;
    if (strcmp(kinds, "pbi") == 0) {
        struct hami_bytes64 bytes;
        memset(&bytes, strcmp(variant, "one") == 0, sizeof bytes);
        int (*with_bytes)(void *, struct hami_bytes64, uint32_t) = dlsym(cuda, name);
        status = with_bytes((void *)(uintptr_t)argument[0], bytes, (uint32_t)argument[2]);
    } else if (strchr(kinds, 'b') != NULL) {
        fail(name, 0);
    } else {
        status = (int)function(argument[0], argument[1], argument[2], argument[3], argument[4], argument[5],
                               argument[6], argument[7], argument[8], argument[9], argument[10], argument[11]);
    }
    printf("%s %s %d ", name, variant, status);
    for (unsigned i = 0; kinds[i] != '\0' && i < ARGUMENTS; i++) {
        if (kinds[i] == 'p')
            show(room[i], status, first);
        else
            printf("-");
    }
    printf("\n");
    fflush(stdout);
}

static void *calls(void *data) {
    char line[256], name[128], variant[16], kinds[32];
    (void)data;
    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "%127s %15s %31s", name, variant, kinds) != 3)
            fail(line, 0);
        call(name, variant, kinds);
    }
    return NULL;
}

int main(int argc, char **argv) {
    const char *state = argc > 1 ? argv[1] : "none";
    cuda = dlopen("libcuda.so.1", RTLD_NOW);
    nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (strcmp(state, "none") != 0) {
        start_driver();
        card = card_at(0);
    }
    if (strcmp(state, "ended") == 0) {
        (void)memory_of(card); /* whose card it is, is known */
        CHECK(CALL(nvmlShutdown));
    }
    if (strcmp(state, "context") == 0 || strcmp(state, "thread") == 0)
        use_device(0);
    say("ready");
    if (strcmp(state, "thread") == 0)
        run_threads(1, calls, NULL, 0);
    else
        (void)calls(NULL);
    return 0;
}
