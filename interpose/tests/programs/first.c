/*
 * first HOW ROUNDS [PLUGIN]: tests the first moments of the library. Each round is a process of its own. A process that
 * waits for ever is ended by SIGALRM, and the program fails. HOW:
 *
 *   load       one thread makes its first call; shortly before or after that, the other one loads the plugin, which
 * looks a function up fork       the other one makes a child that uses CUDA start      the same, but the first call is
 * one of NVML, and functions have been looked up before construct  a thread loads and unloads the plugin, which makes a
 * context and allocates in it; other threads do the same as their first calls and go on until the last unload pools all
 * threads take the first memory of the device's own pool at the same moment; the container must lose exactly what they
 * took cancel     (without ROUNDS) a thread is cancelled in its first call, and one after each line of the input, when
 * it has new limits to read; prints the total memory that another thread is shown then
 */
#include "driver.h"

#include <stdatomic.h>
#include <sys/wait.h>

enum { PATIENCE_S = 20, HINDERS = 2, WORKERS = 3, LOADS = 5, TAKERS = 32 };

static atomic_int go;
static unsigned before_call, before_other; /* ns */
static void *library;
static nvmlDevice card;

static void spin(unsigned ns) {
    for (uint64_t until = now() + ns; now() < until;)
        ;
}

static void *first_call(void *data) {
    CUdeviceptr address = 0;
    struct nvml_memory memory;
    int (*allocate)(CUdeviceptr *, size_t) = NULL;
    atomic_store(&go, 1);
    spin(before_call);
    if (card != NULL)
        return nvmlDeviceGetMemoryInfo(card, &memory) == 0 ? data : &go;
    *(void **)&allocate = dlsym(library, "cuMemAlloc_v2");
    return allocate != NULL && allocate(&address, 1) == 3 ? data : &go; /* not initialised */
}

/* Keeps the loader's lock busy, so that the first look-up takes a while. */
static void *hinder(void *data) {
    while (atomic_load(&go) < 2)
        if (dlsym(library, "cuInit") == NULL)
            abort();
    return data;
}

static int use(void) {
    CUdeviceptr address = 0;
    alarm(PATIENCE_S);
    start_driver();
    use_device(0);
    CHECK(cuMemAlloc_v2(&address, MIB));
    CHECK(cuMemFree_v2(address));
    return 0;
}

static int one_round(const char *how, int moment, const char *plugin) {
    pthread_t thread, hinderers[HINDERS];
    void *failed = NULL;
    int status = 0;
    pid_t child = 0;
    alarm(PATIENCE_S);
    before_call = moment < 0 ? (unsigned)-moment : 0;
    before_other = moment > 0 ? (unsigned)moment : 0;
    unsigned hinders = strcmp(how, "start") == 0 ? 0 : HINDERS;
    if (hinders == 0) {
        find_driver();
        CHECK(nvmlInit_v2());
        card = card_at(0);
    }
    for (unsigned i = 0; i < hinders; i++)
        CHECK(pthread_create(&hinderers[i], NULL, hinder, NULL));
    CHECK(pthread_create(&thread, NULL, first_call, NULL));
    while (!atomic_load(&go))
        ;
    spin(before_other);
    if (strcmp(how, "load") == 0) {
        status = dlopen(plugin, RTLD_NOW) == NULL;
    } else {
        child = fork();
        if (child == 0)
            _exit(use());
    }
    CHECK(pthread_join(thread, &failed));
    atomic_store(&go, 2);
    for (unsigned i = 0; i < hinders; i++)
        CHECK(pthread_join(hinderers[i], NULL));
    return status != 0 || failed != NULL || (child > 0 && (waitpid(child, &status, 0) < 0 || status != 0));
}

static void *work(void *data) {
    do
        use_own_context();
    while (atomic_load(&go) < 2);
    return data;
}

static int construct(const char *plugin) {
    pthread_t threads[WORKERS];
    alarm(PATIENCE_S);
    start_driver();
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, NULL));
    for (unsigned i = 0; i < LOADS; i++) {
        void *loaded = dlopen(plugin, RTLD_NOW);
        if (loaded == NULL || dlclose(loaded) != 0)
            return 1;
    }
    atomic_store(&go, 2);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL));
    return 0;
}

static void *take(void *missing) {
    CUdeviceptr address = 0;
    use_device(0);
    (void)atomic_fetch_sub((atomic_int *)missing, 1);
    while (atomic_load((atomic_int *)missing) != 0)
        ;
    CHECK(cuMemAllocAsync(&address, 64 * MIB, NULL));
    return NULL;
}

/* Whoever is refused has first looked for what ended processes have left. */
static size_t free_when_refused(void) {
    CUdeviceptr none = 0;
    if (cuMemAlloc_v2(&none, (size_t)1 << 50) != 2)
        fail("not refused", 0);
    return free_bytes();
}

static int take_from_pool(void) {
    atomic_int missing = TAKERS;
    start_driver();
    use_device(0);
    size_t before = free_when_refused();
    run_threads(TAKERS, take, &missing, 0);
    return before - free_when_refused() != TAKERS * 64 * MIB;
}

static void *ask(void *none) {
    while (atomic_load(&go) == 0)
        ;
    (void)memory_of(card);
    pthread_testcancel();
    return none;
}

static void cancel_a_thread(void) {
    pthread_t thread;
    void *result = NULL;
    atomic_store(&go, 0);
    CHECK(pthread_create(&thread, NULL, ask, NULL));
    CHECK(pthread_cancel(thread));
    atomic_store(&go, 1);
    CHECK(pthread_join(thread, &result));
    if (result != PTHREAD_CANCELED)
        fail("not cancelled", 0);
    printf("%llu\n", (unsigned long long)memory_of(card).total);
    fflush(stdout);
}

static int cancel(void) {
    const struct timespec until_due = {0, 600000000};
    alarm(PATIENCE_S);
    start_driver();
    card = card_at(0);
    cancel_a_thread();
    for (char line[16]; fgets(line, sizeof line, stdin) != NULL;) {
        nanosleep(&until_due, NULL);
        cancel_a_thread();
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *how = argc > 1 ? argv[1] : "cancel";
    if (strcmp(how, "cancel") == 0)
        return cancel();
    library = dlopen("libcuda.so.1", RTLD_NOW);
    for (unsigned i = 0; i < (unsigned)atoi(argv[2]); i++) {
        int status = 0;
        pid_t one = fork();
        if (one == 0 && strcmp(how, "construct") == 0)
            _exit(construct(argv[3]));
        if (one == 0 && strcmp(how, "pools") == 0)
            _exit(take_from_pool());
        if (one == 0)
            _exit(one_round(how, (int)(i * 7919 % 600 * 1000) - 300000, argc > 3 ? argv[3] : NULL));
        if (waitpid(one, &status, 0) != one || status != 0)
            fail(how, status);
    }
    return 0;
}
