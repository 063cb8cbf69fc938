/* A program that uses CUDA and NVML, then prints how its process is set up: one fact a line. */
#include "driver.h"

#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>

extern char **environ;

static void launch(void) {
    void *kernel = find_kernel("a_1ms");
    for (int i = 0; i < 50; i++)
        CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    CHECK(CALL(cuCtxSynchronize));
}

static void use(void) {
    CUdeviceptr address = 0;
    struct nvml_memory memory;
    nvmlDevice card = NULL;
    size_t free_bytes = 0, total = 0;
    int status = 0;
    start_driver();
    use_device(0);
    for (int i = 0; i < 100; i++) {
        CHECK(cuMemAlloc_v2(&address, (size_t)i * 100000 + 1));
        CHECK(cuMemFree_v2(address));
        CHECK(cuMemGetInfo_v2(&free_bytes, &total));
    }
    (void)cuMemAlloc_v2(&address, (size_t)1 << 50);
    CHECK(nvmlDeviceGetHandleByIndex_v2(0, &card));
    CHECK(nvmlDeviceGetMemoryInfo(card, &memory));
    launch();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    (void)waitpid(child, &status, 0);
}

static void show_files(void) {
    struct dirent *entry;
    DIR *folder = opendir("/proc/self/fd");
    char link[64], name[512];
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t length = readlink(link, name, sizeof name - 1);
        if (length <= 0 || atoi(entry->d_name) < 3 || atoi(entry->d_name) == dirfd(folder))
            continue;
        name[length] = '\0';
        printf("file %s\n", name);
    }
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

/* Threads beside this one, with the signals that the kernel gives to others. */
static void show_threads(void) {
    struct dirent *entry;
    char name[300], text[4096];
    DIR *folder = opendir("/proc/self/task");
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == getpid())
            continue;
        snprintf(name, sizeof name, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(name, "r");
        unsigned long long blocked = 0;
        while (file != NULL && fgets(text, sizeof text, file) != NULL)
            (void)sscanf(text, "SigBlk: %llx", &blocked);
        if (file != NULL)
            fclose(file);
        printf("thread that blocks %llx\n", blocked);
    }
    closedir(folder);
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

int main(void) {
    use();
    printf("dlerror %s\n", dlerror() == NULL ? "clean" : "set");
    show_files();
    show_signals();
    show_threads();
    show_rest();
    return 0;
}
