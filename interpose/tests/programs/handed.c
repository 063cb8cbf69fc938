/*
 * handed: large memory is given back; where it lay another thread takes a small allocation, the first of its 2 MiB, and
 * the first thread frees that. Prints by how much less memory is free in the end.
 */
#include "driver.h"

#include <pthread.h>

static void *take(void *at) {
    use_device(0);
    CHECK(cuMemAlloc_v2(at, 4096));
    return NULL;
}

int main(void) {
    pthread_t other;
    CUdeviceptr large = 0, small = 0;
    size_t before = 0, after = 0, total = 0;
    start_driver();
    use_device(0);
    CHECK(cuMemGetInfo_v2(&before, &total));
    CHECK(cuMemAlloc_v2(&large, 2 * MIB));
    CHECK(cuMemFree_v2(large));
    CHECK(pthread_create(&other, NULL, take, &small));
    pthread_join(other, NULL);
    if (small / (2 * MIB) != large / (2 * MIB))
        fail("the driver put it elsewhere", 0);
    CHECK(cuMemFree_v2(small));
    CHECK(cuMemGetInfo_v2(&after, &total));
    printf("%zu\n", before - after);
    return 0;
}
