/* ALBERT (Lan et al., arXiv 1909.11942) as transformers' modeling_albert: BERT's encoder with narrower embeddings, and layers that
 * share their weights, so that a weight's gradient is a sum over layers. There is no dropout behind the feed-forward block. */
#include "model/encoder.h"

static const struct encoder albert = {.positions = "embeddings.position_embeddings",
                                      .types = "embeddings.token_type_embeddings",
                                      .norm = "embeddings.LayerNorm",
                                      .projection = "encoder.embedding_hidden_mapping_in",
                                      .layer = "encoder.albert_layer_groups",
                                      .inner = "albert_layers",
                                      .query = "attention.query",
                                      .key = "attention.key",
                                      .value = "attention.value",
                                      .query_key_value = "attention.query_key_value",
                                      .attention = "attention.dense",
                                      .attention_norm = "attention.LayerNorm",
                                      .up = "ffn",
                                      .down = "ffn_output",
                                      .norm_out = "full_layer_layer_norm",
                                      .keeps_output = true};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    encoder_defaults(c);
    own->act = ACT_gelu_tanh, own->embedding_size = 128, own->groups = own->inner = 1;
    c->dropout_hidden = c->dropout_attention = 0, c->dropout_classifier = 0.1;
    TRY(encoder_config(o, path, c, err));
    TRY(json_get_int(o, path, "embedding_size", false, 1, 1 << 20, &own->embedding_size, err));
    TRY(json_get_int(o, path, "num_hidden_groups", false, 1, c->layers, &own->groups, err));
    TRY(json_get_int(o, path, "inner_group_num", false, 1, MAX_LAYERS, &own->inner, err));
    TRY(json_get_real(o, path, "classifier_dropout_prob", false, 0, 0.999, &c->dropout_classifier, err));
    c->file_layers = own->groups;
    return SNUG_OK;
}

static int body(struct build *b)
{
    return encoder_body(b, &albert);
}

static int classifier(struct build *b, int v)
{
    return encoder_classifier(b, v, "albert.pooler", ACT_tanh, "classifier");
}

static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {
        .dense = "predictions.dense", .norm = "predictions.LayerNorm", .bias = "predictions.bias"};
    return encoder_masked_lm(b, v, &head, b->c->own.encoder.act);
}

static const struct model_head heads[MODEL_COUNT] =
    ENCODER_HEADS("Albert", classifier, "classifier.weight", masked_lm, "predictions.dense.weight");

static const struct tied_name tied[] = {ENCODER_TIED("albert.", "predictions"), {0}};

const struct model_arch arch_albert = {.model_type = "albert",
                                       .known = "albert-base-v2, albert-xxlarge-v2",
                                       .class_prefix = "Albert",
                                       .positions_key = "max_position_embeddings",
                                       .base_prefix = "albert.",
                                       .layer_prefix = "encoder.albert_layer_groups.",
                                       .tied = tied,
                                       .ignored = encoder_ignored,
                                       .heads = heads,
                                       .refused = encoder_refused,
                                       .config = config,
                                       .body = body};
