/*
 * pools ROUNDS THREADS: in each round the threads of a new process take memory from the device's own pool at the same
 * moment, the first that is taken from it. Prints in how many rounds the container lost more or less than they took.
 */
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

static _Atomic unsigned missing; /* threads that are not ready yet */

static void *worker(void *data) {
    CUdeviceptr address = 0;
    (void)data;
    use_device(0);
    (void)atomic_fetch_sub(&missing, 1);
    while (atomic_load(&missing) != 0) {
    }
    CHECK(cuMemAllocAsync(&address, 64 * MIB, NULL));
    return NULL;
}

/* Whoever is refused has first looked for what ended processes have left. */
static size_t free_bytes(void) {
    size_t bytes = 0, total = 0;
    CUdeviceptr none = 0;
    if (cuMemAlloc_v2(&none, (size_t)1 << 50) != 2)
        fail("not refused", 0);
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    return bytes;
}

static int run_round(unsigned count) {
    pthread_t threads[64];
    start_driver();
    use_device(0);
    size_t before = free_bytes();
    missing = count;
    for (unsigned i = 0; i < count; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, NULL));
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return before - free_bytes() != count * 64 * MIB;
}

int main(int argc, char **argv) {
    unsigned long rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 1, wrong = 0;
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 2;
    for (unsigned long i = 0; i < rounds; i++) {
        pid_t child = fork();
        if (child == 0)
            _exit(run_round(count < 64 ? (unsigned)count : 64));
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
            fail("round", status);
        wrong += WEXITSTATUS(status) != 0;
    }
    printf("%lu\n", wrong);
    return 0;
}
