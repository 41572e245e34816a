/* links.h: what ranks send each other over the links between them. */
#ifndef SEARCH_LINKS_H
#define SEARCH_LINKS_H

#include "compile.h"

/* Bytes of an optimizer step that the busiest of so many ranks gets, or sends. Exchanges that follow one another are one; all wait for the
 * slowest rank. 0: there is one rank, or no memory. */
double links_bytes(const struct plan *p, const struct programs *where, int64_t accumulation, int ranks);

#endif
