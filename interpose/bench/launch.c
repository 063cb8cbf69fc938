/*
 * launch ROUNDS: CPU time of a launch in ns, as one JSON object: the least of 15 batches of the launching thread, and
 * the mean of the whole process, helper thread included. Starts when a line comes on its input.
 *
 * launch ROUNDS SECONDS: so many launches and a synchronization, over and over for so long; launches per second, and
 * the CPU time of the whole process in percent of one core.
 */
#define _GNU_SOURCE
#include "../tests/programs/driver.h"

#include <time.h>

enum { BATCHES = 15, LEARNING = 2000, LEARNING_LONG = 20 };

static double cpu(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

typedef int launch_kernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                          void **, void **);

static void work(launch_kernel *launch, void *kernel, unsigned long rounds, double seconds) {
    double start = cpu(CLOCK_MONOTONIC), spent = cpu(CLOCK_PROCESS_CPUTIME_ID), took = 0;
    unsigned long launches = 0;
    while (took < seconds * 1e9) {
        for (unsigned long i = 0; i < rounds; i++)
            CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        CHECK(cuStreamSynchronize(NULL));
        launches += rounds;
        took = cpu(CLOCK_MONOTONIC) - start;
    }
    spent = cpu(CLOCK_PROCESS_CPUTIME_ID) - spent;
    printf("{\"launches\": %.1f, \"percent\": %.3f}\n", (double)launches * 1e9 / took, spent * 100 / took);
}

int main(int argc, char **argv) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *module = NULL, *kernel = NULL;
    int (*load)(void **, const void *) = (int (*)(void **, const void *))dlsym(library, "cuModuleLoadData");
    int (*function)(void **, void *, const char *) =
        (int (*)(void **, void *, const char *))dlsym(library, "cuModuleGetFunction");
    launch_kernel *launch = (launch_kernel *)dlsym(library, "cuLaunchKernel");
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    double least = 1e18;
    start_driver();
    use_device(0);
    CHECK(load(&module, "image"));
    CHECK(function(&kernel, module, "kernel"));
    for (unsigned i = 0; i < (argc > 2 ? LEARNING_LONG : LEARNING); i++)
        CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    (void)getchar();
    if (argc > 2) {
        work(launch, kernel, rounds, strtod(argv[2], NULL));
        return 0;
    }
    double whole = cpu(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        double start = cpu(CLOCK_THREAD_CPUTIME_ID);
        for (unsigned long i = 0; i < rounds; i++)
            CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        double took = (cpu(CLOCK_THREAD_CPUTIME_ID) - start) / (double)rounds;
        least = took < least ? took : least;
    }
    whole = (cpu(CLOCK_PROCESS_CPUTIME_ID) - whole) / (double)rounds / BATCHES;
    printf("{\"thread_ns\": %.2f, \"process_ns\": %.2f}\n", least, whole);
    return 0;
}
