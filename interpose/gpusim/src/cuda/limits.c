/*
 * Limits of contexts, and the device memory that lies behind five of them. A context starts with default sizes, which
 * its reserve covers; what the values in force take beyond that comes and goes as they are set (../../README.md).
 */
#include "cuda_impl.h"
#include "driver.h"

enum { STACK, PRINT_BUFFER, HEAP, SYNC_DEPTH, PENDING_LAUNCHES, L2_FETCH, LIMITS = 11 };
enum { STACK_STEP = 16, STACK_MAX = 512 << 10, BYTES_PER_LAUNCH = 4096, BYTES_PER_THREAD = 5120 };
enum { ATTRIBUTE_MULTIPROCESSORS = 16, ATTRIBUTE_THREADS_PER_MULTIPROCESSOR = 39 };

static const size_t initial[LIMITS] = {
    [STACK] = 1024,   [PRINT_BUFFER] = 1 << 20,  [HEAP] = 8 << 20,
    [SYNC_DEPTH] = 2, [PENDING_LAUNCHES] = 2048, [L2_FETCH] = 64,
};

/* UINT64_MAX: more than there can be. */
static uint64_t taken(const struct sim_device *model, int limit, size_t value) {
    uint64_t threads = (uint64_t)model->attributes[ATTRIBUTE_MULTIPROCESSORS] *
                       (uint64_t)model->attributes[ATTRIBUTE_THREADS_PER_MULTIPROCESSOR];
    const uint64_t unit[PENDING_LAUNCHES + 1] = {threads, 1, 1, threads * BYTES_PER_THREAD, BYTES_PER_LAUNCH};
    uint64_t bytes = 0;
    if (limit > PENDING_LAUNCHES) {
        return 0; /* of caches and shared memory */
    }
    bool fits = !__builtin_mul_overflow((uint64_t)value, unit[limit], &bytes) && bytes <= UINT64_MAX - SIM_GRANULE;
    return fits ? sim_round_up(bytes, SIM_GRANULE) : UINT64_MAX;
}

static uint64_t beyond_initial(const struct sim_device *model, int limit, size_t value) {
    uint64_t now = taken(model, limit, value), before = taken(model, limit, initial[limit]);
    return now > before ? now - before : 0;
}

void sim_limits_start(struct sim_context *context) {
    for (int limit = 0; limit < LIMITS; limit++) {
        context->limits[limit] = initial[limit];
    }
}

void sim_limits_end(struct sim_context *context) {
    const struct sim_device *model = &sim_books->devices[context->device];
    for (int limit = 0; limit < LIMITS; limit++) {
        sim_discharge(context->device, beyond_initial(model, limit, context->limits[limit]));
    }
}

/* Call with the gpu's lock held. */
static CUresult change(struct sim_context *context, int limit, size_t value) {
    const struct sim_device *model = &sim_books->devices[context->device];
    uint64_t before = beyond_initial(model, limit, context->limits[limit]);
    uint64_t after = beyond_initial(model, limit, value);
    if (after > before && !sim_charge(context->device, after - before)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (after < before) {
        sim_discharge(context->device, before - after);
    }
    context->limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetLimit(int limit, size_t value) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (limit < 0 || limit >= LIMITS) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    if (limit == STACK) {
        if (value > STACK_MAX) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        value = sim_round_up(value, STACK_STEP);
    }
    struct sim_gpu *gpu = sim_gpu_of(context->ordinal);
    pthread_mutex_lock(&gpu->lock);
    error = change(context, limit, value);
    pthread_mutex_unlock(&gpu->lock);
    return error;
}

CUresult sim_cuCtxGetLimit(size_t *pvalue, int limit) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (pvalue == NULL || limit < 0 || limit >= LIMITS) {
        return pvalue == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    *pvalue = context->limits[limit];
    return CUDA_SUCCESS;
}
