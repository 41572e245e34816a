/* owners.h: which of several ranks keeps the states of each weight and updates it (ZeRO: Rajbhandari et al., arXiv 1910.02054), by whole
 * weights: so an optimizer, with whatever states, never sees a part of a tensor. */
#ifndef PASS_OWNERS_H
#define PASS_OWNERS_H

#include "pass/pass.h"

/* Whether the states of each weight lie on one rank alone. */
static inline bool has_owners(const struct pass_settings *s)
{
    return s->ranks > 1 && s->zero_stage > 0;
}

/* Whether a rank gives its gradients away as soon as a micro-batch has made them, so that it keeps the sums of its own weights alone. */
static inline bool gradients_leave(const struct pass_settings *s)
{
    return has_owners(s) && s->zero_stage > 1;
}

/* Whether it keeps its own weights alone, too. */
static inline bool weights_leave(const struct pass_settings *s)
{
    return has_owners(s) && s->zero_stage > 2;
}

/* Whether a weight lies on its owner alone, from where all pull it when they use it: matrices, frozen ones as well. Vectors are a
 * thousandth of a model, and each would be a message of its own: they stay on all ranks. */
static inline bool weight_leaves(const struct value *whole, const struct pass_settings *s)
{
    return weights_leave(s) && whole->role == ROLE_WEIGHT && whole->ndim > 1;
}

/* By weight: its owner, counted from 1; 0 where each rank updates it, or has it if it is frozen. Those that lie in one value have one
 * owner. What is trained comes first, and of that the largest values, each to the rank that has least so far: the same in every program
 * with these weights. mem_free'd by the caller; NULL: no memory, and the graph has failed. */
int *weight_owners(struct graph *g, const struct pass_settings *s);

#endif
