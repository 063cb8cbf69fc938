/*
 * A program that does what it is told, one command a line, and answers each with one line: the status, then what
 * the call gave. Things allocated are numbered from 0 in the order of success.
 */
#include "driver.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

enum { THINGS = 1 << 20 };

static uint64_t things[THINGS];
static size_t made;

static void answer(int status) {
    printf("%d %zu\n", status, status == 0 ? made++ : 0);
}

/* Adds a memory node to a graph, or to one that it has as a child of a child. */
static int add_memory(void *graph, bool nested, uint64_t bytes, CUdeviceptr *address) {
    enum { LEVELS = 20 };
    struct memory_node node = {.type = 1, .location_type = 1, .bytes = bytes};
    void *made = NULL, *in = graph, *inner = NULL;
    if (nested)
        CHECK(CALL(cuGraphCreate, &in, 0u));
    int status = CALL(cuGraphAddMemAllocNode, &made, in, NULL, (size_t)0, &node);
    for (int level = 1; nested && level <= LEVELS; level++) {
        inner = in;
        in = graph;
        if (level < LEVELS)
            CHECK(CALL(cuGraphCreate, &in, 0u));
        CHECK(CALL(cuGraphAddChildGraphNode, &made, in, NULL, (size_t)0, inner));
    }
    *address = node.address;
    return status;
}

/* CUDA_GRAPH_INSTANTIATE_PARAMS */
struct instantiate_params {
    uint64_t flags;
    void *stream, *error_node;
    int result;
};

/* Makes a graph executable; its memory is freed when it is launched again if CALL is given: the function to use. */
static int instantiate(uint64_t *out, void *graph, const char *call) {
    struct instantiate_params params = {.flags = 1};
    if (call == NULL)
        return CALL(cuGraphInstantiateWithFlags, (void **)out, graph, (uint64_t)0);
    if (strcmp(call, "cuGraphInstantiateWithFlags") == 0)
        return driver_function(call)((void **)out, graph, params.flags);
    return driver_function(call)((void **)out, graph, &params);
}

/*
 * graph BYTES COUNT WAY [CALL]: an executable graph that allocates COUNT times and frees all but with a WAY of "keep".
 */
static int make_graph(uint64_t *out, uint64_t bytes, uint64_t count, const char *way, const char *call) {
    void *graph = NULL, *stream = NULL, *made = NULL;
    CUdeviceptr address = 0;
    int status = 0;
    if (strcmp(way, "capture") == 0) {
        CHECK(CALL(cuStreamCreate, &stream, 0u));
        CHECK(CALL(cuStreamBeginCapture_v2, stream, 0));
    } else {
        CHECK(CALL(cuGraphCreate, &graph, 0u));
    }
    for (uint64_t i = 0; i < count && status == 0; i++) {
        if (stream != NULL) {
            status = cuMemAllocAsync(&address, bytes, stream);
            status = status != 0 ? status : cuMemFreeAsync(address, stream);
            continue;
        }
        status = add_memory(graph, strcmp(way, "nested") == 0, bytes, &address);
        if (status == 0 && strcmp(way, "keep") == 0)
            things[THINGS - 1] = address;
        else if (status == 0)
            status = CALL(cuGraphAddMemFreeNode, &made, graph, NULL, (size_t)0, address);
    }
    if (stream != NULL)
        CHECK(CALL(cuStreamEndCapture, stream, &graph));
    return status != 0 ? status : instantiate(out, graph, call);
}

/* A box that other processes put file descriptors into, under a path. */
static int box = -1;
static int kept_descriptor = -1;

static struct sockaddr_un address_of(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

static int open_box(const char *path) {
    struct sockaddr_un address = address_of(path);
    box = socket(AF_UNIX, SOCK_DGRAM, 0);
    return bind(box, (struct sockaddr *)&address, sizeof address);
}

/* The message that brings one descriptor. */
static struct msghdr *letter(void) {
    static char byte;
    static _Alignas(struct cmsghdr) char room_of_letter[CMSG_SPACE(sizeof(int))];
    static struct iovec part = {&byte, 1};
    static struct msghdr message;
    message = (struct msghdr){
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room_of_letter, .msg_controllen = sizeof room_of_letter};
    return &message;
}

/* Puts a descriptor into a box. */
static int send_descriptor(int fd, const char *path) {
    struct sockaddr_un address = address_of(path);
    struct msghdr *message = letter();
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    message->msg_name = &address;
    message->msg_namelen = sizeof address;
    *CMSG_FIRSTHDR(message) =
        (struct cmsghdr){.cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fd)};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(message)), &fd, sizeof fd);
    int status = sendmsg(sender, message, 0) == 1 ? 0 : -1; /* whose box it was is dead */
    close(sender);
    return status;
}

