/*
 * race ROUNDS SEED THREADS: each thread allocates and frees blocks of 2 to 16 MiB at random, some small ones too,
 * as fast as it can, once a line on its input says so; then everything is freed. Prints how often it got memory and how
 * often it was refused.
 */
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>

enum { HELD = 16 };

static _Atomic unsigned long got, refused;
static unsigned long rounds;

static void *worker(void *data) {
    uint64_t random = (uint64_t)(uintptr_t)data * 2654435761u + 1;
    CUdeviceptr held[HELD] = {0};
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        CUdeviceptr *at = &held[random >> 33 & (HELD - 1)];
        if (*at != 0) {
            CHECK(cuMemFree_v2(*at));
            *at = 0;
            continue;
        }
        size_t bytes = (random >> 40 & 3) == 0 ? 4096 : ((random >> 45 & 7) + 1) * 2 * MIB;
        int status = cuMemAlloc_v2(at, bytes);
        if (status != 0 && status != 2)
            fail("cuMemAlloc", status);
        if (status != 0)
            *at = 0;
        (void)atomic_fetch_add(status == 0 ? &got : &refused, 1);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i] != 0)
            CHECK(cuMemFree_v2(held[i]));
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[64];
    rounds = strtoul(argv[1], NULL, 10);
    unsigned long seed = strtoul(argv[2], NULL, 10);
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    start_driver();
    use_device(0);
    printf("ready\n");
    fflush(stdout);
    (void)getchar();
    for (unsigned long i = 0; i < count && i < 64; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)(uintptr_t)(seed * 64 + i + 1)));
    for (unsigned long i = 0; i < count && i < 64; i++)
        pthread_join(threads[i], NULL);
    printf("{\"got\": %lu, \"refused\": %lu}\n", got, refused);
    return 0;
}
