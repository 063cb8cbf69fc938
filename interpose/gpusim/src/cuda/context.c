/* Contexts. While a process has at least one on a device, the model's context reserve is taken there. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda_impl.h"
#include "driver.h"

#define STACK_DEPTH 16
static _Thread_local struct {
    struct sim_context *at[STACK_DEPTH];
    int depth; /* entries in use; the last is current */
} stack __attribute__((tls_model("initial-exec")));

static _Atomic unsigned long long next_context_id = 1;

/* What is made in a view is the primary context's. */
static struct sim_context *behind(struct sim_context *context) {
    return sim_is(context, SIM_TAG_CONTEXT) && context->view_of != NULL ? context->view_of : context;
}

struct sim_context *sim_current_or_null(void) {
    struct sim_context *context = behind(stack.depth > 0 ? stack.at[stack.depth - 1] : NULL);
    return sim_is(context, SIM_TAG_CONTEXT) ? context : NULL;
}

struct sim_context *sim_current(CUresult *error) {
    struct sim_context *context = behind(stack.depth > 0 ? stack.at[stack.depth - 1] : NULL);
    *error = sim_ready();
    if (*error != CUDA_SUCCESS) {
        return NULL;
    }
    if (!sim_is(context, SIM_TAG_CONTEXT)) {
        *error = context == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_CONTEXT_IS_DESTROYED;
        return NULL;
    }
    return context;
}

int sim_device_of_call(void) {
    const struct sim_context *context = sim_current_or_null();
    return context != NULL ? (int)context->device : -1;
}

/* A card as long as it is not in MIG mode, a MIG device as long as it is there. */
static bool is_there(const struct sim_gpu *gpu) {
    unsigned card = sim_card_of(gpu->index);
    return sim_is_mig(gpu->index) ? sim_mig_exists(card, sim_instance_of(gpu->index), gpu->compute)
                                  : atomic_load(&sim_books->devices[card].mig_mode) == 0;
}

/* Whoever lists the processes of a GPU instance wants to know on which part of it they run. */
static void tell_compute_instance(const struct sim_gpu *gpu) {
    int slot = sim_is_mig(gpu->index) ? sim_slot_claim() : -1;
    if (slot >= 0) {
        atomic_store(&sim_books->engines[gpu->index][slot].compute_instance, gpu->compute);
    }
}

static bool reserve_hold(struct sim_gpu *gpu) {
    tell_compute_instance(gpu);
    if (atomic_load(&gpu->contexts) == 0 && !sim_charge(gpu->index, sim_model(gpu)->context_reserve)) {
        return false;
    }
    atomic_fetch_add(&gpu->contexts, 1);
    return true;
}

static void reserve_drop(struct sim_gpu *gpu) {
    if (atomic_fetch_sub(&gpu->contexts, 1) == 1) {
        sim_discharge(gpu->index, sim_model(gpu)->context_reserve);
    }
}

/*
 * Real drivers take a tenth of a second to make a context, and some time to end one when its memory is free already:
 * ours HAMI_SIM_CONTEXT_MS and HAMI_SIM_END_MS, which a test asks for.
 */
static void take_time(const char *variable) {
    const char *text = getenv(variable);
    unsigned long ms = text != NULL ? strtoul(text, NULL, 10) : 0;
    if (ms != 0) {
        nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
    }
}