/* Exports memory, or a pool, and puts the descriptor into a box; none is left here. */
static int post(uint64_t thing, const char *path, int pool) {
    int fd = -1;
    int status = pool ? CALL(cuMemPoolExportToShareableHandle, &fd, (CUmemoryPool)(uintptr_t)thing, 1, 0ull)
                      : CALL(cuMemExportToShareableHandle, &fd, (CUmemHandle)thing, 1, 0ull);
    status = status != 0 ? status : send_descriptor(fd, path);
    close(fd);
    return status;
}

static int next_descriptor(void) {
    struct msghdr *message = letter();
    int fd = -1;
    if (recvmsg(box, message, 0) != 1 || CMSG_FIRSTHDR(message) == NULL)
        fail("recvmsg", 0);
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(message)), sizeof fd);
    return fd;
}

/* Imports what another API has taken; the driver has the descriptor then, and a duplicate stays here. */
static int import_external(uint64_t *out, int fd, uint64_t bytes) {
    struct hami_external_memory wanted = {.type = 1, .fd = fd, .bytes = bytes};
    kept_descriptor = fd < 0 ? fd : dup(fd);
    return CALL(cuImportExternalMemory, (void **)out, &wanted);
}

/* As NVIDIA's are: all of them of one device file. */
static int lend_descriptor(const char *path) {
    int fd = open("/dev/zero", O_RDWR);
    CHECK(send_descriptor(fd, path));
    return fd;
}

static int register_host(uint64_t *out, uint64_t bytes, uint64_t flags) {
    *out = (uintptr_t)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return CALL(cuMemHostRegister_v2, *out, bytes, flags);
}

static int import_pointer(uint64_t *out, uint64_t pool, const char *hex) {
    struct hami_bytes64 data = bytes_of(hex);
    return CALL(cuMemPoolImportPointer, out, pool, &data);
}

/* Imports what is next in the box. */
static int fetch(uint64_t *out, int pool) {
    int fd = next_descriptor();
    int status = pool ? CALL(cuMemPoolImportFromShareableHandle, (CUmemoryPool *)out, (void *)(intptr_t)fd, 1, 0ull)
                      : CALL(cuMemImportFromShareableHandle, (CUmemHandle *)out, (void *)(intptr_t)fd, 1);
    close(fd);
    return status;
}

static void show_shared(CUdeviceptr address, int pool) {
    struct hami_bytes64 handle;
    printf("%d ", pool ? CALL(cuMemPoolExportPointer, &handle, address) : CALL(cuIpcGetMemHandle, &handle, address));
    for (unsigned i = 0; i < sizeof handle.bytes; i++)
        printf("%02x", (unsigned char)handle.bytes[i]);
    printf("\n");
}

static void *end_pool(void *pool) {
    CHECK(CALL(cuMemPoolDestroy, (CUmemoryPool)pool));
    return NULL;
}

/* Makes a pool while another thread is just destroying one, and takes memory from it. */
static int swap_pools(CUmemoryPool old, uint64_t bytes, CUdeviceptr *address) {
    struct hami_pool_props prop = {.type = 1, .handle_types = 1, .location = {.type = 1}};
    CUmemoryPool pool = NULL;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, end_pool, (void *)old));
    nanosleep(&(struct timespec){0, 100000000}, NULL);
    int status = CALL(cuMemPoolCreate, &pool, &prop);
    status = status != 0   ? status
             : pool != old ? -1
                           : CALL(cuMemAllocFromPoolAsync, address, (size_t)bytes, pool, NULL);
    pthread_join(thread, NULL);
    return status;
}

