/*
 * handles KIND ROUNDS THREADS: threads that take and give back what is known by handles, so that each handle is soon
 * given to another thread: "memory", physical and not mapped, and "contexts" with some memory in them; or "ipc": they
 * ask for the handle of one address at the same moment, which is freed then. Prints how much more memory the container
 * has in the end, when all was given back, than at the start, 0 if nothing went wrong, and lives as long as its input.
 */
#include "driver.h"
#include "hami/kinds.h"

#include <pthread.h>
#include <string.h>

enum { HELD = 64 };

static unsigned long rounds;
static int contexts;

static void make(uint64_t *out) {
    struct hami_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
    CUdeviceptr address = 0;
    if (!contexts) {
        CHECK(cuMemCreate(out, 2 * MIB, &prop, 0));
        return;
    }
    CHECK(cuCtxCreate_v2((CUcontext *)out, 0, 0));
    CHECK(cuMemAlloc_v2(&address, 2 * MIB));
    CHECK(cuMemAlloc_v2(&address, 4096));
}

static void end(uint64_t *thing) {
    CHECK(contexts ? cuCtxDestroy_v2((CUcontext)(uintptr_t)*thing) : cuMemRelease(*thing));
    *thing = 0;
}

static void *worker(void *data) {
    uint64_t random = (uint64_t)(uintptr_t)data * 2654435761u + 1, held[HELD] = {0};
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t *at = &held[contexts ? 0 : random >> 33 & (HELD - 1)];
        if (*at == 0)
            make(at);
        else
            end(at);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i] != 0)
            end(&held[i]);
    return NULL;
}

static CUdeviceptr common;
static pthread_barrier_t together;
static int (*get_handle)(void *, CUdeviceptr);

static void *asker(void *data) {
    struct hami_bytes64 handle;
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        if (data != NULL) /* of one of them */
            CHECK(cuMemAlloc_v2(&common, 2 * MIB));
        pthread_barrier_wait(&together);
        CHECK(get_handle(&handle, common));
        pthread_barrier_wait(&together);
        if (data != NULL)
            CHECK(cuMemFree_v2(common));
    }
    return NULL;
}

static size_t free_bytes(void) {
    size_t bytes = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    contexts = argc > 1 && strcmp(argv[1], "contexts") == 0;
    int ipc = argc > 1 && strcmp(argv[1], "ipc") == 0;
    rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 2;
    start_driver();
    use_device(0);
    size_t before = free_bytes();
    get_handle = (int (*)(void *, CUdeviceptr))dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuIpcGetMemHandle");
    CHECK(pthread_barrier_init(&together, NULL, (unsigned)count));
    for (unsigned long i = 0; i < count && i < 64; i++)
        CHECK(pthread_create(&threads[i], NULL, ipc ? asker : worker, (void *)(uintptr_t)(ipc ? i == 0 : i + 1)));
    for (unsigned long i = 0; i < count && i < 64; i++)
        pthread_join(threads[i], NULL);
    printf("%zd\n", (ssize_t)(free_bytes() - before));
    fflush(stdout);
    (void)getchar();
    return 0;
}
