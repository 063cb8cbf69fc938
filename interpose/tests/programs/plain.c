/* A program that has nothing to do with CUDA: prints what it holds open and mapped, and how it is set up. */
#include <dirent.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

int main(void) {
    char text[4096];
    struct dirent *entry;
    DIR *folder = opendir("/proc/self/fd");
    unsigned files = 0, tasks = 0, handlers = 0, variables = 0, ours = 0;
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        files += entry->d_name[0] != '.';
    closedir(folder);
    folder = opendir("/proc/self/task");
    while (folder != NULL && (entry = readdir(folder)) != NULL)
        tasks += entry->d_name[0] != '.';
    closedir(folder);
    for (int number = 1; number < 32; number++) {
        struct sigaction action;
        handlers += sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    }
    for (char **at = environ; *at != NULL; at++)
        variables++;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps != NULL && fgets(text, sizeof text, maps) != NULL)
        ours +=
            strstr(text, "vgpu.cache") != NULL || strstr(text, "libcuda") != NULL || strstr(text, "libnvidia") != NULL;
    fclose(maps);
    printf("%u %u %u %u %u %o %s %s\n", files, tasks, handlers, variables, ours, umask(0), setlocale(LC_ALL, NULL),
           getcwd(text, sizeof text));
    return 0;
}
