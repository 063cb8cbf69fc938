/*
 * handles KIND ROUNDS THREADS: threads that take and give back what is known by handles, so that each handle is soon
 * given to another thread: "memory", physical and not mapped; "contexts" with some memory in them; "devices", the same
 * on two devices, counted every now and then; "frees", where half of the threads take and free memory of the primary
 * one beside others' ends; "references" to the primary context, in which memory stays; "handed": where one gave back
 * large memory another takes a small allocation, the first of its 2 MiB, which the first one frees; or "ipc": they ask
 * for the handle of one address at the same moment, which is freed then. Prints how much more memory the container has
 * in the end than at the start, but for what has stayed, 0 if nothing went wrong, and lives as long as its input.
 */
#include "driver.h"

#include <stdatomic.h>
#include <stdbool.h>

enum { HELD = 64, THREADS = 64, OFTEN = 20, SMALL_BLOCK_BITS = 21 };

static unsigned long rounds, count;
static bool contexts, devices, frees;
static int held_on[THREADS]; /* device + 1 of the context that a thread has */
static pthread_barrier_t together;
static _Atomic unsigned long keeping; /* threads that others go on for */

static void make(uint64_t *out, int device) {
    struct hami_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
    CUdeviceptr address = 0, small = 0;
    if (!contexts) {
        CHECK(cuMemCreate(out, 2 * MIB, &prop, 0));
        return;
    }
    CHECK(cuCtxCreate_v2((CUcontext *)out, 0, device));
    CHECK(cuMemAlloc_v2(&address, 2 * MIB));
    CHECK(cuMemAlloc_v2(&small, 4096));
}

static void end(uint64_t *thing) {
    CHECK(contexts ? cuCtxDestroy_v2((CUcontext)(uintptr_t)*thing) : cuMemRelease(*thing));
    *thing = 0;
}

/* In places that others' contexts have just left. */
static void take_and_free(void) {
    CUdeviceptr some[HELD];
    for (int i = 0; i < HELD; i++)
        CHECK(cuMemAlloc_v2(&some[i], 2 * MIB));
    for (int i = 0; i < HELD; i++)
        CHECK(cuMemFree_v2(some[i]));
}

/* All stand still: what is counted on each device is what they have there. */
static void compare(size_t at_start[2], CUcontext back) {
    for (int device = 0; device < 2; device++) {
        size_t held = 0;
        use_device(device);
        for (unsigned i = 0; i < count; i++)
            held += held_on[i] == device + 1 ? 4 * MIB : 0;
        if (free_bytes() + held != at_start[device])
            fail("MiB that are counted and not held", (int)((ssize_t)(at_start[device] - free_bytes() - held) >> 20));
    }
    CHECK(cuCtxSetCurrent(back));
}

static size_t free_at_start[2];

static void *worker(void *data) {
    unsigned number = (unsigned)(uintptr_t)data - 1;
    uint64_t random = (uint64_t)(uintptr_t)data * 2654435761u + 1, held[HELD] = {0};
    use_device(0);
    while (frees && number % 2 != 0 && atomic_load(&keeping) != 0)
        take_and_free();
    for (unsigned long i = 0; i < rounds && !(frees && number % 2 != 0); i++) {
        (void)next_random(&random);
        uint64_t *at = &held[contexts ? 0 : random >> 33 & (HELD - 1)];
        int device = devices ? (int)(random >> 40 & 1) : 0;
        if (*at == 0) {
            make(at, device);
            held_on[number] = device + 1;
        } else {
            end(at);
            held_on[number] = 0;
        }
        if (devices && i % OFTEN == 0) {
            CUcontext primary = NULL;
            pthread_barrier_wait(&together);
            CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
            if (number == 0)
                compare(free_at_start, *at != 0 ? (CUcontext)(uintptr_t)*at : primary);
            CHECK(cuDevicePrimaryCtxRelease_v2(0));
            pthread_barrier_wait(&together);
        }
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i] != 0)
            end(&held[i]);
    if (number % 2 == 0)
        (void)atomic_fetch_sub(&keeping, 1);
    return NULL;
}

