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
    TRY(json_get_int(o, path, "hidden_size", !c->hidden_size, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", !c->layers, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "num_attention_heads", !c->heads, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "intermediate_size", !own->intermediate_size, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", !c->vocab_size, 1, 1 << 24, &c->vocab_size, err));
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

int encoder_positions_behind_pad(struct model_config *c, const char *path, struct snug_err *err)
{
    if (c->pad_id < 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: there is no pad_token_id, behind which positions begin; write it",
                       path);
    c->first_position = c->pad_id + 1;
    c->longest -= c->first_position;
    if (c->longest < 1)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: max_position_embeddings %lld leaves no position behind pad_token_id %lld; correct one",
                       path, (long long)(c->first_position + c->longest), (long long)c->pad_id);
    return SNUG_OK;
}

static const char *of_body(struct build *b, const char *name)
{
    return graph_name(b->g, "%s%s", b->c->arch->base_prefix, name);
}

static const char *weight_of(struct build *b, const char *name)
{
    return graph_name(b->g, "%s%s.weight", b->c->arch->base_prefix, name);
}

static int64_t embedding_size(const struct model_config *c)
{
    return c->own.encoder.embedding_size ? c->own.encoder.embedding_size : c->hidden_size;
}

/* v with the rows of one more table. */
static int plus_rows(struct build *b, int v, int ids, int table)
{
    struct op_embed n = {.ids = ids, .table = table};
    emit_embed(b->g, &n);
    struct op_add sum = {.a = v, .b = n.y};
    emit_add(b->g, &sum);
    return sum.y;
}

/* The sum of what a token has of each table. What stands behind the words' alone comes before the others are added. */
static int sum_of_tables(struct build *b, const struct encoder *e)
{
    const struct model_config *c = b->c;
    int64_t E = embedding_size(c);
    struct init words = b->normal, positions = b->normal;
    words.zero_row = c->pad_id;
    positions.zero_row = c->first_position - 1; /* -1: none */
    struct op_embed n = {
        .ids = b->in.ids,
        .table = WEIGHT(b, words, weight_of(b, ENCODER_WORDS), DIM(c->vocab_size), DIM(E)),
        .ids3 = b->in.types,
        .table3 = b->in.types ? WEIGHT(b, b->normal, weight_of(b, e->types), DIM(c->type_vocab_size), DIM(E)) : 0};
    int places = c->own.encoder.no_positions
                     ? 0
                     : WEIGHT(b, positions, weight_of(b, e->positions), DIM(c->first_position + c->longest), DIM(E));
    if (places && !e->behind_words)
        n.ids2 = b->in.positions, n.table2 = places;
    emit_embed(b->g, &n);
    int v = e->behind_words ? e->behind_words(b, n.y) : n.y;
    if (places && e->behind_words)
        v = plus_rows(b, v, b->in.positions, places);
    if (b->in.tasks)
        v = plus_rows(b, v, b->in.tasks, WEIGHT(b, b->normal, weight_of(b, e->tasks), DIM(c->task_vocab_size), DIM(E)));
    return v;
}

static int embeddings(struct build *b, const struct encoder *e)
{
    const struct model_config *c = b->c;
    int64_t E = embedding_size(c);
    int v = sum_of_tables(b, e);
    if (e->norm) {
        const struct norm_options o = {.width = E, .eps = c->own.encoder.norm_eps};
        v = build_norm(b, v, of_body(b, e->norm), o).y;
    }
    v = build_dropout(b, v, b->in.coords, e->keeps_embeddings ? 0 : build_p(b, c->dropout_embedding));
    if (!c->own.encoder.embedding_size)
        return v;
    return build_linear(b, v, of_body(b, e->projection), E, c->hidden_size, build_product(b, true));
}

/* A name of layer i. */
static const char *of_layer(struct build *b, const struct encoder *e, int i, const char *name)
{
    const struct encoder_config *own = &b->c->own.encoder;
    const char *prefix = b->c->arch->base_prefix;
    if (e->inner)
        return graph_name(b->g, "%s%s.%lld.%s.%lld.%s", prefix, e->layer,
                          (long long)(i / own->inner * own->groups / b->c->layers), e->inner,
                          (long long)(i % own->inner), name);
    return graph_name(b->g, "%s%s.%d.%s", prefix, e->layer, i, name);
}

