/* What sync.c needs of launch.c: what the calling thread keeps for its launches. */
#ifndef HAMI_COMPUTE_LAUNCH_H
#define HAMI_COMPUTE_LAUNCH_H

/* Adds this thread's launches since the last call to its process's figure. */
void launch_count(void);
/* What this thread has taken ahead of grants that are still open goes back to them. Lock held. */
void launch_return_ahead(void);

#endif
