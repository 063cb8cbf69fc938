/*
 * descriptors FILE close|limit MS: launches for so long after it has closed all descriptors and opened FILE at all
 * their numbers, or after it has forbidden itself to write files. Prints how many descriptors are FILE's, and FILE's
 * sum.
 */
#include "driver.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

enum { FIRST = 3, LAST = 199 };

static void launch_for(void *kernel, uint64_t ns) {
    for (uint64_t end = now() + ns; now() < end;)
        CHECK(cuLaunchKernel(kernel, 1056, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    uint64_t ns = strtoull(argv[3], NULL, 10) * 1000000u;
    start_driver();
    use_device(0);
    void *kernel = find_kernel("a_1ms");
    launch_for(kernel, 300000000);
    if (strcmp(argv[2], "limit") == 0) {
        struct rlimit none = {0, 0};
        CHECK(setrlimit(RLIMIT_FSIZE, &none));
    } else {
        for (int fd = FIRST; fd < 1024; fd++)
            (void)close(fd);
        while (open(argv[1], O_RDWR) < LAST) {
        }
    }
    launch_for(kernel, ns);
    struct stat file, found;
    unsigned ours = 0, sum = 0;
    unsigned char text[8192];
    CHECK(stat(argv[1], &file));
    for (int fd = FIRST; fd <= LAST; fd++)
        ours += fstat(fd, &found) == 0 && found.st_ino == file.st_ino && found.st_dev == file.st_dev;
    int fd = open(argv[1], O_RDONLY);
    ssize_t length = read(fd, text, sizeof text);
    for (ssize_t i = 0; i < length; i++)
        sum = sum * 31 + text[i];
    printf("{\"descriptors\": %u, \"bytes\": %zd, \"sum\": %u}\n", ours, length, sum);
    return 0;
}
