/* First process of a sandbox: sleeps until SIGTERM or SIGINT, and reaps orphans if containers share process ids. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal)
{
    _exit(128 + signal);
}

static void reap(int signal)
{
    (void)signal;
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

int main(void)
{
    struct sigaction on_end = {.sa_handler = end};
    struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

    if (sigaction(SIGINT, &on_end, NULL) != 0 || sigaction(SIGTERM, &on_end, NULL) != 0 ||
        sigaction(SIGCHLD, &on_child, NULL) != 0)
        return EXIT_FAILURE;
    for (;;)
        pause();
}
