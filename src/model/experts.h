/* experts.h: feed-forward blocks that are mixtures of experts: a router chooses experts for each token, each expert is a gated block. */
#ifndef MODEL_EXPERTS_H
#define MODEL_EXPERTS_H

#include "model/build.h"

/* Names of weights behind a layer's prefix. Files have a tensor for each expert: BLOCK.ROUTER is the router, BLOCK.experts.E.GATE, .UP and
 * .DOWN are the layers of expert E. Or all experts' as one (experts_config): BLOCK.experts.gate_up_proj and .down_proj. BLOCK.shared_expert
 * has the layers of an expert that all tokens have, BLOCK.shared_expert_gate its weight. */
struct expert_names {
    const char *block, *gate, *up, *down;
    const char *router; /* NULL: gate */
};

extern const struct expert_names experts_of_qwen; /* and of others */

/* Reads how many experts there are, under either of two keys, how many a token has, and whether there is a loss that balances them; what
 * was set before is the default. */
int experts_config(json_t *o, const char *path, const char *key, struct experts_config *e, struct snug_err *err);

/* The block of the layer with this prefix, "model.layers.3.", on rows v. */
int build_experts(struct build *b, const char *prefix, int v, const struct experts_config *e, enum act act);

/* The loss that balances the experts of all layers so far; 0 where there is none. */
int build_balance_loss(struct build *b, const struct experts_config *e);

#endif
