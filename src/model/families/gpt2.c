/* GPT-2 (Radford et al., 2019) as transformers' modeling_gpt2: pre-norm decoder, causal attention, weights stored
 * (in,out), output embeddings tied to the input's. */
#include "model/build.h"
#include "model/refused.h"

#include <math.h>

#define WORDS "transformer.wte.weight"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt2_config *own = &c->own.gpt2;
    c->longest = 1024, c->init_std = 0.02, own->norm_eps = 1e-5;
    c->dropout_embedding = c->dropout_hidden = c->dropout_attention = 0.1;
    TRY(json_get_int(o, path, "n_embd", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "n_layer", true, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "n_head", true, 1, 4095, &c->heads, err));
    own->intermediate_size = 4 * c->hidden_size;
    TRY(json_get_int(o, path, "n_inner", false, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "n_positions", false, 1, 1 << 20, &c->longest, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "layer_norm_epsilon", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "embd_pdrop", false, 0, 0.999, &c->dropout_embedding, err));
    TRY(json_get_real(o, path, "resid_pdrop", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attn_pdrop", false, 0, 0.999, &c->dropout_attention, err));
    TRY(config_act(o, path, "activation_function", ACT_gelu_tanh, &own->act, err));
    TRY(config_tied(o, path, c, err));
    return config_check_heads(c, path, "n_embd", "n_head", err);
}

/* The residual stream is `res` + dropout(`branch`); the norm of the next block adds them. */
struct stream {
    int branch, res;
};

/* Gives the norm's output; the stream becomes what the norm read. */
static int norm(struct build *b, struct stream *s, const char *prefix)
{
    struct norm_options o = {.res = s->res,
                             .coords = b->in.coords,
                             .p = s->res ? build_p(b, b->c->dropout_hidden) : 0,
                             .eps = b->c->own.gpt2.norm_eps,
                             .site = b->site++};
    struct op_norm n = build_norm(b, s->branch, prefix, o);
    s->res = n.h ? n.h : s->branch;
    return n.y;
}

/* Products, and those that write into the residual stream: these begin smaller. */
static struct layer_options project(const struct build *b)
{
    return (struct layer_options){.weight = b->normal, .bias = b->zero, .in_out = true};
}

static struct layer_options residual(const struct build *b)
{
    struct layer_options o = project(b);
    o.weight.std = b->c->init_std / sqrt(2.0 * (double)b->c->layers);
    return o;
}

static int attend(struct build *b, int v, int i)
{
    int64_t H = b->c->hidden_size;
    v = build_linear(b, v, graph_name(b->g, "transformer.h.%d.attn.c_attn", i), H, 3 * H, project(b));
    v = build_attention(b, v, (struct attention_options){.head_size = H / b->c->heads, .causal = true});
    return build_linear(b, v, graph_name(b->g, "transformer.h.%d.attn.c_proj", i), H, H, residual(b));
}

static int feed_forward(struct build *b, int v, int i)
{
    int64_t H = b->c->hidden_size, F = b->c->own.gpt2.intermediate_size;
    struct layer_options act = project(b);
    act.act = b->c->own.gpt2.act;
    v = build_linear(b, v, graph_name(b->g, "transformer.h.%d.mlp.c_fc", i), H, F, act);
    return build_linear(b, v, graph_name(b->g, "transformer.h.%d.mlp.c_proj", i), F, H, residual(b));
}

static int body(struct build *b)
{
    const struct model_config *c = b->c;
    struct op_embed e = {.ids = b->in.ids,
                         .table = WEIGHT(b, b->normal, WORDS, DIM(c->vocab_size), DIM(c->hidden_size)),
                         .ids2 = b->in.positions,
                         .table2 =
                             WEIGHT(b, b->normal, "transformer.wpe.weight", DIM(c->longest), DIM(c->hidden_size))};
    emit_embed(b->g, &e);
    struct stream s = {.branch = build_dropout(b, e.y, b->in.coords, build_p(b, c->dropout_embedding))};
    for (int i = 0; i < c->layers; i++) {
        b->g->layer = i + 1;
        s.branch = attend(b, norm(b, &s, graph_name(b->g, "transformer.h.%d.ln_1", i)), i);
        s.branch = feed_forward(b, norm(b, &s, graph_name(b->g, "transformer.h.%d.ln_2", i)), i);
    }
    b->g->layer = (int)c->layers + 1;
    return norm(b, &s, "transformer.ln_f");
}

static int causal_lm(struct build *b, int v)
{
    struct op_linear n = {.x = v, .w = graph_find(b->g, WORDS)};
    emit_linear(b->g, &n);
    return n.y;
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "GPT2LMHeadModel", .logits = causal_lm}};

static const struct tied_name tied[] = {{"lm_head.weight", WORDS}, {0}};

/* Attention's masks, which older versions saved. */
static const char *const ignored[] = {".attn.bias", ".attn.masked_bias", NULL};

static const struct refused refused[] = {
    {.key = "scale_attn_by_inverse_layer_idx", .kind = REFUSED_TRUE},
    {.key = "add_cross_attention", .kind = REFUSED_TRUE},
    {.key = "scale_attn_weights", .kind = REFUSED_FALSE},
    {0},
};

const struct model_arch arch_gpt2 = {.model_type = "gpt2",
                                     .known = "gpt2, gpt2-medium",
                                     .class_prefix = "GPT2",
                                     .positions_key = "n_positions",
                                     .base_prefix = "transformer.",
                                     .layer_prefix = "h.",
                                     .tied = tied,
                                     .ignored = ignored,
                                     .heads = heads,
                                     .adapted = "c_attn",
                                     .refused = refused,
                                     .config = config,
                                     .body = body};
