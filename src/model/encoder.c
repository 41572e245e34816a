#include "model/encoder.h"

#include <math.h>
#include <string.h>

const struct refused encoder_refused[] = {ENCODER_REFUSED, {0}};

void encoder_defaults(struct model_config *c)
{
    c->longest = 512, c->type_vocab_size = 2, c->pad_id = 0;
    c->init_std = 0.02, c->dropout_hidden = c->dropout_attention = 0.1;
    c->own.encoder.norm_eps = 1e-12;
    c->own.encoder.act = ACT_gelu;
}

int encoder_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct encoder_config *own = &c->own.encoder;
    TRY(json_get_int(o, path, "hidden_size", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", true, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "num_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "intermediate_size", true, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 20, &c->longest, err));
    TRY(json_get_int(o, path, "type_vocab_size", false, c->type_vocab_size ? 1 : 0, 1 << 16, &c->type_vocab_size, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "layer_norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "hidden_dropout_prob", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_probs_dropout_prob", false, 0, 0.999, &c->dropout_attention, err));
    TRY(json_get_real(o, path, "classifier_dropout", false, 0, 0.999, &c->dropout_classifier, err));
    c->dropout_embedding = c->dropout_hidden;
    TRY(config_act(o, path, "hidden_act", own->act, &own->act, err));
    TRY(config_tied(o, path, c, err));
    return config_check_heads(c, path, "hidden_size", "num_attention_heads", err);
}

static const char *weight_of(struct build *b, const char *name)
{
    return graph_name(b->g, "%s.weight", name);
}

static int64_t embedding_size(const struct model_config *c)
{
    return c->own.encoder.embedding_size ? c->own.encoder.embedding_size : c->hidden_size;
}

static int embeddings(struct build *b, const struct encoder *e)
{
    const struct model_config *c = b->c;
    int64_t E = embedding_size(c);
    struct init words = b->normal, positions = b->normal;
    words.zero_row = c->pad_id;
    positions.zero_row = c->first_position - 1; /* -1: none */
    struct op_embed n = {
        .ids = b->in.ids,
        .table = WEIGHT(b, words, weight_of(b, e->words), DIM(c->vocab_size), DIM(E)),
        .ids3 = b->in.types,
        .table3 = b->in.types ? WEIGHT(b, b->normal, weight_of(b, e->types), DIM(c->type_vocab_size), DIM(E)) : 0};
    if (!c->own.encoder.no_positions) {
        n.ids2 = b->in.positions;
        n.table2 = WEIGHT(b, positions, weight_of(b, e->positions), DIM(c->first_position + c->longest), DIM(E));
    }
    emit_embed(b->g, &n);
    struct op_norm norm =
        build_norm(b, n.y, e->norm, (struct norm_options){.width = E, .eps = c->own.encoder.norm_eps});
    int v = build_dropout(b, norm.y, b->in.coords, build_p(b, c->dropout_embedding));
    if (!c->own.encoder.embedding_size)
        return v;
    return build_linear(b, v, e->projection, E, c->hidden_size,
                        (struct layer_options){.weight = b->normal, .bias = b->zero});
}

/* A name of layer i. */
static const char *of_layer(struct build *b, const struct encoder *e, int i, const char *name)
{
    const struct encoder_config *own = &b->c->own.encoder;
    if (e->inner)
        return graph_name(b->g, "%s.%lld.%s.%lld.%s", e->layer,
                          (long long)(i / own->inner * own->groups / b->c->layers), e->inner,
                          (long long)(i % own->inner), name);
    return graph_name(b->g, "%s.%d.%s", e->layer, i, name);
}

int encoder_query_key_value(struct build *b, const struct encoder *e, int i, int v)
{
    int64_t H = b->c->hidden_size;
    const struct part parts[] = {
        {of_layer(b, e, i, e->query), H}, {of_layer(b, e, i, e->key), H}, {of_layer(b, e, i, e->value), H}};
    struct layer_options plain = {.weight = b->normal, .bias = b->zero};
    return build_parts(b, v, of_layer(b, e, i, e->query_key_value), H, parts, 3, plain);
}

