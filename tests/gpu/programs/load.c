/*
 * load KERNEL [GRAPH]: launches work on the first device. Reads one command a line and answers each with one line of
 * JSON. KERNEL is a kernel of kernels.ptx, whose name has its duration. With GRAPH, the program launches graphs of
 * GRAPH kernels instead. Units are kernels.
 *
 *   rate              measures the rounds a microsecond, in thousandths, and uses them from now on
 *   rounds N          uses N, which another process measured on the bare device
 *   go MS             works for MS ms; answers the units complete at each mark: {"marks": [[ns, units], ...]}
 *   bursts MS ON OFF  like go, but works for ON ms and rests for OFF ms in turn
 *   request MS EVERY  launches once every EVERY us; answers the times from launch to completion: {"us": [...]}
 */
#include "../../../interpose/tests/programs/driver.h"

enum { BATCH_US = 2000, MOST = 1 << 17, UNDER_WAY = 3 };
enum { CU_EVENT_BLOCKING_SYNC = 1, CU_EVENT_DISABLE_TIMING = 2, MULTIPROCESSOR_COUNT = 16, THREADS = 256 };

static void *kernel, *graph, *events[UNDER_WAY];
static CUstream stream;
static uint64_t rounds, out, kernel_us, in_graph;
static unsigned blocks;
static uint64_t marks[MOST][2];
static int (*record)(), (*wait_for)();

static void launch(void) {
    void *parameters[] = {&rounds, &out};
    if (graph != NULL)
        CHECK(cuGraphLaunch(graph, stream));
    else
        CHECK(cuLaunchKernel(kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
}

static void make_graph(void) {
    void *captured = NULL;
    void *parameters[] = {&rounds, &out};
    if (in_graph == 0)
        return;
    CHECK(cuStreamBeginCapture_v2(stream, 1));
    for (uint64_t i = 0; i < in_graph; i++)
        CHECK(cuLaunchKernel(kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
    CHECK(cuStreamEndCapture(stream, &captured));
    CHECK(cuGraphInstantiateWithFlags(&graph, captured, 0));
}

static void sleep_until(uint64_t at) {
    uint64_t from = now();
    if (at > from)
        nanosleep(&(struct timespec){(time_t)((at - from) / 1000000000u), (long)((at - from) % 1000000000u)}, NULL);
}

/* Rounds that this device runs in a microsecond, in thousandths, measured with kernels of some ms. */
static uint64_t find_rate(void) {
    uint64_t best = 0;
    for (unsigned times = 0; times < 5; times++) {
        void *parameters[] = {&rounds, &out};
        rounds = 100000;
        CHECK(cuStreamSynchronize(stream));
        uint64_t from = now();
        CHECK(cuLaunchKernel(kernel, blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL));
        CHECK(cuStreamSynchronize(stream));
        uint64_t rate = rounds * 1000000u / (now() - from + 1);
        best = rate > best ? rate : best;
    }
    return best;
}

static void set_rate(uint64_t thousandths) {
    rounds = kernel_us * thousandths / 1000;
    rounds = rounds > 0 ? rounds : 1;
    make_graph();
    printf("{\"rate\": %llu}\n", (unsigned long long)thousandths);
}

static struct {
    uint64_t launched, complete, units, each;
} batch;

static void launch_batch(void) {
    for (uint64_t i = 0; i < batch.each; i++)
        launch();
    CHECK(record(events[batch.launched++ % UNDER_WAY], stream));
}

static void complete_batch(void) {
    CHECK(wait_for(events[batch.complete % UNDER_WAY]));
    batch.units += batch.each * (in_graph != 0 ? in_graph : 1);
    marks[batch.complete][0] = now();
    marks[batch.complete++][1] = batch.units;
}

/* Works until a time with some batches always queued, then waits for them. */
static void work_until(uint64_t at) {
    while (now() < at && batch.complete < MOST - UNDER_WAY) {
        if (batch.launched - batch.complete < UNDER_WAY)
            launch_batch();
        else
            complete_batch();
    }
    while (batch.complete < batch.launched)
        complete_batch();
}

/* Works for `on` ms, rests for `off`, and so on for `ms`. */
static void go(uint64_t ms, uint64_t on, uint64_t off) {
    uint64_t unit_us = kernel_us * (in_graph != 0 ? in_graph : 1), began = now(), end = began + ms * 1000000u;
    memset(&batch, 0, sizeof batch);
    batch.each = unit_us < BATCH_US ? BATCH_US / unit_us : 1;
    for (uint64_t from = began; from < end; from = now()) {
        uint64_t rest = from + on * 1000000u;
        work_until(rest < end ? rest : end);
        sleep_until(off != 0 ? rest + off * 1000000u : 0);
    }
    printf("{\"marks\": [[%llu, 0]", (unsigned long long)began);
    for (uint64_t i = 0; i < batch.complete; i++)
        printf(", [%llu, %llu]", (unsigned long long)marks[i][0], (unsigned long long)marks[i][1]);
    printf("]}\n");
}

static void request(uint64_t ms, uint64_t every_us) {
    uint64_t began = now(), end = began + ms * 1000000u, due = began;
    const char *between = "";
    printf("{\"us\": [");
    while (now() < end) {
        sleep_until(due);
        uint64_t from = now();
        launch();
        CHECK(cuStreamSynchronize(stream));
        printf("%s%llu", between, (unsigned long long)(now() - from) / 1000);
        between = ", ";
        due = due + every_us * 1000 > now() ? due + every_us * 1000 : now();
    }
    printf("]}\n");
}

int main(int argc, char **argv) {
    char line[128], unit[3] = "";
    int multiprocessors = 0;
    unsigned long long time = 0;
    if (argc < 2 || sscanf(argv[1], "k_%llu%2s", &time, unit) != 2)
        fail("usage: load k_TIME [GRAPH]", 0);
    kernel_us = time * (strcmp(unit, "ms") == 0 ? 1000 : 1);
    in_graph = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    start_driver();
    use_device(0);
    kernel = find_kernel(argv[1]);
    record = driver_function("cuEventRecord");
    wait_for = driver_function("cuEventSynchronize");
    CHECK(CALL(cuDeviceGetAttribute, &multiprocessors, MULTIPROCESSOR_COUNT, 0));
    blocks = 2 * (unsigned)multiprocessors;
    CHECK(cuStreamCreate(&stream, 1));
    for (unsigned i = 0; i < UNDER_WAY; i++)
        CHECK(CALL(cuEventCreate, &events[i], CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING));
    say("{\"ready\": true}");
    while (fgets(line, sizeof line, stdin) != NULL) {
        char command[16] = "";
        unsigned long long a = 0, b = 0, c = 0;
        (void)sscanf(line, "%15s %llu %llu %llu", command, &a, &b, &c);
        if (strcmp(command, "rate") == 0)
            set_rate(find_rate());
        else if (strcmp(command, "rounds") == 0)
            set_rate(a);
        else if (strcmp(command, "go") == 0)
            go(a, a, 0);
        else if (strcmp(command, "bursts") == 0)
            go(a, b, c);
        else if (strcmp(command, "request") == 0)
            request(a, b);
        else
            printf("{\"unknown\": true}\n");
        fflush(stdout);
    }
    return 0;
}
