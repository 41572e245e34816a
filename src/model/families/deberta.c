/* DeBERTa (He et al., arXiv 2006.03654), its versions 2 and 3 (arXiv 2111.09543) as transformers' modeling_deberta and modeling_deberta_v2:
 * BERT's layers with disentangled attention, whose relative positions have embeddings that all layers share. The first version has queries,
 * keys and values head by head, of which keys have no bias, and each distance has embeddings of its own. */
#include "model/encoder.h"

#include <math.h>
#include <string.h>

#define CONVOLUTION "deberta.encoder.conv"
#define ATTENTION "deberta.encoder.layer.%d.attention.self."

static int attend(struct build *b, int i, int qkv);
static int project_heads(struct build *b, int i, int v);

static const struct encoder version_2 = {.positions = "embeddings.position_embeddings",
                                         .types = "embeddings.token_type_embeddings",
                                         .norm = "embeddings.LayerNorm",
                                         .layer = "encoder.layer",
                                         .query = "attention.self.query_proj",
                                         .key = "attention.self.key_proj",
                                         .value = "attention.self.value_proj",
                                         .query_key_value = "attention.self.query_key_value",
                                         .attention = "attention.output.dense",
                                         .attention_norm = "attention.output.LayerNorm",
                                         .up = "intermediate.dense",
                                         .down = "output.dense",
                                         .norm_out = "output.LayerNorm",
                                         .attend = attend};

static const struct encoder version_1 = {.positions = "embeddings.position_embeddings",
                                         .types = "embeddings.token_type_embeddings",
                                         .norm = "embeddings.LayerNorm",
                                         .layer = "encoder.layer",
                                         .attention = "attention.output.dense",
                                         .attention_norm = "attention.output.LayerNorm",
                                         .up = "intermediate.dense",
                                         .down = "output.dense",
                                         .norm_out = "output.LayerNorm",
                                         .project = project_heads,
                                         .attend = attend};

/* ---- config.json ---- */

static int read_term(const char *text, size_t n, const char *path, struct encoder_config *own, struct snug_err *err)
{
    if (n == 3 && !strncmp(text, "c2p", n))
        own->relative.to_position = true;
    else if (n == 3 && !strncmp(text, "p2c", n))
        own->relative.from_position = true;
    else
        return err_set(err, SNUG_ERR_INPUT, "%s: pos_att_type has \"%.*s\"; supported are c2p and p2c", path,
                       (int)(n < 40 ? n : 40), text);
    return SNUG_OK;
}

/* A list of names, or one string of them with | between. */
static int read_terms(json_t *o, const char *path, struct encoder_config *own, struct snug_err *err)
{
    json_t *terms = json_object_get(o, "pos_att_type"), *term;
    size_t i;
    char text[64];
    if (json_is_array(terms)) {
        json_array_foreach(terms, i, term)
        {
            const char *name = json_string_value(term);
            TRY(read_term(name ? name : json_value_text(term, text), strlen(name ? name : text), path, own, err));
        }
        return SNUG_OK;
    }
    if (terms && !json_is_null(terms) && !json_is_string(terms))
        return err_set(err, SNUG_ERR_INPUT, "%s: pos_att_type is %s; write [\"p2c\", \"c2p\"]", path,
                       json_value_text(terms, text));
    for (const char *at = json_is_string(terms) ? json_string_value(terms) : ""; *at;) {
        size_t n = strcspn(at, "|");
        TRY(read_term(at, n, path, own, err));
        at += n + (at[n] == '|');
    }
    return SNUG_OK;
}

/* Each distance has a row of its own, up to max_relative_positions. */
static int read_relative(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    int64_t furthest = -1;
    bool relative = false;
    TRY(json_get_bool(o, path, "relative_attention", false, &relative, err));
    TRY(read_terms(o, path, &c->own.encoder, err));
    TRY(json_get_int(o, path, "max_relative_positions", false, -1, 1 << 20, &furthest, err));
    if (!relative)
        return SNUG_OK;
    c->relative.furthest = furthest < 1 ? c->longest : furthest;
    c->relative.rows = 2 * c->relative.furthest;
    return SNUG_OK;
}

