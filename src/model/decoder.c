#include "model/decoder.h"
#include "model/experts.h"

#include <math.h>
#include <string.h>

#define WORDS "embed_tokens.weight"

/* ---- config.json ---- */

/* The width of a head, and how many there are of keys. */
static int read_heads(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    TRY(json_get_int(o, path, "num_attention_heads", !c->heads, 1, 4095, &c->heads, err));
    own->kv_heads = own->kv_heads ? own->kv_heads : c->heads;
    TRY(json_get_int(o, path, "num_key_value_heads", false, 1, 4095, &own->kv_heads, err));
    TRY(json_get_int(o, path, "head_dim", false, 1, 1 << 16, &own->head_size, err));
    if (c->heads % own->kv_heads)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: num_attention_heads %lld is not a multiple of num_key_value_heads %lld; correct one", path,
                       (long long)c->heads, (long long)own->kv_heads);
    if (own->head_size)
        return SNUG_OK;
    own->head_size = c->hidden_size / c->heads;
    return config_check_heads(c, path, "hidden_size", "num_attention_heads", err);
}

static const struct decoder_norms llama_norms = {
    .attention = "input_layernorm", .mlp = "post_attention_layernorm", .last = "norm"};
static const struct decoder_products llama_products = {
    .attention_out = "self_attn.o_proj", .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};

int decoder_config(json_t *o, const char *path, struct model_config *c, double theta, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->init_std = c->init_std > 0 ? c->init_std : 0.02;
    own->norms = own->norms ? own->norms : &llama_norms;
    own->products = own->products ? own->products : &llama_products;
    TRY(json_get_int(o, path, "hidden_size", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", true, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "intermediate_size", !own->intermediate_size, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", !c->vocab_size, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 30, &c->longest, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "rms_norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    TRY(config_act(o, path, "hidden_act", ACT_silu, &own->act, err));
    TRY(read_heads(o, path, c, err));
    TRY(config_tied(o, path, c, err));
    const struct rotary_model r = {.head_size = own->head_size,
                                   .positions = c->longest,
                                   .theta = theta,
                                   .part = own->rotary_part,
                                   .alpha = own->rotary_alpha,
                                   .layer_type = "full_attention"};
    return rotary_read(o, path, &r, &c->rotary[ROTARY_ALL], err);
}

int decoder_list(json_t *o, const char *path, const char *key, const struct model_config *c, json_t **list,
                 struct snug_err *err)
{
    char text[64];
    *list = json_object_get(o, key);
    if (!*list || json_is_null(*list))
        return *list = NULL, SNUG_OK;
    if (!json_is_array(*list) || (int64_t)json_array_size(*list) != c->layers)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; write a list of num_hidden_layers %lld values", path, key,
                       json_is_array(*list) ? "a list of another length" : json_value_text(*list, text),
                       (long long)c->layers);
    return SNUG_OK;
}

int decoder_windows(json_t *o, const char *path, struct model_config *c, struct decoder_windows w, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    bool use = !w.asked;
    int64_t first = w.asked ? 28 : 0;
    json_t *types;
    char text[64];
    if (json_is_null(json_object_get(o, "sliding_window")))
        own->window = 0;
    TRY(json_get_int(o, path, "sliding_window", false, 1, 1 << 30, &own->window, err));
    if (w.asked) {
        TRY(json_get_bool(o, path, "use_sliding_window", false, &use, err));
        TRY(json_get_int(o, path, "max_window_layers", false, 0, 1 << 30, &first, err));
    }
    TRY(decoder_list(o, path, "layer_types", c, &types, err));
    if (w.patterned && !types)
        TRY(json_get_int(o, path, "sliding_window_pattern", false, 1, 1 << 30, &w.full_every, err));
    for (int64_t i = 0; i < c->layers; i++) {
        json_t *type = json_array_get(types, (size_t)i);
        const char *name = json_string_value(type);
        bool full = (w.before ? i >= first : i < first) || (w.full_every && (i + 1) % w.full_every == 0);
        bool slides = types ? name && !strcmp(name, "sliding_attention") : use && own->window && !full;
        if (types && !slides && (!name || strcmp(name, "full_attention")))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: layer_types has %s; supported are full_attention, sliding_attention", path,
                           json_value_text(type, text));
        if (slides && !own->window)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: layer_types has sliding_attention but there is no sliding_window; write it", path);
        own->layer[i] |= slides ? LAYER_SLIDES : 0;
    }
    return SNUG_OK;
}

void decoder_turned_windows(struct model_config *c)
{
    for (int64_t i = 0; i < c->layers; i++)
        c->own.decoder.layer[i] |= c->own.decoder.layer[i] & LAYER_SLIDES ? 0 : LAYER_UNTURNED;
}

