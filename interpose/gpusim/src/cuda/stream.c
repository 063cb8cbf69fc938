/* Streams and events; what they stand for is in queue.c. */
#include <string.h>

#include "cuda_impl.h"
#include "driver.h"

enum { EVENT_DISABLE_TIMING = 2 };

static _Atomic unsigned long long next_stream_id = 16;

struct sim_stream *sim_stream_of(CUstream handle, struct sim_context *context) {
    if (handle == NULL || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
        return context->default_stream;
    }
    return (uintptr_t)handle > 0xffff && sim_is(handle, SIM_TAG_STREAM) ? handle : NULL;
}

struct sim_stream *sim_stream_or_error(CUstream handle, CUresult *error) {
    struct sim_context *context = sim_current(error);
    if (context == NULL) {
        return NULL;
    }
    struct sim_stream *stream = sim_stream_of(handle, context);
    *error = stream != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    return stream;
}

CUresult sim_cuStreamCreateWithPriority(CUstream *phStream, unsigned flags, int priority) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (phStream == NULL || flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_stream *stream = sim_object_new(SIM_TAG_STREAM, sizeof *stream);
    if (stream == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    stream->context = context;
    stream->flags = flags;
    stream->priority = priority < -5 ? -5 : priority > 0 ? 0 : priority;
    stream->id = atomic_fetch_add(&next_stream_id, 1);
    stream->lane = sim_lane_take(context->device);
    *phStream = stream;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamCreate(CUstream *phStream, unsigned Flags) {
    return sim_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult sim_cuStreamDestroy_v2(CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    if (sim_stream_or_error(hStream, &error) == NULL) {
        return error;
    }
    if (!sim_is(hStream, SIM_TAG_STREAM)) {
        return CUDA_ERROR_INVALID_HANDLE; /* default streams stay */
    }
    sim_lane_give_back(hStream->context->device, hStream->lane);
    sim_object_delete(hStream);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamQuery(CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL) {
        return error;
    }
    return sim_stream_idle(stream) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuStreamSynchronize(CUstream hStream) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL) {
        return error;
    }
    if (sim_capturing(stream)) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    sim_stream_wait(stream);
    sim_pools_synchronised();
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetPriority(CUstream hStream, int *priority) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || priority == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *priority = stream->priority;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetFlags(CUstream hStream, unsigned *flags) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || flags == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *flags = stream->flags;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetId(CUstream hStream, unsigned long long *streamId) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || streamId == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *streamId = stream->id;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetCtx(CUstream hStream, CUcontext *pctx) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || pctx == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *pctx = stream->context;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamGetDevice(CUstream hStream, CUdevice *device) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || device == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    *device = stream->context->ordinal;
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL) {
        return error;
    }
    if (!sim_is(hEvent, SIM_TAG_EVENT) || Flags > 1) {
        return Flags > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    if (hEvent->captured_in != NULL) {
        if (stream->capture != hEvent->captured_in) {
            stream->capture = hEvent->captured_in;
            stream->capture_joined = true;
        }
        return CUDA_SUCCESS;
    }
    sim_event_join(hEvent, stream);
    return CUDA_SUCCESS;
}

CUresult sim_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned flags) {
    CUresult error = CUDA_SUCCESS;
    (void)dptr;
    (void)length;
    (void)flags;
    (void)sim_stream_or_error(hStream, &error);
    return error;
}

/* Host functions run in the calling thread, once the stream's earlier work is done. */
CUresult sim_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData) {
    CUresult error = CUDA_SUCCESS;
    struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || fn == NULL) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    return sim_do(stream, &(struct sim_work){.type = SIM_WORK_HOST, .host = fn, .closure = userData});
}