/* Besides, distances may share rows. */
static int read_buckets(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    const char *norm = "none";
    int64_t furthest = c->relative.furthest, buckets = -1;
    TRY(json_get_bool(o, path, "share_att_key", false, &own->relative.shared, err));
    TRY(json_get_string(o, path, "norm_rel_ebd", false, &norm, err));
    TRY(json_get_int(o, path, "position_buckets", false, -1, 1 << 20, &buckets, err));
    own->relative.norm = !strcmp(norm, "layer_norm");
    if (!c->relative.rows || buckets < 1)
        return SNUG_OK;
    c->relative.buckets = buckets;
    c->relative.rows = 2 * buckets;
    if (buckets > 0 && (buckets < 2 || furthest - 1 <= buckets / 2))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: position_buckets is %lld; with %lld relative positions it must be from 2 to %lld", path,
                       (long long)buckets, (long long)furthest, (long long)(2 * furthest - 3));
    return SNUG_OK;
}

/* torch pads with half the width on both sides, so that an even one would leave a row too few. */
static int read_convolution(json_t *o, const char *path, struct encoder_config *own, struct snug_err *err)
{
    TRY(json_get_int(o, path, "conv_kernel_size", false, 0, 255, &own->convolution.width, err));
    TRY(config_act(o, path, "conv_act", ACT_tanh, &own->convolution.act, err));
    if (own->convolution.width && own->convolution.width % 2 == 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: conv_kernel_size is %lld; use a model that has an odd number there",
                       path, (long long)own->convolution.width);
    return SNUG_OK;
}

/* What both versions have. */
static int common_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    bool positions = true, legacy = true;
    encoder_defaults(c);
    c->type_vocab_size = 0;
    own->norm_eps = 1e-7;
    own->relative.pooler_act = ACT_gelu;
    TRY(encoder_config(o, path, c, err));
    TRY(json_get_bool(o, path, "position_biased_input", false, &positions, err));
    TRY(json_get_bool(o, path, "legacy", false, &legacy, err));
    TRY(config_act(o, path, "pooler_hidden_act", own->relative.pooler_act, &own->relative.pooler_act, err));
    TRY(json_get_real(o, path, "pooler_dropout", false, 0, 0.999, &own->relative.dropout_pooler, err));
    c->dropout_classifier = -1; /* it has another key than BERT's */
    TRY(json_get_real(o, path, "cls_dropout", false, 0, 0.999, &c->dropout_classifier, err));
    own->no_positions = !positions;
    c->newer_head = !legacy;
    return read_relative(o, path, c, err);
}

static int config_2(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    TRY(common_config(o, path, c, err));
    TRY(read_convolution(o, path, &c->own.encoder, err));
    return read_buckets(o, path, c, err);
}

/* ---- the graph ---- */

/* The embeddings of relative positions as all layers read them; each drops some of it by itself. */
static void relative_embeddings(struct build *b)
{
    const struct encoder_config *own = &b->c->own.encoder;
    int v =
        WEIGHT(b, b->normal, "deberta.encoder.rel_embeddings.weight", DIM(b->c->relative.rows), DIM(b->c->hidden_size));
    if (own->relative.norm)
        v = build_norm(b, v, "deberta.encoder.LayerNorm", (struct norm_options){.eps = own->norm_eps}).y;
    b->relative = v;
}

/* Of the first version, whose keys have no bias. */
static int project_heads(struct build *b, int i, int v)
{
    const struct model_config *c = b->c;
    int64_t H = c->hidden_size;
    const struct bias_part parts[] = {{graph_name(b->g, ATTENTION "q_bias", i), H, false},
                                      {graph_name(b->g, ATTENTION "k_bias", i), H, true},
                                      {graph_name(b->g, ATTENTION "v_bias", i), H, false}};
    struct op_rotary parted = {
        .qkv = build_linear(b, v, graph_name(b->g, ATTENTION "in_proj", i), H, 3 * H, build_product(b, false)),
        .heads = c->heads,
        .kv_heads = c->heads,
        .by_group = true};
    emit_rotary(b->g, &parted);
    struct op_bias n = {.x = parted.y,
                        .b = build_bias(b, graph_name(b->g, ATTENTION "qkv_bias", i), parts, 3, b->zero)};
    emit_bias(b->g, &n);
    return n.y;
}

