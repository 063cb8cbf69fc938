/*
 * ending WHAT [HANDLE HANDLE]: a thread ends a context. While the driver has not come back from that, the main thread
 * does WHAT. It prints a line when some of its memory is left, and another when none is, and waits for input each time.
 *
 *   large, async  takes memory where the ended context had small allocations, and frees it
 *   pools         does that with a pool, which it destroys in the end
 *   green         does that where the context ended with its last green context
 *   kept          takes and frees small memory of a primary context that only lost a reference
 *   view          does that through a green context
 *   shared        opens another process's memory where the ended context had some
 */
#include "driver.h"

enum { MOST = 256 };

static const char *what;
static CUcontext theirs;
static void *green;

static int is(const char *name) {
    return strcmp(what, name) == 0;
}

static CUcontext in_green(void) {
    CUcontext context = NULL;
    CHECK(CALL(cuGreenCtxCreate, &green, &green, 0, 1u));
    CHECK(CALL(cuCtxFromGreenCtx, &context, green));
    CHECK(cuCtxSetCurrent(context));
    return context;
}

static void *ender(void *data) {
    (void)data;
    if (is("kept") || is("view"))
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    else if (is("green"))
        CHECK(CALL(cuGreenCtxDestroy, green));
    else
        CHECK(cuCtxDestroy_v2(theirs));
    return NULL;
}

/* Starts the thread, and waits until the driver has ended the context and sleeps before it returns. */
static pthread_t begin(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, ender, NULL));
    usleep(150000);
    return thread;
}

static void show(const char *line) {
    say(line);
    (void)getchar();
}

/* A place of theirs comes to us, for something else. */
static void take_over(void) {
    struct hami_pool_props prop = {.type = 1, .location = {.type = 1}};
    CUmemoryPool pool = NULL;
    CUcontext ours = NULL;
    CUdeviceptr place = 0, held[MOST];
    unsigned count = 0;
    CHECK(cuCtxCreate_v2(&ours, 0, 0));
    if (is("pools"))
        CHECK(CALL(cuMemPoolCreate, &pool, &prop));
    if (is("green"))
        (void)in_green();
    else
        CHECK(cuCtxCreate_v2(&theirs, 0, 0));
    for (unsigned i = 0; i < 4; i++) /* the first is the block's */
        CHECK(cuMemAlloc_v2(i == 0 ? &place : &held[0], 4096));
    CHECK(cuCtxSetCurrent(ours));
    pthread_t thread = begin();
    while (count == 0 || (held[count - 1] != place && count < MOST)) {
        if (is("async"))
            CHECK(cuMemAllocAsync(&held[count++], 2 * MIB, NULL));
        else if (is("pools"))
            CHECK(CALL(cuMemAllocFromPoolAsync, &held[count++], 2 * MIB, pool, NULL));
        else
            CHECK(cuMemAlloc_v2(&held[count++], 2 * MIB));
    }
    CHECK(is("async") ? cuMemFreeAsync(held[count - 1], NULL) : cuMemFree_v2(held[count - 1]));
    CHECK(cuStreamSynchronize(NULL));
    pthread_join(thread, NULL);
    show(held[count - 1] == place ? "same" : "other");
    for (unsigned i = 0; i + 1 < count; i++)
        CHECK(is("async") ? cuMemFreeAsync(held[i], NULL) : cuMemFree_v2(held[i]));
    CHECK(cuStreamSynchronize(NULL));
    if (pool != NULL)
        CHECK(CALL(cuMemPoolDestroy, pool));
    show("freed");
}

/* What another thread lets go of stays. */
static void keep(void) {
    CUdeviceptr first = 0, second = 0, third = 0;
    use_device(0);
    use_device(0);
    CHECK(cuMemAlloc_v2(&first, 4096));
    if (is("view"))
        (void)in_green();
    pthread_t thread = begin();
    CHECK(cuMemAlloc_v2(&second, 4096));
    CHECK(cuMemAlloc_v2(&third, 2 * MIB));
    pthread_join(thread, NULL);
    CHECK(cuMemFree_v2(second));
    show((first ^ second) >> 21 == 0 ? "same" : "other");
    if (is("view")) {
        CHECK(cuMemAlloc_v2(&second, 4096));
        CHECK(CALL(cuGreenCtxDestroy, green));
        use_device(0);
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
        CHECK(cuMemFree_v2(second));
    }
    CHECK(cuMemFree_v2(first));
    CHECK(cuMemFree_v2(third));
    show("freed");
}

static void open_shared(char **handles) {
    CUcontext ours = NULL;
    CUdeviceptr first = 0, second = 0;
    CHECK(cuCtxCreate_v2(&ours, 0, 0));
    CHECK(cuCtxCreate_v2(&theirs, 0, 0));
    CHECK(open_shared_memory(&first, handles[0]));
    CHECK(cuCtxSetCurrent(ours));
    pthread_t thread = begin();
    CHECK(open_shared_memory(&second, handles[1]));
    pthread_join(thread, NULL);
    show(first == second ? "same" : "other");
    CHECK(CALL(cuIpcCloseMemHandle, second));
    show("freed");
}

int main(int argc, char **argv) {
    what = argc > 1 ? argv[1] : "large";
    start_driver();
    if (is("kept") || is("view"))
        keep();
    else if (is("shared") && argc > 3)
        open_shared(argv + 2);
    else
        take_over();
    return 0;
}
