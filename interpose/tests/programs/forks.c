/*
 * forks CHILDREN MIB [clone]: uses NVML, as launchers do to count cards, then forks, by clone(2) without the C
 * library's knowledge if told so; each child starts CUDA and takes so much. Says "ready" when all have. The children
 * end with its input; it says then how many bytes NVML sees in use.
 */
#include "driver.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static int child(size_t bytes, int told) {
    CUdeviceptr address = 0;
    char byte = 'x';
    CHECK(cuInit(0));
    use_device(0);
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(write(told, &byte, 1) == 1 ? 0 : 1);
    while (read(0, &byte, 1) > 0)
        ;
    CHECK(cuMemFree_v2(address));
    return 0;
}

int main(int argc, char **argv) {
    int count = argc > 2 ? atoi(argv[1]) : 0, pipes[2], status = 0, failed = 0;
    size_t bytes = argc > 2 ? strtoul(argv[2], NULL, 10) * MIB : 0;
    struct nvml_memory memory;
    nvmlDevice card = NULL;
    find_driver();
    CHECK(nvmlInit_v2());
    CHECK(nvmlDeviceGetHandleByIndex_v2(0, &card));
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory));
    CHECK(pipe(pipes));
    for (int i = 0; i < count; i++)
        if ((argc > 3 ? syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork()) == 0)
            _exit(child(bytes, pipes[1]));
    for (int i = 0; i < count; i++) {
        char byte;
        CHECK(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
    }
    say("ready");
    for (int i = 0; i < count; i++)
        failed |= wait(&status) < 0 || status != 0;
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory));
    printf("%llu\n", (unsigned long long)memory.used);
    return failed;
}
