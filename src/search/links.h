/* links.h: what ranks send each other over the links between them. */
#ifndef SEARCH_LINKS_H
#define SEARCH_LINKS_H

#include "search/rates.h"

/* Of so many ranks, and how long a byte takes. */
struct links {
    int ranks;
    double byte_seconds; /* 0: not known */
};

/* Bytes of an optimizer step that the busiest rank gets, or sends. Exchanges that follow one another are one; all wait for the slowest
 * rank.
 * 0: there is one rank, or no memory. */
double links_bytes(const struct links *l, const struct plan *p, const struct programs *where, int64_t accumulation);

/* By how much that makes the step longer: what is pulled on a lane runs beside what is computed, by the rates. */
double links_seconds(const struct links *l, const struct rates *r, const struct plan *p, const struct programs *where,
                     int64_t accumulation);

#endif
