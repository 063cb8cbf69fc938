/*
 * What launches take, learnt from pairs of events around some of them: the first eight of a function and shape, then
 * one in 32, later one in 256, and of very short ones in the end one in every OFTEN_ENOUGH. Estimates only reserve; the
 * span between marks is what is charged.
 */
#include "compute/machine.h"

#include <string.h>

enum { COSTS = 4096, PROBES = 8, FIRST = 8, OFTEN = 64, SETTLED = 256, AVERAGED = 64 };
enum { SOME = 32, FEW = 256, FEWEST = 4096, OFTEN_ENOUGH = 2000000 }; /* launches, and ns of work */

static struct cost costs[COSTS];

struct cost *cost_of(uint64_t key) {
    for (unsigned i = 0; i < PROBES; i++) {
        struct cost *c = &costs[(key + i) % COSTS];
        if (c->key == key) {
            return c;
        }
        if (c->key == 0) {
            c->key = key;
            return c;
        }
    }
    struct cost *oldest = &costs[key % COSTS]; /* programs with so many functions start some anew */
    memset(oldest, 0, sizeof *oldest);
    oldest->key = key;
    return oldest;
}

uint32_t cost_until_sample(const struct cost *c) {
    if (c->samples < FIRST) {
        return 0;
    }
    if (c->samples < OFTEN) {
        return SOME - 1;
    }
    double apart = OFTEN_ENOUGH / (c->mean > 1 ? c->mean : 1);
    return c->samples < SETTLED || apart < FEW ? FEW - 1 : apart > FEWEST ? FEWEST - 1 : (uint32_t)apart;
}

void cost_learn(uint64_t key, double ns, bool idle) {
    struct cost *c = cost_of(key);
    if (idle && c->from_busy && c->samples >= FIRST) {
        return; /* counts the launch itself: dear for short kernels, but better than next to nothing */
    }
    if (!idle && !c->from_busy) {
        c->from_busy = true;
        c->samples = 0;
    }
    c->samples += c->samples < UINT32_MAX;
    double weight = 1.0 / (c->samples < AVERAGED ? c->samples : AVERAGED);
    c->mean += (ns - c->mean) * weight;
    c->spread += ((ns > c->mean ? ns - c->mean : c->mean - ns) - c->spread) * weight;
}

void cost_reset(void) {
    memset(costs, 0, sizeof costs);
}