void decoder_all_experts(struct model_config *c)
{
    for (int64_t i = 0; i < c->layers; i++)
        c->own.decoder.layer[i] |= LAYER_EXPERTS;
}

int decoder_unturned(json_t *o, const char *path, struct model_config *c, int64_t interval, struct snug_err *err)
{
    json_t *list;
    char text[64];
    TRY(json_get_int(o, path, "no_rope_layer_interval", false, 1, 1 << 30, &interval, err));
    TRY(decoder_list(o, path, "no_rope_layers", c, &list, err));
    for (int64_t i = 0; i < c->layers; i++) {
        json_t *turned = json_array_get(list, (size_t)i);
        if (list && !json_is_integer(turned))
            return err_set(err, SNUG_ERR_INPUT, "%s: no_rope_layers has %s; write 1 or 0", path,
                           json_value_text(turned, text));
        if (list ? !json_integer_value(turned) : (i + 1) % interval == 0)
            c->own.decoder.layer[i] |= LAYER_UNTURNED;
    }
    return SNUG_OK;
}

/* ---- the forward pass ---- */

/* The residual stream is res + dropout(branch), rows with these coords; the norm of the next block adds them. */
struct stream {
    int branch, res, coords;
};

/* A norm's output; *read is what it read: `res` + dropout(x), or x where res is 0. */
static int norm_of(struct build *b, int x, int res, int coords, const char *prefix, int *read)
{
    const struct decoder_config *own = &b->c->own.decoder;
    if (own->layer_norms) {
        double p = res ? build_p(b, b->c->dropout_hidden) : 0;
        struct norm_options o = {.res = res,
                                 .coords = coords,
                                 .p = p,
                                 .eps = own->norm_eps,
                                 .site = b->site++,
                                 .no_bias = own->norms_unbiased || own->norms_weightless,
                                 .ones = own->norms_weightless,
                                 .one_plus = own->one_plus};
        struct op_norm n = build_norm(b, x, prefix, o);
        *read = n.h ? n.h : x;
        return n.y;
    }
    struct op_rms_norm n = build_rms_norm(b, x, res, prefix, own->norm_eps, own->one_plus);
    *read = n.h ? n.h : x;
    return n.y;
}

/* Gives the norm's output; the stream becomes what the norm read. */
static int norm(struct build *b, struct stream *s, const char *prefix)
{
    return norm_of(b, s->branch, s->res, s->coords, prefix, &s->res);
}

/* Gives the stream as one value, which it becomes. */
static int stream_sum(struct build *b, struct stream *s)
{
    if (!s->res)
        return s->res = s->branch;
    double p = build_p(b, b->c->dropout_hidden);
    struct op_add n = {.a = s->res, .b = build_dropout(b, s->branch, s->coords, p)};
    emit_add(b->g, &n);
    return s->res = n.y;
}

static const char *of_body(struct build *b, const char *name)
{
    return graph_name(b->g, "%s%s", b->c->arch->base_prefix, name);
}

static const char *of_layer(struct build *b, int i, const char *name)
{
    return graph_name(b->g, "%slayers.%d.%s", b->c->arch->base_prefix, i, name);
}

static int head_gamma(struct build *b, int i, const char *name, int64_t heads)
{
    const struct decoder_config *own = &b->c->own.decoder;
    const char *weight = graph_name(b->g, "%s.weight", of_layer(b, i, name));
    return build_norm_scale(b, weight, own->head_norms == HEADS_AS_ONE ? heads * own->head_size : own->head_size,
                            own->one_plus);
}

static int turned(struct build *b, struct op_rotary n)
{
    if (!n.table && !n.q_gamma)
        return n.qkv;
    emit_rotary(b->g, &n);
    return n.y;
}

/* Queries and keys, normalised and turned as the layer wants it. */
static int turn(struct build *b, int i, int qkv, int table)
{
    const struct model_config *c = b->c;
    const struct decoder_config *own = &c->own.decoder;
    const struct decoder_norms *names = own->norms;
    struct op_rotary n = {.qkv = qkv,
                          .table = own->layer[i] & LAYER_UNTURNED ? 0 : table,
                          .heads = c->heads,
                          .kv_heads = own->kv_heads,
                          .interleaved = own->interleaved};
    if (own->head_norms && own->turned_first) {
        n.qkv = turned(b, n);
        n.table = 0;
    }
    if (own->head_norms) {
        n.q_gamma = head_gamma(b, i, names->query ? names->query : "self_attn.q_norm", c->heads);
        n.k_gamma = head_gamma(b, i, names->key ? names->key : "self_attn.k_norm", own->kv_heads);
        n.one_plus = own->one_plus;
        n.eps = own->norm_eps;
    }
    return turned(b, n);
}

