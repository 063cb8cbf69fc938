/* Frees that a stream has yet to come to; see pending.h. */
#include "hami/pending.h"

#include <stddef.h>

/* HAMI_NO_STREAM: in any of the context. */
static struct hami_pending_free *find(struct hami_pending *pending, CUcontext context, CUstream stream) {
    for (unsigned i = 0; i < pending->count; i++) {
        struct hami_pending_free *at = &pending->frees[i];
        if (at->context == context && (stream == HAMI_NO_STREAM || at->stream == stream)) {
            return at;
        }
    }
    return NULL;
}

/* The last comes into its place: whoever goes through them begins at the end. */
static void take_out(struct hami_pending *pending, unsigned place) {
    pending->frees[place] = pending->frees[--pending->count];
}

/* A place in a full table, for one stream more. */
static struct hami_pending_free *shared_place(struct hami_pending *pending, CUcontext context) {
    struct hami_pending_free *at = find(pending, context, HAMI_NO_STREAM);
    if (at == NULL) {
        at = &pending->frees[0];
        at->context = NULL;
    }
    at->stream = HAMI_UNKNOWN_STREAM;
    return at;
}

void hami_pending_add(struct hami_pending *pending, CUcontext context, CUstream stream, uint64_t at) {
    struct hami_pending_free *place = find(pending, context, stream);
    if (place == NULL && pending->count < HAMI_PENDING) {
        place = &pending->frees[pending->count++];
        *place = (struct hami_pending_free){.context = context, .stream = stream};
    } else if (place == NULL) {
        place = shared_place(pending, context);
    }
    place->at = at;
    place->ending = false;
}

/* Each context has its own default streams. */
static bool is_over(const struct hami_pending_free *freed, const struct hami_wait *wait) {
    bool here = wait->only_context || (wait->context != NULL && freed->context == wait->context);
    bool same = freed->stream == wait->stream && wait->stream != HAMI_UNKNOWN_STREAM &&
                (here || !hami_is_default_stream(wait->stream));
    return freed->at <= wait->frees && (same || (wait->stream == HAMI_ALL_STREAMS && here));
}

void hami_pending_waited(struct hami_pending *pending, const struct hami_wait *wait) {
    for (unsigned i = pending->count; i-- > 0;) {
        if (is_over(&pending->frees[i], wait)) {
            take_out(pending, i);
        }
    }
}

void hami_pending_stream_ending(struct hami_pending *pending, CUstream stream) {
    for (unsigned i = 0; i < pending->count; i++) {
        if (pending->frees[i].stream == stream) {
            pending->frees[i].stream = HAMI_UNKNOWN_STREAM;
        }
    }
}

void hami_pending_context_ending(struct hami_pending *pending, CUcontext context) {
    for (unsigned i = 0; i < pending->count; i++) {
        pending->frees[i].ending |= context != NULL && pending->frees[i].context == context;
    }
}

void hami_pending_context_ended(struct hami_pending *pending, CUcontext context) {
    for (unsigned i = pending->count; i-- > 0;) {
        if (pending->frees[i].ending && pending->frees[i].context == context) {
            take_out(pending, i);
        }
    }
}
