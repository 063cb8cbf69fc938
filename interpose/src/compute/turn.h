/*
 * Turns: which container may give the device work now, according to the turn page (page.h, compute_abi.h).
 *
 * A device alternates between tenants, so a span that runs beside another tenant's work would contain that tenant's
 * time. Therefore containers with a core limit use a device one at a time. turn.c reads and changes the page,
 * turn_yield.c decides when to pass the turn on.
 *
 * Any tenant may write anything into the page at any time. So each decision reads the page again and limits what a
 * number in it can do. Without a usable page, launches start as if there were no turns. A container that waited for a
 * turn in vain ignores turns for ten times as long as it waited. So waits in vain cost a small part of the time.
 */
#ifndef HAMI_COMPUTE_TURN_H
#define HAMI_COMPUTE_TURN_H

#include "compute/limited_device.h"

enum { TURN_PAGE_HEADER = offsetof(struct hami_turn_page, slots), TURN_PAGE_WHOLE = sizeof(struct hami_turn_page) };
#define TURN_SLOT_OFFSET(index, field)                                                                                 \
    (TURN_PAGE_HEADER + (index) * sizeof(struct hami_turn_slot) + offsetof(struct hami_turn_slot, field))

enum turn {
    TURN_OURS,   /* this container has the turn, or there are no turns: launches may start */
    TURN_OTHERS, /* another container has the turn */
    TURN_BUSY    /* another process or thread is changing the page */
};

/*
 * Takes the turn if no container has it, or if its holder is silent. Returns whose turn it is then. `patience` says how
 * many ns to wait for the present holder, if the turn is not this container's.
 */
enum turn turn_take(struct limited_device *d, uint64_t now, uint64_t *patience);
/*
 * If this container has the turn, gives it to the waiting container that is furthest behind its limit. If none waits,
 * nobody has the turn then. False: the page could not be changed, try again.
 */
bool turn_release(struct limited_device *d, uint64_t now);
/* After a wait of `waited` ns in vain, makes this container ignore turns for ten times as long, at most 60 s. */
void turn_give_up(struct limited_device *d, uint64_t now, uint64_t waited);

bool turn_is_alone(const struct limited_device *d, uint64_t now); /* the page listed no other container a moment ago */
bool turn_has_company(const struct limited_device *d, uint64_t now); /* other containers may take turns with this one */

/*
 * When the last work of other containers ended, according to the page. 0: not known, or not needed because this
 * container's own frontier is later. Other containers' work ends at the latest 1 ms after this container's turn began,
 * and before `end`. If the page gives a later time, it is not believed.
 */
uint64_t turn_frontier(struct limited_device *d, uint64_t end);
/* If this container lost its turn before its work ended at `end`, writes `end` to the page for the next holder. */
void turn_move_frontier(struct limited_device *d, uint64_t end);

/* ---- for turn_yield.c ---- */

/* Reads the page's first `size` bytes, and copies its `turn` into the region. False: there are no turns now. */
bool turn_read_page(struct limited_device *d, struct hami_turn_page *seen, size_t size, uint64_t now);
unsigned turn_holder(uint64_t word); /* slot + 1 of the holder, from a page's `turn`; 0: nobody has the turn */
bool turn_has_slot(struct limited_device *d, const struct hami_turn_page *seen);
bool turn_is_ours_on(struct limited_device *d, const struct hami_turn_page *seen); /* according to `seen` */
bool turn_is_ours(const struct limited_device *d);                /* according to the copy of `turn` in the region */
bool turn_is_young(const struct limited_device *d, uint64_t now); /* the turn came less than TURN_NS ago */
bool turn_is_surely_ours(const struct limited_device *d, uint64_t now); /* without reading the page */
/* Writes the container's sign of life if it is due, and sets others_longest. True: no other container uses the page. */
bool turn_show_life(struct limited_device *d, const struct hami_turn_page *seen, uint64_t now);
/* The slot + 1 of the waiting container that is furthest behind its limit. 0: no other container waits. */
unsigned turn_neediest(const struct limited_device *d, const struct hami_turn_page *seen, uint64_t now);

/* ---- turn_yield.c: when to pass the turn on, and how to wait for it ---- */

struct snapshot;
/*
 * If this container has the turn, writes its sign of life, and passes the turn on when that is due. Returns when to
 * call again; UINT64_MAX: this container does not have the turn. Needs the lock.
 */
uint64_t yield_turn(struct limited_device *d);
/* True: this container has had the turn for TURN_NS, and a container further behind its limit waits. */
bool yield_is_due(struct limited_device *d, const struct snapshot *s);
/* Waits up to 20 ms for the turn. If `why`, the result of turn_take, is TURN_BUSY, waits 200 µs for the page. */
void yield_wait(struct limited_device *d, const struct snapshot *s, enum turn why);
/* Adds up what the container lost to the cap while a launch waited for the turn. Ignores turns after a large loss. */
void yield_forfeited(struct limited_device *d, const struct snapshot *s);

#endif