/* Layer i, of which there are `inner` times as many where layers are in groups. Gives (T,H); or with `first_only` (B,H), the
 * rows of the first tokens. Behind attention everything is row by row, so a classifier, which reads only those rows, needs
 * no others of the last layer. Their dropout masks are the same: position 0 of each sample. */
static int layer(struct build *b, const struct encoder *e, int i, int v, bool first_only)
{
    const struct model_config *c = b->c;
    int64_t H = c->hidden_size, F = c->own.encoder.intermediate_size;
    struct attention_options all = {.head_size = H / c->heads, .queries = first_only};
    int o = encoder_query_key_value(b, e, i, v);
    o = e->attend ? e->attend(b, i, o) : build_attention(b, o, all);
    struct norm_options norm = {
        .coords = b->in.coords, .p = build_p(b, c->dropout_hidden), .eps = c->own.encoder.norm_eps};
    if (first_only) {
        o = build_first_rows(b, o);
        v = build_first_rows(b, v);
        norm.coords = b->in.samples;
    }
    struct layer_options plain = {.weight = b->normal, .bias = b->zero}, act = plain;
    struct norm_options first = norm;
    act.act = c->own.encoder.act;
    first.p = e->keeps_attention ? 0 : norm.p;
    first.res = v;
    first.site = b->site++;
    o = build_linear(b, o, of_layer(b, e, i, e->attention), H, H, plain);
    norm.res = build_norm(b, o, of_layer(b, e, i, e->attention_norm), first).y;
    norm.p = e->keeps_output ? 0 : norm.p;
    norm.site = b->site++;
    o = build_linear(b, norm.res, of_layer(b, e, i, e->up), H, F, act);
    o = build_linear(b, o, of_layer(b, e, i, e->down), F, H, plain);
    return build_norm(b, o, of_layer(b, e, i, e->norm_out), norm).y;
}

int encoder_body(struct build *b, const struct encoder *e)
{
    int inner = e->inner ? (int)b->c->own.encoder.inner : 1, n = (int)b->c->layers * inner;
    bool first_only = !model_task(b->c)->per_token;
    int v = embeddings(b, e);
    for (int i = 0; i < n; i++) {
        b->g->layer = i / inner + 1;
        if (i == 0 && e->behind_first) {
            v = e->behind_first(b, v, layer(b, e, i, v, false));
            v = first_only && n == 1 ? build_first_rows(b, v) : v;
        } else
            v = layer(b, e, i, v, first_only && i == n - 1);
    }
    return v;
}

int encoder_classifier(struct build *b, int v, const char *dense, enum act act, const char *labels)
{
    int64_t H = b->c->hidden_size;
    v = build_head_linear(b, v, dense, H, H, act);
    v = build_dropout(b, v, b->in.samples, build_p_classifier(b));
    return build_head_linear(b, v, labels, H, b->c->num_labels, ACT_none);
}

int encoder_two_layer_classifier(struct build *b, int v, enum act act)
{
    v = build_dropout(b, v, b->in.samples, build_p_classifier(b));
    return encoder_classifier(b, v, "classifier.dense", act, "classifier.out_proj");
}

int encoder_answers(struct build *b, int v)
{
    return build_head_linear(b, v, "qa_outputs", b->c->hidden_size, b->c->num_labels, ACT_none);
}

int encoder_token_classifier(struct build *b, int v, double p, const char *labels)
{
    v = build_dropout(b, v, b->in.coords, p);
    return build_head_linear(b, v, labels, b->c->hidden_size, b->c->num_labels, ACT_none);
}

int encoder_masked_lm(struct build *b, int v, const struct encoder_mlm *m, enum act act)
{
    int64_t E = embedding_size(b->c);
    struct init bias = b->zero;
    bias.head = true;
    v = build_head_linear(b, v, m->dense, b->c->hidden_size, E, act);
    struct norm_options norm = {.width = E, .eps = b->c->own.encoder.norm_eps, .head = true};
    v = build_norm(b, v, m->norm, norm).y;
    struct op_linear decoder = {
        .x = v, .w = graph_find(b->g, weight_of(b, m->words)), .b = WEIGHT(b, bias, m->bias, DIM(b->c->vocab_size))};
    emit_linear(b->g, &decoder);
    return decoder.y;
}
