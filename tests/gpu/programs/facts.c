/*
 * facts GROUP: calls the driver in unusual ways and prints each question, a tab and the answer. The simulated driver
 * must give the same answers. Each line is flushed at once, since a driver may end the program at some question.
 * Statuses are CUresult, sizes bytes.
 */
#include "../../../interpose/tests/programs/driver.h"

#include <sys/wait.h>

enum { MULTIPROCESSOR_COUNT = 16 };

static void fact(const char *question, long long answer) {
    printf("%s\t%lld\n", question, answer);
    fflush(stdout);
}

static size_t free_now(void) {
    size_t left = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&left, &total));
    return left;
}

/* Device memory that an allocation of this size takes, as the mean over a few. */
static long long taken_by(size_t bytes) {
    enum { TIMES = 8 };
    CUdeviceptr made[TIMES];
    size_t before = free_now();
    for (unsigned i = 0; i < TIMES; i++)
        CHECK(cuMemAlloc_v2(&made[i], bytes));
    long long taken = (long long)(before - free_now()) / TIMES;
    for (unsigned i = 0; i < TIMES; i++)
        CHECK(cuMemFree_v2(made[i]));
    return taken;
}

static void beginning(void) {
    CUdeviceptr address = 0;
    size_t left = 0, total = 0;
    int count = 0;
    fact("count before cuInit", cuDeviceGetCount(&count));
    CHECK(cuInit(0));
    fact("cuMemAlloc without a context", cuMemAlloc_v2(&address, MIB));
    fact("cuMemGetInfo without a context", cuMemGetInfo_v2(&left, &total));
    fact("cuCtxSynchronize without a context", CALL(cuCtxSynchronize));
    fact("retain of device 99", cuDevicePrimaryCtxRetain(&(CUcontext){NULL}, 99));
    pid_t child = fork();
    int status = 0;
    if (child == 0)
        _exit(cuInit(0) & 0x7f);
    (void)waitpid(child, &status, 0);
    fact("cuInit in a fork of an initialised process", WEXITSTATUS(status));
}

static void queries(void) {
    size_t left = 0, total = 0;
    int value = 0;
    fact("cuMemGetInfo(NULL, total)", cuMemGetInfo_v2(NULL, &total));
    fact("cuMemGetInfo(free, NULL)", cuMemGetInfo_v2(&left, NULL));
    fact("attribute 0", CALL(cuDeviceGetAttribute, &value, 0, 0));
    fact("attribute of device 99", CALL(cuDeviceGetAttribute, &value, MULTIPROCESSOR_COUNT, 99));
    fact("cuDeviceTotalMem(NULL)", cuDeviceTotalMem_v2(NULL, 0));
    fact("cuMemGetInfo(NULL, NULL)", cuMemGetInfo_v2(NULL, NULL));
}

static void allocations(void) {
    CUdeviceptr address = 0, other = 0;
    size_t pitch = 0, left = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&left, &total));
    fact("cuMemAlloc of 0", cuMemAlloc_v2(&address, 0));
    fact("cuMemAlloc to NULL", cuMemAlloc_v2(NULL, MIB));
    fact("cuMemAlloc of more than there is", cuMemAlloc_v2(&address, total + (64ull << 20)));
    fact("cuMemFree of 0", cuMemFree_v2(0));
    fact("cuMemFree of what never was", cuMemFree_v2(0x1000));
    CHECK(cuMemAlloc_v2(&address, 4 * MIB));
    fact("cuMemFree of an address within", cuMemFree_v2(address + 512));
    CHECK(cuMemFree_v2(address));
    fact("cuMemFree again", cuMemFree_v2(address));
    CHECK(cuMemAlloc_v2(&address, 1));
    CHECK(cuMemAlloc_v2(&other, 1));
    fact("alignment of one byte", (long long)(address & -address) < 512 ? (long long)(address & -address) : 512);
    CHECK(cuMemFree_v2(address));
    CHECK(cuMemFree_v2(other));
    fact("taken by 1 MiB", taken_by(MIB));
    fact("taken by 2 MiB", taken_by(2 * MIB));
    fact("taken by 2 MiB and a byte", taken_by(2 * MIB + 1));
    fact("taken by 3 MiB", taken_by(3 * MIB));
    fact("taken by 33 MiB", taken_by(33 * MIB));
    CHECK(cuMemAllocPitch_v2(&address, &pitch, 100, 16, 4));
    fact("pitch of rows of 100", (long long)pitch);
    CHECK(cuMemFree_v2(address));
    fact("cuMemAllocPitch with elements of 3", cuMemAllocPitch_v2(&address, &pitch, 100, 16, 3));
    size_t before = free_now();
    if (cuMemAllocManaged(&address, 64 * MIB, 1) == 0) {
        fact("taken by 64 MiB of managed memory", (long long)(before - free_now()));
        CHECK(cuMemFree_v2(address));
    }
    fact("cuMemAllocManaged with flags 0", cuMemAllocManaged(&address, MIB, 0));
}