/* What a capture of this thread's default stream answers to an allocation in it. */
static int capture_own(uint64_t bytes) {
    void *graph = NULL, *own = (void *)(uintptr_t)2;
    CUdeviceptr address = 0;
    CHECK(CALL(cuStreamBeginCapture_v2, own, 0));
    int status = CALL(cuMemAllocAsync_ptsz, &address, (size_t)bytes, NULL);
    if (status == 0)
        status = CALL(cuMemFreeAsync_ptsz, address, NULL);
    CHECK(CALL(cuStreamEndCapture, own, &graph));
    return status;
}

/* A kernel of so many milliseconds. */
static int run_kernel(uint64_t ms, void *stream) {
    char name[32];
    snprintf(name, sizeof name, "run_%ums", (unsigned)ms);
    return cuLaunchKernel(find_kernel(name), 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL);
}

/* Squares of 128 elements beside each other, each a part of the array's only level. */
static int change_tiles(int operation, uint64_t array, CUmemHandle handle, uint64_t first, uint64_t count) {
    struct hami_array_map change = {.operation = operation, .handle = handle, .devices = 1};
    change.part.array = (CUarray)(uintptr_t)array;
    change.part.box.offset[0] = (uint32_t)first * 128;
    change.part.box.extent[0] = (uint32_t)count * 128;
    change.part.box.extent[1] = 128;
    change.part.box.extent[2] = 1;
    return CALL(cuMemMapArrayAsync, &change, 1u, NULL);
}

static int wait_for_event(void) {
    void *event = NULL;
    CHECK(CALL(cuEventCreate, &event, 0u));
    CHECK(CALL(cuEventRecord, event, NULL));
    int status = CALL(cuEventSynchronize, event);
    CHECK(CALL(cuEventDestroy_v2, event));
    return status;
}

static int use_green(uint64_t green) {
    CUcontext context = NULL;
    int status = CALL(cuCtxFromGreenCtx, &context, green);
    return status != 0 ? status : cuCtxSetCurrent(context);
}

static int use(int device) {
    CUcontext context = NULL;
    int status = cuDevicePrimaryCtxRetain(&context, device);
    return status != 0 ? status : cuCtxSetCurrent(context);
}

static int lock(uint64_t pid, uint64_t ms) {
    const struct {
        unsigned timeout, reserved0;
        uint64_t reserved1[7];
    } patience = {(unsigned)ms, 0, {0}};
    return CALL(cuCheckpointProcessLock, pid, &patience);
}

static int restore(uint64_t pid, bool elsewhere) {
    const struct {
        const void *pairs;
        unsigned count, reserved[13];
    } pairs = {(const unsigned char[32]){[31] = 1}, 1, {0}};
    return CALL(cuCheckpointProcessRestore, pid, elsewhere ? &pairs : NULL);
}

/* A child that tries to take memory and to give the parent's back, which CUDA does not let it do, and ends. */
static int fork_child(void) {
    pid_t child = fork();
    int status = 0;
    if (child == 0) {
        CUdeviceptr address = 0;
        int failed = cuMemAlloc_v2(&address, 4 * MIB) != 0;
        for (size_t i = 0; i < made; i++)
            failed += cuMemFree_v2(things[i]) != 0;
        _exit(failed == (int)made + 1 ? 0 : 1);
    }
    (void)waitpid(child, &status, 0);
    return status;
}

/* From now on the kernel gives this process no more memory; what the C library has in stock is left. */
static int starve(void) {
    enum { PIECES = 64, PIECE = 1 << 20 };
    struct rlimit none = {0, RLIM_INFINITY};
    void *stock[PIECES];
    (void)mallopt(M_MMAP_THRESHOLD, 2 * PIECE);
    (void)mallopt(M_TRIM_THRESHOLD, 2 * PIECES * PIECE);
    for (unsigned i = 0; i < PIECES; i++)
        stock[i] = malloc(PIECE);
    for (unsigned i = 0; i < PIECES; i++)
        free(stock[i]);
    return getrlimit(RLIMIT_AS, &none) != 0 ? -1 : (none.rlim_cur = 0, setrlimit(RLIMIT_AS, &none));
}

static uint64_t number(const char *text) {
    return text != NULL ? strtoull(text, NULL, 0) : 0;
}

