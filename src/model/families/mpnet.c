/* MPNet (Song et al., arXiv 2004.09297) as transformers' modeling_mpnet: RoBERTa's encoder without token types, with a bias of
 * attention's scores by distance, whose table all layers share. */
#include "model/encoder.h"

#include <math.h>

enum { BUCKETS = 32, FURTHEST = 128, PAD = 1 }; /* of the class: no key of config.json changes them */

/* All layers share the table. */
static int attend(struct build *b, int i, int qkv)
{
    (void)i;
    const char *table = "mpnet.encoder.relative_attention_bias.weight";
    struct general_options o = {.cu = b->in.cu_seqlens,
                                .coords = b->in.coords,
                                .table = WEIGHT(b, b->normal, table, DIM(BUCKETS), DIM(b->c->heads)),
                                .furthest = FURTHEST,
                                .scale = 1 / sqrt((double)(b->c->hidden_size / b->c->heads))};
    return build_general_attention(b, qkv, o);
}

static const struct encoder mpnet = {.positions = "embeddings.position_embeddings",
                                     .norm = "embeddings.LayerNorm",
                                     .layer = "encoder.layer",
                                     .query = "attention.attn.q",
                                     .key = "attention.attn.k",
                                     .value = "attention.attn.v",
                                     .query_key_value = "attention.attn.qkv",
                                     .attention = "attention.attn.o",
                                     .attention_norm = "attention.LayerNorm",
                                     .up = "intermediate.dense",
                                     .down = "output.dense",
                                     .norm_out = "output.LayerNorm",
                                     .attend = attend};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    encoder_defaults(c);
    c->pad_id = PAD;
    TRY(encoder_config(o, path, c, err));
    c->type_vocab_size = 0;
    c->dropout_classifier = c->dropout_hidden;
    c->pad_id = PAD;
    return encoder_positions_behind_pad(c, path, err);
}

static int body(struct build *b)
{
    return encoder_body(b, &mpnet);
}

static int classifier(struct build *b, int v)
{
    return encoder_two_layer_classifier(b, v, ACT_tanh);
}

static const struct model_head heads[MODEL_COUNT] =
    ENCODER_HEADS("MPNet", classifier, "classifier.out_proj.weight", encoder_lm_head, "lm_head.dense.weight");

static const struct tied_name tied[] = {ENCODER_TIED("mpnet.", "lm_head"), {0}};

static const struct refused refused[] = {
    ENCODER_REFUSED,
    {.key = "relative_attention_num_buckets", .kind = REFUSED_UNLIKE, .words = {"32"}},
    {.key = "pad_token_id", .kind = REFUSED_UNLIKE, .words = {"1"}},
    {0},
};

const struct model_arch arch_mpnet = {.model_type = "mpnet",
                                      .known = "mpnet-base, all-mpnet-base-v2",
                                      .class_prefix = "MPNet",
                                      .positions_key = "max_position_embeddings",
                                      .base_prefix = "mpnet.",
                                      .layer_prefix = "encoder.layer.",
                                      .tied = tied,
                                      .ignored = encoder_ignored,
                                      .heads = heads,
                                      .refused = refused,
                                      .config = config,
                                      .body = body};
