/* Hints to the compiler about how often code runs. */
#ifndef HAMI_COMPILER_H
#define HAMI_COMPILER_H

#define HAMI_LIKELY(condition) __builtin_expect(!!(condition), 1)

/* On the path of every allocation and free. Placed side by side; far apart they cost up to 20 ns more. */
#define HAMI_HOT __attribute__((hot))

/* Hot, with all its calls inlined except cold ones: the calls of ten small functions cost more than their work. */
#define HAMI_FLAT __attribute__((hot, flatten))
#define HAMI_COLD __attribute__((cold, noinline))
#define HAMI_APART __attribute__((noinline)) /* neither hot nor cold, never inlined */

#endif
