#include "model/gpt.h"

#include <math.h>

/* ---- config.json ---- */

const struct gpt_keys gpt2_keys = {.hidden_size = {"n_embd", "hidden_size"},
                                   .layers = {"n_layer", "num_hidden_layers"},
                                   .heads = {"n_head", "num_attention_heads"},
                                   .positions = {"n_positions", "max_position_embeddings"},
                                   .intermediate_size = {"n_inner", NULL},
                                   .act = "activation_function",
                                   .norm_eps = "layer_norm_epsilon",
                                   .dropout_embedding = "embd_pdrop",
                                   .dropout_hidden = "resid_pdrop",
                                   .dropout_attention = "attn_pdrop"};

static int read_size(json_t *o, const char *path, struct gpt_size size, bool required, int64_t max, int64_t *out,
                     struct snug_err *err)
{
    if (!size.key)
        return SNUG_OK;
    const char *key =
        size.common && !json_object_get(o, size.key) && json_object_get(o, size.common) ? size.common : size.key;
    return json_get_int(o, path, key, required, 1, max, out, err);
}

static int read_dropout(json_t *o, const char *path, const char *key, double *p, struct snug_err *err)
{
    return key ? json_get_real(o, path, key, false, 0, 0.999, p, err) : SNUG_OK;
}

