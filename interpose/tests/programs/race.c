/*
 * race ROUNDS SEED THREADS KINDS: waits for a line of input; then each thread takes and gives back 2 to 16 MiB at
 * random, as fast as it can, and in the end gives everything back. Some pieces of plain memory are small. KINDS is a
 * word of letters: (m)emory, (p)ools, (c)reated physical memory, (a)rrays, (g)raphs; and what is given back at once:
 * (s)hared physical memory, conte(x)ts of two devices, (r)eferences to the primary context, c(o)de, (q)uestions. Prints
 * how often memory was given and refused.
 */
#include "driver.h"

#include <stdatomic.h>

enum { HELD = 16, SIZES = 8, GRANULE = 2 << 20 };

struct thing {
    char kind; /* 0: none */
    uint64_t handle;
    CUdeviceptr address; /* where it is mapped, if it is */
    size_t bytes;
};

static _Atomic unsigned long got, refused;
static unsigned long rounds;
static const char *kinds = "m";

/* A graph that takes memory when it is launched. It frees the memory itself, or leaves it at `left`. */
struct graph {
    void *exec;
    CUdeviceptr left; /* or 0 */
};

static struct graph make_graph(size_t bytes, int frees) {
    struct memory_node node = {.type = 1, .location_type = 1, .bytes = bytes};
    struct graph made = {0};
    void *graph = NULL, *one = NULL;
    CHECK(CALL(cuGraphCreate, &graph, 0u));
    CHECK(CALL(cuGraphAddMemAllocNode, &one, graph, NULL, (size_t)0, &node));
    if (frees)
        CHECK(CALL(cuGraphAddMemFreeNode, &one, graph, NULL, (size_t)0, node.address));
    else
        made.left = node.address;
    CHECK(cuGraphInstantiateWithFlags(&made.exec, graph, 0));
    return made;
}

static int take(struct thing *thing, uint64_t random, const struct graph *graph) {
    struct hami_allocation_prop prop = {.type = 1, .location = {.type = 1, .id = 0}};
    struct hami_array3d_descriptor array = {.width = 512, .format = 0x20, .channels = 4};
    unsigned size = random >> 45 & (SIZES - 1);
    thing->bytes = (size + 1) * (size_t)GRANULE;
    array.height = thing->bytes / (512 * 16);
    switch (thing->kind) {
    case 'm':
        return cuMemAlloc_v2(&thing->handle, (random >> 40 & 3) == 0 ? 4096 : thing->bytes);
    case 'p':
        return cuMemAllocAsync(&thing->handle, thing->bytes, NULL);
    case 'c':
        return cuMemCreate(&thing->handle, thing->bytes, &prop, 0);
    case 'a':
        return cuArray3DCreate_v2((CUarray *)&thing->handle, &array);
    default:
        thing->handle = graph->left;
        return cuGraphLaunch(graph->exec, NULL);
    }
}

/* Exports memory and imports it again, then frees the two in either order. */
static int share_memory(uint64_t random) {
    struct hami_allocation_prop prop = {.type = 1, .handle_types = 1, .location = {.type = 1, .id = 0}};
    CUmemHandle own = 0, again = 0;
    int fd = -1, status = cuMemCreate(&own, (random % 3 + 1) * GRANULE, &prop, 0);
    if (status != 0)
        return status;
    CHECK(CALL(cuMemExportToShareableHandle, &fd, own, 1, 0ull));
    CHECK(CALL(cuMemImportFromShareableHandle, &again, (void *)(intptr_t)fd, 1));
    CHECK(cuMemRelease(random % 2 == 0 ? own : again));
    close(fd);
    return cuMemRelease(random % 2 == 0 ? again : own);
}

/* Its memory goes with it, and its handle and places may be another thread's at once. */
static int use_context(uint64_t random) {
    CUcontext made = NULL;
    CUdeviceptr address = 0;
    int status = cuCtxCreate_v2(&made, 0, random % 2);
    if (status != 0)
        return status;
    status = cuMemAlloc_v2(&address, random % 4 < 2 ? 4096 : 2 * MIB);
    CHECK(cuCtxDestroy_v2(made));
    return status;
}

static int refer(void) {
    CUcontext primary = NULL;
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    return cuDevicePrimaryCtxRelease_v2(0);
}

