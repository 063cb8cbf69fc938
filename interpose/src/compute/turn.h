/*
 * Turns: which container may give the device work now, according to the turn page.
 *
 * A span that runs beside another tenant's work would count that tenant's time slices, so containers with a core limit
 * use a device one at a time. turn.c reads and changes the page, turn_yield.c decides when to give the turn on.
 *
 * Any tenant may write anything into the page at any time. So every decision reads the page anew, trusts no number
 * further than it can do harm, and without a usable page launches go as if there were no turns. A container that waited
 * for a turn in vain does without for ten times as long. So no page costs more than a small part of the time.
 */
#ifndef HAMI_COMPUTE_TURN_H
#define HAMI_COMPUTE_TURN_H

#include "compute/limited_device.h"

enum { TURN_PAGE_HEADER = offsetof(struct hami_turn_page, slots), TURN_PAGE_WHOLE = sizeof(struct hami_turn_page) };
#define TURN_SLOT_OFFSET(index, field)                                                                                 \
    (TURN_PAGE_HEADER + (index) * sizeof(struct hami_turn_slot) + offsetof(struct hami_turn_slot, field))

enum turn {
    TURN_OURS,   /* launches go; also without a page that can be used */
    TURN_OTHERS, /* another container has it */
    TURN_BUSY    /* another process is changing the page */
};

enum turn turn_take(struct limited_device *d, uint64_t now);
/* Hands the turn, which is ours, to the waiting container that is furthest behind, or to nobody. False: try again. */
bool turn_release(struct limited_device *d, uint64_t now);
void turn_give_up(struct limited_device *d, uint64_t now, uint64_t waited); /* after a wait for it in vain */

/* Moves when the turn goes elsewhere, as soon as any process of the container sees that. */
static inline const _Atomic uint64_t *turn_word(const struct limited_device *d) {
    return &d->shared->turn;
}
bool turn_is_alone(const struct limited_device *d, uint64_t now);     /* no other container was there a moment ago */
bool turn_has_company(const struct limited_device *d, uint64_t now);  /* others take turns with us now, or may */
uint64_t turn_patience(struct limited_device *d);                     /* how long to wait for the turn of one holder */
uint64_t turn_longest_launch(struct limited_device *d, uint64_t now); /* of the other containers */

/* The end of the last work under any turn, as far as it is believed: never after `end`. 0: not known. */
uint64_t turn_frontier(struct limited_device *d, uint64_t end);
/* Work of ours ended after we lost the turn: says so on the page. */
void turn_move_frontier(struct limited_device *d, uint64_t end);

/* ---- for turn_yield.c ---- */

/* Reads the page. False: there are no turns now. */
bool turn_read_page(struct limited_device *d, struct hami_turn_page *seen, size_t size, uint64_t now);
unsigned turn_holder(uint64_t word); /* of the page: slot + 1; 0: nobody */
bool turn_has_slot(struct limited_device *d, const struct hami_turn_page *seen);
bool turn_is_ours_on(struct limited_device *d, const struct hami_turn_page *seen);
bool turn_is_ours(const struct limited_device *d); /* as far as any process of the container knows */
bool turn_is_young(const struct limited_device *d, uint64_t now);
bool turn_is_surely_ours(const struct limited_device *d, uint64_t now); /* without looking at the page */
/* Writes our sign of life, if one is due, and looks for others'. True: no other container was there lately. */
bool turn_show_life(struct limited_device *d, const struct hami_turn_page *seen, uint64_t now);
/* The slot + 1 of the waiting container that is furthest behind; 0: none waits. */
unsigned turn_neediest(const struct limited_device *d, const struct hami_turn_page *seen, uint64_t now);

/* ---- turn_yield.c: when to give the turn on, and how to wait for it; the balance decides ---- */

struct snapshot;
/*
 * If the turn is ours: shows life, and gives the turn on if it should. Returns when to look again; UINT64_MAX: the turn
 * is not ours. Needs the process's lock.
 */
uint64_t yield_turn(struct limited_device *d);
/* True: the turn, which is ours, has lasted long enough for a container that is further behind. */
bool yield_is_due(struct limited_device *d, const struct snapshot *s);
/* Waits for the turn, 20 ms at most. `why`: what turn_take said. */
void yield_wait(struct limited_device *d, const struct snapshot *s, enum turn why);
/* In a wait for the turn: the balance forfeited s->forfeited. Too much of that, and turns are given up. */
void yield_forfeited(struct limited_device *d, const struct snapshot *s);

#endif
