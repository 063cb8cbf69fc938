/*
 * A program that does what it is told, one command a line, and answers each with one line: the status, then what
 * the call gave. Things allocated are numbered from 0 in the order of success.
 */
#include "driver.h"
#include "hami/kinds.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

enum { THINGS = 1 << 20 };

static uint64_t things[THINGS];
static size_t made;

static void answer(int status) {
    printf("%d %zu\n", status, status == 0 ? made++ : 0);
}

/* A function of the driver that few programs need; arguments must have the exact types of its parameters. */
static int (*driver_function(const char *name))() {
    static void *library;
    library = library != NULL ? library : dlopen("libcuda.so.1", RTLD_NOW);
    int (*found)() = (int (*)())dlsym(library, name);
    if (found == NULL)
        fail(name, 0);
    return found;
}

#define CALL(name, ...) (driver_function(#name)(__VA_ARGS__))

/* How a fat binary starts. */
struct fat_binary {
    unsigned magic;
    unsigned short version, header;
    uint64_t bytes;
};

/* CUDA_MEM_ALLOC_NODE_PARAMS */
struct memory_node {
    int type, handle_types, location_type, location_id;
    char rest_of_pool[72];
    const void *access;
    size_t access_count, bytes;
    CUdeviceptr address;
};

/* How the memory nodes come into a graph. */
static int add_memory(void *graph, const char *way, uint64_t bytes, int device, CUdeviceptr *address) {
    struct memory_node node = {.type = 1, .location_type = 1, .location_id = device, .bytes = bytes};
    struct {
        int type, reserved[3];
        struct memory_node node;
        char rest[128];
    } generic = {.type = 10, .node = node};
    void *made = NULL;
    int status = 0;
    if (strcmp(way, "generic") == 0) {
        status = CALL(cuGraphAddNode_v2, &made, graph, NULL, NULL, (size_t)0, &generic);
        *address = generic.node.address;
    } else if (strcmp(way, "child") == 0 || strcmp(way, "nested") == 0) {
        void *child = NULL, *inner = NULL;
        CHECK(CALL(cuGraphCreate, &child, 0u));
        status = CALL(cuGraphAddMemAllocNode, &made, child, NULL, (size_t)0, &node);
        *address = node.address;
        for (int level = strcmp(way, "nested") == 0 ? 20 : 0; level > 0; level--) {
            inner = child;
            CHECK(CALL(cuGraphCreate, &child, 0u));
            CHECK(CALL(cuGraphAddChildGraphNode, &made, child, NULL, (size_t)0, inner));
        }
        CHECK(CALL(cuGraphAddChildGraphNode, &made, graph, NULL, (size_t)0, child));
    } else {
        status = CALL(cuGraphAddMemAllocNode, &made, graph, NULL, (size_t)0, &node);
        *address = node.address;
    }
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
        status = add_memory(graph, way, bytes, 0, &address);
        if (status == 0 && strcmp(way, "keep") == 0)
            things[THINGS - 1] = address;
        else if (status == 0)
            status = CALL(cuGraphAddMemFreeNode, &made, graph, NULL, (size_t)0, address);
    }
    if (stream != NULL)
        CHECK(CALL(cuStreamEndCapture, stream, &graph));
    return status != 0 ? status : instantiate(out, graph, call);
}

static struct hami_bytes64 bytes_of(const char *hex) {
    struct hami_bytes64 handle;
    for (unsigned i = 0; i < sizeof handle.bytes; i++) {
        unsigned byte = 0;
        if (hex == NULL || sscanf(hex + 2 * i, "%2x", &byte) != 1)
            fail("handle", 0);
        handle.bytes[i] = (char)byte;
    }
    return handle;
}

static int open_shared(const char *hex, CUdeviceptr *address) {
    int (*open)(CUdeviceptr *, struct hami_bytes64, unsigned) =
        (int (*)(CUdeviceptr *, struct hami_bytes64, unsigned))driver_function("cuIpcOpenMemHandle_v2");
    return open(address, bytes_of(hex), 1);
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

struct letter {
    struct iovec part;
    char byte;
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof(int))];
    struct msghdr message;
};

static struct msghdr *unfold(struct letter *letter) {
    letter->part = (struct iovec){&letter->byte, 1};
    letter->message = (struct msghdr){
        .msg_iov = &letter->part, .msg_iovlen = 1, .msg_control = letter->room, .msg_controllen = sizeof letter->room};
    return &letter->message;
}

