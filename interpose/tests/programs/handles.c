/*
 * handles KIND ROUNDS THREADS: threads that take and give back what is known by handles, so that each handle is soon
 * given to another thread. KIND:
 *
 *   memory     physical memory that is not mapped
 *   contexts   contexts of two devices with some memory in them; at each twentieth step all threads stop and compare
 *   handed     where a thread gave back large memory, another one takes the first small allocation of these 2 MiB,
 *              which the first thread frees
 *   ipc        all threads ask for the handle of one address at the same moment; then it is freed
 *
 * Prints how many bytes more the container has in the end than at the start, 0 if nothing went wrong, and lives as long
 * as its input.
 */
#include "driver.h"

#include <stdbool.h>

enum { HELD = 64, OFTEN = 20, TAKEN = 4 }; /* TAKEN: MiB of each context */

static unsigned long rounds;
static bool contexts;
static pthread_barrier_t together;
static size_t at_start[2];
static _Atomic unsigned alive[2]; /* contexts of each device */

static void make(uint64_t *out, int device) {
    const struct hami_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
    CUdeviceptr address = 0;
    if (!contexts) {
        CHECK(cuMemCreate(out, 2 * MIB, &prop, 0));
        return;
    }
    CHECK(cuCtxCreate_v2((CUcontext *)out, 0, device));
    CHECK(cuMemAlloc_v2(&address, 2 * MIB));
    CHECK(cuMemAlloc_v2(&address, 4096));
}

static void end(uint64_t *thing) {
    CHECK(contexts ? cuCtxDestroy_v2((CUcontext)(uintptr_t)*thing) : cuMemRelease(*thing));
    *thing = 0;
}

/* Nothing is counted on either device but what the contexts have there. */
static void compare(void) {
    for (int device = 0; device < 2; device++) {
        use_device(device);
        size_t missing = at_start[device] - free_bytes();
        if (missing != alive[device] * TAKEN * MIB)
            fail("MiB are counted", (int)(missing / MIB));
    }
}

static void *make_and_end(void *data) {
    uint64_t number = (uintptr_t)data, random = number * 2654435761u + 1, held[HELD] = {0};
    int device = 0;
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        uint64_t *at = &held[contexts ? 0 : next_random(&random) >> 33 & (HELD - 1)];
        if (*at == 0)
            make(at, device = (int)(next_random(&random) >> 40 & 1));
        else
            end(at);
        alive[device] += *at != 0 ? 1 : -1;
        if (contexts && i % OFTEN == 0) {
            pthread_barrier_wait(&together);
            if (number == 1)
                compare();
            if (*at != 0)
                CHECK(cuCtxSetCurrent((CUcontext)(uintptr_t)*at)); /* its end takes it off this thread's stack */
            pthread_barrier_wait(&together);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i] != 0)
            end(&held[i]);
    return NULL;
}

static void *ask(void *data) {
    static CUdeviceptr common;
    bool first = (uintptr_t)data == 1;
    struct hami_bytes64 handle;
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        if (first)
            CHECK(cuMemAlloc_v2(&common, 2 * MIB));
        pthread_barrier_wait(&together);
        CHECK(CALL(cuIpcGetMemHandle, &handle, common));
        pthread_barrier_wait(&together);
        if (first)
            CHECK(cuMemFree_v2(common));
    }
    return NULL;
}

static void *take_small(void *at) {
    use_device(0);
    CHECK(cuMemAlloc_v2(at, 4096));
    return NULL;
}

static void *hand_over(void *data) {
    CUdeviceptr large = 0, small = 0;
    use_device(0);
    CHECK(cuMemAlloc_v2(&large, 2 * MIB));
    CHECK(cuMemFree_v2(large));
    run_threads(1, take_small, &small, 0);
    if (small / (2 * MIB) != large / (2 * MIB))
        fail("the driver put it elsewhere", 0);
    CHECK(cuMemFree_v2(small));
    return data;
}

int main(int argc, char **argv) {
    const char *kind = argc > 3 ? argv[1] : "memory";
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 2;
    rounds = argc > 3 ? strtoul(argv[2], NULL, 10) : 100;
    contexts = strcmp(kind, "contexts") == 0;
    start_driver();
    for (int device = contexts; device >= 0; device--) {
        use_device(device);
        at_start[device] = free_bytes();
    }
    CHECK(pthread_barrier_init(&together, NULL, (unsigned)count));
    bool ipc = strcmp(kind, "ipc") == 0, handed = strcmp(kind, "handed") == 0;
    run_threads(count, ipc ? ask : handed ? hand_over : make_and_end, (void *)1, 1); /* numbered from 1 */
    printf("%zd\n", (ssize_t)(at_start[0] - free_bytes()));
    fflush(stdout);
    (void)getchar();
    return 0;
}
