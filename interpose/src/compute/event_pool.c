/* Implements event_pool.h. */
#include "compute/event_pool.h"

#include "doors/hook.h"

#include <string.h>

enum { CONTEXTS = 16, EVENT_DEFAULT = 0 };

struct event_driver event_driver;
_Atomic int event_captures;
static struct context_events contexts[CONTEXTS];

/* Where a driver lacks one of these functions no timing events are recorded, and estimates are charged. */
bool event_driver_is_usable(void) {
    struct event_driver *d = &event_driver;
    if (!d->looked_up) {
        d->usable = (d->create = hami_cuda_function("cuEventCreate")) != NULL &&
                    (d->destroy = hami_cuda_function("cuEventDestroy_v2")) != NULL &&
                    (d->record = hami_cuda_function("cuEventRecord")) != NULL &&
                    (d->query = hami_cuda_function("cuEventQuery")) != NULL &&
                    (d->elapsed = hami_cuda_function("cuEventElapsedTime")) != NULL &&
                    (d->stream_query = hami_cuda_function("cuStreamQuery")) != NULL &&
                    (d->set_context = hami_cuda_function("cuCtxSetCurrent")) != NULL;
        d->looked_up = true;
    }
    return d->usable;
}

bool event_stream_is_captured(CUstream stream) {
    CUresult (*capturing)(CUstream, int *) = hami_cuda_function("cuStreamIsCapturing");
    int status = 0;
    /* An error means that the stream may not be used now, because another stream is being captured. */
    return capturing != NULL && (capturing(stream, &status) != CUDA_SUCCESS || status != 0);
}

struct context_events *events_of(CUcontext context) {
    struct context_events *free_place = NULL;
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            return &contexts[i];
        }
        if (contexts[i].context == NULL && free_place == NULL) {
            free_place = &contexts[i];
        }
    }
    if (free_place != NULL) {
        free_place->context = context;
    }
    return free_place;
}

CUevent event_take(CUcontext context) {
    struct context_events *events = event_driver_is_usable() ? events_of(context) : NULL;
    CUevent event = NULL;
    if (events == NULL) {
        return NULL;
    }
    if (events->count > 0) {
        return events->spare[--events->count];
    }
    return event_driver.create(&event, EVENT_DEFAULT) == CUDA_SUCCESS ? event : NULL;
}

void event_give_back(CUcontext context, CUevent event) {
    struct context_events *events = events_of(context);
    if (events != NULL && events->count < SPARE_EVENTS) {
        events->spare[events->count++] = event;
    } else {
        (void)event_driver.destroy(event);
    }
}

void events_forget_context(CUcontext context) {
    for (unsigned i = 0; i < CONTEXTS; i++) {
        if (contexts[i].context == context) {
            memset(&contexts[i], 0, sizeof contexts[i]);
        }
    }
}

void events_after_fork(void) {
    memset(contexts, 0, sizeof contexts);
    atomic_store(&event_captures, 0);
}
