/*
 * crowd ROUNDS: threads give a device work in all ways at once. Two share a stream, two use streams that come and go,
 * one uses its per-thread default stream, one uses contexts that come and go, one captures and launches graphs, one
 * forks. Each thread stops after ROUNDS and the end of the input. Prints how much was launched.
 */
#include "driver.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>

enum { NON_BLOCKING = 1, RELAXED = 2, KERNELS = 4 };

static int (*launch_per_thread)();
static void *kernels[KERNELS];
static CUcontext primary;
static CUstream common;
static unsigned long rounds;
static _Atomic bool over;
static _Atomic unsigned long launches, graphs, contexts, forks;

static bool more(unsigned long done) {
    return done < rounds || !atomic_load(&over);
}

static void give(unsigned long which, CUstream stream) {
    CHECK(cuLaunchKernel(kernels[which % KERNELS], 100, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
    (void)atomic_fetch_add(&launches, 1);
}

static void *shared_stream(void *data) {
    (void)data;
    for (unsigned long i = 0; more(i); i++) {
        give(i / 8, common);
        if (i % 50 == 49)
            CHECK(cuStreamSynchronize(common));
    }
    return NULL;
}

static void *own_streams(void *data) {
    (void)data;
    for (unsigned long i = 0; more(i); i++) {
        CUstream stream = NULL;
        CHECK(cuStreamCreate(&stream, NON_BLOCKING));
        for (unsigned long k = 0; k < 20; k++)
            give(i, stream);
        if (i % 2 == 0)
            CHECK(cuStreamSynchronize(stream));
        CHECK(cuStreamDestroy_v2(stream)); /* with work under way, too */
    }
    return NULL;
}

static void *default_streams(void *data) {
    (void)data;
    for (unsigned long i = 0; more(i); i++) {
        give(i / 4, NULL);
        CHECK(launch_per_thread(kernels[0], 100, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
        if (i % 30 == 29)
            CHECK(CALL(cuCtxSynchronize));
    }
    return NULL;
}

static void *contexts_come_and_go(void *data) {
    (void)data;
    for (unsigned long i = 0; more(i); i++) {
        CUcontext made = NULL;
        CHECK(cuCtxCreate_v2(&made, 0, 0));
        void *kernel = find_kernel("c_30us");
        for (unsigned k = 0; k < 20; k++)
            CHECK(cuLaunchKernel(kernel, 100, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
        CHECK(cuCtxDestroy_v2(made));
        (void)atomic_fetch_add(&contexts, 1);
    }
    return NULL;
}

static void *captured(void *data) {
    CUstream stream = NULL;
    (void)data;
    CHECK(cuStreamCreate(&stream, NON_BLOCKING));
    for (unsigned long i = 0; more(i); i++) {
        void *graph = NULL, *executable = NULL;
        CHECK(cuStreamBeginCapture_v2(stream, RELAXED));
        for (unsigned k = 0; k < 10; k++)
            CHECK(cuLaunchKernel(kernels[k % KERNELS], 8, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
        CHECK(cuStreamEndCapture(stream, &graph));
        CHECK(cuGraphInstantiateWithFlags(&executable, graph, 0));
        for (unsigned k = 0; k < 3; k++)
            CHECK(cuGraphLaunch(executable, stream));
        CHECK(cuStreamSynchronize(stream));
        CHECK(CALL(cuGraphExecDestroy, executable));
        CHECK(CALL(cuGraphDestroy, graph));
        (void)atomic_fetch_add(&graphs, 3);
    }
    CHECK(cuStreamDestroy_v2(stream));
    return NULL;
}

/* A child of a program that has started CUDA has none, and is told so by whatever it tries. */
static void *forked(void *data) {
    (void)data;
    for (unsigned long i = 0; more(i); i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0)
            _exit(cuLaunchKernel(kernels[0], 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) != 0 ? 0 : 1);
        if (child < 0)
            fail("fork", errno);
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        if (status != 0)
            fail("child", status);
        (void)atomic_fetch_add(&forks, 1);
        usleep(20000);
    }
    return NULL;
}

static void *with_context(void *data) {
    void *(*const *body)(void *) = data;
    CHECK(cuCtxSetCurrent(primary));
    return (*body)(NULL);
}

int main(int argc, char **argv) {
    static void *(*bodies[])(void *) = {shared_stream,   shared_stream,        own_streams, own_streams,
                                        default_streams, contexts_come_and_go, captured,    forked};
    static const char *const names[KERNELS] = {"a_5us", "b_40us", "c_300us", "d_2ms"};
    enum { THREADS = sizeof bodies / sizeof bodies[0] };
    pthread_t threads[THREADS];
    rounds = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    start_driver();
    launch_per_thread = driver_function("cuLaunchKernel_ptsz");
    CHECK(cuDevicePrimaryCtxRetain(&primary, 0));
    CHECK(cuCtxSetCurrent(primary));
    for (unsigned i = 0; i < KERNELS; i++)
        kernels[i] = find_kernel(names[i]);
    CHECK(cuStreamCreate(&common, NON_BLOCKING));
    for (unsigned i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, with_context, &bodies[i]));
    say("ready");
    while (getchar() != EOF)
        ;
    atomic_store(&over, true);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("{\"launches\": %lu, \"graphs\": %lu, \"contexts\": %lu, \"forks\": %lu}\n", launches, graphs, contexts,
           forks);
    return 0;
}