CUresult sim_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData, unsigned flags) {
    CUresult error = CUDA_SUCCESS;
    const struct sim_stream *stream = sim_stream_or_error(hStream, &error);
    if (stream == NULL || callback == NULL || flags != 0) {
        return stream == NULL ? error : CUDA_ERROR_INVALID_VALUE;
    }
    sim_stream_wait(stream);
    callback(hStream, CUDA_SUCCESS, userData);
    return CUDA_SUCCESS;
}

CUresult sim_cuEventCreate(CUevent *phEvent, unsigned Flags) {
    CUresult error = CUDA_SUCCESS;
    struct sim_context *context = sim_current(&error);
    if (context == NULL) {
        return error;
    }
    if (phEvent == NULL || Flags > 7) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sim_event_object *event = sim_object_new(SIM_TAG_EVENT, sizeof *event);
    if (event == NULL) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    event->context = context;
    event->context_id = context->id;
    event->flags = Flags;
    if (!sim_event_take(event)) {
        sim_object_delete(event);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *phEvent = event;
    return CUDA_SUCCESS;
}

static CUresult event_handle_check(CUevent hEvent) {
    CUresult error = sim_ready();
    return error != CUDA_SUCCESS ? error : sim_is(hEvent, SIM_TAG_EVENT) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Events end with their context, and another may have its place. */
static CUresult event_check(CUevent hEvent) {
    CUresult error = event_handle_check(hEvent);
    bool there = error != CUDA_SUCCESS ||
                 (sim_is(hEvent->context, SIM_TAG_CONTEXT) && hEvent->context->id == hEvent->context_id);
    return there ? error : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

CUresult sim_cuEventDestroy_v2(CUevent hEvent) {
    CUresult error = event_handle_check(hEvent);
    if (error == CUDA_SUCCESS) {
        sim_event_give_back(hEvent);
        sim_object_delete(hEvent);
    }
    return error;
}

CUresult sim_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned flags) {
    CUresult error = event_check(hEvent);
    struct sim_stream *stream = error == CUDA_SUCCESS ? sim_stream_or_error(hStream, &error) : NULL;
    if (stream == NULL) {
        return error;
    }
    if (flags > 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool captured = sim_capturing(stream);
    hEvent->captured_in = stream->capture;
    if (!captured) {
        if (hEvent->context->device != stream->context->device) {
            return CUDA_ERROR_INVALID_HANDLE;
        }
        sim_event_record(hEvent, stream);
    }
    return CUDA_SUCCESS;
}

CUresult sim_cuEventRecord(CUevent hEvent, CUstream hStream) {
    return sim_cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult sim_cuEventQuery(CUevent hEvent) {
    CUresult error = event_check(hEvent);
    return error != CUDA_SUCCESS ? error : sim_event_reached(hEvent, NULL) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult sim_cuEventSynchronize(CUevent hEvent) {
    CUresult error = event_check(hEvent);
    if (error == CUDA_SUCCESS) {
        sim_event_wait(hEvent);
        sim_pools_synchronised();
    }
    return error;
}

/* Whole steps of half a microsecond, the resolution that real events have. */
CUresult sim_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    CUresult error = event_check(hStart) != CUDA_SUCCESS ? event_check(hStart) : event_check(hEnd);
    if (error != CUDA_SUCCESS || pMilliseconds == NULL) {
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_INVALID_VALUE;
    }
    bool recorded = atomic_load(&hStart->generation) != 0 && atomic_load(&hEnd->generation) != 0;
    if (((hStart->flags | hEnd->flags) & EVENT_DISABLE_TIMING) != 0 || !recorded) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    uint64_t start = 0, end = 0;
    if (!sim_event_reached(hStart, &start) || !sim_event_reached(hEnd, &end)) {
        return CUDA_ERROR_NOT_READY;
    }
    int64_t steps = ((int64_t)end - (int64_t)start) / 500;
    *pMilliseconds = (float)steps * 0.0005f;
    return CUDA_SUCCESS;
}

CUresult sim_cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd) {
    return sim_cuEventElapsedTime(pMilliseconds, hStart, hEnd);
}
