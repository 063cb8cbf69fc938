/*
 * fill STEP_MIB: what the device looks like, then allocates blocks of that size until refused, and prints what it
 * got; frees all, and fills again to see that everything came back.
 */
#include "driver.h"

static size_t fill(size_t step, CUdeviceptr *held, int *status) {
    size_t count = 0;
    while (count < 100000 && (*status = cuMemAlloc_v2(&held[count], step)) == 0) {
        count++;
    }
    return count;
}

int main(int argc, char **argv) {
    static CUdeviceptr held[100000];
    size_t step = strtoull(argc > 1 ? argv[1] : "2", NULL, 10) * MIB;
    size_t at_start = 0, total = 0, device_total = 0, left = 0;
    int status = 0, again_status = 0;
    start_driver();
    CHECK(cuDeviceTotalMem_v2(&device_total, 0));
    use_device(0);
    CHECK(cuMemGetInfo_v2(&at_start, &total));
    size_t count = fill(step, held, &status);
    CHECK(cuMemGetInfo_v2(&left, &total));
    struct nvml_memory memory = memory_of(card_at(0));
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemFree_v2(held[i]));
    size_t again = fill(step, held, &again_status);
    printf("{\"device_total\": %zu, \"free\": %zu, \"total\": %zu, \"count\": %zu, \"status\": %d, \"left\": %zu, "
           "\"nvml_total\": %llu, \"nvml_used\": %llu, \"again\": %zu, \"again_status\": %d}\n",
           device_total, at_start, total, count, status, left, (unsigned long long)memory.total,
           (unsigned long long)memory.used, again, again_status);
    return 0;
}
