/*
 * host HOW PLUGIN: opens the plugin as usual ("plain"), with RTLD_DEEPBIND ("deep") or in a namespace of its own
 * ("apart"), says so, and waits for its input to end.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

int main(int argc, char **argv) {
    int deep = argc > 2 && strcmp(argv[1], "deep") == 0 ? RTLD_DEEPBIND : 0;
    int apart = argc > 2 && strcmp(argv[1], "apart") == 0;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); /* any process of this user may read this one's memory */
    if (argc < 3 || (apart ? dlmopen(LM_ID_NEWLM, argv[2], RTLD_NOW) : dlopen(argv[2], RTLD_NOW | deep)) == NULL)
        return 1;
    puts("opened");
    fflush(stdout);
    return getchar() != EOF;
}