static void mappings(void) {
    const struct hami_allocation_prop memory = {.type = 1, .location = {.type = 1}};
    CUmemHandle handle = 0;
    CUdeviceptr address = 0;
    size_t granularity = 0, before = free_now();
    fact("granularity, least",
         CALL(cuMemGetAllocationGranularity, &granularity, &memory, 0) == 0 ? (long long)granularity : -1);
    fact("cuMemCreate of an odd size", cuMemCreate(&handle, 3 * MIB + 1, &memory, 0));
    if (cuMemCreate(&handle, 64 * MIB, &memory, 0) != 0)
        return;
    fact("taken by cuMemCreate of 64 MiB", (long long)(before - free_now()));
    CHECK(cuMemAddressReserve(&address, 64 * MIB, 0, 0, 0));
    CHECK(cuMemMap(address, 64 * MIB, 0, handle, 0));
    CHECK(cuMemRelease(handle));
    fact("taken once it is released but mapped", (long long)(before - free_now()));
    fact("cuMemFree of mapped memory", cuMemFree_v2(address));
    fact("cuMemUnmap of a part", cuMemUnmap(address, 2 * MIB));
    (void)cuMemUnmap(address, 64 * MIB);
    fact("taken once it is unmapped", (long long)(before - free_now()));
}

static void pools(void) {
    CUdeviceptr address = 0;
    uint64_t threshold = 1, reserved = 0;
    void *pool = NULL;
    if (CALL(cuDeviceGetDefaultMemPool, &pool, 0) != 0)
        return;
    CHECK(CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    fact("release threshold", (long long)threshold);
    CHECK(cuMemAllocAsync(&address, MIB, NULL));
    CHECK(CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    fact("a pool's reserve with 1 MiB", (long long)reserved);
    CHECK(cuMemFreeAsync(address, NULL));
    CHECK(cuStreamSynchronize(NULL));
    CHECK(CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    fact("a pool's reserve after free and wait", (long long)reserved);
    CHECK(cuMemAllocAsync(&address, 48 * MIB, NULL));
    CHECK(CALL(cuMemPoolGetAttribute, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    fact("a pool's reserve with 48 MiB", (long long)reserved);
    fact("cuMemFree of memory of a pool", cuMemFree_v2(address));
    CHECK(cuStreamSynchronize(NULL));
    fact("cuMemAllocAsync of 0", cuMemAllocAsync(&address, 0, NULL));
}

/* Whether a graph that still holds memory can be launched again, and how much a trim frees. */
static void graphs(void) {
    struct memory_node node = {.type = 1, .location_type = 1, .bytes = 32 * MIB};
    void *graph = NULL, *exec = NULL, *made = NULL;
    size_t before = free_now();
    if (CALL(cuGraphCreate, &graph, 0u) != 0 || CALL(cuGraphAddMemAllocNode, &made, graph, NULL, (size_t)0, &node) != 0)
        return;
    CHECK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    fact("taken by a graph before its launch", (long long)(before - free_now()));
    CHECK(cuGraphLaunch(exec, NULL));
    CHECK(cuStreamSynchronize(NULL));
    fact("taken by a graph with 32 MiB", (long long)(before - free_now()));
    fact("launch of a graph that kept its memory", cuGraphLaunch(exec, NULL));
    fact("cuMemFree of a graph's memory", cuMemFree_v2(node.address));
    CHECK(cuStreamSynchronize(NULL));
    fact("cuDeviceGraphMemTrim", cuDeviceGraphMemTrim(0));
    fact("taken after the trim", (long long)(before - free_now()));
    CHECK(CALL(cuGraphExecDestroy, exec));
}

/* Events, and invalid launches. */
static void streams(void) {
    void *kernel = find_kernel("k_1ms"), *empty = find_kernel("kernel"), *first = NULL, *second = NULL;
    void *stream = NULL, *idle = NULL;
    uint64_t rounds = 1000000, out = 0;
    void *parameters[] = {&rounds, &out};
    CHECK(cuStreamCreate(&stream, 1));
    CHECK(cuStreamCreate(&idle, 1));
    CHECK(CALL(cuEventCreate, &first, 0u));
    CHECK(CALL(cuEventCreate, &second, 0u));
    CHECK(CALL(cuEventRecord, first, stream));
    /* Long enough to be still running when a busy machine asks. */
    for (int launch = 0; launch < 100; launch++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, parameters, NULL));
    CHECK(CALL(cuEventRecord, second, stream));
    fact("query of an event behind a kernel", CALL(cuEventQuery, second));
    fact("query of a stream at work", CALL(cuStreamQuery, stream));
    fact("query of a stream with nothing to do", CALL(cuStreamQuery, idle));
    CHECK(cuStreamSynchronize(stream));
    float ms = 0;
    int (*elapsed)(float *, void *, void *) = (int (*)(float *, void *, void *))driver_function("cuEventElapsedTime");
    fact("elapsed between events of a stream", elapsed(&ms, first, second));
    CHECK(CALL(cuEventCreate, &second, 0u));
    fact("elapsed to an event that was not recorded", elapsed(&ms, first, second));
    fact("launch with 0 blocks", cuLaunchKernel(empty, 0, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
    fact("launch with 4096 threads", cuLaunchKernel(empty, 1, 1, 1, 4096, 1, 1, 0, stream, NULL, NULL));
    fact("launch of NULL", cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*ask)(void);
    } groups[] = {{"queries", queries}, {"allocations", allocations}, {"mappings", mappings},
                  {"pools", pools},     {"graphs", graphs},           {"streams", streams}};
    find_driver();
    if (argc > 1 && strcmp(argv[1], "beginning") == 0)
        return beginning(), 0;
    CHECK(cuInit(0));
    use_device(0);
    for (unsigned i = 0; i < sizeof groups / sizeof groups[0]; i++)
        if (argc > 1 && strcmp(argv[1], groups[i].name) == 0)
            return groups[i].ask(), 0;
    fail("usage: facts beginning|queries|allocations|mappings|pools|graphs|streams", 0);
}