static int use_code(uint64_t random) {
    struct fat_binary image = code_of((random % 3 + 1) * MIB);
    void *module = NULL;
    int status = cuModuleLoadData(&module, &image);
    return status != 0 ? status : CALL(cuModuleUnload, module);
}

static int ask(void) {
    struct nvml_memory memory = memory_of(card_at(0));
    size_t bytes = 0, total = 0;
    CHECK(cuMemGetInfo_v2(&bytes, &total));
    return memory.used > memory.total || bytes > total ? -1 : 0;
}

/* Half of what was created lives on in its mapping alone. */
static void map(struct thing *thing, uint64_t random) {
    if ((random >> 50 & 1) != 0)
        return;
    CHECK(cuMemAddressReserve(&thing->address, thing->bytes, 0, 0, 0));
    CHECK(cuMemMap(thing->address, thing->bytes, 0, thing->handle, 0));
    CHECK(cuMemRelease(thing->handle));
}

static void give_back(struct thing *thing, uint64_t random) {
    if (thing->kind == 'm')
        CHECK(cuMemFree_v2(thing->handle));
    else if (thing->kind == 'p')
        CHECK(cuMemFreeAsync(thing->handle, NULL));
    else if (thing->kind == 'a')
        CHECK(cuArrayDestroy((CUarray)(uintptr_t)thing->handle));
    else if (thing->kind == 'g' && thing->handle != 0)
        CHECK(cuMemFree_v2(thing->handle));
    else if (thing->kind == 'c' && thing->address != 0)
        CHECK(cuMemUnmap(thing->address, thing->bytes));
    else if (thing->kind == 'c')
        CHECK(cuMemRelease(thing->handle));
    if (thing->kind == 'p' && (random & 1) != 0)
        CHECK(cuStreamSynchronize(NULL));
    if (thing->kind == 'g' && (random & 1) != 0)
        CHECK(cuDeviceGraphMemTrim(0));
    *thing = (struct thing){0};
}

static void *worker(void *data) {
    uint64_t random = (uint64_t)(uintptr_t)data * 2654435761u + 1;
    struct thing held[HELD] = {{0}};
    struct graph graphs[HELD] = {{0}};
    use_device(0);
    for (unsigned i = 0; i < HELD && strchr(kinds, 'g') != NULL; i++)
        graphs[i] = make_graph((i / 2 + 1) * (size_t)GRANULE, i % 2);
    for (unsigned long i = 0; i < rounds; i++) {
        (void)next_random(&random);
        struct thing *at = &held[random >> 33 & (HELD - 1)];
        if (at->kind != 0) {
            give_back(at, random >> 55);
            continue;
        }
        char kind = at->kind = kinds[(random >> 58) % strlen(kinds)];
        int status = kind == 's'   ? share_memory(random >> 40)
                     : kind == 'x' ? use_context(random >> 40)
                     : kind == 'r' ? refer()
                     : kind == 'o' ? use_code(random >> 40)
                     : kind == 'q' ? ask()
                                   : take(at, random, &graphs[at - held]);
        if (status != 0 && status != 2)
            fail("taking", status);
        if (status != 0 || strchr("sxroq", kind) != NULL)
            at->kind = 0;
        else if (at->kind == 'c')
            map(at, random);
        (void)atomic_fetch_add(status == 0 ? &got : &refused, 1);
    }
    for (unsigned i = 0; i < HELD; i++)
        if (held[i].kind != 0)
            give_back(&held[i], 1);
    return NULL;
}

static void await_line(void) {
    for (int c = getchar(); c != '\n' && c != EOF; c = getchar())
        continue;
}

int main(int argc, char **argv) {
    rounds = strtoul(argv[1], NULL, 10);
    unsigned long seed = strtoul(argv[2], NULL, 10);
    unsigned long count = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    kinds = argc > 4 ? argv[4] : kinds;
    start_driver();
    use_device(0);
    say("ready");
    await_line();
    run_threads(count, worker, (void *)(uintptr_t)(seed * 64 + 1), 1);
    if (strpbrk(kinds, "pg") != NULL) {
        CHECK(cuStreamSynchronize(NULL));
        CHECK(cuDeviceGraphMemTrim(0));
    }
    printf("{\"got\": %lu, \"refused\": %lu}\n", got, refused);
    fflush(stdout);
    await_line(); /* meanwhile the test reads the region */
    return 0;
}