#define PRINTS(command, action) ON(word[0], command, action)
#define DOES(command, call) PRINTS(command, printf("%d\n", call))
#define MAKES(command, call) PRINTS(command, answer(call))
#define SHOWS(command, call) PRINTS(command, show_number(call, &shown))

static int allocate(char **word) {
    static int buffer;
    uint64_t *out = &things[made], a = number(word[1]), b = number(word[2]), c = number(word[3]);
    uint64_t thing = word[1] != NULL ? things[a % THINGS] : 0, pitch = 0;
    const struct fat_binary image = code_of(a - sizeof image);
    const struct hami_mem_location place = {.type = (int)b};
    const struct hami_pool_props pool = {.type = 1, .handle_types = 1, .location = {.type = 1, .id = (int)a}};
    const struct hami_pool_props pool_at = {.type = (int)a, .location = place};
    const struct hami_allocation_prop memory = {.type = 1, .handle_types = 1, .location = {.type = 1, .id = (int)b}};
    const struct hami_array3d_descriptor array = {a, b, c, 0x20, 4, 0}, level = {a, b, 0, 0x20, 4, 0};
    const struct hami_array3d_descriptor sparse = {a, b, 0, 0x20, 4, CUDA_ARRAY3D_SPARSE};
    const struct hami_array3d_descriptor_v1 array_v1 = {(unsigned)a, (unsigned)b, (unsigned)c, 0x20, 4, 0};
    const struct hami_array_descriptor_v1 array2d_v1 = {(unsigned)a, (unsigned)b, 0x20, 4};
    const struct hami_external_memory external = {.type = (int)b, .handle = {&buffer}, .bytes = a};
    const struct {
        unsigned devices;
        size_t bytes;
        uint64_t handle_types, flags;
    } multicast = {1, a, 1, 0};
    MAKES("alloc", cuMemAlloc_v2(out, a)); /* alloc BYTES */
    MAKES("alloc_v1", CALL(cuMemAlloc, out, a));
    MAKES("pitch", cuMemAllocPitch_v2(out, &pitch, a, b, 4)); /* pitch WIDTH HEIGHT */
    MAKES("managed", cuMemAllocManaged(out, a, 1));
    MAKES("async", cuMemAllocAsync(out, a, NULL));
    MAKES("pool", CALL(cuMemPoolCreate, out, &pool));                   /* pool DEVICE */
    MAKES("pool_of", CALL(cuDeviceGetDefaultMemPool, out, a));          /* pool_of DEVICE */
    MAKES("pool_at", CALL(cuMemPoolCreate, out, &pool_at));             /* pool_at TYPE PLACE: made for it */
    MAKES("own_pool_at", CALL(cuMemGetDefaultMemPool, out, &place, a)); /* own_pool_at TYPE PLACE: the driver's */
    MAKES("from_pool", CALL(cuMemAllocFromPoolAsync, out, a, things[b], NULL)); /* from_pool BYTES POOL */
    MAKES("swap_pool", swap_pools((CUmemoryPool)(uintptr_t)thing, b, out));     /* swap_pool POOL BYTES */
    MAKES("create", cuMemCreate(out, a, &memory, 0));                           /* create BYTES DEVICE */
    MAKES("multicast", CALL(cuMulticastCreate, out, &multicast));
    MAKES("reserve", cuMemAddressReserve(out, a, 0, 0, 0));
    MAKES("array", cuArray3DCreate_v2((CUarray *)out, &array)); /* array WIDTH HEIGHT DEPTH */
    MAKES("sparse", cuArray3DCreate_v2((CUarray *)out, &sparse));
    MAKES("array_v1", CALL(cuArray3DCreate, out, &array_v1));
    MAKES("array2d_v1", CALL(cuArrayCreate, out, &array2d_v1));
    MAKES("mipmap", CALL(cuMipmappedArrayCreate, out, &level, c)); /* mipmap WIDTH HEIGHT LEVELS */
    MAKES("external", import_external(out, -1, a));
    MAKES("external_kind", CALL(cuImportExternalMemory, out, &external)); /* BYTES TYPE: the same handle each time */
    MAKES("external_lent", import_external(out, lend_descriptor(word[2]), a)); /* BYTES PATH: into that box as well */
    MAKES("external_fetched", import_external(out, next_descriptor(), a));     /* from the box */
    MAKES("external_again", import_external(out, dup(kept_descriptor), a));    /* by a duplicate of the last one */
    MAKES("host", CALL(cuMemHostAlloc, out, a, b));                            /* host BYTES FLAGS */
    MAKES("register", register_host(out, a, b));                               /* register BYTES FLAGS */
    MAKES("green", CALL(cuGreenCtxCreate, out, things, a, 1u));                /* green DEVICE */
    MAKES("module", CALL(cuModuleLoad, out, word[1]));                         /* module FILE */
    MAKES("image", CALL(cuModuleLoadData, out, &image));                       /* image BYTES */
    MAKES("image_ex", CALL(cuModuleLoadDataEx, out, &image, 0u, NULL, NULL));
    MAKES("library", CALL(cuLibraryLoadData, out, &image, NULL, NULL, 0u, NULL, NULL, 0u));
    MAKES("kernel", CALL(cuLibraryGetKernel, out, thing, "kernel")); /* kernel LIBRARY */
    MAKES("kernel_function", CALL(cuKernelGetFunction, out, thing));
    MAKES("library_module", CALL(cuLibraryGetModule, out, thing));
    MAKES("attach", CALL(cuCtxAttach, out, 0u));
    MAKES("retain", CALL(cuMemRetainAllocationHandle, out, thing)); /* retain ADDRESS */
    MAKES("fetch", fetch(out, 0));
    MAKES("fetch_pool", fetch(out, 1));
    MAKES("import_pointer", import_pointer(out, thing, word[2])); /* import_pointer POOL DATA */
    MAKES("ipc_open", open_shared_memory(out, word[1]));
    MAKES("graph", make_graph(out, a, b, word[3], word[4]));
    MAKES("stream", CALL(cuStreamCreate, out, 0u));
    MAKES("current", CALL(cuCtxGetCurrent, out));
    MAKES("context", cuCtxCreate_v2((CUcontext *)out, 0, (int)a)); /* context DEVICE */
    return 0;
}

