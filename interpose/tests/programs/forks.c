/*
 * forks CHILDREN MIB HOW: counts cards by NVML, as launchers do, then starts children by HOW: "fork", "clone" (which
 * the C library does not see), "spawn" (posix_spawn) or "vfork". By the last two the children are this program again,
 * and the parent uses CUDA as well. Each process that uses CUDA takes MIB. The parent prints "ready" when all have
 * their memory. The children end when the input ends; then the parent frees its memory and prints how many bytes NVML
 * shows in use.
 */
#include "driver.h"

#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

static int child(size_t bytes, int told) {
    CUdeviceptr address = 0;
    char byte = 'x';
    find_driver();
    CHECK(cuInit(0));
    use_device(0);
    CHECK(cuMemAlloc_v2(&address, bytes));
    CHECK(write(told, &byte, 1) == 1 ? 0 : 1);
    while (read(0, &byte, 1) > 0)
        ;
    CHECK(cuMemFree_v2(address));
    return 0;
}

/* Returns a pid, or -1. A child by vfork works in our memory until it becomes another program or ends. */
static pid_t start(const char *how, char *const arguments[], size_t bytes, int told) {
    pid_t pid = -1;
    if (strcmp(how, "spawn") == 0)
        return posix_spawn(&pid, arguments[0], NULL, NULL, arguments, environ) == 0 ? pid : -1;
    if (strcmp(how, "vfork") == 0) {
        pid = vfork();
        if (pid == 0) {
            execv(arguments[0], arguments);
            _exit(127);
        }
        return pid;
    }
    pid = strcmp(how, "clone") == 0 ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
    if (pid == 0)
        _exit(child(bytes, told));
    return pid;
}

int main(int argc, char **argv) {
    int count = argc > 3 ? atoi(argv[1]) : 0, pipes[2], status = 0, failed = 0;
    size_t bytes = argc > 3 ? strtoul(argv[2], NULL, 10) * MIB : 0;
    CUdeviceptr address = 0;
    char byte, told[16], held[] = "held", nowhere[] = "/nonexistent/program";
    if (argc > 3 && strcmp(argv[1], held) == 0)
        return child(bytes, atoi(argv[3]));
    find_driver();
    CHECK(nvmlInit_v2());
    nvmlDevice card = card_at(0);
    (void)memory_of(card);
    CHECK(pipe(pipes));
    snprintf(told, sizeof told, "%d", pipes[1]);
    char *const again[] = {argv[0], held, argv[2], told, NULL}, *const missing[] = {nowhere, NULL};
    int uses = strcmp(argv[3], "spawn") == 0 || strcmp(argv[3], "vfork") == 0;
    if (uses) {
        CHECK(cuInit(0));
        use_device(0);
        pid_t none = start(argv[3], missing, 0, 0);
        failed = none != -1 && (waitpid(none, &status, 0) != none || WEXITSTATUS(status) != 127);
    }
    for (int i = 0; i < count; i++)
        failed |= start(argv[3], again, bytes, pipes[1]) == -1;
    for (int i = 0; i < count; i++)
        CHECK(read(pipes[0], &byte, 1) == 1 ? 0 : 1);
    if (uses)
        CHECK(cuMemAlloc_v2(&address, bytes));
    say("ready");
    for (int i = 0; i < count; i++)
        failed |= wait(&status) < 0 || status != 0;
    if (uses)
        CHECK(cuMemFree_v2(address));
    printf("%llu\n", (unsigned long long)memory_of(card).used);
    return failed;
}
