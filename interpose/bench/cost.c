/*
 * cost ROUNDS: CPU time of single calls, in ns, as one JSON object: the least of 15 batches each, as
 * the others were disturbed. Run bare and with
 * libvgpu.so preloaded; run.py does both.
 *
 * cost ROUNDS THREADS: CPU time of one allocation and free of 2 MiB while that many threads do so at once, on average.
 * cost ROUNDS only CALL: that call ROUNDS times and nothing measured, for callgrind.
 */
#define _GNU_SOURCE
#include "../tests/programs/driver.h"

#include <pthread.h>
#include <time.h>

enum { BATCHES = 15, MOST_LIVE = 100000 };

static unsigned long rounds;
static CUdeviceptr live[MOST_LIVE];
static nvmlDevice card;
static void *kernel;
static int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                     void **);
static int (*get_device)(int *);

static double spent_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void alloc_free(size_t bytes) {
    CUdeviceptr address = 0;
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(cuMemFree_v2(address));
}

static void alloc_small(void) {
    alloc_free(4096);
}

static void alloc_large(void) {
    alloc_free(2 * MIB);
}

static void alloc_async(void) {
    CUdeviceptr address = 0;
    CHECK(cuMemAllocAsync(&address, 2 * MIB, NULL));
    CHECK(cuMemFreeAsync(address, NULL));
}

static void mem_info(void) {
    size_t a = 0, b = 0;
    CHECK(cuMemGetInfo_v2(&a, &b));
}

static void nvml_info(void) {
    struct nvml_memory memory;
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory));
}

static void launch_kernel(void) {
    CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
}

static void context_device(void) {
    int device = 0;
    CHECK(get_device(&device));
}

static int order(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static void measure(const char *name, void (*call)(void)) {
    double batch[BATCHES];
    for (unsigned i = 0; i < BATCHES; i++) {
        double start = spent_ns();
        for (unsigned long round = 0; round < rounds; round++)
            call();
        batch[i] = (spent_ns() - start) / (double)rounds;
        CHECK(cuStreamSynchronize(NULL));
    }
    qsort(batch, BATCHES, sizeof batch[0], order);
    printf("%s\"%s\": %.2f", strcmp(name, "alloc_small") == 0 ? "{" : ", ", name, batch[0]);
}

static void keep_live(size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        CHECK(cuMemAlloc_v2(&live[i], 512));
}

static void *crowd_member(void *spent) {
    use_device(0);
    alloc_large();
    double start = spent_ns();
    for (unsigned long round = 0; round < rounds; round++)
        alloc_large();
    *(double *)spent = spent_ns() - start;
    return NULL;
}

static void *allocate_once(void *nothing) {
    use_device(0);
    alloc_large();
    return nothing;
}

/* From now on this thread is not the only one that ever took memory. */
static void no_longer_alone(void) {
    pthread_t other;
    CHECK(pthread_create(&other, NULL, allocate_once, NULL));
    pthread_join(other, NULL);
}

/* Waits for a line on its input, so that several processes can be let go together. */
static int crowd(unsigned threads) {
    pthread_t members[64];
    double spent[64], sum = 0;
    alloc_large();
    printf("ready\n");
    fflush(stdout);
    (void)getchar();
    for (unsigned i = 0; i < threads && i < 64; i++)
        CHECK(pthread_create(&members[i], NULL, crowd_member, &spent[i]));
    for (unsigned i = 0; i < threads && i < 64; i++) {
        pthread_join(members[i], NULL);
        sum += spent[i];
    }
    printf("%.2f\n", sum / threads / (double)rounds);
    return 0;
}

static int only(const char *name) {
    const struct {
        const char *name;
        void (*call)(void);
    } calls[] = {{"alloc_small", alloc_small},     {"alloc_large", alloc_large}, {"mem_get_info", mem_info},
                 {"nvml_memory_info", nvml_info}, {"launch", launch_kernel},    {"nothing", NULL}};
    for (unsigned i = 0; i < sizeof calls / sizeof calls[0]; i++)
        if (strcmp(name, calls[i].name) == 0) {
            for (unsigned long round = 0; calls[i].call != NULL && round < rounds; round++)
                calls[i].call();
            return 0;
        }
    return 2;
}

int main(int argc, char **argv) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    start_driver();
    use_device(0);
    if (argc == 3)
        return crowd((unsigned)strtoul(argv[2], NULL, 10));
    launch = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                      void **))dlsym(library, "cuLaunchKernel");
    get_device = (int (*)(int *))dlsym(library, "cuCtxGetDevice");
    kernel = find_kernel("kernel");
    CHECK(nvmlDeviceGetHandleByIndex_v2(0, &card));
    if (argc == 4)
        return only(argv[3]);
    measure("alloc_small", alloc_small);
    measure("alloc_large", alloc_large);
    measure("alloc_async", alloc_async);
    measure("mem_get_info", mem_info);
    measure("nvml_memory_info", nvml_info);
    measure("launch", launch_kernel);
    measure("ctx_get_device", context_device);
    keep_live(0, 1000);
    measure("alloc_small_1000_live", alloc_small);
    keep_live(1000, MOST_LIVE);
    measure("alloc_small_100000_live", alloc_small);
    measure("alloc_large_100000_live", alloc_large);
    no_longer_alone();
    measure("alloc_small_not_alone", alloc_small);
    measure("alloc_large_not_alone", alloc_large);
    printf("}\n");
    return 0;
}