/* One product, which files have whole or in parts. */
static int joined(struct build *b, int i, int v, const char *whole, const struct part *parts, int n, bool bias,
                  bool fused)
{
    int64_t H = b->c->hidden_size, all = 0;
    for (int k = 0; k < n; k++)
        all += parts[k].out;
    if (fused)
        return build_linear(b, v, of_layer(b, i, whole), H, all, build_product(b, bias));
    return build_parts(b, v, of_layer(b, i, whole), H, parts, n, build_product(b, bias));
}

static int attend(struct build *b, int i, int v, const int *tables)
{
    const struct model_config *c = b->c;
    const struct decoder_config *own = &c->own.decoder;
    int64_t keys = own->kv_heads * own->head_size;
    const struct part parts[] = {{of_layer(b, i, "self_attn.q_proj"), c->heads * own->head_size},
                                 {of_layer(b, i, "self_attn.k_proj"), keys},
                                 {of_layer(b, i, "self_attn.v_proj"), keys}};
    bool slides = own->layer[i] & LAYER_SLIDES;
    int sinks = own->sinks ? WEIGHT(b, b->normal, of_layer(b, i, "self_attn.sinks"), DIM(c->heads)) : 0;
    v = joined(b, i, v, "self_attn.qkv_proj", parts, 3, own->qkv_bias, own->qkv_fused);
    v = turn(b, i, v, slides && tables[ROTARY_WINDOW] ? tables[ROTARY_WINDOW] : tables[ROTARY_ALL]);
    return build_attention(b, v,
                           (struct attention_options){.kv_heads = own->kv_heads,
                                                      .head_size = own->head_size,
                                                      .scale = own->score_scale,
                                                      .cap = own->score_cap,
                                                      .causal = !own->both_ways,
                                                      .window = slides ? own->window : 0,
                                                      .sinks = sinks});
}

/* The same of a layer that convolves: the columns are gated, convolved one by one, and gated again. */
static int convolve(struct build *b, int i, int v)
{
    int64_t H = b->c->hidden_size, width = b->c->own.decoder.convolution.width;
    bool bias = b->c->own.decoder.convolution.bias;
    struct op_short_conv n = {.bcx =
                                  build_linear(b, v, of_layer(b, i, "conv.in_proj"), H, 3 * H, build_product(b, bias)),
                              .w = WEIGHT(b, b->normal, of_layer(b, i, "conv.conv.weight"), DIM(H), DIM(1), DIM(width)),
                              .b = bias ? WEIGHT(b, b->zero, of_layer(b, i, "conv.conv.bias"), DIM(H)) : 0,
                              .cu = b->in.cu_seqlens};
    emit_short_conv(b->g, &n);
    return n.y;
}

/* What a layer makes of rows that see each other: attention, or a convolution. */
static int mix(struct build *b, int i, int v, const int *tables)
{
    return b->c->own.decoder.layer[i] & LAYER_CONVOLVES ? convolve(b, i, v) : attend(b, i, v, tables);
}

/* The product behind it. */
static int mix_out(struct build *b, int i, int v)
{
    const struct decoder_config *own = &b->c->own.decoder;
    int64_t H = b->c->hidden_size;
    if (own->layer[i] & LAYER_CONVOLVES)
        return build_linear(b, v, of_layer(b, i, "conv.out_proj"), H, H, build_product(b, own->convolution.bias));
    return build_linear(b, v, of_layer(b, i, own->products->attention_out), b->c->heads * own->head_size, H,
                        build_product(b, own->out_bias));
}

static int feed_forward(struct build *b, int i, int v)
{
    const struct decoder_config *own = &b->c->own.decoder;
    int64_t H = b->c->hidden_size, F = own->intermediate_size;
    if (own->layer[i] & LAYER_EXPERTS)
        return build_experts(b, of_layer(b, i, ""), v, &own->experts, own->act);
    const struct decoder_products *p = own->products;
    if (p->gate) {
        const struct part parts[] = {{of_layer(b, i, p->gate), F}, {of_layer(b, i, p->up), F}};
        struct op_glu gate = {.x = joined(b, i, v, "mlp.gate_up_proj", parts, 2, own->mlp_bias, own->mlp_fused),
                              .act = own->act};
        emit_glu(b->g, &gate);
        v = gate.y;
    } else {
        struct layer_options up = build_product(b, own->mlp_bias);
        up.act = own->act;
        v = build_linear(b, v, of_layer(b, i, p->up), H, F, up);
    }
    return build_linear(b, v, of_layer(b, i, p->down), F, H, build_product(b, own->mlp_bias));
}

