/* rates.h: how long a node takes by what it has to do, where nothing was measured. Choices that must not differ from run to run
 * are made by it, since a measured time never comes twice. */
#ifndef SEARCH_RATES_H
#define SEARCH_RATES_H

#include "compile.h"

/* Of a device: floating-point operations and bytes in a second, bytes each way between it and the host's memory, and what a node
 * takes at least. */
struct rates {
    double flops, bytes, host_bytes, least;
    double fp8;        /* how many times as many operations linear_fp8 does */
    struct dims sizes; /* of what is reckoned; all 0: a program's largest */
};
struct rates rates_of(const struct backend *b, const struct precision *p, int threads, struct dims sizes);

/* Seconds of a node: the longer of its operations and its bytes; those in the host's memory come and go by a way of their own. */
double rates_node(const struct rates *r, const struct program *g, const struct node *n);
double rates_program(const struct rates *r, const struct program *g); /* of all its nodes */
/* Of an optimizer step with so many micro-batches. */
double rates_step(const struct rates *r, const struct plan *p, const struct programs *where, int64_t accumulation);

#endif
