/* What happens in the child of a fork. */
#ifndef HAMI_FORK_H
#define HAMI_FORK_H

/* For pthread_atfork(3): every part of the library forgets what was the parent's. */
void hami_fork_in_child(void);

#endif
