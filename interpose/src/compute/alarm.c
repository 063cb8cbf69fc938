/* Implements alarm.h. */
#include "compute/alarm.h"

#include "compute/wait.h"

enum { WORTH_A_WAKE_NS = 100000 }; /* a look that is earlier by less is not worth waking the helper */

struct alarm alarm_of_helper;

void alarm_ring(void) {
    (void)atomic_fetch_add(&alarm_of_helper.asked, 1);
    compute_wake_after_unlock(&alarm_of_helper.asked);
}

void alarm_no_later_than(uint64_t due) {
    uint64_t next = alarm_of_helper.next;
    if (alarm_of_helper.running && next != UINT64_MAX && next > due && next - due > WORTH_A_WAKE_NS) {
        alarm_of_helper.next = due;
        alarm_ring();
    }
}

void alarm_after_fork(void) {
    alarm_of_helper.running = false;
    alarm_of_helper.next = 0;
    atomic_store(&alarm_of_helper.idle, false);
}