/* Call with the gpu's lock held. */
static CUresult context_new(struct sim_gpu *gpu, CUdevice ordinal, unsigned flags, unsigned api,
                            struct sim_context **made) {
    if (!is_there(gpu)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!sim_arena_ready() || !reserve_hold(gpu)) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    take_time("HAMI_SIM_CONTEXT_MS");
    struct sim_context *context = sim_object_new(SIM_TAG_CONTEXT, sizeof *context);
    struct sim_stream *stream = sim_object_new(SIM_TAG_STREAM, sizeof *stream);
    if (context == NULL || stream == NULL) {
        reserve_drop(gpu);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->context = context;
    context->device = gpu->index;
    context->ordinal = ordinal;
    context->flags = flags;
    context->api_version = api;
    context->id = atomic_fetch_add(&next_context_id, 1);
    context->default_stream = stream;
    sim_limits_start(context);
    sim_heap_init(&context->heap, context, gpu->index, NULL);
    *made = context;
    return CUDA_SUCCESS;
}

static void context_delete(struct sim_gpu *gpu, struct sim_context *context) {
    sim_release_context_memory(context);
    sim_limits_end(context);
    sim_object_delete(context->default_stream);
    sim_object_delete(context);
    reserve_drop(gpu);
}

static CUresult push(struct sim_context *context) {
    if (stack.depth == STACK_DEPTH) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stack.at[stack.depth++] = context;
    return CUDA_SUCCESS;
}

struct sim_context *sim_view_new(struct sim_context *primary) {
    struct sim_context *view = sim_object_new(SIM_TAG_CONTEXT, sizeof *view);
    if (view != NULL) {
        view->device = primary->device;
        view->ordinal = primary->ordinal;
        view->flags = primary->flags;
        view->api_version = primary->api_version;
        view->primary = true;
        view->id = atomic_fetch_add(&next_context_id, 1);
        view->view_of = primary;
    }
    return view;
}

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev, unsigned api) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_gpu *gpu = sim_gpu_of(dev);
    if (pctx == NULL || (flags & ~0xffu) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gpu == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    struct sim_context *context = NULL;
    pthread_mutex_lock(&gpu->lock);
    CUresult error = context_new(gpu, dev, flags, api, &context);
    pthread_mutex_unlock(&gpu->lock);
    if (error == CUDA_SUCCESS) {
        *pctx = context;
        error = push(context);
    }
    return error;
}

CUresult sim_cuCtxCreate_v2(CUcontext *pctx, unsigned flags, CUdevice dev) {
    return create(pctx, flags, dev, 3020);
}

CUresult sim_cuCtxCreate_v3(CUcontext *pctx, void *paramsArray, int numParams, unsigned flags, CUdevice dev) {
    (void)paramsArray;
    (void)numParams;
    return create(pctx, flags, dev, 11040);
}

CUresult sim_cuCtxCreate_v4(CUcontext *pctx, void *ctxCreateParams, unsigned flags, CUdevice dev) {
    (void)ctxCreateParams;
    return create(pctx, flags, dev, 12050);
}