/* Products of layer i with the relative positions: the content's, or some of their own. */
static int project(struct build *b, int i, int v, struct disentangled_options *o)
{
    const struct encoder_config *own = &b->c->own.encoder;
    bool first = own->relative.first_version;
    int64_t H = b->c->hidden_size;
    int n = 0;
    struct part parts[2];
    v = build_dropout(b, v, b->in.relative_coords, build_p(b, b->c->dropout_hidden));
    if (own->relative.shared) {
        o->queries = own->relative.from_position ? 1 : 0;
        o->keys = own->relative.to_position ? 2 : 0;
        return encoder_query_key_value(b, &version_2, i, v);
    }
    if (own->relative.from_position) {
        parts[n++] = (struct part){graph_name(b->g, first ? ATTENTION "pos_q_proj" : ATTENTION "pos_query_proj", i), H};
        o->queries = n;
    }
    if (own->relative.to_position) {
        parts[n++] = (struct part){graph_name(b->g, first ? ATTENTION "pos_proj" : ATTENTION "pos_key_proj", i), H};
        o->keys = n;
    }
    struct layer_options both = build_product(b, true);
    both.unbiased_from = first ? 1 : 0; /* keys have none */
    if (n == 1)
        return build_linear(b, v, parts[0].prefix, H, H, build_product(b, !first || own->relative.from_position));
    return build_parts(b, v, graph_name(b->g, ATTENTION "pos_query_key", i), H, parts, n, both);
}

/* The scale counts the terms of pos_att_type, also where there are no relative positions. */
static int attend(struct build *b, int i, int qkv)
{
    const struct encoder_config *own = &b->c->own.encoder;
    int64_t D = b->c->hidden_size / b->c->heads;
    int terms = own->relative.to_position + own->relative.from_position;
    double scale = 1 / sqrt((double)(D * (1 + terms)));
    struct disentangled_options o = {.scale = scale};
    if (!b->relative || !terms)
        return build_attention(b, qkv, (struct attention_options){.head_size = D, .scale = scale});
    int relative = project(b, i, b->relative, &o);
    return build_disentangled_attention(b, qkv, relative, o);
}

/* The first layer's result with a convolution of what entered that layer. Rows beyond a sequence's ends are 0, as in transformers: there
 * padding has embeddings of 0. The activation stands behind the dropout. */
static int convolve(struct build *b, int entered, int v)
{
    const struct model_config *c = b->c;
    const struct encoder_config *own = &c->own.encoder;
    double p = build_p(b, c->dropout_hidden);
    struct layer_options o = {.weight = b->normal, .bias = b->zero, .act = p > 0 ? ACT_none : own->convolution.act};
    int y =
        build_convolution(b, entered, CONVOLUTION ".conv", c->hidden_size, c->hidden_size, own->convolution.width, o);
    if (p > 0)
        y = build_activation(b, build_dropout(b, y, b->in.coords, p), own->convolution.act);
    return build_norm(b, y, CONVOLUTION ".LayerNorm", (struct norm_options){.res = v, .eps = own->norm_eps}).y;
}

static int body(struct build *b)
{
    struct encoder e = b->c->own.encoder.relative.first_version ? version_1 : version_2;
    e.behind_first = b->c->own.encoder.convolution.width ? convolve : NULL;
    if (b->c->relative.rows)
        relative_embeddings(b);
    return encoder_body(b, &e);
}

/* ---- heads ---- */

static int classifier(struct build *b, int v)
{
    const struct encoder_config *own = &b->c->own.encoder;
    v = build_dropout(b, v, b->in.samples, build_p(b, own->relative.dropout_pooler));
    return encoder_classifier(b, v, "pooler.dense", own->relative.pooler_act, "classifier");
}

static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm legacy = {.dense = "cls.predictions.transform.dense",
                                              .norm = "cls.predictions.transform.LayerNorm",
                                              .bias = "cls.predictions.bias"},
                                    newer = {.dense = "lm_predictions.lm_head.dense",
                                             .norm = "lm_predictions.lm_head.LayerNorm",
                                             .bias = "lm_predictions.lm_head.bias"};
    return encoder_masked_lm(b, v, b->c->newer_head ? &newer : &legacy, b->c->own.encoder.act);
}