static int give_back(char **word) {
    uint64_t a = number(word[1]), b = number(word[2]), c = number(word[3]), d = number(word[4]);
    uint64_t thing = word[1] != NULL ? things[a % THINGS] : 0, other = word[2] != NULL ? things[b % THINGS] : 0;
    DOES("free", cuMemFree_v2(thing));
    DOES("free_kept", cuMemFree_v2(things[THINGS - 1]));
    DOES("free_async", cuMemFreeAsync(thing, NULL));
    DOES("free_in", CALL(cuMemFreeAsync, thing, other));     /* free_in ADDRESS STREAM */
    DOES("run", run_kernel(a, NULL));                        /* run MS */
    DOES("run_in", run_kernel(a, (void *)(uintptr_t)other)); /* run_in MS STREAM */
    DOES("capture_own", capture_own(a));                     /* capture_own BYTES */
    DOES("sync", cuStreamSynchronize(NULL));
    DOES("sync_stream", CALL(cuStreamSynchronize, thing));
    DOES("sync_context", CALL(cuCtxSynchronize));
    DOES("sync_event", wait_for_event());
    DOES("free_host", CALL(cuMemFreeHost, thing));
    DOES("unregister", CALL(cuMemHostUnregister, thing));
    DOES("enable_peer", CALL(cuCtxEnablePeerAccess, thing, 0u));  /* enable_peer CONTEXT */
    DOES("set_pool", CALL(cuDeviceSetMemPool, b, thing));         /* set_pool POOL DEVICE */
    DOES("threshold", CALL(cuMemPoolSetAttribute, thing, 4, &b)); /* threshold POOL BYTES: kept when somebody waits */
    DOES("destroy_pool", CALL(cuMemPoolDestroy, thing));
    DOES("trim_pool", CALL(cuMemPoolTrimTo, thing, (size_t)0));
    DOES("post", post(thing, word[2], 0));      /* post HANDLE PATH */
    DOES("post_pool", post(thing, word[2], 1)); /* post_pool POOL PATH */
    DOES("release", cuMemRelease(thing));
    DOES("map", cuMemMap(thing, c, 0, other, 0));                                /* map ADDRESS HANDLE BYTES */
    DOES("unmap", cuMemUnmap(thing, c));                                         /* unmap ADDRESS 0 BYTES */
    DOES("map_tile", change_tiles(1, thing, other, c, 1));                       /* map_tile ARRAY HANDLE INDEX */
    DOES("unmap_tiles", change_tiles(2, thing, 0, c, word[4] ? d : 1));          /* unmap_tiles ARRAY 0 FIRST COUNT */
    DOES("bind", CALL(cuMulticastBindMem, thing, d, other, (size_t)0, c, 0ull)); /* MULTICAST HANDLE BYTES OFFSET */
    DOES("bind_address", CALL(cuMulticastBindAddr_v2, thing, 0, d, other, c, 0ull)); /* likewise, of an ADDRESS */
    DOES("unbind", CALL(cuMulticastUnbind, thing, number(word[5]), d, c)); /* MULTICAST 0 BYTES OFFSET DEVICE */
    DOES("launch", CALL(cuGraphLaunch, thing, NULL));
    DOES("upload", CALL(cuGraphUpload, thing, NULL));
    DOES("destroy_graph", CALL(cuGraphExecDestroy, thing));
    DOES("trim_graphs", CALL(cuDeviceGraphMemTrim, a)); /* trim_graphs DEVICE */
    DOES("destroy_array", CALL(cuArrayDestroy, thing));
    DOES("destroy_mipmap", CALL(cuMipmappedArrayDestroy, thing));
    DOES("destroy_external", CALL(cuDestroyExternalMemory, thing));
    DOES("ipc_close", CALL(cuIpcCloseMemHandle, thing));
    DOES("unload", CALL(cuModuleUnload, thing));
    DOES("unload_library", CALL(cuLibraryUnload, thing));
    DOES("detach", CALL(cuCtxDetach, thing));
    DOES("use", use((int)a)); /* use DEVICE */
    DOES("use_context", CALL(cuCtxSetCurrent, thing));
    DOES("use_green", use_green(thing));
    DOES("destroy_context", CALL(cuCtxDestroy_v2, thing));
    DOES("destroy_green", CALL(cuGreenCtxDestroy, thing));
    DOES("release_primary", cuDevicePrimaryCtxRelease_v2((int)a));
    DOES("reset_primary", CALL(cuDevicePrimaryCtxReset_v2, a));
    DOES("set_limit", CALL(cuCtxSetLimit, a, b)); /* set_limit LIMIT VALUE */
    DOES("starve", starve());
    DOES("box", open_box(word[1])); /* box PATH */
    DOES("fork", fork_child());
    DOES("lock", lock(a, b));                                         /* lock PID [MS] */
    DOES("checkpoint", CALL(cuCheckpointProcessCheckpoint, a, NULL)); /* checkpoint PID */
    DOES("restore", restore(a, word[2] != NULL));                     /* restore PID [elsewhere] */
    DOES("unlock", CALL(cuCheckpointProcessUnlock, a, NULL));
    return 0;
}

