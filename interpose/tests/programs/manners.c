/*
 * manners [idle]: uses CUDA and NVML unless it is idle, then prints how its process is set up: one fact a line.
 * manners narrow KIB: asks NVML in a thread with so small a stack, and says so.
 */
#include "driver.h"

#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char **environ;

static void use(void) {
    CUdeviceptr address = 0;
    int status = 0;
    start_driver();
    use_device(0);
    for (int i = 0; i < 100; i++) {
        CHECK(cuMemAlloc_v2(&address, (size_t)i * 100000 + 1));
        CHECK(cuMemFree_v2(address));
        (void)free_bytes();
    }
    (void)cuMemAlloc_v2(&address, (size_t)1 << 50);
    (void)memory_of(card_at(0));
    void *kernel = find_kernel("a_1ms");
    for (int i = 0; i < 50; i++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CHECK(CALL(cuCtxSynchronize));
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    (void)waitpid(child, &status, 0);
}

static void show_file(const char *number) {
    char link[64], name[512];
    snprintf(link, sizeof link, "/proc/self/fd/%.20s", number);
    ssize_t length = readlink(link, name, sizeof name - 1);
    if (length > 0 && atoi(number) > 2 && strncmp(name, "/proc/", 6) != 0)
        printf("file %.*s\n", (int)length, name);
}

/* A thread beside this one, with the signals that the kernel gives to others. */
static void show_thread(const char *number) {
    char name[300], text[4096];
    unsigned long long blocked = 0;
    snprintf(name, sizeof name, "/proc/self/task/%.20s/status", number);
    FILE *file = atoi(number) == getpid() ? NULL : fopen(name, "r");
    while (file != NULL && fgets(text, sizeof text, file) != NULL)
        (void)sscanf(text, "SigBlk: %llx", &blocked);
    if (file != NULL && fclose(file) == 0)
        printf("thread that blocks %llx\n", blocked);
}

static void show_each(const char *name, void (*show)(const char *)) {
    struct dirent *entry;
    DIR *folder = opendir(name);
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            show(entry->d_name);
    closedir(folder);
}

static void show_signals(void) {
    sigset_t mask;
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL)
            printf("signal %d handled\n", number);
        if (sigismember(&mask, number) == 1)
            printf("signal %d blocked\n", number);
    }
}

static void show_rest(void) {
    struct itimerval timer;
    struct rlimit limit;
    char text[4096];
    mode_t mask = umask(0);
    printf("umask %o\nlocale %s\nfolder %s\n", mask, setlocale(LC_ALL, NULL), getcwd(text, sizeof text));
    for (char **at = environ; *at != NULL; at++)
        if (strncmp(*at, "LD_PRELOAD=", 11) != 0 && strncmp(*at, "HAMI_VGPU_ROOT=", 15) != 0)
            printf("variable %s\n", *at);
    for (int which = 0; which < RLIM_NLIMITS; which++)
        if (getrlimit((__rlimit_resource_t)which, &limit) == 0)
            printf("limit %d %lu %lu\n", which, (unsigned long)limit.rlim_cur, (unsigned long)limit.rlim_max);
    getitimer(ITIMER_REAL, &timer);
    printf("timer %ld\nnice %d\nrounding %d\ndumpable %d\nsubreaper %d\n", (long)timer.it_value.tv_sec,
           getpriority(PRIO_PROCESS, 0), fegetround(), prctl(PR_GET_DUMPABLE), prctl(PR_GET_TIMERSLACK) > 0);
}

/* Prints the mappings of our files and of the driver, without libvgpu.so itself. */
static void show_mappings(void) {
    char text[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(text, sizeof text, maps) != NULL)
        if (strstr(text, "vgpu.cache") != NULL || strstr(text, "libcuda") != NULL || strstr(text, "libnvidia") != NULL)
            printf("mapped %s", text);
    if (maps != NULL)
        fclose(maps);
}

static void *ask(void *of) {
    static struct nvml_process processes[16];
    unsigned count = 16;
    nvmlDevice card = card_at(0);
    (void)memory_of(card);
    CHECK(nvmlDeviceGetComputeRunningProcesses_v3(card, &count, processes));
    return of;
}

static int ask_in_narrow_thread(size_t kib) {
    pthread_attr_t attributes;
    pthread_t thread;
    start_driver();
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, kib << 10));
    CHECK(pthread_create(&thread, &attributes, ask, NULL));
    CHECK(pthread_join(thread, NULL));
    say("asked");
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 2)
        return ask_in_narrow_thread(strtoul(argv[2], NULL, 10));
    if (argc > 1 && strcmp(argv[1], "idle") == 0)
        show_mappings();
    else
        use();
    printf("dlerror %s\n", dlerror() == NULL ? "clean" : "set");
    show_each("/proc/self/fd", show_file);
    show_signals();
    show_each("/proc/self/task", show_thread);
    show_rest();
    return 0;
}
