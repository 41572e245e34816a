/* layer.h: what a planned program, of which nothing is computed again, says of each of its layers: where its nodes stand, what it
 * holds for the backward pass, and what lives beside that. */
#ifndef SEARCH_LAYER_H
#define SEARCH_LAYER_H

#include "plan/plan.h"

/* By layer, 0 to the one behind the last (the head): its nodes going forward, and from where to where the backward nodes of
 * it stand, with what was put between them (updates). A layer without a backward pass has backward 0. */
struct layer_span {
    int forward, forward_end, backward, backward_end;
};

struct layers {
    const struct plan *plan;
    const struct program *g;
    int n;                    /* layers are 1 … n; n + 1 is the head */
    struct layer_span *spans; /* n + 2 */
    bool *held;       /* by root: made by a layer, and dies in that layer's backward pass: what can be computed again */
    int64_t *beside;  /* by node: bytes of what lives then, less all that is held */
    int64_t *through; /* by layer: the same just before its backward nodes */
    int64_t beside_most; /* where nothing is held: before the first layer and behind its backward pass */
    int64_t head_most;   /* behind the last layer's forward nodes, until its backward nodes begin */
    bool sends;          /* activations may leave for the host's memory; set by the owner */
    int64_t least; /* the most that lives at once of what is made behind those nodes: nothing of that is ever dropped */
};

/* The program must have been planned, and must outlive it. layers_close also after a failure. */
int layers_open(struct layers *l, const struct plan *p, const struct program *g, struct snug_err *err);
void layers_close(struct layers *l);

#endif
