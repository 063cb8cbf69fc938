/*
 * spawn: uses CUDA, starts programs by posix_spawn and vfork, some of which are not there, and goes on using it. Each
 * that is there is this one again, with two arguments: it uses CUDA itself, says so, and ends with a pipe. Prints
 * "spawned" when all hold what they have, 200 MiB here and 100 MiB each there; on a line of input ends them and frees.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

enum { BY_SPAWN, BY_VFORK, WAYS };

extern char **environ;

static int held(int told, int kept) {
    CUdeviceptr address = 0;
    char byte = 'x';
    start_driver();
    use_device(0);
    CHECK(cuMemAlloc_v2(&address, 100 * MIB));
    CHECK(write(told, &byte, 1) == 1 ? 0 : 1);
    while (read(kept, &byte, 1) > 0)
        ;
    CHECK(cuMemFree_v2(address));
    return 0;
}

/* Pid, or -1. A child by vfork works in our memory until it becomes another program or ends. */
static pid_t start(int way, char *const arguments[]) {
    pid_t pid = -1;
    if (way == BY_SPAWN)
        return posix_spawn(&pid, arguments[0], NULL, NULL, arguments, environ) == 0 ? pid : -1;
    pid = vfork();
    if (pid == 0) {
        execv(arguments[0], arguments);
        _exit(127);
    }
    return pid;
}

static void finish(pid_t pid, int code) {
    int status = 0;
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != code)
        fail("child", status);
}

int main(int argc, char **argv) {
    CUdeviceptr first = 0, second = 0;
    int told[2], kept[2];
    pid_t children[WAYS];
    char byte, ready[16], until[16], nowhere[] = "/nonexistent/program";
    if (argc == 3)
        return held(atoi(argv[1]), atoi(argv[2]));
    start_driver();
    use_device(0);
    CHECK(cuMemAlloc_v2(&first, 100 * MIB));
    CHECK(pipe2(told, O_CLOEXEC));
    CHECK(pipe2(kept, O_CLOEXEC));
    CHECK(fcntl(told[1], F_SETFD, 0));
    CHECK(fcntl(kept[0], F_SETFD, 0));
    snprintf(ready, sizeof ready, "%d", told[1]);
    snprintf(until, sizeof until, "%d", kept[0]);
    char *const missing[] = {nowhere, NULL}, *const there[] = {argv[0], ready, until, NULL};
    if (start(BY_SPAWN, missing) != -1)
        fail("what is not there was started", 0);
    finish(start(BY_VFORK, missing), 127);
    for (int way = 0; way < WAYS; way++) {
        children[way] = start(way, there);
        CHECK(read(told[0], &byte, 1) == 1 ? 0 : 1);
    }
    CHECK(cuMemAlloc_v2(&second, 100 * MIB));
    say("spawned");
    (void)getchar();
    close(kept[1]);
    for (int way = 0; way < WAYS; way++)
        finish(children[way], 0);
    CHECK(cuMemFree_v2(first));
    CHECK(cuMemFree_v2(second));
    return 0;
}