/* ---- memory that stays, while references to the primary context come and go ---- */

static CUdeviceptr *stays; /* by thread and round */

static void *keeper(void *data) {
    CUdeviceptr *mine = stays + ((uintptr_t)data - 1) * rounds, passing = 0;
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        CHECK(cuMemAlloc_v2(&mine[i], i % 64 == 0 ? 2 * MIB : 4096));
        CHECK(cuMemAlloc_v2(&passing, 4096));
        CHECK(cuMemFree_v2(passing));
    }
    (void)atomic_fetch_sub(&keeping, 1);
    return NULL;
}

static void *referrer(void *data) {
    CUcontext context = NULL;
    (void)data;
    while (atomic_load(&keeping) != 0) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    }
    return NULL;
}

static int by_address(const void *a, const void *b) {
    CUdeviceptr first = *(const CUdeviceptr *)a, second = *(const CUdeviceptr *)b;
    return (first > second) - (first < second);
}

/* Bytes of the blocks in which what stays lies: a large one has one to itself, small ones share theirs. */
static size_t staying(void) {
    size_t blocks = 0;
    qsort(stays, count * rounds, sizeof *stays, by_address);
    for (unsigned long i = 0; i < count * rounds; i++)
        blocks += i == 0 || stays[i] >> SMALL_BLOCK_BITS != stays[i - 1] >> SMALL_BLOCK_BITS;
    return blocks * 2 * MIB;
}

static CUdeviceptr common;
static int (*get_handle)();

static void *asker(void *data) {
    bool first = data == (void *)1;
    struct hami_bytes64 handle;
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        if (first)
            CHECK(cuMemAlloc_v2(&common, 2 * MIB));
        pthread_barrier_wait(&together);
        CHECK(get_handle(&handle, common));
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
    pthread_t other;
    use_device(0);
    CHECK(cuMemAlloc_v2(&large, 2 * MIB));
    CHECK(cuMemFree_v2(large));
    CHECK(pthread_create(&other, NULL, take_small, &small));
    pthread_join(other, NULL);
    if (small / (2 * MIB) != large / (2 * MIB))
        fail("the driver put it elsewhere", 0);
    CHECK(cuMemFree_v2(small));
    return data;
}

int main(int argc, char **argv) {
    pthread_t other;
    const char *kind = argc > 1 ? argv[1] : "memory";
    devices = strcmp(kind, "devices") == 0;
    frees = strcmp(kind, "frees") == 0;
    contexts = devices || frees || strcmp(kind, "contexts") == 0;
    bool references = strcmp(kind, "references") == 0;
    rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    count = argc > 3 ? strtoul(argv[3], NULL, 10) : 2;
    count = count < THREADS ? count : THREADS;
    start_driver();
    if (devices) {
        use_device(1);
        free_at_start[1] = free_bytes();
    }
    use_device(0);
    size_t before = free_at_start[0] = free_bytes();
    keeping = frees ? (count + 1) / 2 : count;
    stays = references ? calloc(count * rounds, sizeof *stays) : NULL;
    get_handle = driver_function("cuIpcGetMemHandle");
    CHECK(pthread_barrier_init(&together, NULL, (unsigned)count));
    if (references)
        CHECK(pthread_create(&other, NULL, referrer, NULL));
    bool ipc = strcmp(kind, "ipc") == 0, handed = strcmp(kind, "handed") == 0;
    run_threads(count, ipc ? asker : references ? keeper : handed ? hand_over : worker, (void *)1, 1);
    if (references)
        pthread_join(other, NULL);
    printf("%zd\n", (ssize_t)(free_bytes() - before + (references ? staying() : 0)));
    fflush(stdout);
    (void)getchar();
    return 0;
}
