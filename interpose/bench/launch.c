/*
 * launch ROUNDS: CPU time of a launch in ns, as one JSON object: the least of 15 batches of the launching thread, and
 * the mean of the whole process, helper thread included. Starts when a line comes on its input.
 */
#define _GNU_SOURCE
#include "../tests/programs/driver.h"

#include <time.h>

enum { BATCHES = 15, LEARNING = 2000 };

static double cpu(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int main(int argc, char **argv) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *module = NULL, *kernel = NULL;
    int (*load)(void **, const void *) = (int (*)(void **, const void *))dlsym(library, "cuModuleLoadData");
    int (*function)(void **, void *, const char *) =
        (int (*)(void **, void *, const char *))dlsym(library, "cuModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **,
                  void **) = (int (*)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                      CUstream, void **, void **))dlsym(library, "cuLaunchKernel");
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 20000;
    double least = 1e18;
    start_driver();
    use_device(0);
    CHECK(load(&module, "image"));
    CHECK(function(&kernel, module, "kernel"));
    for (unsigned i = 0; i < LEARNING; i++)
        CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    (void)getchar();
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