static void show_memory(int status, const struct nvml_memory *m) {
    printf("%d %llu %llu %llu", status, (unsigned long long)m->total, (unsigned long long)m->used,
           (unsigned long long)m->free);
}

static void show_nvml(unsigned device) {
    struct nvml_memory m = {0, 0, 0};
    show_memory(nvmlDeviceGetMemoryInfo(card_at(device), &m), &m);
    printf("\n");
}

static void show_processes(unsigned device) {
    struct nvml_process processes[64];
    unsigned count = 64;
    int status = nvmlDeviceGetComputeRunningProcesses_v3(card_at(device), &count, processes);
    printf("%d", status);
    for (unsigned i = 0; status == 0 && i < count; i++)
        printf(" %u:%llu", processes[i].pid, (unsigned long long)processes[i].used);
    printf("\n");
}

/* Status, where managed memory should be, and the first two who reach it there. */
static void show_place(CUdeviceptr address) {
    int preferred = 0, accessors[2] = {0, 0};
    int status = CALL(cuMemRangeGetAttribute, &preferred, sizeof preferred, 2, address, (size_t)1);
    status = status != 0 ? status : CALL(cuMemRangeGetAttribute, accessors, sizeof accessors, 3, address, (size_t)1);
    printf("%d %d %d %d\n", status, preferred, accessors[0], accessors[1]);
}

