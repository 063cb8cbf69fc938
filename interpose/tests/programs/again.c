/*
 * again: uses two streams and destroys them. Two new streams get their handles, in the other order of the library's
 * tables. Launches in each of them once. Prints a line after each step and waits for input.
 *
 * again moved: uses and destroys a stream of device 1. A stream of device 0 gets its handle, and is launched in.
 *
 * again green|primary|reset: launches in a green context, or in the primary one that only a green one holds. It ends
 * with the green one or by a reset. The next context gets its handle, and is launched in.
 */
#include "driver.h"

#include <time.h>

static void *kernel;

static void launch_in(CUstream stream) {
    CHECK(cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
}

static void step(const char *what) {
    const struct timespec settled = {0, 50000000}; /* the helper has looked */
    nanosleep(&settled, NULL);
    say(what);
    (void)getchar();
}

static void in_one_that_was_of_another_device(void) {
    CUstream before, after;
    use_device(1);
    CHECK(cuStreamCreate(&before, 1));
    for (int i = 0; i < 3; i++)
        launch_in(before);
    CHECK(cuStreamSynchronize(before));
    CHECK(cuStreamDestroy_v2(before));
    use_device(0);
    CHECK(cuStreamCreate(&after, 1));
    if (after != before)
        fail("the driver gave another handle", 0);
    for (int i = 0; i < 3; i++)
        launch_in(after);
    step("launched");
}

static void work_in(CUcontext context) {
    CHECK(cuCtxSetCurrent(context));
    kernel = find_kernel("a_2ms");
    for (int i = 0; i < 50; i++)
        launch_in(NULL);
    CHECK(cuStreamSynchronize(NULL));
}

static void in_one_that_ended_with_a_green_one(const char *way) {
    CUcontext context = NULL;
    void *green = NULL;
    CHECK(CALL(cuGreenCtxCreate, &green, &green, 0, 1u));
    CHECK(CALL(cuCtxFromGreenCtx, &context, green));
    if (strcmp(way, "primary") == 0) {
        CHECK(cuDevicePrimaryCtxRetain(&context, 0));
        CHECK(cuDevicePrimaryCtxRelease_v2(0));
    }
    work_in(context);
    step("used");
    if (strcmp(way, "reset") == 0)
        CHECK(CALL(cuDevicePrimaryCtxReset_v2, 0));
    (void)CALL(cuGreenCtxDestroy, green);
    CHECK(CALL(cuGreenCtxCreate, &green, &green, 0, 1u));
    work_in(context); /* of the next or its view, whichever has the handle */
    step("launched");
}

int main(int argc, char **argv) {
    CUstream before[2], after[2];
    start_driver();
    if (argc > 1 && strcmp(argv[1], "moved") != 0) {
        in_one_that_ended_with_a_green_one(argv[1]);
        return 0;
    }
    use_device(0);
    kernel = find_kernel("a_5us");
    if (argc > 1 && strcmp(argv[1], "moved") == 0) {
        in_one_that_was_of_another_device();
        return 0;
    }
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&before[i], 1));
    for (int i = 0; i < 200; i++) {
        launch_in(before[i % 2]);
        CHECK(cuStreamSynchronize(before[i % 2]));
    }
    step("used");
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamDestroy_v2(before[i]));
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamCreate(&after[i], 1));
    if (after[0] != before[1] || after[1] != before[0])
        fail("the driver gave other handles", 0);
    step("destroyed");
    for (int i = 0; i < 2; i++)
        launch_in(after[i]);
    step("launched");
    return 0;
}
