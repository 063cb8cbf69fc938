/* A program that no preloaded library can reach: it prints what it sees of a slice, and sleeps.
 *
 *     still [SECONDS]
 *
 * It is built twice: statically, and dynamically with musl, whose loader ignores /etc/ld.so.preload. The dynamic
 * program also tries to load the CUDA driver. It prints one JSON line. Without SECONDS it sleeps until a signal. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef DYNAMIC
#include <dlfcn.h>
#define LINKED "musl"
#else
#define LINKED "static"
#endif

static void end(int signal)
{
    _exit(signal == SIGTERM ? 0 : 128 + signal);
}

static const char *there(const char *path)
{
    return access(path, F_OK) == 0 ? "true" : "false";
}

/* Whether the interposer is mapped into this process. */
static const char *interposed(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    const char *found = "false";

    while (maps != NULL && fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "libvgpu") != NULL)
            found = "true";
    if (maps != NULL)
        fclose(maps);
    return found;
}

int main(int argc, char **argv)
{
    struct sigaction on_end = {.sa_handler = end};
    const char *driver = "null";

    sigaction(SIGTERM, &on_end, NULL);
    sigaction(SIGINT, &on_end, NULL);
#ifdef DYNAMIC
    driver = dlopen("libcuda.so.1", RTLD_NOW) != NULL ? "true" : "false";
#endif
    printf("{\"program\": \"still\", \"linked\": \"%s\", \"pid\": %d, \"preload\": %s, \"limits\": %s, \"interposed\": %s, "
           "\"driver_loaded\": %s}\n",
           LINKED, (int)getpid(), there("/etc/ld.so.preload"), there("/usr/local/vgpu/limits/limits"), interposed(),
           driver);
    fflush(stdout);
    if (argc > 1)
        return (int)sleep((unsigned int)atoi(argv[1])) > 0;
    for (;;)
        pause();
}