static void show_number(int status, const uint64_t *shown) {
    printf("%d %llu\n", status, (unsigned long long)*shown);
}

static bool wants(const char *only, const char *output) {
    return only == NULL || strcmp(only, output) == 0;
}

/* info [free|total]: only that is asked for */
static void show_info(const char *only) {
    size_t left = 0, total = 0;
    int status = cuMemGetInfo_v2(wants(only, "free") ? &left : NULL, wants(only, "total") ? &total : NULL);
    printf("%d %zu %zu\n", status, left, total);
}

static void show_info_v1(const char *only) {
    unsigned left = 0, total = 0;
    int status = CALL(cuMemGetInfo, wants(only, "free") ? &left : NULL, wants(only, "total") ? &total : NULL);
    printf("%d %u %u\n", status, left, total);
}

/* exec [PROGRAM]: the same program again, or another that lives as long as its input */
static void become(char *program) {
    char *again[] = {program != NULL ? program : "/proc/self/exe", NULL};
    (void)execv(again[0], again);
    printf("-1\n");
}

static int show(char **word) {
    uint64_t a = number(word[1]), b = number(word[2]), thing = things[a % THINGS], shown = 0;
    SHOWS("total", CALL(cuDeviceTotalMem_v2, &shown, a));
    SHOWS("total_v1", CALL(cuDeviceTotalMem, &shown, a));
    SHOWS("get_limit", CALL(cuCtxGetLimit, &shown, a)); /* get_limit LIMIT */
    SHOWS("state", CALL(cuCheckpointProcessGetState, a, &shown));
    SHOWS("async_over", (shown = b, cuMemAllocAsync(&shown, a, NULL))); /* async_over BYTES NUMBER */
    PRINTS("info", show_info(word[1]));
    PRINTS("info_v1", show_info_v1(word[1]));
    PRINTS("nvml", show_nvml((unsigned)a));
    PRINTS("processes", show_processes((unsigned)a));
    PRINTS("place", show_place(thing));
    PRINTS("ipc_get", show_shared(thing, 0));
    PRINTS("export_pointer", show_shared(thing, 1));
    PRINTS("exec", become(word[1]));
    return printf("-1 unknown command\n");
}

/* ---- NVML's lists of processes: COMMAND ROOM ARGUMENTS ---- */

enum { LIST = 64 };
#define UNTOUCHED 0xa5a5a5a5u

static unsigned room; /* of the list that NVML gets */
static bool given;    /* ROOM is not "null" */

/* Prints the status and the number of entries. Fails if NVML wrote behind these entries. */
static void show_head(int status, unsigned count, const void *list, size_t size) {
    const unsigned char *bytes = list;
    for (size_t i = (given && status == 0 ? count : 0) * size; i < LIST * size; i++)
        if (bytes[i] != 0xa5)
            fail("written where nothing should be", (int)(i / size));
    printf("%d %u", status, count);
}

static void show_samples(uint64_t since) {
    struct nvml_utilization_sample list[LIST];
    unsigned count = room;
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetProcessUtilization, card_at(0), given ? list : NULL, &count, since);
    show_head(status, count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < count; i++)
        printf(" %u:%u", list[i].pid, list[i].sm);
}

static void show_infos(unsigned version) {
    struct nvml_utilization_info list[LIST];
    struct nvml_utilization_infos asked = {version, room, 0, given ? list : NULL};
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetProcessesUtilizationInfo, card_at(0), &asked);
    show_head(status, asked.count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < asked.count; i++)
        printf(" %u:%u", list[i].pid, list[i].sm);
}

static void show_details(unsigned version, unsigned mode) {
    struct nvml_process_detail list[LIST];
    struct nvml_process_details asked = {version, mode, room, given ? list : NULL};
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetRunningProcessDetailList, card_at(0), &asked);
    show_head(status, asked.count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < asked.count; i++)
        printf(" %u:%llu", list[i].process.pid, (unsigned long long)list[i].process.used);
}

static void show_pids(void) {
    unsigned list[LIST], count = room;
    memset(list, 0xa5, sizeof list);
    int status = CALL(nvmlDeviceGetAccountingPids, card_at(0), &count, given ? list : NULL);
    show_head(status, count, list, sizeof *list);
    for (unsigned i = 0; status == 0 && i < count; i++)
        printf(" %u", list[i]);
}

