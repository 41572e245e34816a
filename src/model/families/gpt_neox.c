/* GPT-NeoX and Pythia (Black et al., arXiv 2204.06745; Biderman et al., arXiv 2304.01373) as transformers' modeling_gpt_neox: layer
 * norms, rotary positions of a part of each head, queries, keys and values head by head in one weight, and layers whose two
 * blocks read the same. */
#include "model/build.h"

#define WORDS "gpt_neox.embed_in.weight"

/* Before transformers 5 the settings of rotary positions had names of their own here. */
static int read_rotary(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct rotary_model r = {
        .head_size = c->hidden_size / c->heads, .positions = c->longest, .theta = 1e4, .part = 0.25};
    TRY(json_get_real(o, path, "rotary_emb_base", false, 1 + 1e-9, 1e15, &r.theta, err));
    TRY(json_get_real(o, path, "rotary_pct", false, 1e-3, 1, &r.part, err));
    return rotary_read(o, path, &r, &c->rotary[ROTARY_ALL], err);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_neox_config *own = &c->own.gpt_neox;
    c->longest = 2048, c->init_std = 0.02, c->untied = true;
    own->norm_eps = 1e-5, own->attention_bias = own->parallel = true;
    TRY(json_get_int(o, path, "hidden_size", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", true, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "num_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "intermediate_size", true, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 30, &c->longest, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "layer_norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "hidden_dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    c->dropout_embedding = c->dropout_hidden;
    TRY(config_act(o, path, "hidden_act", ACT_gelu, &own->act, err));
    TRY(json_get_bool(o, path, "attention_bias", false, &own->attention_bias, err));
    TRY(json_get_bool(o, path, "use_parallel_residual", false, &own->parallel, err));
    TRY(config_tied(o, path, c, err));
    TRY(config_check_heads(c, path, "hidden_size", "num_attention_heads", err));
    return read_rotary(o, path, c, err);
}

/* The residual stream is `res` + dropout(`branch`), rows with these coords; the norm of the next block adds them. */
struct stream {
    int branch, res, coords;
};

static struct op_norm layer_norm(struct build *b, const struct stream *s, const char *prefix)
{
    struct norm_options o = {.res = s->res,
                             .coords = s->coords,
                             .p = s->res ? build_p(b, b->c->dropout_hidden) : 0,
                             .eps = b->c->own.gpt_neox.norm_eps,
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

static const char *of_layer(struct build *b, int i, const char *name)
{
    return graph_name(b->g, "gpt_neox.layers.%d.%s", i, name);
}

static int attend(struct build *b, int v, int i, int table)
{
    int64_t H = b->c->hidden_size, A = b->c->heads;
    v = build_linear(b, v, of_layer(b, i, "attention.query_key_value"), H, 3 * H,
                     build_product(b, b->c->own.gpt_neox.attention_bias));
    struct op_rotary r = {.qkv = v, .table = table, .heads = A, .kv_heads = A, .by_group = true};
    emit_rotary(b->g, &r);
    return build_attention(b, r.y, (struct attention_options){.head_size = H / A, .causal = true});
}

static int feed_forward(struct build *b, int v, int i)
{
    int64_t H = b->c->hidden_size, F = b->c->own.gpt_neox.intermediate_size;
    struct layer_options act = build_product(b, true);
    act.act = b->c->own.gpt_neox.act;
    v = build_linear(b, v, of_layer(b, i, "mlp.dense_h_to_4h"), H, F, act);
    return build_linear(b, v, of_layer(b, i, "mlp.dense_4h_to_h"), F, H, build_product(b, true));
}

/* What the feed-forward block reads: beside attention what enters the layer, or behind it the sum. */
static int norm_between(struct build *b, struct stream *s, int i)
{
    const char *name = of_layer(b, i, "post_attention_layernorm");
    if (!b->c->own.gpt_neox.parallel)
        return norm(b, s, name);
    struct stream entered = {.branch = s->res};
    int v = layer_norm(b, &entered, name).y;
    struct op_add sum = {.a = s->res, .b = build_dropout(b, s->branch, s->coords, build_p(b, b->c->dropout_hidden))};
    emit_add(b->g, &sum);
    s->res = sum.y;
    return v;
}

/* Behind its attention the last layer works row by row, and a classifier wants one row a sequence. */
static void layer(struct build *b, struct stream *s, int i, int table)
{
    int64_t H = b->c->hidden_size;
    int v = attend(b, norm(b, s, of_layer(b, i, "input_layernorm")), i, table);
    if (!model_task(b->c)->per_token && i == b->c->layers - 1) {
        v = build_last_rows(b, v);
        s->res = build_last_rows(b, s->res);
        s->coords = b->in.samples;
    }
    s->branch = build_linear(b, v, of_layer(b, i, "attention.dense"), H, H,
                             build_product(b, b->c->own.gpt_neox.attention_bias));
    v = norm_between(b, s, i);
    s->branch = feed_forward(b, v, i);
}

static int body(struct build *b)
{
    const struct model_config *c = b->c;
    struct op_embed e = {.ids = b->in.ids,
                         .table = WEIGHT(b, b->normal, WORDS, DIM(c->vocab_size), DIM(c->hidden_size))};
    emit_embed(b->g, &e);
    int table = build_rotary_table(b, ROTARY_ALL);
    struct stream s = {.branch = build_dropout(b, e.y, b->in.coords, build_p(b, c->dropout_embedding)),
                       .coords = b->in.coords};
    for (int i = 0; i < c->layers; i++) {
        b->g->layer = i + 1;
        layer(b, &s, i, table);
    }
    b->g->layer = (int)c->layers + 1;
    return norm(b, &s, "gpt_neox.final_layer_norm");
}

static int causal_lm(struct build *b, int v)
{
    const struct model_config *c = b->c;
    if (c->untied)
        return build_linear(b, v, "embed_out", c->hidden_size, c->vocab_size, build_product(b, false));
    struct op_linear n = {.x = v, .w = graph_find(b->g, WORDS)};
    emit_linear(b->g, &n);
    return n.y;
}

static int classifier(struct build *b, int v)
{
    return build_score(b, v, b->c->hidden_size);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "GPTNeoXForSequenceClassification",
                                       .weight = "score.weight",
                                       .logits = classifier},
    [MODEL_CAUSAL_LM] = {.class_name = "GPTNeoXForCausalLM", .logits = causal_lm, .untied = "embed_out.weight"}};

static const struct tied_name tied[] = {{"embed_out.weight", WORDS}, {0}};

/* Attention's masks and frequencies, which older versions saved. */
static const char *const ignored[] = {".attention.bias", ".attention.masked_bias", "rotary_emb.inv_freq", NULL};

const struct model_arch arch_gpt_neox = {.model_type = "gpt_neox",
                                         .known = "pythia-160m, pythia-6.9b, gpt-neox-20b",
                                         .class_prefix = "GPTNeoX",
                                         .positions_key = "max_position_embeddings",
                                         .base_prefix = "gpt_neox.",
                                         .layer_prefix = "layers.",
                                         .tied = tied,
                                         .ignored = ignored,
                                         .heads = heads,
                                         .adapted = "query_key_value",
                                         .config = config,
                                         .body = body};