CUresult sim_cuCtxDestroy_v2(CUcontext ctx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (!sim_is(ctx, SIM_TAG_CONTEXT) || ctx->primary) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct sim_gpu *gpu = sim_gpu_of(ctx->ordinal);
    sim_context_wait(ctx);
    if (stack.depth > 0 && stack.at[stack.depth - 1] == ctx) {
        stack.depth--;
    }
    pthread_mutex_lock(&gpu->lock);
    context_delete(gpu, ctx);
    pthread_mutex_unlock(&gpu->lock);
    take_time("HAMI_SIM_END_MS");
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxPushCurrent_v2(CUcontext ctx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    return sim_is(ctx, SIM_TAG_CONTEXT) ? push(ctx) : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult sim_cuCtxPopCurrent_v2(CUcontext *pctx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (stack.depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct sim_context *top = stack.at[--stack.depth];
    if (pctx != NULL) {
        *pctx = top;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCurrent(CUcontext ctx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (ctx == NULL) {
        stack.depth -= stack.depth > 0;
        return CUDA_SUCCESS;
    }
    if (!sim_is(ctx, SIM_TAG_CONTEXT)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    stack.depth += stack.depth == 0;
    stack.at[stack.depth - 1] = ctx;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCurrent(CUcontext *pctx) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    if (pctx == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *pctx = stack.depth > 0 ? stack.at[stack.depth - 1] : NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice(CUdevice *device) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device = context->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
    if (ctx == NULL) {
        return sim_cuCtxGetDevice(device);
    }
    if (!sim_is(ctx, SIM_TAG_CONTEXT) || device == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *device = ctx->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetFlags(unsigned *flags) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (flags == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetFlags(unsigned flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context != NULL) {
        context->flags = flags;
    }
    return error;
}

CUresult sim_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId) {
    CUresult error = CUDA_SUCCESS;
    ctx = ctx != NULL ? ctx : sim_current(&error);
    if (!sim_is(ctx, SIM_TAG_CONTEXT) || ctxId == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *ctxId = ctx->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetApiVersion(CUcontext ctx, unsigned *version) {
    CUresult error = CUDA_SUCCESS;
    ctx = ctx != NULL ? ctx : sim_current(&error);
    if (!sim_is(ctx, SIM_TAG_CONTEXT) || version == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_CONTEXT;
    }
    *version = ctx->api_version;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSynchronize(void) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context != NULL) {
        sim_context_wait(context);
        sim_pools_synchronised();
    }
    return error;
}

CUresult sim_cuCtxSynchronize_v2(CUcontext ctx) {
    if (ctx == NULL) {
        return sim_cuCtxSynchronize();
    }
    if (!sim_is(ctx, SIM_TAG_CONTEXT)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    ctx = behind(ctx);
    if (!sim_is(ctx, SIM_TAG_CONTEXT)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    sim_context_wait(ctx);
    sim_pools_synchronised();
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority) {
    CUresult error = CUDA_SUCCESS;
    if (sim_current(&error) == NULL) {
        return error;
    }
    if (leastPriority != NULL) {
        *leastPriority = 0;
    }
    if (greatestPriority != NULL) {
        *greatestPriority = -5;
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxGetCacheConfig(int *pconfig) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL || pconfig == NULL) {
        return context == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *pconfig = context->cache_config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetCacheConfig(int config) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context != NULL) {
        context->cache_config = config;
    }
    return error;
}

CUresult sim_cuCtxGetSharedMemConfig(int *pConfig) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_context *context = sim_current(&error);
    if (context == NULL || pConfig == NULL) {
        return context == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *pConfig = context->shared_config;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxSetSharedMemConfig(int config) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context != NULL) {
        context->shared_config = config;
    }
    return error;
}

CUresult sim_cuCtxResetPersistingL2Cache(void) {
    CUresult error = CUDA_SUCCESS;
    (void)sim_current(&error);
    return error;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peerContext, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    int allowed = 0;
    if (context == NULL) {
        return error;
    }
    if (!sim_is(peerContext, SIM_TAG_CONTEXT) || Flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    error = sim_cuDeviceCanAccessPeer(&allowed, context->ordinal, peerContext->ordinal);
    if (error != CUDA_SUCCESS || !allowed) {
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    }
    uint32_t bit = 1u << peerContext->ordinal;
    if ((context->peers & bit) != 0) {
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
    context->peers |= bit;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peerContext) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (!sim_is(peerContext, SIM_TAG_CONTEXT)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    uint32_t bit = 1u << peerContext->ordinal;
    if ((context->peers & bit) == 0) {
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    context->peers &= ~bit;
    return CUDA_SUCCESS;
}

/* Primary contexts. */

CUresult sim_cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_gpu *gpu = sim_gpu_of(dev);
    if (pctx == NULL) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (gpu == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&gpu->lock);
    if (gpu->primary == NULL) {
        error = context_new(gpu, dev, gpu->primary_flags, 3020, &gpu->primary);
        if (error == CUDA_SUCCESS) {
            gpu->primary->primary = true;
        }
    }
    if (error == CUDA_SUCCESS) {
        atomic_fetch_add(&gpu->primary->retained, 1);
        *pctx = gpu->primary;
    }
    pthread_mutex_unlock(&gpu->lock);
    return error;
}

static CUresult primary_drop(CUdevice dev, bool all) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_gpu *gpu = sim_gpu_of(dev);
    if (gpu == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    CUresult error = CUDA_SUCCESS;
    pthread_mutex_lock(&gpu->lock);
    if (gpu->primary == NULL) {
        error = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    } else if (all || atomic_fetch_sub(&gpu->primary->retained, 1) == 1) {
        sim_context_wait(gpu->primary);
        context_delete(gpu, gpu->primary);
        gpu->primary = NULL;
    }
    pthread_mutex_unlock(&gpu->lock);
    take_time("HAMI_SIM_END_MS");
    return error;
}

CUresult sim_cuDevicePrimaryCtxRelease_v2(CUdevice dev) {
    return primary_drop(dev, false);
}

CUresult sim_cuDevicePrimaryCtxReset_v2(CUdevice dev) {
    return primary_drop(dev, true);
}

CUresult sim_cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned flags) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_gpu *gpu = sim_gpu_of(dev);
    if (gpu == NULL) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&gpu->lock);
    gpu->primary_flags = flags;
    if (gpu->primary != NULL) {
        gpu->primary->flags = flags;
    }
    pthread_mutex_unlock(&gpu->lock);
    return CUDA_SUCCESS;
}

CUresult sim_cuDevicePrimaryCtxGetState(CUdevice dev, unsigned *flags, int *active) {
    if (sim_ready() != CUDA_SUCCESS) {
        return sim_ready();
    }
    struct sim_gpu *gpu = sim_gpu_of(dev);
    if (gpu == NULL || flags == NULL || active == NULL) {
        return gpu == NULL ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&gpu->lock);
    *flags = gpu->primary_flags;
    *active = gpu->primary != NULL;
    pthread_mutex_unlock(&gpu->lock);
    return CUDA_SUCCESS;
}
