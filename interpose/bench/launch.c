/*
 * launch ROUNDS: CPU time of a launch in ns, as one JSON object: the least of 40 batches, of the launching thread and
 * of the whole process, helper thread included. Starts when a line comes on its input, and goes on launching until that
 * ends: no batch of another process may have the machine for itself. Beside that how often the thread slept for each
 * thousand launches, and what a sleep takes of the CPU on this machine, in us.
 *
 * launch ROUNDS SECONDS: so many launches and a synchronization, over and over for so long; launches per second, and
 * the CPU time of the whole process in percent of one core.
 */
#define _GNU_SOURCE
#include "../tests/programs/driver.h"

#include <poll.h>
#include <sys/resource.h>
#include <time.h>

enum { BATCHES = 40, SLEEPS = 100, LEARNING = 2000, LEARNING_LONG = 20 };

static double cpu(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static long slept(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static double price_of_sleep(void) {
    const struct timespec moment = {0, 200000};
    double start = cpu(CLOCK_THREAD_CPUTIME_ID);
    for (unsigned i = 0; i < SLEEPS; i++)
        nanosleep(&moment, NULL);
    return (cpu(CLOCK_THREAD_CPUTIME_ID) - start) / SLEEPS / 1000;
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
    double least[2] = {1e18, 1e18};
    const clockid_t clocks[2] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_PROCESS_CPUTIME_ID};
    start_driver();
    use_device(0);
    CHECK(load(&module, "image"));
    CHECK(function(&kernel, module, "kernel"));
    for (unsigned i = 0; i < (argc > 2 ? LEARNING_LONG : LEARNING); i++)
        CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    double price = price_of_sleep();
    (void)getchar();
    if (argc > 2) {
        work(launch, kernel, rounds, strtod(argv[2], NULL));
        return 0;
    }
    long sleeps = slept();
    for (unsigned batch = 0; batch < BATCHES; batch++) {
        double start[2] = {cpu(clocks[0]), cpu(clocks[1])};
        for (unsigned long i = 0; i < rounds; i++)
            CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
        for (unsigned i = 0; i < 2; i++) {
            double took = (cpu(clocks[i]) - start[i]) / (double)rounds;
            least[i] = took < least[i] ? took : least[i];
        }
    }
    double often = (double)(slept() - sleeps) * 1000 / (double)rounds / BATCHES;
    printf("{\"thread_ns\": %.2f, \"process_ns\": %.2f, \"sleeps\": %.3f, \"sleep_us\": %.2f}\n", least[0], least[1],
           often, price);
    fflush(stdout);
    for (struct pollfd end = {.fd = 0, .events = POLLIN}; poll(&end, 1, 0) == 0;)
        for (unsigned i = 0; i < LEARNING; i++)
            CHECK(launch(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    return 0;
}
