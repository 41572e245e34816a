/* DistilBERT (Sanh et al., arXiv 1910.01108) as transformers' modeling_distilbert: BERT's encoder under other names, without
 * token types, and without dropout behind attention. */
#include "model/encoder.h"
#include "model/refused.h"

static const struct encoder distilbert = {.positions = "embeddings.position_embeddings",
                                          .norm = "embeddings.LayerNorm",
                                          .layer = "transformer.layer",
                                          .query = "attention.q_lin",
                                          .key = "attention.k_lin",
                                          .value = "attention.v_lin",
                                          .query_key_value = "attention.qkv_lin",
                                          .attention = "attention.out_lin",
                                          .attention_norm = "sa_layer_norm",
                                          .up = "ffn.lin1",
                                          .down = "ffn.lin2",
                                          .norm_out = "output_layer_norm",
                                          .keeps_attention = true};

/* transformers reads each of these under either name; the latter counts. */
static int get_size(json_t *o, const char *path, const char *key, const char *other, int64_t most, int64_t *out,
                    struct snug_err *err)
{
    return json_get_int(o, path, json_object_get(o, other) ? other : key, true, 1, most, out, err);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    c->longest = 512, c->pad_id = 0, c->init_std = 0.02;
    c->dropout_hidden = c->dropout_attention = 0.1, c->dropout_classifier = 0.2;
    own->norm_eps = 1e-12; /* no key of the file */
    own->dropout_answers = 0.1;
    TRY(get_size(o, path, "dim", "hidden_size", 1 << 20, &c->hidden_size, err));
    TRY(get_size(o, path, "n_layers", "num_hidden_layers", MAX_LAYERS, &c->layers, err));
    TRY(get_size(o, path, "n_heads", "num_attention_heads", 4095, &c->heads, err));
    TRY(json_get_int(o, path, "hidden_dim", true, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 20, &c->longest, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    TRY(json_get_real(o, path, "seq_classif_dropout", false, 0, 0.999, &c->dropout_classifier, err));
    TRY(json_get_real(o, path, "qa_dropout", false, 0, 0.999, &own->dropout_answers, err));
    c->dropout_embedding = c->dropout_hidden;
    TRY(config_act(o, path, "activation", ACT_gelu, &own->act, err));
    TRY(config_tied(o, path, c, err));
    return config_check_heads(c, path, "dim", "n_heads", err);
}

static int body(struct build *b)
{
    return encoder_body(b, &distilbert);
}

static int classifier(struct build *b, int v)
{
    return encoder_classifier(b, v, "pre_classifier", ACT_relu, "classifier");
}

static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {
        .dense = "vocab_transform", .norm = "vocab_layer_norm", .bias = "vocab_projector.bias"};
    return encoder_masked_lm(b, v, &head, b->c->own.encoder.act);
}

/* With the dropout of the layers: that of the configuration is of the sequences' classifier alone. */
static int token_classifier(struct build *b, int v)
{
    return encoder_tokens_behind_dropout(b, v, build_p(b, b->c->dropout_hidden));
}

/* Alone of its kind it has a dropout in front. */
static int answers(struct build *b, int v)
{
    return encoder_answers(b, build_dropout(b, v, b->in.coords, build_p(b, b->c->own.encoder.dropout_answers)));
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "DistilBertForSequenceClassification",
                                       .weight = "classifier.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "DistilBertForMaskedLM",
                         .weight = "vocab_transform.weight",
                         .logits = masked_lm},
    [MODEL_TOKEN_CLASSIFICATION] = {.class_name = "DistilBertForTokenClassification",
                                    .weight = "classifier.weight",
                                    .logits = token_classifier},
    [MODEL_QUESTION_ANSWERING] = {
        .class_name = "DistilBertForQuestionAnswering", .weight = "qa_outputs.weight", .logits = answers}};

static const struct tied_name tied[] = {{"vocab_projector.weight", "distilbert." ENCODER_WORDS ".weight"}, {0}};

static const struct refused refused[] = {
    {.key = "sinusoidal_pos_embds", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_distilbert = {
    .model_type = "distilbert",
    .known = "distilbert-base-uncased, distilbert-base-uncased-finetuned-sst-2-english",
    .class_prefix = "DistilBert",
    .positions_key = "max_position_embeddings",
    .base_prefix = "distilbert.",
    .layer_prefix = "transformer.layer.",
    .tied = tied,
    .ignored = encoder_ignored,
    .heads = heads,
    .refused = refused,
    .config = config,
    .body = body};