/* Of layers' own products. */
static struct layer_options plain_product(const struct build *b, const struct encoder *e)
{
    return build_product(b, !e->no_bias);
}

int encoder_query_key_value(struct build *b, const struct encoder *e, int i, int v)
{
    int64_t H = b->c->hidden_size;
    if (e->project)
        return e->project(b, i, v);
    if (!e->query)
        return build_linear(b, v, of_layer(b, e, i, e->query_key_value), H, 3 * H, plain_product(b, e));
    const struct part parts[] = {
        {of_layer(b, e, i, e->query), H}, {of_layer(b, e, i, e->key), H}, {of_layer(b, e, i, e->value), H}};
    return build_parts(b, v, of_layer(b, e, i, e->query_key_value), H, parts, 3, plain_product(b, e));
}

/* Attention up to its last product; rotary: the table of rotary positions, or 0. */
static int attend(struct build *b, const struct encoder *e, int i, int v, int rotary, bool first_only)
{
    const struct model_config *c = b->c;
    struct attention_options all = {.head_size = c->hidden_size / c->heads, .queries = first_only};
    int o = encoder_query_key_value(b, e, i, v);
    if (rotary) {
        struct op_rotary turn = {.qkv = o, .table = rotary, .heads = c->heads, .kv_heads = c->heads};
        emit_rotary(b->g, &turn);
        o = turn.y;
    }
    return e->attend ? e->attend(b, i, o) : build_attention(b, o, all);
}

static int feed_forward(struct build *b, const struct encoder *e, int i, int v)
{
    int64_t H = b->c->hidden_size, F = b->c->own.encoder.intermediate_size;
    struct layer_options plain = plain_product(b, e), act = plain;
    if (e->gate) {
        const struct part parts[] = {{of_layer(b, e, i, e->gate), F}, {of_layer(b, e, i, e->up), F}};
        struct op_glu gate = {.x = build_parts(b, v, of_layer(b, e, i, e->gate_up), H, parts, 2, plain),
                              .act = b->c->own.encoder.act};
        emit_glu(b->g, &gate);
        v = gate.y;
    } else {
        act.act = b->c->own.encoder.act;
        v = build_linear(b, v, of_layer(b, e, i, e->up), H, F, act);
    }
    return build_linear(b, v, of_layer(b, e, i, e->down), F, H, plain);
}

/* Layer i, of which there are `inner` times as many where layers are in groups. Gives (T,H); or with `first_only` (B,H), the
 * rows of the first tokens. Behind attention everything is row by row, so a classifier, which reads only those rows, needs
 * no others of the last layer. Their dropout masks are the same: position 0 of each sample. */
static int layer(struct build *b, const struct encoder *e, int i, int v, int rotary, bool first_only)
{
    const struct model_config *c = b->c;
    int64_t H = c->hidden_size;
    int o = attend(b, e, i, v, rotary, first_only);
    struct norm_options norm = {
        .coords = b->in.coords, .p = build_p(b, c->dropout_hidden), .eps = c->own.encoder.norm_eps};
    if (first_only) {
        o = build_first_rows(b, o);
        v = build_first_rows(b, v);
        norm.coords = b->in.samples;
    }
    struct norm_options first = norm;
    first.p = e->keeps_attention ? 0 : norm.p;
    first.res = v;
    first.site = b->site++;
    o = build_linear(b, o, of_layer(b, e, i, e->attention), H, H, plain_product(b, e));
    norm.res = build_norm(b, o, of_layer(b, e, i, e->attention_norm), first).y;
    norm.p = e->keeps_output ? 0 : norm.p;
    norm.site = b->site++;
    o = feed_forward(b, e, i, norm.res);
    return build_norm(b, o, of_layer(b, e, i, e->norm_out), norm).y;
}

