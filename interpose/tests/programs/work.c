/*
 * work KEY=VALUE ...: gives a device work for a while and prints what it saw as JSON.
 *
 *   kernels=a_20us*10,b_200us   names (the simulated driver reads times in them) with how often each in a row
 *   random=1                    draw the next at random instead of in turn
 *   streams=N                   so many threads with a stream each; 0: the main thread on the default stream
 *   graph=N                     launch graphs of N kernels instead
 *   how=kernel|ex|cooperative|multi|legacy|grid|grid_async   the launch function; with _ptsz behind the first three its
 *                               per-thread form, also of a graph's
 *   devices=N                   threads use the first N devices in turn
 *   lives=N                     every N launches come from a new thread, one after the other; in the second half of the
 *                               time they are of the second kernel
 *   host=NS sync=N gap=NS       computing before each launch; synchronise every N launches and then compute
 *   start=MS seconds=S          when to begin, and when to end
 *   warm=MS                     waits before this do not count
 *   kill=MS freeze=MS:MS        SIGKILL itself then; stand still from then for so long
 *   victim=N                    that only in the process with this HAMI_VIRTUAL_INDEX
 *   tokens=N                    throttle itself to so many blocks a second, as limiters do that count blocks
 *   seed=N
 *
 * Host times pass on the virtual clock (virtual.c); without it only gaps do.
 */
#include "driver.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

extern void virtual_spend(uint64_t ns) __attribute__((weak));
extern void virtual_freeze(uint64_t ns) __attribute__((weak));

struct launch_params {
    void *function;
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void **params;
};

struct launch_config {
    unsigned grid[3], block[3], shared;
    CUstream stream;
    void *attributes;
    unsigned count;
};

#define NOBODY (~0ul)

/* The options that are numbers. */
#define NUMBERS(X)                                                                                                     \
    X(random), X(streams), X(graph), X(host), X(sync), X(gap), X(start), X(seconds), X(warm), X(kill), X(freeze),      \
        X(victim), X(seed), X(blocks), X(tokens), X(devices), X(lives)

#define ITSELF(name) name
static struct {
    unsigned long NUMBERS(ITSELF), freeze_for;
    const char *kernels, *how;
} want = {
    .kernels = "k_100us", .how = "kernel", .seconds = 14, .warm = 3000, .victim = NOBODY, .blocks = 1056, .devices = 1};

static int (*launch)(), (*launch_ex)(), (*launch_cooperative)(), (*launch_graph)(), (*launch_multi)();
static int (*launch_legacy)(), (*launch_grid)(), (*launch_grid_async)();

static struct {
    void *function, *graph;
    unsigned times;
} kernels[64];
static unsigned kernel_count;
static uint64_t began;
static CUcontext contexts[8];
static _Atomic uint64_t launches, longest;

static void spend(uint64_t ns) {
    if (virtual_spend != NULL)
        virtual_spend(ns);
}

static void rest(uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    if (virtual_spend != NULL)
        virtual_spend(ns);
    else
        nanosleep(&t, NULL);
}

static int give(unsigned which, CUstream stream) {
    void *function = kernels[which].function;
    unsigned blocks = (unsigned)want.blocks;
    if (want.graph != 0)
        return launch_graph(kernels[which].graph, stream);
    if (strcmp(want.how, "legacy") == 0)
        return launch_legacy(function);
    if (strcmp(want.how, "grid") == 0)
        return launch_grid(function, (int)blocks, 1);
    if (strcmp(want.how, "grid_async") == 0)
        return launch_grid_async(function, (int)blocks, 1, stream);
    if (strcmp(want.how, "multi") == 0) {
        struct launch_params one = {function, {blocks, 1, 1}, {128, 1, 1}, 0, stream, NULL};
        return launch_multi(&one, 1u, 0u);
    }
    if (strncmp(want.how, "ex", 2) == 0) {
        struct launch_config config = {{blocks, 1, 1}, {128, 1, 1}, 0, stream, NULL, 0};
        return launch_ex(&config, function, NULL, NULL);
    }
    if (strncmp(want.how, "cooperative", 11) == 0)
        return launch_cooperative(function, blocks, 1u, 1u, 128u, 1u, 1u, 0u, stream, NULL);
    return launch(function, blocks, 1u, 1u, 128u, 1u, 1u, 0u, stream, NULL, NULL);
}

static void spend_tokens(void) {
    static _Thread_local uint64_t paid; /* until then, by the clock */
    uint64_t at = now();
    paid = paid > at ? paid : at;
    paid += want.blocks * 1000000000u / want.tokens;
    rest(paid - at);
}

