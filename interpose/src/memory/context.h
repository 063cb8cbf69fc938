/* The CUDA contexts of this process: which device each is on, and the reserve that the first of a device takes. */
#ifndef HAMI_CONTEXT_H
#define HAMI_CONTEXT_H

#include "compiler.h"
#include "cuda_abi.h"

#include <stdbool.h>

enum { HAMI_CONTEXT_UNKNOWN = 0 }; /* id of contexts beyond those we can tell apart */

struct hami_context {
    CUcontext handle;
    CUdevice device;
    unsigned id; /* 1..255; of a green context the primary one's, which what is made in it belongs to */
};

/* The calling thread's current context. False when it has none. */
HAMI_APART bool hami_context_current(struct hami_context *context);

/*
 * Same without asking the driver where it could hardly say anything else: there is one device, and one context was ever
 * made. A thread without a context may be told that one; the driver's answer to what it wanted says so.
 */
bool hami_context_assumed(struct hami_context *context);

/* This process has made one context and no other, so that no thread can have another than that. */
bool hami_context_only_one(void);

void hami_contexts_after_fork(void);

#endif