int gpt_config(json_t *o, const char *path, struct model_config *c, const struct gpt_keys *keys, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    c->init_std = 0.02, own->norm_eps = 1e-5;
    own->drops_embeddings = keys->dropout_embedding;
    TRY(read_size(o, path, keys->hidden_size, true, 1 << 20, &c->hidden_size, err));
    TRY(read_size(o, path, keys->layers, true, MAX_LAYERS, &c->layers, err));
    TRY(read_size(o, path, keys->heads, true, 4095, &c->heads, err));
    own->kv_heads = c->heads;
    own->intermediate_size = 4 * c->hidden_size;
    TRY(read_size(o, path, keys->intermediate_size, keys->tells_width, 1 << 22, &own->intermediate_size, err));
    TRY(read_size(o, path, keys->positions, false, own->names->positions ? 1 << 20 : 1 << 30, &c->longest, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, keys->norm_eps, false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(read_dropout(o, path, keys->dropout_embedding, &c->dropout_embedding, err));
    TRY(read_dropout(o, path, keys->dropout_hidden, &c->dropout_hidden, err));
    TRY(read_dropout(o, path, keys->dropout_attention, &c->dropout_attention, err));
    if (keys->act)
        TRY(config_act(o, path, keys->act, own->act, &own->act, err));
    TRY(config_tied(o, path, c, err));
    return config_check_heads(c, path, keys->hidden_size.key, keys->heads.key, err);
}

int gpt_by_group(const char *path, struct model_config *c, struct snug_err *err)
{
    int64_t D = c->hidden_size / c->heads;
    c->own.gpt.by_group = true;
    return D % 2 == 0 ? SNUG_OK
                      : err_set(err, SNUG_ERR_INPUT, "%s: heads have %lld entries; supported are even numbers", path,
                                (long long)D);
}

/* ---- the forward pass ---- */

/* The residual stream is `res` + dropout(`branch`), rows with these coords; the norm of the next block adds them. */
struct stream {
    int branch, res, coords;
};

static const char *of_body(struct build *b, const char *name)
{
    return graph_name(b->g, "%s%s", b->c->arch->base_prefix, name);
}

static const char *of_layer(struct build *b, int i, const char *name)
{
    const struct model_arch *a = b->c->arch;
    return graph_name(b->g, "%s%s%d.%s", a->base_prefix, a->layer_prefix, i, name);
}

static struct op_norm layer_norm(struct build *b, const struct stream *s, const char *prefix)
{
    struct norm_options o = {.res = s->res,
                             .coords = s->coords,
                             .p = s->res ? build_p(b, b->c->dropout_hidden) : 0,
                             .eps = b->c->own.gpt.norm_eps,
                             .site = b->site++};
    return build_norm(b, s->branch, prefix, o);
}

/* Gives the norm's output; the stream becomes what the norm read. */
static int norm(struct build *b, struct stream *s, const char *prefix)
{
    struct op_norm n = layer_norm(b, s, prefix);
    s->res = n.h ? n.h : s->branch;
    return n.y;
}

static int sum(struct build *b, int v, int w)
{
    struct op_add n = {.a = v, .b = w};
    emit_add(b->g, &n);
    return n.y;
}

static struct layer_options project(const struct build *b, bool bias)
{
    struct layer_options o = build_product(b, bias);
    o.in_out = b->c->own.gpt.in_out;
    return o;
}

/* Of a product that writes into the residual stream, which begins smaller where the architecture has it so. */
static struct layer_options residual(const struct build *b, bool bias)
{
    struct layer_options o = project(b, bias);
    if (b->c->own.gpt.small_residuals)
        o.weight.std = b->c->init_std / sqrt(2.0 * (double)b->c->layers);
    return o;
}

/* Queries, keys and values of all heads, one after the other. */
static int query_key_value(struct build *b, int v, int i, int table)
{
    const struct gpt_config *own = &b->c->own.gpt;
    const struct gpt_names *names = own->names;
    int64_t H = b->c->hidden_size, keys = own->kv_heads * (H / b->c->heads);
    const char *whole = of_layer(b, i, names->qkv);
    if (names->query) {
        const struct part parts[] = {{of_layer(b, i, names->query), H},
                                     {of_layer(b, i, names->key), keys},
                                     {of_layer(b, i, names->value), keys}};
        v = build_parts(b, v, whole, H, parts, 3, project(b, own->qkv_bias));
    } else
        v = build_linear(b, v, whole, H, H + 2 * keys, project(b, own->qkv_bias));
    struct op_rotary r = {.qkv = v,
                          .table = table,
                          .heads = b->c->heads,
                          .kv_heads = own->kv_heads,
                          .by_group = own->by_group,
                          .interleaved = own->interleaved};
    if (!table && !own->by_group)
        return v;
    emit_rotary(b->g, &r);
    return r.y;
}

/* Slopes are calculated, and no file has them. */
static int attend_by_slopes(struct build *b, int qkv, double scale)
{
    const struct init slopes = {.kind = INIT_SLOPES, .std = 1, .zero_row = -1};
    struct general_options o = {.cu = b->in.cu_seqlens,
                                .coords = b->in.coords,
                                .table = WEIGHT(b, slopes, of_body(b, "slopes"), DIM(1), DIM(b->c->heads)),
                                .causal = true,
                                .scale = scale};
    if (o.table)
        graph_value(b->g, o.table)->frozen = true;
    return build_general_attention(b, qkv, o);
}

static int attend(struct build *b, int v, int i, int table)
{
    const struct gpt_config *own = &b->c->own.gpt;
    int64_t D = b->c->hidden_size / b->c->heads;
    double scale = own->unscaled ? 1 : 1 / sqrt((double)D);
    if (own->slopes)
        return attend_by_slopes(b, query_key_value(b, v, i, table), scale);
    return build_attention(b, query_key_value(b, v, i, table),
                           (struct attention_options){.kv_heads = own->kv_heads,
                                                      .head_size = D,
                                                      .scale = own->scaled_by_layer ? scale / (i + 1) : scale,
                                                      .causal = true,
                                                      .window = own->slides[i] ? own->window : 0});
}

static int feed_forward(struct build *b, int v, int i)
{
    const struct gpt_config *own = &b->c->own.gpt;
    int64_t H = b->c->hidden_size, F = own->intermediate_size;
    struct layer_options act = project(b, own->mlp_bias);
    act.act = own->act;
    v = build_linear(b, v, of_layer(b, i, own->names->up), H, F, act);
    return build_linear(b, v, of_layer(b, i, own->names->down), F, H, residual(b, own->mlp_bias));
}

/* What the feed-forward block reads: behind attention the sum; of parallel blocks what enters the layer, by a norm of its own or by
 * attention's, which has made `entered`. */
static int norm_between(struct build *b, struct stream *s, int i, int entered)
{
    const char *name = b->c->own.gpt.names->mlp_norm;
    if (!b->c->own.gpt.parallel)
        return norm(b, s, of_layer(b, i, name));
    struct stream layer = {.branch = s->res};
    int v = name ? layer_norm(b, &layer, of_layer(b, i, name)).y : entered;
    s->res = sum(b, s->res, build_dropout(b, s->branch, s->coords, build_p(b, b->c->dropout_hidden)));
    return v;
}

/* Behind its attention the last layer works row by row, and a classifier wants one row a sequence. */
static void run_layer(struct build *b, struct stream *s, int i, int table)
{
    const struct gpt_config *own = &b->c->own.gpt;
    int64_t H = b->c->hidden_size;
    int entered = norm(b, s, of_layer(b, i, own->names->attention_norm)), v = attend(b, entered, i, table);
    if (!model_task(b->c)->per_token && i == b->c->layers - 1) {
        v = build_last_rows(b, v);
        entered = own->parallel && !own->names->mlp_norm ? build_last_rows(b, entered) : 0;
        s->res = build_last_rows(b, s->res);
        s->coords = b->in.samples;
    }
    s->branch = build_linear(b, v, of_layer(b, i, own->names->out), H, H, residual(b, own->out_bias));
    v = norm_between(b, s, i, entered);
    s->branch = feed_forward(b, v, i);
}

static int embeddings(struct build *b)
{
    const struct model_config *c = b->c;
    const struct gpt_names *names = c->own.gpt.names;
    const struct dim H = DIM(c->hidden_size);
    const char *words = graph_name(b->g, "%s.weight", of_body(b, names->words));
    struct op_embed e = {.ids = b->in.ids, .table = WEIGHT(b, b->normal, words, DIM(c->vocab_size), H)};
    if (names->positions) {
        const char *positions = graph_name(b->g, "%s.weight", of_body(b, names->positions));
        e.ids2 = b->in.positions;
        e.table2 = WEIGHT(b, b->normal, positions, DIM(c->longest), H);
    }
    emit_embed(b->g, &e);
    if (!names->words_norm)
        return e.y;
    const struct norm_options o = {.eps = c->own.gpt.norm_eps, .site = b->site++};
    return build_norm(b, e.y, of_body(b, names->words_norm), o).y;
}

int gpt_body(struct build *b)
{
    const struct model_config *c = b->c;
    const struct gpt_config *own = &c->own.gpt;
    int v = embeddings(b), table = c->rotary[ROTARY_ALL].pairs ? build_rotary_table(b, ROTARY_ALL) : 0;
    double p = own->drops_embeddings ? build_p(b, c->dropout_embedding) : 0;
    struct stream s = {.branch = build_dropout(b, v, b->in.coords, p), .coords = b->in.coords};
    for (int i = 0; i < c->layers; i++) {
        b->g->layer = i + 1;
        run_layer(b, &s, i, table);
    }
    b->g->layer = (int)c->layers + 1;
    return norm(b, &s, of_body(b, own->names->last_norm));
}

int gpt_causal_lm(struct build *b, int v)
{
    const struct model_config *c = b->c;
    const struct gpt_config *own = &c->own.gpt;
    const char *head = own->names->head;
    if (c->untied)
        return build_linear(b, v, head, c->hidden_size, c->vocab_size, build_product(b, own->head_bias));
    struct op_linear n = {.x = v, .w = graph_find(b->g, graph_name(b->g, "%s.weight", of_body(b, own->names->words)))};
    if (own->head_bias)
        n.b = WEIGHT(b, b->zero, graph_name(b->g, "%s.bias", head), DIM(c->vocab_size));
    emit_linear(b->g, &n);
    return n.y;
}

int gpt_classifier(struct build *b, int v)
{
    return build_score(b, v, b->c->hidden_size);
}

const struct tied_name gpt_tied[] = {{"lm_head.weight", "transformer.wte.weight"}, {0}};

/* Attention's masks and frequencies, which older versions saved. */
const char *const gpt_ignored[] = {
    ".attn.bias", ".attn.masked_bias", ".attention.bias", ".attention.masked_bias", ".rotary_emb.inv_freq", NULL};
