/*
 * Stream-ordered memory pools. A pool takes memory in advance and gives it back when it likes, so what counts is
 * what the driver says it has reserved, read after every call that may change it.
 */
#ifndef HAMI_POOL_H
#define HAMI_POOL_H

/* Reads what pool number `pool` has reserved and brings its charge in step. */
void hami_pool_settle(unsigned pool);

/* Same for all pools, before anything is refused. */
void hami_pools_settle(void);

void hami_pools_after_fork(void);

#endif
