/* Times that several files of the compute room use, in ns. Each says what it trades. */
#ifndef HAMI_COMPUTE_TUNING_H
#define HAMI_COMPUTE_TUNING_H

enum {
    /* Granting. */
    GRANT_NS = 300000,              /* short launches of a stream are granted so much at once */
    GRANT_MOST_NS = 2000000,        /* ... or up to this after a wait */
    UNKNOWN_LAUNCH_NS = 1000000,    /* what a launch of unknown cost reserves */
    EVENT_EVERY_NS = 1000000,       /* estimated work between two timing events of a stream */
    BURSTY_EVENT_EVERY_NS = 250000, /* the same for a bursty process beside others */
    WAIT_MOST_NS = 100000000,       /* no wait for other processes or containers is longer without progress */

    /* The balance. */
    IDLE_ALLOWANCE_NS = 20000000,    /* an idle container keeps so much of its balance */
    WAITING_ALLOWANCE_NS = 60000000, /* a waiting one keeps so much, or two launches */
    IDLE_AFTER_NS = 50000000,        /* no launch had to wait for so long: the container is idle */
    SILENT_AFTER_NS = 20000000,      /* a helper with work under way looks more often, unless its process is stopped */

    /* Turns. */
    TURN_NS = 10000000,     /* length of a turn while another container is further behind */
    PAUSE_NS = 300000,      /* no launch for so long: the turn is given back */
    EARLY_MOST_NS = 150000, /* a turn of short launches is handed on at most so long before its work ends */
};

#endif
