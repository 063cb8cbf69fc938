/* Constants that several files of the compute room use. All are durations in ns. */
#ifndef HAMI_COMPUTE_TUNING_H
#define HAMI_COMPUTE_TUNING_H

enum {
    /* Grants and timing events. */
    GRANT_NS = 300000,              /* a stream with short launches is granted this much at once */
    GRANT_MOST_NS = 2000000,        /* a stream whose launch had to wait is granted at most this much at once */
    UNKNOWN_LAUNCH_NS = 1000000,    /* a launch of unknown cost reserves this much */
    EVENT_EVERY_NS = 1000000,       /* a stream gets a timing event after this much estimated work */
    BURSTY_EVENT_EVERY_NS = 250000, /* a bursty process beside others gets timing events this often (ADR 11) */
    WAIT_MOST_NS = 100000000,       /* a wait for other work or containers ends after so long without progress */

    /* The balance. */
    IDLE_ALLOWANCE_NS = 20000000,    /* cap of the balance of an idle container */
    WAITING_ALLOWANCE_NS = 60000000, /* cap of the balance while launches wait; long launches raise the cap */
    IDLE_AFTER_NS = 50000000,        /* a container is idle if none of its launches waited for so long */
    SILENT_AFTER_NS = 20000000,      /* a process with work under way is silent after so long without a look */

    /* Turns. */
    TURN_NS = 10000000,     /* a turn lasts this long while a container further behind its limit waits */
    PAUSE_NS = 300000,      /* a container that launched nothing for so long passes its turn on */
    EARLY_MOST_NS = 150000, /* a turn is passed on at most this long before its work ends */
};

#endif
