/* owners.h: which of several ranks keeps the states of each weight and updates it (ZeRO: Rajbhandari et al., arXiv 1910.02054): of a
 * matrix all of them, each those of its shard. Where an optimizer must see a tensor whole, and of what is too small, one has all of it. */
#ifndef PASS_OWNERS_H
#define PASS_OWNERS_H

#include "pass/pass.h"

/* Whether the states of each weight lie on one rank alone, or in shards. */
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

/* Whether a weight lies on its owner alone, or in shards, from where all pull it when they use it: matrices, frozen ones and those in codes
 * as well. Vectors are a thousandth of a model, and each would be a message of its own: they stay on all ranks. */
static inline bool weight_leaves(const struct value *whole, const struct pass_settings *s)
{
    return weights_leave(s) && whole->role == ROLE_WEIGHT && whole->ndim > 1;
}

/* By weight: its owner, counted from 1; ALL_OWN where each rank has a shard of each tensor that lies there; 0 where each rank updates it,
 * or has it if it is frozen. What lies in one value has one owner. Of what is trained the largest values come first, each to the rank that
 * has least so far: the same in every program with these weights. mem_free'd by the caller; NULL: no memory, and the graph has failed. */
enum { ALL_OWN = -1 };
int *weight_owners(struct graph *g, const struct pass_settings *s);

/* Elements of a chunk of the shards of what is of weight `of`: as many chunks as the weight has. */
int64_t shard_chunk(const struct graph *g, const struct pass_settings *s, int id, int of);

#endif
