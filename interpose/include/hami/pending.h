/*
 * The streams in which something was freed and that nobody has yet seen come to it. Plain values: nothing here asks the
 * driver or locks.
 */
#ifndef HAMI_PENDING_H
#define HAMI_PENDING_H

#include "hami/cuda_abi.h"

#include <stdbool.h>
#include <stdint.h>

/* Streams by name: the legacy default one is 1, and each thread's own has the same name, so that it is not known. */
#define HAMI_UNKNOWN_STREAM ((CUstream)(uintptr_t)-1)
#define HAMI_NO_STREAM ((CUstream)0)                    /* waited for: an event */
#define HAMI_ALL_STREAMS ((CUstream)((uintptr_t)0 - 2)) /* waited for: a context */

enum { HAMI_PENDING = 8 };

struct hami_pending {
    struct hami_pending_free {
        CUcontext context; /* NULL: not known, or several */
        CUstream stream;   /* or HAMI_UNKNOWN_STREAM */
        uint64_t at;       /* the last of them, by a count of frees */
        bool ending;       /* the context is, and nothing was freed in it since */
    } frees[HAMI_PENDING];
    unsigned count;
};

/* What was waited for: the stream, of that context. */
struct hami_wait {
    CUcontext context; /* NULL: not known */
    CUstream stream;
    uint64_t frees;    /* so many had been when it began */
    bool only_context; /* there is no other */
};

static inline bool hami_is_default_stream(CUstream stream) {
    return stream == HAMI_UNKNOWN_STREAM || (uintptr_t)stream <= 2;
}

/* Beyond HAMI_PENDING streams they are not told apart: by context as long as that can be. */
void hami_pending_add(struct hami_pending *pending, CUcontext context, CUstream stream, uint64_t at);

/* Takes out what the wait has seen the end of. */
void hami_pending_waited(struct hami_pending *pending, const struct hami_wait *wait);

/* The driver may give its handle to another stream. */
void hami_pending_stream_ending(struct hami_pending *pending, CUstream stream);

/* Around the driver's end of a context, which waits for all that is in it; its handle may be another's by then. */
void hami_pending_context_ending(struct hami_pending *pending, CUcontext context);
void hami_pending_context_ended(struct hami_pending *pending, CUcontext context);

#endif