/* Prints the status, whether the process runs, and the most memory that it used. */
static void show_account(int status, unsigned running, unsigned long long most_used) {
    printf(running == UNTOUCHED ? "%d -" : "%d %u %llu", status, running, most_used);
}

static void show_stats(unsigned pid) {
    struct nvml_accounting found;
    memset(&found, 0xa5, sizeof found);
    int status = CALL(nvmlDeviceGetAccountingStats, card_at(0), pid, &found);
    show_account(status, found.running, found.most_used);
}

static void show_stats_v2(unsigned pid) {
    struct nvml_accounting_v2 found;
    memset(&found, 0xa5, sizeof found);
    found.pid = pid;
    int status = CALL(nvmlDeviceGetAccountingStats_v2, card_at(0), &found);
    if (found.pid != pid)
        fail("about another", (int)found.pid);
    show_account(status, found.running, found.most_used);
}

static void show_name(unsigned pid, unsigned length) {
    char found[256];
    memset(found, 0, sizeof found);
    int status = CALL(nvmlSystemGetProcessName, pid, found, length);
    printf("%d %s", status, found[0] == '\0' ? "-" : found);
}

static void show_protected(void) {
    struct nvml_memory m = {0, 0, 0};
    show_memory(CALL(nvmlDeviceGetConfComputeProtectedMemoryUsage, card_at(0), &m), &m);
}

static void show_accounting(void) {
    unsigned enabled = 0;
    int status = CALL(nvmlDeviceGetAccountingMode, card_at(0), &enabled);
    printf("%d %u", status, enabled);
}

static void show_buffer(void) {
    unsigned size = 0;
    int status = CALL(nvmlDeviceGetAccountingBufferSize, card_at(0), &size);
    printf("%d %u", status, size);
}

/* What NVML did not write is shown as "-". */
static int show_of_processes(char **word) {
    uint64_t first = number(word[2]);
    unsigned a = (unsigned)first, b = (unsigned)number(word[3]);
    given = word[1] != NULL && strcmp(word[1], "null") != 0;
    room = given ? (unsigned)number(word[1]) : 0;
    PRINTS("samples", show_samples(first));
    PRINTS("infos", show_infos(a));
    PRINTS("details", show_details(a, b));
    PRINTS("pids", show_pids());
    PRINTS("stats", show_stats(a));
    PRINTS("stats_v2", show_stats_v2(a));
    PRINTS("name", show_name(a, b));
    PRINTS("protected", show_protected());
    PRINTS("set_accounting", printf("%d", CALL(nvmlDeviceSetAccountingMode, card_at(0), (int)a)));
    PRINTS("accounting", show_accounting());
    PRINTS("buffer", show_buffer());
    return 0;
}

/* Nanoseconds that have passed but for those in which another ran here: at work, and waiting by our own doing. */
static int64_t own_time(void) {
    unsigned long long ran = 0, kept = 0; /* without these figures of the kernel's all time is our own */
    struct timespec now;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (file != NULL && fscanf(file, "%llu %llu", &ran, &kept) != 2)
        kept = 0;
    if (file != NULL)
        fclose(file);
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)kept;
}

/* timed COMMAND: the same; "took" tells the milliseconds afterwards. */
static void obey(char **word) {
    static int64_t took;
    bool timed = strcmp(word[0], "timed") == 0 && word[1] != NULL;
    int64_t from = timed ? own_time() : 0;
    word += timed;
    if (strcmp(word[0], "took") == 0)
        printf("%lld\n", (long long)took / 1000000);
    else
        (void)(allocate(word) || give_back(word) || (show_of_processes(word) && putchar('\n')) || show(word));
    took = timed ? own_time() - from : took;
}

int main(void) {
    char line[256];
    start_driver();
    say("ready");
    while (fgets(line, sizeof line, stdin) != NULL) {
        char *word[7] = {NULL};
        unsigned count = 0;
        for (char *at = strtok(line, " \n"); at != NULL && count < 6; at = strtok(NULL, " \n"))
            word[count++] = at;
        if (count > 0)
            obey(word);
        fflush(stdout);
    }
    return 0;
}