/* Puts a descriptor into a box. */
static int send_descriptor(int fd, const char *path) {
    struct sockaddr_un address = address_of(path);
    struct letter letter = {0};
    struct msghdr *message = unfold(&letter);
    struct cmsghdr *head = CMSG_FIRSTHDR(message);
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    message->msg_name = &address;
    message->msg_namelen = sizeof address;
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
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
    struct letter letter = {0};
    struct msghdr *message = unfold(&letter);
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
    struct fat_binary image = {0xba55ed50, 1, sizeof image, 0};
    void *module = NULL, *function = NULL;
    char name[32];
    snprintf(name, sizeof name, "run_%ums", (unsigned)ms);
    CHECK(CALL(cuModuleLoadData, &module, &image));
    CHECK(CALL(cuModuleGetFunction, &function, module, name));
    return CALL(cuLaunchKernel, function, 1u, 1u, 1u, 1u, 1u, 1u, 0u, stream, NULL, NULL);
}

static int allocate(char **word) {
    uint64_t *out = &things[made];
    uint64_t a = word[1] ? strtoull(word[1], NULL, 0) : 0;
    uint64_t b = word[2] ? strtoull(word[2], NULL, 0) : 0;
    uint64_t c = word[3] ? strtoull(word[3], NULL, 0) : 0;
    size_t pitch = 0;
    if (strcmp(word[0], "alloc") == 0) {
        answer(cuMemAlloc_v2(out, a));
    } else if (strcmp(word[0], "pitch") == 0) {
        answer(cuMemAllocPitch_v2(out, &pitch, a, b, 4));
    } else if (strcmp(word[0], "alloc_v1") == 0) {
        answer(CALL(cuMemAlloc, (CUdeviceptr_v1 *)out, (unsigned)a));
    } else if (strcmp(word[0], "managed") == 0) {
        answer(cuMemAllocManaged(out, a, 1));
    } else if (strcmp(word[0], "async") == 0) {
        answer(cuMemAllocAsync(out, a, NULL));
    } else if (strcmp(word[0], "pool") == 0) { /* pool DEVICE */
        struct hami_pool_props prop = {.type = 1, .handle_types = 1, .location = {.type = 1, .id = (int)a}};
        answer(CALL(cuMemPoolCreate, (CUmemoryPool *)out, &prop));
    } else if (strcmp(word[0], "pool_of") == 0) { /* pool_of DEVICE */
        answer(CALL(cuDeviceGetDefaultMemPool, (CUmemoryPool *)out, (int)a));
    } else if (strcmp(word[0], "pool_at") == 0) { /* pool_at TYPE PLACE: made for it */
        struct hami_pool_props prop = {.type = (int)a, .location = {.type = (int)b}};
        answer(CALL(cuMemPoolCreate, (CUmemoryPool *)out, &prop));
    } else if (strcmp(word[0], "own_pool_at") == 0) { /* own_pool_at TYPE PLACE: the driver's */
        struct hami_mem_location location = {.type = (int)b};
        answer(CALL(cuMemGetDefaultMemPool, (CUmemoryPool *)out, &location, (int)a));
    } else if (strcmp(word[0], "from_pool") == 0) { /* from_pool BYTES POOL */
        answer(CALL(cuMemAllocFromPoolAsync, out, (size_t)a, (CUmemoryPool)(uintptr_t)things[b], NULL));
    } else if (strcmp(word[0], "swap_pool") == 0) { /* swap_pool POOL BYTES */
        answer(swap_pools((CUmemoryPool)(uintptr_t)things[a % THINGS], b, out));
    } else if (strcmp(word[0], "create") == 0) {
        struct hami_allocation_prop prop = {.type = 1, .handle_types = 1, .location = {.type = 1, .id = (int)b}};
        answer(cuMemCreate(out, a, &prop, 0));
    } else if (strcmp(word[0], "multicast") == 0) {
        struct {
            unsigned devices;
            size_t bytes;
            uint64_t handle_types, flags;
        } prop = {1, a, 1, 0};
        answer(CALL(cuMulticastCreate, out, (const void *)&prop));
    } else if (strcmp(word[0], "reserve") == 0) {
        answer(cuMemAddressReserve(out, a, 0, 0, 0));
    } else if (strcmp(word[0], "array") == 0) {
        struct hami_array3d_descriptor d = {a, b, c, 0x20, 4, 0};
        answer(cuArray3DCreate_v2((CUarray *)out, &d));
    } else if (strcmp(word[0], "sparse") == 0) {
        struct hami_array3d_descriptor d = {a, b, 0, 0x20, 4, CUDA_ARRAY3D_SPARSE};
        answer(cuArray3DCreate_v2((CUarray *)out, &d));
    } else if (strcmp(word[0], "array_v1") == 0) {
        struct hami_array3d_descriptor_v1 d = {(unsigned)a, (unsigned)b, (unsigned)c, 0x20, 4, 0};
        answer(CALL(cuArray3DCreate, (CUarray *)out, &d));
    } else if (strcmp(word[0], "array2d_v1") == 0) {
        struct hami_array_descriptor_v1 d = {(unsigned)a, (unsigned)b, 0x20, 4};
        answer(CALL(cuArrayCreate, (CUarray *)out, &d));
    } else if (strcmp(word[0], "mipmap") == 0) {
        struct hami_array3d_descriptor d = {a, b, 0, 0x20, 4, 0};
        answer(CALL(cuMipmappedArrayCreate, (CUarray *)out, &d, (unsigned)c));
    } else if (strcmp(word[0], "external") == 0) {
        answer(import_external(out, -1, a));
    } else if (strcmp(word[0], "external_kind") == 0) { /* external_kind BYTES TYPE: the same handle each time */
        static int buffer;
        struct hami_external_memory wanted = {.type = (int)b, .handle = {&buffer}, .bytes = a};
        answer(CALL(cuImportExternalMemory, (void **)out, &wanted));
    } else if (strcmp(word[0], "external_lent") == 0) { /* external_lent BYTES PATH: into that box as well */
        int fd = open("/dev/zero", O_RDWR);             /* as NVIDIA's are: all of them of one device file */
        CHECK(send_descriptor(fd, word[2]));
        answer(import_external(out, fd, a));
    } else if (strcmp(word[0], "external_fetched") == 0) { /* external_fetched BYTES: from the box */
        answer(import_external(out, next_descriptor(), a));
    } else if (strcmp(word[0], "external_again") == 0) { /* external_again BYTES: by a duplicate of the last one */
        answer(import_external(out, dup(kept_descriptor), a));
    } else if (strcmp(word[0], "host") == 0) { /* host BYTES FLAGS */
        answer(CALL(cuMemHostAlloc, (void **)out, (size_t)a, (unsigned)b));
    } else if (strcmp(word[0], "register") == 0) { /* register BYTES FLAGS */
        *out = (uintptr_t)mmap(NULL, a, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        answer(CALL(cuMemHostRegister_v2, (void *)(uintptr_t)*out, (size_t)a, (unsigned)b));
    } else if (strcmp(word[0], "green") == 0) {
        answer(CALL(cuGreenCtxCreate, (void **)out, things, (int)a, 1u));
    } else if (strcmp(word[0], "module") == 0) { /* module FILE */
        answer(CALL(cuModuleLoad, (void **)out, word[1]));
    } else if (strcmp(word[0], "image") == 0) { /* image BYTES */
        struct fat_binary image = {0xba55ed50, 1, sizeof image, a - sizeof image};
        answer(CALL(cuModuleLoadData, (void **)out, &image));
    } else if (strcmp(word[0], "image_ex") == 0) {
        struct fat_binary image = {0xba55ed50, 1, sizeof image, a - sizeof image};
        answer(CALL(cuModuleLoadDataEx, (void **)out, &image, 0u, NULL, NULL));
    } else if (strcmp(word[0], "library") == 0) {
        struct fat_binary image = {0xba55ed50, 1, sizeof image, a - sizeof image};
        answer(CALL(cuLibraryLoadData, (void **)out, &image, NULL, NULL, 0u, NULL, NULL, 0u));
    } else if (strcmp(word[0], "kernel") == 0) { /* kernel LIBRARY */
        answer(CALL(cuLibraryGetKernel, (void **)out, (void *)(uintptr_t)things[a % THINGS], "kernel"));
    } else if (strcmp(word[0], "kernel_function") == 0) {
        answer(CALL(cuKernelGetFunction, (void **)out, (void *)(uintptr_t)things[a % THINGS]));
    } else if (strcmp(word[0], "library_module") == 0) {
        answer(CALL(cuLibraryGetModule, (void **)out, (void *)(uintptr_t)things[a % THINGS]));
    } else if (strcmp(word[0], "attach") == 0) {
        answer(CALL(cuCtxAttach, (CUcontext *)out, 0u));
    } else if (strcmp(word[0], "retain") == 0) {
        answer(CALL(cuMemRetainAllocationHandle, out, (void *)(uintptr_t)things[a % THINGS]));
    } else if (strcmp(word[0], "fetch_pool") == 0) {
        answer(fetch(out, 1));
    } else if (strcmp(word[0], "import_pointer") == 0) { /* import_pointer POOL DATA */
        struct hami_bytes64 data = bytes_of(word[2]);
        answer(CALL(cuMemPoolImportPointer, out, (CUmemoryPool)(uintptr_t)things[a % THINGS], (void *)&data));
    } else if (strcmp(word[0], "fetch") == 0) {
        answer(fetch(out, 0));
    } else if (strcmp(word[0], "ipc_open") == 0) {
        answer(open_shared(word[1], out));
    } else if (strcmp(word[0], "graph") == 0) {
        answer(make_graph(out, a, b, word[3], word[4]));
    } else if (strcmp(word[0], "stream") == 0) {
        answer(CALL(cuStreamCreate, (void **)out, 0u));
    } else if (strcmp(word[0], "current") == 0) {
        answer(CALL(cuCtxGetCurrent, (CUcontext *)out));
    } else if (strcmp(word[0], "context") == 0) {
        answer(cuCtxCreate_v2((CUcontext *)out, 0, (int)a));
    } else {
        return 0;
    }
    return 1;
}

/* Squares of 128 elements beside each other, each a part of the array's only level. */
static int change_tiles(int operation, CUarray array, CUmemHandle handle, uint64_t first, uint64_t count) {
    struct hami_array_map change = {.operation = operation, .handle = handle, .devices = 1};
    change.part.array = array;
    change.part.box.offset[0] = (uint32_t)first * 128;
    change.part.box.extent[0] = (uint32_t)count * 128;
    change.part.box.extent[1] = 128;
    change.part.box.extent[2] = 1;
    return CALL(cuMemMapArrayAsync, &change, 1u, NULL);
}

static int give_back(char **word) {
    uint64_t thing = word[1] ? things[strtoull(word[1], NULL, 0) % THINGS] : 0;
    uint64_t other = word[2] ? things[strtoull(word[2], NULL, 0) % THINGS] : 0;
    uint64_t bytes = word[3] ? strtoull(word[3], NULL, 0) : 0;
    int status = 0;
    if (strcmp(word[0], "free") == 0) {
        status = cuMemFree_v2(thing);
    } else if (strcmp(word[0], "free_async") == 0) {
        status = cuMemFreeAsync(thing, NULL);
    } else if (strcmp(word[0], "free_in") == 0) { /* free_in ADDRESS STREAM */
        status = cuMemFreeAsync(thing, (CUstream)(uintptr_t)other);
    } else if (strcmp(word[0], "run") == 0) { /* run MS, run_in MS STREAM */
        status = run_kernel(strtoull(word[1], NULL, 0), NULL);
    } else if (strcmp(word[0], "run_in") == 0) {
        status = run_kernel(strtoull(word[1], NULL, 0), (void *)(uintptr_t)other);
    } else if (strcmp(word[0], "capture_own") == 0) { /* capture_own BYTES */
        status = capture_own(strtoull(word[1], NULL, 0));
    } else if (strcmp(word[0], "end_stream") == 0) {
        status = CALL(cuStreamDestroy_v2, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "sync_stream") == 0) {
        status = cuStreamSynchronize((CUstream)(uintptr_t)thing);
    } else if (strcmp(word[0], "sync") == 0) {
        status = cuStreamSynchronize(NULL);
    } else if (strcmp(word[0], "free_host") == 0) {
        status = CALL(cuMemFreeHost, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "unregister") == 0) {
        status = CALL(cuMemHostUnregister, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "enable_peer") == 0) { /* enable_peer CONTEXT */
        status = CALL(cuCtxEnablePeerAccess, (CUcontext)(uintptr_t)thing, 0u);
    } else if (strcmp(word[0], "sync_context") == 0) {
        status = CALL(cuCtxSynchronize);
    } else if (strcmp(word[0], "sync_event") == 0) {
        void *event = NULL;
        CHECK(CALL(cuEventCreate, &event, 0u));
        CHECK(CALL(cuEventRecord, event, NULL));
        status = CALL(cuEventSynchronize, event);
        CHECK(CALL(cuEventDestroy_v2, event));
    } else if (strcmp(word[0], "set_pool") == 0) { /* set_pool POOL DEVICE */
        status = CALL(cuDeviceSetMemPool, atoi(word[2]), (CUmemoryPool)(uintptr_t)thing);
    } else if (strcmp(word[0], "threshold") == 0) { /* threshold POOL BYTES: kept when somebody waits */
        uint64_t kept = strtoull(word[2], NULL, 0);
        status = CALL(cuMemPoolSetAttribute, (CUmemoryPool)(uintptr_t)thing, 4, (void *)&kept);
    } else if (strcmp(word[0], "release") == 0) {
        status = cuMemRelease(thing);
    } else if (strcmp(word[0], "post") == 0) { /* post HANDLE PATH */
        status = post(thing, word[2], 0);
    } else if (strcmp(word[0], "post_pool") == 0) { /* post_pool POOL PATH */
        status = post(thing, word[2], 1);
    } else if (strcmp(word[0], "destroy_pool") == 0) {
        status = CALL(cuMemPoolDestroy, (CUmemoryPool)(uintptr_t)thing);
    } else if (strcmp(word[0], "trim_pool") == 0) {
        status = CALL(cuMemPoolTrimTo, (CUmemoryPool)(uintptr_t)thing, (size_t)0);
    } else if (strcmp(word[0], "map_tile") == 0) { /* map_tile ARRAY HANDLE INDEX */
        status = change_tiles(1, (CUarray)(uintptr_t)thing, other, bytes, 1);
    } else if (strcmp(word[0], "unmap_tiles") == 0) { /* unmap_tiles ARRAY 0 FIRST COUNT */
        status = change_tiles(2, (CUarray)(uintptr_t)thing, 0, bytes, word[4] ? strtoull(word[4], NULL, 0) : 1);
    } else if (strcmp(word[0], "map") == 0) { /* map ADDRESS HANDLE BYTES */
        status = cuMemMap(thing, bytes, 0, other, 0);
    } else if (strcmp(word[0], "unmap") == 0) { /* unmap ADDRESS 0 BYTES */
        status = cuMemUnmap(thing, bytes);
    } else if (strcmp(word[0], "bind") == 0) { /* bind MULTICAST HANDLE BYTES OFFSET */
        size_t offset = word[4] ? strtoull(word[4], NULL, 0) : 0;
        status =
            CALL(cuMulticastBindMem, (CUmemHandle)thing, offset, (CUmemHandle)other, (size_t)0, (size_t)bytes, 0ull);
    } else if (strcmp(word[0], "bind_address") == 0) { /* bind_address MULTICAST ADDRESS BYTES OFFSET */
        size_t offset = word[4] ? strtoull(word[4], NULL, 0) : 0;
        status = CALL(cuMulticastBindAddr_v2, (CUmemHandle)thing, 0, offset, (CUdeviceptr)other, (size_t)bytes, 0ull);
    } else if (strcmp(word[0], "unbind") == 0) { /* unbind MULTICAST 0 BYTES OFFSET DEVICE */
        size_t offset = word[4] ? strtoull(word[4], NULL, 0) : 0;
        int device = word[4] && word[5] ? atoi(word[5]) : 0;
        status = CALL(cuMulticastUnbind, (CUmemHandle)thing, device, offset, (size_t)bytes);
    } else if (strcmp(word[0], "launch") == 0) {
        status = CALL(cuGraphLaunch, (void *)(uintptr_t)thing, NULL);
    } else if (strcmp(word[0], "upload") == 0) {
        status = CALL(cuGraphUpload, (void *)(uintptr_t)thing, NULL);
    } else if (strcmp(word[0], "destroy_graph") == 0) {
        status = CALL(cuGraphExecDestroy, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "trim_graphs") == 0) {
        status = CALL(cuDeviceGraphMemTrim, word[1] ? atoi(word[1]) : 0);
    } else if (strcmp(word[0], "free_kept") == 0) {
        status = cuMemFree_v2(things[THINGS - 1]);
    } else if (strcmp(word[0], "destroy_mipmap") == 0) {
        status = CALL(cuMipmappedArrayDestroy, (CUarray)(uintptr_t)thing);
    } else if (strcmp(word[0], "destroy_external") == 0) {
        status = CALL(cuDestroyExternalMemory, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "destroy_green") == 0) {
        status = CALL(cuGreenCtxDestroy, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "use_green") == 0) {
        CUcontext context = NULL;
        status = CALL(cuCtxFromGreenCtx, &context, (void *)(uintptr_t)thing);
        status = status != 0 ? status : cuCtxSetCurrent(context);
    } else if (strcmp(word[0], "ipc_close") == 0) {
        status = CALL(cuIpcCloseMemHandle, (CUdeviceptr)thing);
    } else if (strcmp(word[0], "detach") == 0) {
        status = CALL(cuCtxDetach, (CUcontext)(uintptr_t)thing);
    } else if (strcmp(word[0], "unload") == 0) {
        status = CALL(cuModuleUnload, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "unload_library") == 0) {
        status = CALL(cuLibraryUnload, (void *)(uintptr_t)thing);
    } else if (strcmp(word[0], "destroy_array") == 0) {
        status = cuArrayDestroy((CUarray)(uintptr_t)thing);
    } else if (strcmp(word[0], "destroy_context") == 0) {
        status = cuCtxDestroy_v2((CUcontext)(uintptr_t)thing);
    } else if (strcmp(word[0], "use_context") == 0) {
        status = cuCtxSetCurrent((CUcontext)(uintptr_t)thing);
    } else if (strcmp(word[0], "release_primary") == 0) {
        status = cuDevicePrimaryCtxRelease_v2(word[1] ? atoi(word[1]) : 0);
    } else if (strcmp(word[0], "reset_primary") == 0) {
        status = CALL(cuDevicePrimaryCtxReset_v2, word[1] ? atoi(word[1]) : 0);
    } else if (strcmp(word[0], "set_limit") == 0) { /* set_limit LIMIT VALUE */
        status = CALL(cuCtxSetLimit, atoi(word[1]), (size_t)strtoull(word[2], NULL, 0));
    } else {
        return 0;
    }
    printf("%d\n", status);
    return 1;
}

/* Of a process: lock PID [MS], checkpoint PID, restore PID [elsewhere], unlock PID, state PID. */
static int suspend(char **word) {
    static const char *const names[] = {"lock", "checkpoint", "restore", "unlock", "state"};
    static const char *const functions[] = {"cuCheckpointProcessLock", "cuCheckpointProcessCheckpoint",
                                            "cuCheckpointProcessRestore", "cuCheckpointProcessUnlock",
                                            "cuCheckpointProcessGetState"};
    struct {
        unsigned timeout, reserved0;
        uint64_t reserved1[7];
    } patience = {word[2] ? (unsigned)atoi(word[2]) : 0, 0, {0}};
    struct {
        const void *pairs;
        unsigned count, reserved[13];
    } elsewhere = {(const unsigned char[32]){[31] = 1}, 1, {0}};
    int pid = word[1] ? atoi(word[1]) : 0, state = 0;
    for (unsigned i = 0; i < 5; i++) {
        if (strcmp(word[0], names[i]) != 0)
            continue;
        int (*call)(int, void *) = (int (*)(int, void *))driver_function(functions[i]);
        int status = call(pid, i == 0              ? (void *)&patience
                               : i == 2 && word[2] ? (void *)&elsewhere
                               : i == 4            ? (void *)&state
                                                   : NULL);
        if (i == 4)
            printf("%d %d\n", status, state);
        else
            printf("%d\n", status);
        return 1;
    }
    return 0;
}

static int use(int device) {
    CUcontext context = NULL;
    int status = cuDevicePrimaryCtxRetain(&context, device);
    return status != 0 ? status : cuCtxSetCurrent(context);
}

static void show_nvml(int device) {
    struct nvml_memory m = {0, 0, 0};
    nvmlDevice handle = NULL;
    CHECK(nvmlDeviceGetHandleByIndex_v2((unsigned)device, &handle));
    int status = nvmlDeviceGetMemoryInfo(handle, &m);
    printf("%d %llu %llu %llu\n", status, (unsigned long long)m.total, (unsigned long long)m.used,
           (unsigned long long)m.free);
}

static void show_processes(int device) {
    struct nvml_process processes[64];
    unsigned count = 64;
    nvmlDevice handle = NULL;
    CHECK(nvmlDeviceGetHandleByIndex_v2((unsigned)device, &handle));
    int status = nvmlDeviceGetComputeRunningProcesses_v3(handle, &count, processes);
    printf("%d", status);
    for (unsigned i = 0; status == 0 && i < count; i++)
        printf(" %u:%llu", processes[i].pid, (unsigned long long)processes[i].used);
    printf("\n");
}

/* A child that tries to take memory and to give the parent's back, which CUDA does not let it do, and ends. */
static void fork_child(void) {
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
    printf("%d\n", status);
}

/* Status, where managed memory should be, and the first two who reach it there. */
static void show_place(CUdeviceptr address) {
    int preferred = 0, accessors[2] = {0, 0};
    int status = CALL(cuMemRangeGetAttribute, &preferred, sizeof preferred, 2, address, (size_t)1);
    status = status != 0 ? status : CALL(cuMemRangeGetAttribute, accessors, sizeof accessors, 3, address, (size_t)1);
    printf("%d %d %d %d\n", status, preferred, accessors[0], accessors[1]);
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

static void show(char **word) {
    int device = word[1] ? atoi(word[1]) : 0;
    size_t a = 0, b = 0;
    if (strcmp(word[0], "use") == 0) {
        printf("%d\n", use(device));
    } else if (strcmp(word[0], "info") == 0) {
        int status = cuMemGetInfo_v2(&a, &b);
        printf("%d %zu %zu\n", status, a, b);
    } else if (strcmp(word[0], "info_v1") == 0) {
        unsigned free_v1 = 0, total_v1 = 0;
        int status = CALL(cuMemGetInfo, &free_v1, &total_v1);
        printf("%d %u %u\n", status, free_v1, total_v1);
    } else if (strcmp(word[0], "total_v1") == 0) {
        unsigned total_v1 = 0;
        int status = CALL(cuDeviceTotalMem, &total_v1, device);
        printf("%d %u\n", status, total_v1);
    } else if (strcmp(word[0], "total") == 0) {
        int status = cuDeviceTotalMem_v2(&a, device);
        printf("%d %zu\n", status, a);
    } else if (strcmp(word[0], "get_limit") == 0) { /* get_limit LIMIT */
        int status = CALL(cuCtxGetLimit, &a, device);
        printf("%d %zu\n", status, a);
    } else if (strcmp(word[0], "nvml") == 0) {
        show_nvml(device);
    } else if (strcmp(word[0], "processes") == 0) {
        show_processes(device);
    } else if (strcmp(word[0], "starve") == 0) {
        printf("%d\n", starve());
    } else if (strcmp(word[0], "fork") == 0) {
        fork_child();
    } else if (strcmp(word[0], "async_over") == 0) { /* async_over BYTES NUMBER: what is in place of the address then */
        CUdeviceptr address = strtoull(word[2], NULL, 0);
        int status = cuMemAllocAsync(&address, strtoull(word[1], NULL, 0), NULL);
        printf("%d %llu\n", status, (unsigned long long)address);
    } else if (strcmp(word[0], "where") == 0) {
        printf("0 %llu\n", (unsigned long long)things[(size_t)device % THINGS]);
    } else if (strcmp(word[0], "place") == 0) {
        show_place(things[(size_t)device % THINGS]);
    } else if (strcmp(word[0], "box") == 0) { /* box PATH */
        printf("%d\n", open_box(word[1]));
    } else if (strcmp(word[0], "ipc_get") == 0) {
        show_shared(things[(size_t)device % THINGS], 0);
    } else if (strcmp(word[0], "export_pointer") == 0) {
        show_shared(things[(size_t)device % THINGS], 1);
    } else if (strcmp(word[0], "exec") == 0) { /* the same program again, or another that lives as long as its input */
        char *again[] = {word[1] ? word[1] : "/proc/self/exe", NULL};
        (void)execv(again[0], again);
        printf("-1\n");
    } else {
        printf("-1 unknown command\n");
    }
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
    else if (!allocate(word) && !give_back(word) && !suspend(word))
        show(word);
    took = timed ? own_time() - from : took;
}

int main(void) {
    char line[256];
    start_driver();
    printf("ready\n");
    fflush(stdout);
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
