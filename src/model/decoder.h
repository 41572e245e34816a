/* decoder.h: decoders of Llama's kind: RMS norms, rotary positions, grouped heads, a gated feed-forward block. What differs, such as layer
 * norms or a block without a gate, are facts of the architecture (struct decoder) and of its config.json (struct decoder_config). */
#ifndef MODEL_DECODER_H
#define MODEL_DECODER_H

#include "model/build.h"

/* Reads what Llama's config.json has, with its defaults but for those that are set in `c` before: norm_eps, longest, untied,
 * init_std, the sizes of heads and of the feed-forward blocks, the biases, the window, names; `theta` is that of rope_theta. */
int decoder_config(json_t *o, const char *path, struct model_config *c, double theta, struct snug_err *err);

/* Which layers see a window alone. `layer_types` says it where it stands; else all do where sliding_window is a number, but for
 * what an architecture knows. */
struct decoder_windows {
    bool asked;         /* only if use_sliding_window is true, and from layer max_window_layers on */
    bool before;        /* asked: the layers before that one instead */
    int64_t full_every; /* each such layer sees everything; 0: none */
    bool patterned;     /* sliding_window_pattern says which */
};
int decoder_windows(json_t *o, const char *path, struct model_config *c, struct decoder_windows w,
                    struct snug_err *err);

/* A list with an entry for each layer; NULL where it is absent or null. */
int decoder_list(json_t *o, const char *path, const char *key, const struct model_config *c, json_t **list,
                 struct snug_err *err);

/* Layers that see everything have no rotary positions. */
void decoder_turned_windows(struct model_config *c);

/* The feed-forward blocks of all layers are mixtures of experts. */
void decoder_all_experts(struct model_config *c);

/* Which layers have no rotary positions: those that are 0 in `no_rope_layers`, or every interval-th. */
int decoder_unturned(json_t *o, const char *path, struct model_config *c, int64_t interval, struct snug_err *err);

/* Embeddings, layers, the last norm. Gives (T,H), or (B,H), the rows of the last tokens, where the task wants one row a
 * sequence. */
int decoder_body(struct build *b);

/* The heads of all of them: the product with `lm_head.weight` or, where they are tied, with the input's embeddings; and a
 * classifier without a bias, `score.weight`. */
int decoder_causal_lm(struct build *b, int v);
int decoder_classifier(struct build *b, int v);
#define DECODER_HEADS(prefix)                                                                                          \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "score.weight",                                                   \
                                           .logits = decoder_classifier},                                              \
        [MODEL_CAUSAL_LM] = {.class_name = prefix "ForCausalLM",                                                       \
                             .weight = NULL,                                                                           \
                             .logits = decoder_causal_lm,                                                              \
                             .untied = "lm_head.weight"},                                                              \
    }

extern const struct tied_name decoder_tied[];
extern const char *const decoder_ignored[];

/* A row of model.c; the second, where there are other dropouts than attention's, too. */
#define DECODER(type, prefix, its_heads, its_config, its_adapted, its_known, its_refused)                              \
    DECODER_ROW(type, prefix, its_heads, its_config, its_adapted, its_known, its_refused, true)
#define DROPPING_DECODER(type, prefix, its_heads, its_config, its_adapted, its_known, its_refused)                     \
    DECODER_ROW(type, prefix, its_heads, its_config, its_adapted, its_known, its_refused, false)
#define DECODER_ROW(type, prefix, its_heads, its_config, its_adapted, its_known, its_refused, attention_alone)         \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = "max_position_embeddings",                        \
        .base_prefix = "model.", .layer_prefix = "layers.", .tied = decoder_tied, .ignored = decoder_ignored,          \
        .heads = its_heads, .adapted = its_adapted, .config = its_config, .body = decoder_body,                        \
        .only_attention_drops = attention_alone, .known = its_known, .refused = its_refused,                           \
    }

#endif