static void *run(void *data) {
    CUstream stream = NULL;
    uint64_t number = (uintptr_t)data, random = (want.seed * 64 + number) * 2654435761u + 1;
    CHECK(cuCtxSetCurrent(contexts[number % want.devices]));
    if (want.streams != 0)
        CHECK(cuStreamCreate(&stream, 1));
    rest(want.start * 1000000 + number * 300000);
    uint64_t end = began + want.seconds * 1000000000u, at = began, done = 0, batches = 0, mine = 0;
    unsigned which = 0, left = kernels[0].times;
    unsigned long freeze = want.freeze;
    while (at < end && (want.lives == 0 || done < want.lives)) {
        if (left == 0) {
            (void)next_random(&random);
            which = want.random ? (unsigned)(random >> 33) % kernel_count : (which + 1) % kernel_count;
            left = kernels[which].times;
        }
        left--;
        if (want.lives != 0)
            which = at - began > want.seconds * 500000000u ? kernel_count - 1 : 0;
        spend(want.host);
        if (want.tokens != 0)
            spend_tokens();
        uint64_t before = now();
        CHECK(give(which, stream));
        at = now();
        uint64_t waited = (at < end ? at : end) - before; /* after the end others are gone, with what they had begun */
        if (before > began + want.warm * 1000000 && before < end && waited > mine)
            mine = waited;
        done++;
        if (want.sync != 0 && done % want.sync == 0) {
            CHECK(cuStreamSynchronize(stream));
            rest(10000 + want.gap * (50 + (next_random(&random) >> 40) % 100) / 100);
            batches++;
        }
        if (want.kill != 0 && at > began + want.kill * 1000000)
            raise(SIGKILL);
        if (freeze != 0 && at > began + freeze * 1000000) {
            freeze = 0;
            virtual_freeze(want.freeze_for * 1000000);
        }
    }
    (void)atomic_fetch_add(&launches, done);
    uint64_t seen = atomic_load(&longest);
    while (seen < mine && !atomic_compare_exchange_weak(&longest, &seen, mine)) {
    }
    return NULL;
}

static void prepare(void) {
    char text[1024];
    snprintf(text, sizeof text, "%s", want.kernels);
    for (char *save = NULL, *name = strtok_r(text, ",", &save); name != NULL; name = strtok_r(NULL, ",", &save)) {
        char *times = strchr(name, '*');
        if (times != NULL)
            *times++ = '\0';
        kernels[kernel_count].times = times != NULL ? (unsigned)strtoul(times, NULL, 10) : 1;
        kernels[kernel_count].function = find_kernel(name);
        if (want.graph != 0) {
            CUstream stream = NULL;
            void *graph = NULL;
            unsigned long nodes = want.graph;
            CHECK(cuStreamCreate(&stream, 1));
            CHECK(cuStreamBeginCapture_v2(stream, 1));
            for (; nodes != 0; nodes--)
                CHECK(cuLaunchKernel(kernels[kernel_count].function, 8, 1, 1, 128, 1, 1, 0, stream, NULL, NULL));
            CHECK(cuStreamEndCapture(stream, &graph));
            CHECK(cuGraphInstantiateWithFlags(&kernels[kernel_count].graph, graph, 0));
        }
        kernel_count++;
    }
}

static void option(const char *text) {
    const char *value = strchr(text, '=') + 1;
    unsigned long number = strtoul(value, NULL, 10);
#define READ(name) (void)(strncmp(text, #name "=", sizeof #name) == 0 && (want.name = number))
    NUMBERS(READ);
    if (strncmp(text, "freeze=", 7) == 0)
        want.freeze_for = strtoul(strchr(value, ':') + 1, NULL, 10);
    if (strncmp(text, "kernels=", 8) == 0)
        want.kernels = value;
    if (strncmp(text, "how=", 4) == 0)
        want.how = value;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        option(argv[i]);
    const char *index = getenv("HAMI_VIRTUAL_INDEX");
    if (want.victim != NOBODY && index != NULL && strtoul(index, NULL, 10) != want.victim)
        want.kill = want.freeze = 0;
    start_driver();
    bool threaded = strstr(want.how, "_ptsz") != NULL;
    launch = driver_function(threaded ? "cuLaunchKernel_ptsz" : "cuLaunchKernel");
    launch_ex = driver_function(threaded ? "cuLaunchKernelEx_ptsz" : "cuLaunchKernelEx");
    launch_cooperative = driver_function(threaded ? "cuLaunchCooperativeKernel_ptsz" : "cuLaunchCooperativeKernel");
    launch_multi = driver_function("cuLaunchCooperativeKernelMultiDevice");
    launch_legacy = driver_function("cuLaunch");
    launch_grid = driver_function("cuLaunchGrid");
    launch_grid_async = driver_function("cuLaunchGridAsync");
    launch_graph = driver_function(threaded ? "cuGraphLaunch_ptsz" : "cuGraphLaunch");
    for (int i = (int)want.devices - 1; i >= 0; i--) {
        CHECK(cuDevicePrimaryCtxRetain(&contexts[i], i));
        CHECK(cuCtxSetCurrent(contexts[i]));
    }
    prepare();
    began = now();
    pthread_t threads[64];
    for (uintptr_t i = 1; i < want.streams && i < 64; i++)
        CHECK(pthread_create(&threads[i], NULL, run, (void *)i));
    while (want.lives != 0 && now() < began + want.seconds * 1000000000u) {
        CHECK(pthread_create(&threads[0], NULL, run, NULL));
        pthread_join(threads[0], NULL);
    }
    run(NULL);
    for (uintptr_t i = 1; i < want.streams && i < 64; i++)
        pthread_join(threads[i], NULL);
    printf("{\"launches\": %lu, \"longest\": %lu, \"began\": %lu}\n", (unsigned long)launches, (unsigned long)longest,
           (unsigned long)began);
    return 0;
}