/* What a block reads: the stream, normalised where the layer has a norm before it. */
static int norm_in(struct build *b, struct stream *s, int i, const char *name)
{
    return name ? norm(b, s, of_layer(b, i, name)) : stream_sum(b, s);
}

static int scaled(struct build *b, int v, double by)
{
    struct op_scale n = {.x = v, .by = by};
    if (by <= 0 || by == 1)
        return v;
    emit_scale(b->g, &n);
    return n.y;
}

/* What a block adds to the stream: its output, normalised where the layer has a norm behind it. */
static int branch(struct build *b, int i, int v, const char *name)
{
    int read;
    v = name ? norm_of(b, v, 0, 0, of_layer(b, i, name), &read) : v;
    return scaled(b, v, b->c->own.decoder.branch_scale);
}

/* The row of each sequence that a classifier reads, of those that read one. */
static int one_row(struct build *b, int v)
{
    return b->c->own.decoder.pooling == POOL_FIRST ? build_first_rows(b, v) : build_last_rows(b, v);
}

/* Behind its attention the last layer works row by row, and a classifier may want one row a sequence. */
static void layer(struct build *b, struct stream *s, int i, const int *tables)
{
    const struct decoder_config *own = &b->c->own.decoder;
    int entered = norm_in(b, s, i, own->norms->attention), v = mix(b, i, entered, tables);
    bool reads_one = own->pooling == POOL_LAST || own->pooling == POOL_FIRST;
    if (!model_task(b->c)->per_token && reads_one && i == b->c->layers - 1) {
        v = one_row(b, v);
        entered = own->parallel ? one_row(b, entered) : 0;
        s->res = one_row(b, s->res);
        s->coords = b->in.samples;
    }
    s->branch = branch(b, i, mix_out(b, i, v), own->norms->attention_out);
    if (own->parallel)
        stream_sum(b, s);
    else
        entered = norm_in(b, s, i, own->norms->mlp);
    s->branch = branch(b, i, feed_forward(b, i, entered), own->norms->mlp_out);
}

int decoder_body(struct build *b)
{
    const struct model_config *c = b->c;
    struct init words = b->normal;
    words.zero_row = c->pad_id;
    struct op_embed e = {.ids = b->in.ids,
                         .table = WEIGHT(b, words, of_body(b, WORDS), DIM(c->vocab_size), DIM(c->hidden_size))};
    emit_embed(b->g, &e);
    struct stream s = {.branch = build_dropout(b, scaled(b, e.y, c->own.decoder.embedding_scale), b->in.coords,
                                               build_p(b, c->own.decoder.embedding_drops ? c->dropout_embedding : 0)),
                       .coords = b->in.coords};
    int tables[ROTARY_KINDS];
    for (int k = 0; k < ROTARY_KINDS; k++)
        tables[k] = c->rotary[k].pairs ? build_rotary_table(b, k) : 0;
    for (int i = 0; i < c->layers; i++) {
        b->g->layer = i + 1;
        layer(b, &s, i, tables);
    }
    b->g->layer = (int)c->layers + 1;
    b->more = build_balance_loss(b, &c->own.decoder.experts);
    return norm(b, &s, of_body(b, c->own.decoder.norms->last));
}

static int words(struct build *b, int v)
{
    const struct model_config *c = b->c;
    bool bias = c->own.decoder.head_bias;
    if (c->untied)
        return build_linear(b, v, "lm_head", c->hidden_size, c->vocab_size, build_product(b, bias));
    struct op_linear n = {.x = v,
                          .w = graph_find(b->g, of_body(b, WORDS)),
                          .b = bias ? WEIGHT(b, b->zero, "lm_head.bias", DIM(c->vocab_size)) : 0};
    emit_linear(b->g, &n);
    return n.y;
}

int decoder_causal_lm(struct build *b, int v)
{
    const struct decoder_config *own = &b->c->own.decoder;
    struct op_softcap n = {.x = words(b, scaled(b, v, own->head_scale)), .cap = own->cap};
    if (n.cap <= 0)
        return n.x;
    emit_softcap(b->g, &n);
    return n.y;
}

int decoder_classifier(struct build *b, int v)
{
    return build_score(b, v, b->c->hidden_size);
}

const struct tied_name decoder_tied[] = {{"lm_head.weight", "model." WORDS}, {0}};

/* Frequencies, which older versions saved. */
const char *const decoder_ignored[] = {"rotary_emb.inv_freq", NULL};
