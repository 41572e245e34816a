/* gpt.h: decoders of GPT-2's kind: layer norms, heads of hidden_size / heads, a feed-forward block without a gate, positions that are learned,
 * rotary or slopes. What differs are names (struct gpt_names) and facts of an architecture and its config.json (struct gpt_config). */
#ifndef MODEL_GPT_H
#define MODEL_GPT_H

#include "model/build.h"

/* Names of modules. Those of a layer stand behind its number, the others behind the base model's prefix; NULL: there is none. */
struct gpt_names {
    const char *words, *positions, *words_norm; /* words_norm: of the embeddings */
    const char *attention_norm, *mlp_norm, *last_norm;
    const char *qkv; /* one weight; or, where the next are there, what their product is called here */
    const char *query, *key, *value;
    const char *out, *up, *down; /* of attention, and the feed-forward block's */
    const char *head;            /* with its prefix: the output's embeddings where they are its own */
};

/* What config.json calls a setting, and the name of transformers' for all models, which is read where that is absent. */
struct gpt_size {
    const char *key, *common; /* key NULL: it is no setting */
};

struct gpt_keys {
    struct gpt_size hidden_size, layers, heads, positions, intermediate_size;
    bool tells_width;           /* intermediate_size must be there; else it is 4 hidden_size without it */
    const char *act, *norm_eps; /* act NULL: it is no setting */
    const char *dropout_embedding, *dropout_hidden, *dropout_attention; /* NULL: there is none */
};

extern const struct gpt_keys gpt2_keys; /* n_embd and so on */

/* Reads config.json by these keys. What is set in `c` before are the defaults: names, the activation, dropouts, longest, untied, facts. */
int gpt_config(json_t *o, const char *path, struct model_config *c, const struct gpt_keys *keys, struct snug_err *err);

/* Says, behind that, that files have queries, keys and values for each key head, of heads that do not turn. Such heads have an even size. */
int gpt_by_group(const char *path, struct model_config *c, struct snug_err *err);

/* Embeddings, layers, the last norm. Gives (T,H), or (B,H), the rows of the last tokens, where the task wants one row a sequence. */
int gpt_body(struct build *b);

/* The heads of all of them: the product with the output's embeddings or, where they are tied, the input's; and a classifier without a bias,
 * `score.weight`. */
int gpt_causal_lm(struct build *b, int v);
int gpt_classifier(struct build *b, int v);
#define GPT_HEADS(prefix, causal, its_words)                                                                           \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "score.weight",                                                   \
                                           .logits = gpt_classifier},                                                  \
        [MODEL_CAUSAL_LM] = {.class_name = prefix causal, .logits = gpt_causal_lm, .untied = its_words},               \
    }

extern const struct tied_name gpt_tied[]; /* of those whose words are "wte" */
extern const char *const gpt_ignored[];

/* A row of model.c, of those whose names begin as GPT-2's do. */
#define GPT(type, prefix, its_positions, its_heads, its_tied, its_config, its_adapted, its_known, its_refused)         \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = its_positions, .base_prefix = "transformer.",     \
        .layer_prefix = "h.", .tied = its_tied, .ignored = gpt_ignored, .heads = its_heads, .adapted = its_adapted,    \
        .config = its_config, .body = gpt_body, .known = its_known, .refused = its_refused,                            \
    }

#endif
