/* GPT-2 (Radford et al., 2019) as transformers' modeling_gpt2: pre-norm decoder, causal attention, weights stored
 * (in,out), output embeddings tied to the input's. */
#include "model/model.h"

#include <math.h>

static int refuse_true(json_t *o, const char *path, const char *key, struct snug_err *err)
{
    bool on = false;
    TRY(json_get_bool(o, path, key, false, &on, err));
    return on ? err_set(err, SNUG_ERR_INPUT, "%s: %s is true and not supported; use a model without it", path, key)
              : SNUG_OK;
}

static int read_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    bool scaled = true, tied = true;
    c->max_positions = 1024, c->norm_eps = 1e-5, c->init_std = 0.02;
    c->dropout_embedding = c->dropout_hidden = c->dropout_attention = 0.1;
    TRY(json_get_int(o, path, "n_embd", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "n_layer", true, 1, 1000, &c->layers, err));
    TRY(json_get_int(o, path, "n_head", true, 1, 4095, &c->heads, err));
    c->intermediate_size = 4 * c->hidden_size;
    TRY(json_get_int(o, path, "n_inner", false, 1, 1 << 22, &c->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "n_positions", false, 1, 1 << 20, &c->max_positions, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "layer_norm_epsilon", false, 1e-300, 1, &c->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "embd_pdrop", false, 0, 0.999, &c->dropout_embedding, err));
    TRY(json_get_real(o, path, "resid_pdrop", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attn_pdrop", false, 0, 0.999, &c->dropout_attention, err));
    TRY(model_read_act(o, path, "activation_function", ACT_gelu_tanh, &c->act, err));
    TRY(refuse_true(o, path, "scale_attn_by_inverse_layer_idx", err));
    TRY(refuse_true(o, path, "add_cross_attention", err));
    TRY(json_get_bool(o, path, "scale_attn_weights", false, &scaled, err));
    TRY(json_get_bool(o, path, "tie_word_embeddings", false, &tied, err));
    c->untied = !tied;
    if (!scaled)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: scale_attn_weights is false and not supported; use a model that has it true", path);
    c->kv_heads = c->heads;
    return SNUG_OK;
}

struct ctx {
    struct graph *g;
    const struct model_config *c;
    struct inputs in;
    double p, p_attention; /* 0 without dropout */
    int64_t site;
    struct layer_options project, residual; /* the latter: products that write into the residual stream */
};

/* The residual stream is `res` + dropout(`branch`); the norm of the next block adds them. */
struct stream {
    int branch, res;
};

static int attend(struct ctx *x, int v, int i)
{
    int64_t H = x->c->hidden_size;
    struct op_attention a = {
        .qkv = model_linear(x->g, v, graph_name(x->g, "transformer.h.%d.attn.c_attn", i), H, 3 * H, x->project),
        .cu = x->in.cu_seqlens,
        .coords = x->p_attention > 0 ? x->in.coords : 0,
        .rng = x->p_attention > 0 ? x->in.rng : 0,
        .heads = x->c->heads,
        .kv_heads = x->c->heads,
        .causal = 1,
        .scale = 1 / sqrt((double)(H / x->c->heads)),
        .p = x->p_attention,
        .site = x->site++,
        .longest = x->c->max_positions};
    emit_attention(x->g, &a);
    return model_linear(x->g, a.o, graph_name(x->g, "transformer.h.%d.attn.c_proj", i), H, H, x->residual);
}

static int feed_forward(struct ctx *x, int v, int i)
{
    int64_t H = x->c->hidden_size, F = x->c->intermediate_size;
    struct layer_options act = x->project;
    act.act = x->c->act;
    v = model_linear(x->g, v, graph_name(x->g, "transformer.h.%d.mlp.c_fc", i), H, F, act);
    return model_linear(x->g, v, graph_name(x->g, "transformer.h.%d.mlp.c_proj", i), F, H, x->residual);
}

/* Gives the norm's output; the stream becomes what the norm read. */
static int norm(struct ctx *x, struct stream *s, const char *prefix)
{
    double p = s->res ? x->p : 0;
    struct op_norm n =
        model_norm(x->g, &x->in, s->branch, s->res, prefix, x->c->hidden_size, x->c->norm_eps, p, x->site++);
    s->res = n.h ? n.h : s->branch;
    return n.y;
}

static void build(struct graph *g, const struct model_config *c, bool with_dropout, struct loss_settings loss,
                  struct built *out)
{
    const struct init normal = {.kind = INIT_NORMAL, .std = c->init_std, .zero_row = -1};
    const struct init zero = {.kind = INIT_ZERO, .zero_row = -1};
    struct ctx x = {.g = g,
                    .c = c,
                    .p = with_dropout ? c->dropout_hidden : 0,
                    .p_attention = with_dropout ? c->dropout_attention : 0,
                    .project = {.weight = normal, .bias = zero, .in_out = true}};
    x.residual = x.project;
    x.residual.weight.std = c->init_std / sqrt(2.0 * (double)c->layers);
    model_add_inputs(g, c, &x.in);
    struct op_embed e = {.ids = x.in.ids,
                         .table = WEIGHT(g, normal, "transformer.wte.weight", DIM(c->vocab_size), DIM(c->hidden_size)),
                         .ids2 = x.in.positions,
                         .table2 =
                             WEIGHT(g, normal, "transformer.wpe.weight", DIM(c->max_positions), DIM(c->hidden_size))};
    emit_embed(g, &e);
    struct stream s = {.branch = e.y};
    if (with_dropout && c->dropout_embedding > 0) {
        struct op_dropout d = {
            .x = e.y, .coords = x.in.coords, .rng = x.in.rng, .p = c->dropout_embedding, .site = x.site++};
        emit_dropout(g, &d);
        s.branch = d.y;
    }
    for (int i = 0; i < c->layers; i++) {
        g->layer = i + 1;
        s.branch = attend(&x, norm(&x, &s, graph_name(g, "transformer.h.%d.ln_1", i)), i);
        s.branch = feed_forward(&x, norm(&x, &s, graph_name(g, "transformer.h.%d.ln_2", i)), i);
    }
    g->layer = (int)c->layers + 1;
    struct op_linear head = {.x = norm(&x, &s, "transformer.ln_f"), .w = e.table};
    emit_linear(g, &head);
    out->logits = head.y;
    out->loss = model_loss(g, c, &x.in, head.y, loss);
}

static const struct model_head heads[MODEL_COUNT] = {[MODEL_CAUSAL_LM] = {"GPT2LMHeadModel", NULL}};

const struct model_arch arch_gpt2 = {.model_type = "gpt2",
                                     .class_prefix = "GPT2",
                                     .hidden_key = "n_embd",
                                     .heads_key = "n_head",
                                     .positions_key = "n_positions",
                                     .weight_prefix = "transformer.",
                                     .heads = heads,
                                     .config = read_config,
                                     .build = build};
