/* What the compiler is told of how often something runs. */
#ifndef HAMI_COMPILER_H
#define HAMI_COMPILER_H

#define HAMI_LIKELY(condition) __builtin_expect(!!(condition), 1)

/* What every allocation and free comes by lies together; strewn about it costs up to 20 ns more, by where it lies. */
#define HAMI_HOT __attribute__((hot))

/* With all that it calls in it, but for what is cold: the calls of ten small functions cost more than their work. */
#define HAMI_FLAT __attribute__((hot, flatten))
#define HAMI_COLD __attribute__((cold, noinline))
#define HAMI_APART __attribute__((noinline)) /* neither */

#endif
