/* OPT (Zhang et al., arXiv 2205.01068) as transformers' modeling_opt: a decoder with learned positions and layer norms, before each block or
 * behind it. Words may have embeddings of another width than layers, with a product behind the input's and one before the output's. */
#include "model/build.h"
#include "model/refused.h"

#define WORDS "model.decoder.embed_tokens.weight"

enum { FIRST_POSITION = 2 }; /* the table of positions has two rows more, which nobody reads */

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct opt_config *own = &c->own.opt;
    bool no_last_norm = false;
    c->pad_id = 1, c->longest = 2048, c->init_std = 0.02, c->dropout_hidden = 0.1;
    own->norms_first = own->biases = true;
    TRY(json_get_int(o, path, "hidden_size", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", true, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "num_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "ffn_dim", true, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    own->embedding_size = c->hidden_size;
    TRY(json_get_int(o, path, "word_embed_proj_dim", false, 1, 1 << 20, &own->embedding_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 20, &c->longest, err));
    if (json_is_null(json_object_get(o, "pad_token_id")))
        c->pad_id = -1;
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "init_std", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    TRY(config_act(o, path, "activation_function", ACT_relu, &own->act, err));
    TRY(json_get_bool(o, path, "do_layer_norm_before", false, &own->norms_first, err));
    TRY(json_get_bool(o, path, "_remove_final_layer_norm", false, &no_last_norm, err));
    TRY(json_get_bool(o, path, "enable_bias", false, &own->biases, err));
    TRY(config_tied(o, path, c, err));
    own->last_norm = own->norms_first && !no_last_norm;
    c->first_position = FIRST_POSITION;
    return config_check_heads(c, path, "hidden_size", "num_attention_heads", err);
}

/* The residual stream is res + dropout(branch), or `res` where branch is 0; rows with these coords. */
struct stream {
    int res, branch, coords;
};

/* The norm of the stream, whose sum is then made. */
static int norm(struct build *b, struct stream *s, const char *prefix)
{
    struct norm_options o = {.res = s->branch ? s->res : 0,
                             .coords = s->coords,
                             .p = s->branch ? build_p(b, b->c->dropout_hidden) : 0,
                             .eps = 1e-5,
                             .site = b->site++};
    struct op_norm n = build_norm(b, s->branch ? s->branch : s->res, prefix, o);
    s->res = n.h ? n.h : s->res;
    s->branch = 0;
    return n.y;
}

/* What a block reads, and what becomes of what it gives. */
static int enter(struct build *b, struct stream *s, const char *layer, const char *name)
{
    return b->c->own.opt.norms_first ? norm(b, s, graph_name(b->g, "%s.%s", layer, name)) : s->res;
}

static void leave(struct build *b, struct stream *s, int v, const char *layer, const char *name)
{
    s->branch = v;
    if (!b->c->own.opt.norms_first)
        s->res = norm(b, s, graph_name(b->g, "%s.%s", layer, name));
}

static int embeddings(struct build *b)
{
    const struct model_config *c = b->c;
    int64_t H = c->hidden_size, E = c->own.opt.embedding_size;
    struct init words = b->normal;
    words.zero_row = c->pad_id;
    struct op_embed e = {.ids = b->in.ids, .table = WEIGHT(b, words, WORDS, DIM(c->vocab_size), DIM(E))};
    struct op_embed p = {.ids = b->in.positions,
                         .table = WEIGHT(b, b->normal, "model.decoder.embed_positions.weight",
                                         DIM(FIRST_POSITION + c->longest), DIM(H))};
    if (E == H) {
        e.ids2 = p.ids, e.table2 = p.table;
        emit_embed(b->g, &e);
        return e.y;
    }
    emit_embed(b->g, &e);
    emit_embed(b->g, &p);
    struct op_add sum = {.a = build_linear(b, e.y, "model.decoder.project_in", E, H, build_product(b, false)),
                         .b = p.y};
    emit_add(b->g, &sum);
    return sum.y;
}

static int attend(struct build *b, int v, const char *layer)
{
    int64_t H = b->c->hidden_size;
    const struct part parts[] = {{graph_name(b->g, "%s.self_attn.q_proj", layer), H},
                                 {graph_name(b->g, "%s.self_attn.k_proj", layer), H},
                                 {graph_name(b->g, "%s.self_attn.v_proj", layer), H}};
    v = build_parts(b, v, graph_name(b->g, "%s.self_attn.qkv_proj", layer), H, parts, 3,
                    build_product(b, b->c->own.opt.biases));
    return build_attention(b, v, (struct attention_options){.head_size = H / b->c->heads, .causal = true});
}

static int feed_forward(struct build *b, int v, const char *layer)
{
    const struct opt_config *own = &b->c->own.opt;
    int64_t H = b->c->hidden_size, F = own->intermediate_size;
    struct layer_options act = build_product(b, own->biases);
    act.act = own->act;
    v = build_linear(b, v, graph_name(b->g, "%s.fc1", layer), H, F, act);
    return build_linear(b, v, graph_name(b->g, "%s.fc2", layer), F, H, build_product(b, own->biases));
}

/* Behind its attention the last layer works row by row, and a classifier wants one row a sequence. */
static void run_layer(struct build *b, struct stream *s, int i)
{
    const char *layer = graph_name(b->g, "model.decoder.layers.%d", i);
    int64_t H = b->c->hidden_size;
    int v = attend(b, enter(b, s, layer, "self_attn_layer_norm"), layer);
    if (!model_task(b->c)->per_token && i == b->c->layers - 1) {
        v = build_last_rows(b, v);
        s->res = build_last_rows(b, s->res);
        s->coords = b->in.samples;
    }
    v = build_linear(b, v, graph_name(b->g, "%s.self_attn.out_proj", layer), H, H,
                     build_product(b, b->c->own.opt.biases));
    leave(b, s, v, layer, "self_attn_layer_norm");
    v = feed_forward(b, enter(b, s, layer, "final_layer_norm"), layer);
    leave(b, s, v, layer, "final_layer_norm");
}

/* What the stream is behind the layers. */
static int last_sum(struct build *b, struct stream *s)
{
    if (b->c->own.opt.last_norm)
        return norm(b, s, "model.decoder.final_layer_norm");
    if (!s->branch)
        return s->res;
    double p = build_p(b, b->c->dropout_hidden);
    struct op_add sum = {.a = s->res, .b = build_dropout(b, s->branch, s->coords, p)};
    emit_add(b->g, &sum);
    return sum.y;
}

static int body(struct build *b)
{
    const struct model_config *c = b->c;
    int64_t H = c->hidden_size, E = c->own.opt.embedding_size;
    struct stream s = {.res = embeddings(b), .coords = b->in.coords};
    for (int i = 0; i < c->layers; i++) {
        b->g->layer = i + 1;
        run_layer(b, &s, i);
    }
    b->g->layer = (int)c->layers + 1;
    int v = last_sum(b, &s);
    return E == H ? v : build_linear(b, v, "model.decoder.project_out", H, E, build_product(b, false));
}

static int causal_lm(struct build *b, int v)
{
    const struct model_config *c = b->c;
    if (c->untied)
        return build_linear(b, v, "lm_head", c->own.opt.embedding_size, c->vocab_size, build_product(b, false));
    struct op_linear n = {.x = v, .w = graph_find(b->g, WORDS)};
    emit_linear(b->g, &n);
    return n.y;
}

static int classifier(struct build *b, int v)
{
    return build_score(b, v, b->c->own.opt.embedding_size);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "OPTForSequenceClassification",
                                       .weight = "score.weight",
                                       .logits = classifier},
    [MODEL_CAUSAL_LM] = {.class_name = "OPTForCausalLM", .logits = causal_lm, .untied = "lm_head.weight"}};

static const struct tied_name tied[] = {{"lm_head.weight", WORDS}, {0}};

/* A number that older versions saved. */
static const char *const ignored[] = {"decoder.version", NULL};

static const struct refused refused[] = {
    {.key = "layerdrop", .kind = REFUSED_ABOVE_0},
    {.key = "layer_norm_elementwise_affine", .kind = REFUSED_FALSE},
    {0},
};

const struct model_arch arch_opt = {.model_type = "opt",
                                    .known = "opt-125m, opt-350m, opt-1.3b",
                                    .class_prefix = "OPT",
                                    .positions_key = "max_position_embeddings",
                                    .base_prefix = "model.",
                                    .layer_prefix = "decoder.layers.",
                                    .tied = tied,
                                    .ignored = ignored,
                                    .heads = heads,
                                    .adapted = "q_proj,v_proj",
                                    .refused = refused,
                                    .config = config,
                                    .body = body};
