/*
 * Files that we open, read and close, and our sleeps, are where pthread_cancel ends a thread: with a flag of ours set,
 * for which the others would wait for ever. From HAMI_UNCANCELLED on to the end of the block it has to wait.
 */
#ifndef HAMI_CANCEL_H
#define HAMI_CANCEL_H

#include <pthread.h>

static inline int hami_cancel_not(void) {
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void hami_cancel_as(const int *before) {
    (void)pthread_setcancelstate(*before, NULL);
}

#define HAMI_UNCANCELLED                                                                                               \
    __attribute__((cleanup(hami_cancel_as), unused)) const int hami_cancel_before = hami_cancel_not()

#endif
