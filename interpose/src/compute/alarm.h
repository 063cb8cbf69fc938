/* When the helper thread of this process looks next; lets files below helper.c ask for an earlier look. */
#ifndef HAMI_COMPUTE_ALARM_H
#define HAMI_COMPUTE_ALARM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern struct alarm {
    bool running;           /* there is a helper; this and `next` under the process's lock */
    uint64_t next;          /* look; UINT64_MAX: when it is woken */
    _Atomic bool idle;      /* it found nothing under way */
    _Atomic uint32_t asked; /* futex: moves when it should look */
} alarm_of_helper;

/* Lets the helper look. It wakes up when the lock is released: before, it would only wait for the lock. Lock held. */
void alarm_ring(void);
/* Rings if the helper would sleep for longer than until `due`. Lock held. */
void alarm_no_later_than(uint64_t due);

void alarm_after_fork(void);

#endif