static int layers(struct build *b, const struct encoder *e, int v, int rotary, bool first_only)
{
    int inner = e->inner ? (int)b->c->own.encoder.inner : 1, n = (int)b->c->layers * inner;
    for (int i = 0; i < n; i++) {
        b->g->layer = i / inner + 1;
        if (i == 0 && e->behind_first) {
            v = e->behind_first(b, v, layer(b, e, i, v, rotary, false));
            v = first_only && n == 1 ? build_first_rows(b, v) : v;
        } else
            v = layer(b, e, i, v, rotary, first_only && i == n - 1);
    }
    return v;
}

/* ---- norms before blocks ---- */

/* The residual stream is res + dropout(branch), rows with these coords; the norm of the next block adds them. */
struct stream {
    int branch, res, coords;
};

static int norm_of_stream(struct build *b, struct stream *s, const char *prefix)
{
    struct norm_options o = {.res = s->res,
                             .coords = s->coords,
                             .p = s->res ? build_p(b, b->c->dropout_hidden) : 0,
                             .eps = b->c->own.encoder.norm_eps,
                             .site = b->site++};
    struct op_norm n = build_norm(b, s->branch, prefix, o);
    s->res = n.h ? n.h : s->branch;
    return n.y;
}

static void layer_behind_norms(struct build *b, const struct encoder *e, int i, struct stream *s, int rotary,
                               bool first_only)
{
    int64_t H = b->c->hidden_size;
    int v = norm_of_stream(b, s, of_layer(b, e, i, e->attention_norm));
    v = attend(b, e, i, v, rotary, first_only);
    if (first_only) {
        v = build_first_rows(b, v);
        s->res = build_first_rows(b, s->res);
        s->coords = b->in.samples;
    }
    s->branch = build_linear(b, v, of_layer(b, e, i, e->attention), H, H, plain_product(b, e));
    v = norm_of_stream(b, s, of_layer(b, e, i, e->norm_out));
    s->branch = feed_forward(b, e, i, v);
}

static int layers_behind_norms(struct build *b, const struct encoder *e, int v, int rotary, bool first_only)
{
    int n = (int)b->c->layers;
    struct stream s = {.branch = v, .coords = b->in.coords};
    for (int i = 0; i < n; i++) {
        b->g->layer = i + 1;
        layer_behind_norms(b, e, i, &s, rotary, first_only && i == n - 1);
    }
    b->g->layer = n + 1;
    return norm_of_stream(b, &s, of_body(b, e->last));
}

int encoder_body(struct build *b, const struct encoder *e)
{
    bool first_only = !model_task(b->c)->per_token;
    int v = embeddings(b, e), rotary = b->c->rotary[ROTARY_ALL].pairs ? build_rotary_table(b, ROTARY_ALL) : 0;
    return e->last ? layers_behind_norms(b, e, v, rotary, first_only) : layers(b, e, v, rotary, first_only);
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

int encoder_tokens_behind_dropout(struct build *b, int v, double p)
{
    v = build_dropout(b, v, b->in.coords, p);
    return build_head_linear(b, v, "classifier", b->c->hidden_size, b->c->num_labels, ACT_none);
}

int encoder_token_classifier(struct build *b, int v)
{
    return encoder_tokens_behind_dropout(b, v, build_p_classifier(b));
}

int encoder_masked_lm(struct build *b, int v, const struct encoder_mlm *m, enum act act)
{
    int64_t E = embedding_size(b->c);
    struct init bias = b->zero;
    bias.head = true;
    v = build_head_linear(b, v, m->dense, b->c->hidden_size, E, act);
    struct norm_options norm = {.width = E, .eps = b->c->own.encoder.norm_eps, .head = true};
    v = build_norm(b, v, m->norm, norm).y;
    struct op_linear decoder = {.x = v,
                                .w = graph_find(b->g, weight_of(b, ENCODER_WORDS)),
                                .b = WEIGHT(b, bias, m->bias, DIM(b->c->vocab_size))};
    emit_linear(b->g, &decoder);
    return decoder.y;
}

int encoder_lm_head(struct build *b, int v)
{
    static const struct encoder_mlm head = {
        .dense = "lm_head.dense", .norm = "lm_head.layer_norm", .bias = "lm_head.bias"};
    return encoder_masked_lm(b, v, &head, ACT_gelu);
}

const char *const encoder_ignored[] = {"embeddings.position_ids", NULL};