static int token_classifier(struct build *b, int v)
{
    return encoder_tokens_behind_dropout(b, v, build_p(b, b->c->dropout_hidden));
}

/* clang-format off */
#define HEADS(prefix)                                                                                                  \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "classifier.weight",                                              \
                                           .logits = classifier},                                                      \
        [MODEL_MASKED_LM] = {.class_name = prefix "ForMaskedLM",                                                       \
                             .weight = "cls.predictions.transform.dense.weight",                                       \
                             .logits = masked_lm,                                                                      \
                             .newer = "lm_predictions.lm_head.dense.weight"},                                          \
        [MODEL_TOKEN_CLASSIFICATION] = {.class_name = prefix "ForTokenClassification",                                 \
                                        .weight = "classifier.weight",                                                 \
                                        .logits = token_classifier},                                                   \
        [MODEL_QUESTION_ANSWERING] = {                                                                                 \
            .class_name = prefix "ForQuestionAnswering", .weight = "qa_outputs.weight", .logits = encoder_answers},    \
    }
/* clang-format on */

static const struct model_head heads_1[MODEL_COUNT] = HEADS("Deberta"), heads_2[MODEL_COUNT] = HEADS("DebertaV2");

static const struct tied_name tied[] = {ENCODER_TIED("deberta.", "cls.predictions"), {0}};

/* Files have positions of the input that no published model reads. */
static const char *const ignored[] = {"embeddings.position_ids", "embeddings.position_embeddings.weight", NULL};

static int64_t hidden_size(const struct model_config *c)
{
    return c->hidden_size;
}

static int64_t head_size(const struct model_config *c)
{
    return c->hidden_size / c->heads;
}

/* The sizes: transformers lets them differ, and no published model has them so. */
/* clang-format off */
#define SIZES_REFUSED                                                                                                  \
    {.key = "embedding_size", .kind = REFUSED_UNLIKE, .words = {"hidden_size"}, .like = hidden_size},                  \
    {.key = "pooler_hidden_size", .kind = REFUSED_UNLIKE, .words = {"hidden_size"}, .like = hidden_size}
/* clang-format on */

static const struct refused refused_1[] = {
    ENCODER_REFUSED,
    {.key = "talking_head", .kind = REFUSED_TRUE},
    SIZES_REFUSED,
    {0},
};

static const struct refused refused_2[] = {
    ENCODER_REFUSED,
    {.key = "conv_groups", .kind = REFUSED_UNLIKE, .words = {"1"}},
    {.key = "norm_rel_ebd", .kind = REFUSED_OTHER, .words = {"none", "layer_norm"}},
    {.key = "attention_head_size",
     .kind = REFUSED_UNLIKE,
     .words = {"hidden_size / num_attention_heads"},
     .like = head_size},
    SIZES_REFUSED,
    {0},
};

static int config_1(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->own.encoder.relative.first_version = true;
    return common_config(o, path, c, err);
}

/* clang-format off */
#define DEBERTA(type, prefix, its_known, its_heads, its_adapted, its_refused, its_config)                              \
    {                                                                                                                  \
        .model_type = type, .known = its_known, .class_prefix = prefix, .positions_key = "max_position_embeddings",    \
        .base_prefix = "deberta.", .layer_prefix = "encoder.layer.", .tied = tied, .ignored = ignored,                 \
        .heads = its_heads, .adapted = its_adapted, .refused = its_refused, .config = its_config, .body = body,        \
    }
/* clang-format on */

const struct model_arch arch_deberta = DEBERTA("deberta", "Deberta", "deberta-base, deberta-large, deberta-large-mnli",
                                               heads_1, "in_proj", refused_1, config_1);
const struct model_arch arch_deberta_v2 =
    DEBERTA("deberta-v2", "DebertaV2", "deberta-v3-base, deberta-v3-large, nli-deberta-v3-base, deberta-v2-xlarge",
            heads_2, "query_proj,value_proj", refused_2, config_2);
