/* experts.h: feed-forward blocks that are mixtures of experts: a router chooses experts for each token, each expert is a gated block. */
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include "model/build.h"

/* Names of weights behind a layer's prefix: BLOCK.ROUTER is the router. Files have the experts' layers in one of three ways:
 * - each by itself, BLOCK.experts.E.GATE, .UP and .DOWN;
 * - all experts' as one, BLOCK.GATE.weight (E,2F,H), whose rows are gates, then ups, and BLOCK.DOWN.weight (E,H,F): up is NULL;
 * - all as one with biases (experts_config), BLOCK.experts.gate_up_proj and .down_proj.
 * An expert that all tokens have is BLOCK.shared_expert, with BLOCK.shared_expert_gate for its weight; or it is SHARED, whose gates and ups
 * are one layer, and counts as it is. */
struct expert_names {
    const char *block, *gate, *up, *down;
    const char *router; /* NULL: gate */
    const char *shared; /* NULL: of the first kind */
};

extern const struct expert_names experts_of_qwen;    /* and of others */
extern const struct expert_names experts_of_granite; /* MoE, and with a shared expert */

/* Reads how many experts there are, under either of two keys, how many a token has, and whether there is a loss that balances them; what
 * was set before is the default. */
int experts_config(json_t *o, const char *path, const char *key, struct experts_config *e, struct snug_err *err);

/* The block of the layer with this prefix, "model.layers.3.", on rows v. */
int build_experts(struct build *b, const char *prefix, int v, const struct experts_config *e, enum act act);

/* The loss that balances the experts of all layers so far; 0 where there is none. */
int build_balance_loss(struct build *b, const struct experts_config *e);

#endif
