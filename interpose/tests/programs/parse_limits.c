/* Reads limits files named on its input, one a line, as libvgpu.so does, and prints each as one line of values. */
#include "../../src/ledger/limits.c"

int main(void) {
    char path[4096];
    while (fgets(path, sizeof path, stdin) != NULL) {
        static struct hami_limits limits;
        struct hami_limits_source source = {.file = true};
        path[strcspn(path, "\n")] = '\0';
        (void)snprintf(source.limits_path, sizeof source.limits_path, "%s", path);
        hami_limits_load(&source, &limits);
        printf("%d %llu %d %d %u", limits.denied, (unsigned long long)limits.generation, limits.mode,
               limits.core_policy, limits.priority);
        for (unsigned i = 0; i < limits.device_count; i++)
            printf(" %s %llu %llu %u", limits.devices[i].uuid, (unsigned long long)limits.devices[i].memory_bytes,
                   (unsigned long long)limits.devices[i].physical_bytes, limits.devices[i].cores);
        printf("\n");
        fflush(stdout);
    }
    return 0;
}
