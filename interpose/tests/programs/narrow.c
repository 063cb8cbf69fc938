/* narrow KIB: asks NVML in a thread with so small a stack, and says so. */
#include "driver.h"

#include <pthread.h>

static void *ask(void *of) {
    static struct nvml_process processes[16];
    struct nvml_memory memory;
    nvmlDevice card = NULL;
    unsigned count = 16;
    CHECK(nvmlDeviceGetHandleByIndex_v2(0, &card));
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory));
    CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &count, processes));
    return of;
}

int main(int argc, char **argv) {
    pthread_attr_t attributes;
    pthread_t thread;
    start_driver();
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (argc > 1 ? strtoul(argv[1], NULL, 10) : 64) << 10));
    CHECK(pthread_create(&thread, &attributes, ask, NULL));
    CHECK(pthread_join(thread, NULL));
    printf("asked\n");
    return 0;
}
