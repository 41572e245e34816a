/* encoder.h: encoders of BERT's kind: a sum of embeddings, then layers whose norms stand behind the blocks or before them. What differs are
 * names, and few facts. */
#ifndef MODEL_ENCODER_H
#define MODEL_ENCODER_H

#include "model/build.h"
#include "model/refused.h"

/* Behind the prefix of the base model, without ".weight" and ".bias". */
struct encoder {
    const char *positions, *types, *norm; /* of the embeddings; norm NULL: there is none */
    const char *tasks;                    /* where there is a task_vocab_size */
    const char *projection;               /* embedding_size to hidden_size */
    const char *layer;                    /* before a layer's number; what follows stands behind it */
    const char *inner;                    /* before the number of a layer within a group; NULL: no groups */
    /* The last is their product here, and in no file. query NULL: files have that one. */
    const char *query, *key, *value, *query_key_value;
    const char *attention, *attention_norm; /* the product behind attention, and the norm of that block */
    const char *up, *down, *norm_out;       /* feed-forward */
    const char *gate,
        *gate_up;          /* the block's gate, and its product with `up`, which is in no file; NULL: it has none */
    bool no_bias;          /* of the layers' products */
    const char *last;      /* the norm behind all layers, whose norms then stand before the blocks; NULL: behind them */
    bool keeps_embeddings; /* no dropout of the embeddings */
    bool keeps_attention;  /* no dropout of the product behind attention */
    bool keeps_output;     /* nor of the feed-forward block's */
    /* Queries, keys and values of rows v in layer i, (N, 3 H); NULL: one product with biases. */
    int (*project)(struct build *b, int i, int v);
    /* What the words' embeddings become before others are added. NULL: they stay. */
    int (*behind_words)(struct build *b, int v);
    /* Attention of layer i over qkv (T, 3 H), for all rows, also where only the first are asked for; NULL: BERT's. */
    int (*attend)(struct build *b, int i, int qkv);
    /* What the first layer's result becomes, `entered` being what it read; all rows. NULL: it stays. */
    int (*behind_first)(struct build *b, int entered, int v);
};

/* The words' table, of all families. */
#define ENCODER_WORDS "embeddings.word_embeddings"

/* clang-format off */
/* What most families call their tables and products. */
#define ENCODER_NAMES                                                                                                  \
    .positions = "embeddings.position_embeddings",                                                                     \
    .types = "embeddings.token_type_embeddings",                                                                       \
    .layer = "encoder.layer",                                                                                          \
    .query = "attention.self.query",                                                                                   \
    .key = "attention.self.key",                                                                                       \
    .value = "attention.self.value",                                                                                   \
    .query_key_value = "attention.self.query_key_value",                                                               \
    .attention = "attention.output.dense",                                                                             \
    .up = "intermediate.dense",                                                                                        \
    .down = "output.dense"
/* clang-format on */

/* BERT's defaults, and what its config.json has: what is absent stays as it is in `c`. */
void encoder_defaults(struct model_config *c);
int encoder_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err);

/* Of a family whose positions begin behind the padding token's id: the first one, and how many tokens are left for an input. */
int encoder_positions_behind_pad(struct model_config *c, const char *path, struct snug_err *err);

/* What all of them refuse: rows of a table, and the whole of one. */
/* clang-format off */
#define ENCODER_REFUSED                                                                                                \
    {.key = "position_embedding_type", .kind = REFUSED_OTHER, .words = {"absolute"}},                                  \
    {.key = "is_decoder", .kind = REFUSED_TRUE}
/* clang-format on */
extern const struct refused encoder_refused[];

/* Queries, keys and values of rows v in layer i, (N, 3 H). */
int encoder_query_key_value(struct build *b, const struct encoder *e, int i, int v);

/* Embeddings and layers. Gives (T,H), or (B,H), the rows of the first tokens, where the task wants one row a sequence. */
int encoder_body(struct build *b, const struct encoder *e);

/* A classifier's two products: act(v W^T + b), dropout, and the labels' (B,labels). */
int encoder_classifier(struct build *b, int v, const char *dense, enum act act, const char *labels);

/* The same behind a dropout, under the names of RoBERTa's head: "classifier.dense", "classifier.out_proj". */
int encoder_two_layer_classifier(struct build *b, int v, enum act act);

/* Token classification: dropout, the classifier's or with probability p, and the product for the labels of each token (T,labels). */
int encoder_token_classifier(struct build *b, int v);
int encoder_tokens_behind_dropout(struct build *b, int v, double p);

/* Question answering: the product for start and end of an answer at each token (T,2). */
int encoder_answers(struct build *b, int v);

/* The masked language model's head: product to the width of the embeddings, activation, norm, and the product with the
 * input's embeddings, which has a bias of its own. Gives (T,V). */
struct encoder_mlm {
    const char *dense, *norm, *bias; /* the last is a whole name */
};
int encoder_masked_lm(struct build *b, int v, const struct encoder_mlm *m, enum act act);

/* RoBERTa's: "lm_head.dense" and so on. Its activation is GELU, whatever hidden_act says. */
int encoder_lm_head(struct build *b, int v);

/* The heads of a family; `its_weight` and `its_words` tell whether the classifier and the masked language model were trained. */
#define ENCODER_HEADS(prefix, its_classifier, its_weight, its_masked_lm, its_words)                                    \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = its_weight,                                                       \
                                           .logits = its_classifier},                                                  \
        [MODEL_MASKED_LM] = {.class_name = prefix "ForMaskedLM", .weight = its_words, .logits = its_masked_lm},        \
        [MODEL_TOKEN_CLASSIFICATION] = {.class_name = prefix "ForTokenClassification",                                 \
                                        .weight = "classifier.weight",                                                 \
                                        .logits = encoder_token_classifier},                                           \
        [MODEL_QUESTION_ANSWERING] = {                                                                                 \
            .class_name = prefix "ForQuestionAnswering", .weight = "qa_outputs.weight", .logits = encoder_answers},    \
    }

/* clang-format off */
/* Second names of the words' table and of the output's bias, which stand behind `head`. */
#define ENCODER_TIED(prefix, head)                                                                                     \
    {head ".decoder.weight", prefix ENCODER_WORDS ".weight"},                                                          \
    {head ".decoder.bias", head ".bias"}
/* clang-format on */

extern const char *const encoder_ignored[]; /* of files: what is no weight */

/* A row of model.c. */
#define ENCODER(type, prefix, its_base, its_tied, its_heads, its_adapted, its_known, its_config, its_body)             \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = "max_position_embeddings",                        \
        .base_prefix = its_base, .layer_prefix = "encoder.layer.", .tied = its_tied, .ignored = encoder_ignored,       \
        .heads = its_heads, .adapted = its_adapted, .known = its_known, .refused = encoder_refused,                    \
        .config = its_config, .body = its_body,                                                                        \
    }

#endif
