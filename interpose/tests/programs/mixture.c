/*
 * mixture ROUNDS: one thread for each kind of call, all at once: allocations, pools, physical memory, shared and not,
 * arrays, code, contexts that come and go, and questions. Whatever does not fit is refused; nothing else may go wrong.
 */
#include "driver.h"

#include <pthread.h>

static unsigned long rounds;
static int (*unload_module)(), (*export_memory)(), (*import_memory)();

static int refused(int status) {
    if (status != 0 && status != 2)
        fail("status", status);
    return status != 0;
}

static void memory(unsigned long i) {
    CUdeviceptr address = 0;
    if (!refused(cuMemAlloc_v2(&address, (i % 5 + 1) * 700000)))
        CHECK(cuMemFree_v2(address));
}

static void pool(unsigned long i) {
    CUdeviceptr address = 0;
    if (!refused(cuMemAllocAsync(&address, (i % 3 + 1) * MIB, NULL)))
        CHECK(cuMemFreeAsync(address, NULL));
}

static void physical(unsigned long i) {
    struct hami_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
    CUmemHandle handle = 0;
    (void)i;
    if (!refused(cuMemCreate(&handle, 2 * MIB, &prop, 0)))
        CHECK(cuMemRelease(handle));
}

/* What was exported goes before what was imported, or after it. */
static void shared(unsigned long i) {
    struct hami_allocation_prop prop = {.type = 1, .handle_types = 1, .location = {.type = 1, .id = 0}};
    CUmemHandle own = 0, again = 0;
    int fd = -1;
    if (refused(cuMemCreate(&own, (i % 3 + 1) * 2 * MIB, &prop, 0)))
        return;
    CHECK(export_memory(&fd, own, 1, 0ull));
    CHECK(import_memory(&again, (void *)(intptr_t)fd, 1));
    CHECK(cuMemRelease(i % 2 == 0 ? own : again));
    close(fd);
    CHECK(cuMemRelease(i % 2 == 0 ? again : own));
}

static void array(unsigned long i) {
    struct hami_array3d_descriptor wanted = {i % 100 + 1, 64, 0, 0x20, 4, 0};
    CUarray made = NULL;
    if (!refused(cuArray3DCreate_v2(&made, &wanted)))
        CHECK(cuArrayDestroy(made));
}

static void context(unsigned long i) {
    CUcontext made = NULL;
    CUdeviceptr address = 0;
    if (i % 20 != 0 || refused(cuCtxCreate_v2(&made, 0, 0)))
        return;
    (void)refused(cuMemAlloc_v2(&address, 4096));
    CHECK(cuCtxDestroy_v2(made));
}

static void code(unsigned long i) {
    struct {
        unsigned magic;
        unsigned short version, header;
        uint64_t bytes;
    } image = {0xba55ed50, 1, 16, (i % 3 + 1) * MIB};
    void *module = NULL;
    if (!refused(cuModuleLoadData(&module, &image)))
        CHECK(unload_module(module));
}

static void questions(unsigned long i) {
    struct nvml_memory memory_of_card;
    nvmlDevice card = NULL;
    size_t free_bytes = 0, total = 0;
    (void)i;
    CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    CHECK(nvmlDeviceGetHandleByIndex_v2(0, &card));
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory_of_card));
    if (memory_of_card.used > memory_of_card.total || free_bytes > total)
        fail("figures", 1);
}

static void *worker(void *data) {
    void (*const *call)(unsigned long) = data;
    use_device(0);
    for (unsigned long i = 0; i < rounds; i++)
        (*call)(i);
    return NULL;
}

int main(int argc, char **argv) {
    static void (*calls[])(unsigned long) = {memory, pool, physical, array, context, questions,
                                             memory, pool, code,     code,  shared,  shared};
    enum { THREADS = sizeof calls / sizeof calls[0] };
    pthread_t threads[THREADS];
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    start_driver();
    unload_module = driver_function("cuModuleUnload");
    export_memory = driver_function("cuMemExportToShareableHandle");
    import_memory = driver_function("cuMemImportFromShareableHandle");
    use_device(0);
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, &calls[i]));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("done\n");
    return 0;
}
