/* T5 (Raffel et al., arXiv 1910.10683), its version 1.1, FLAN-T5 and mT5 as transformers' modeling_t5: an encoder and a decoder with RMS
 * norms before each block, no biases, and positions as biases of the scores by distance: a table for each stack, which all its layers
 * share. The decoder's attention to the encoder has none. A classifier is as BART's: its decoder reads what its encoder reads, one token
 * later, and the head what the decoder makes of the end token. */
#include "model/build.h"

#include <math.h>
#include <string.h>

#define WORDS "shared.weight"

enum { NO_LIMIT = 1 << 20, USUAL_LENGTH = 512 };

/* feed_forward_proj: an activation, perhaps with a gate; "gated-gelu" means the approximation by tanh. */
static int read_feed_forward(json_t *o, const char *path, struct t5_config *own, struct snug_err *err)
{
    static const struct {
        const char *name;
        enum act act;
        bool gated;
    } rows[] = {{"relu", ACT_relu, false},
                {"gelu", ACT_gelu, false},
                {"gelu_new", ACT_gelu_tanh, false},
                {"silu", ACT_silu, false},
                {"gated-relu", ACT_relu, true},
                {"gated-gelu", ACT_gelu_tanh, true},
                {"gated-gelu_new", ACT_gelu_tanh, true},
                {"gated-silu", ACT_silu, true}};
    const char *name = "relu";
    TRY(json_get_string(o, path, "feed_forward_proj", false, &name, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name)) {
            own->act = rows[i].act;
            own->gated = rows[i].gated;
            return SNUG_OK;
        }
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: feed_forward_proj is \"%s\"; supported are relu, gelu, gelu_new, silu, each with \"gated-\" too", path,
        name);
}

/* transformers 5 always writes tie_word_embeddings true, with a key of its own for the scale; before, an output with embeddings of its
 * own was not scaled. Whether a folder has them, its weights say: config.json of either version may be wrong. */
static int read_output(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct t5_config *own = &c->own.t5;
    TRY(config_tied(o, path, c, err));
    own->scaled = !c->untied;
    TRY(json_get_bool(o, path, "scale_decoder_outputs", false, &own->scaled, err));
    c->untied_by_file = c->untied || !own->scaled;
    return SNUG_OK;
}

static int read_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct t5_config *own = &c->own.t5;
    c->pad_id = 0, c->end_id = 1, own->norm_eps = 1e-6, own->init_factor = 1;
    own->buckets = 32, own->furthest = 128;
    c->longest = NO_LIMIT, c->usual_length = USUAL_LENGTH;
    c->dropout_hidden = 0.1;
    TRY(json_get_int(o, path, "d_model", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "d_kv", true, 1, 1 << 16, &own->head_size, err));
    TRY(json_get_int(o, path, "d_ff", true, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "num_layers", true, 1, MAX_LAYERS / 2, &c->stack_layers, err));
    c->layers = c->stack_layers;
    TRY(json_get_int(o, path, "num_decoder_layers", false, 1, MAX_LAYERS / 2, &c->layers, err));
    c->layers += c->stack_layers;
    TRY(json_get_int(o, path, "num_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "relative_attention_num_buckets", false, 4, 1 << 16, &own->buckets, err));
    TRY(json_get_int(o, path, "relative_attention_max_distance", false, 2, 1 << 24, &own->furthest, err));
    if (own->buckets % 2 || own->furthest <= own->buckets / 2)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: relative_attention_num_buckets %lld must be even, and less than twice "
                       "relative_attention_max_distance %lld; correct one",
                       path, (long long)own->buckets, (long long)own->furthest);
    TRY(json_get_int(o, path, "eos_token_id", false, 0, c->vocab_size - 1, &c->end_id, err));
    TRY(json_get_int(o, path, "n_positions", false, 1, NO_LIMIT, &c->usual_length, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    c->start_id = c->pad_id;
    TRY(json_get_int(o, path, "decoder_start_token_id", false, 0, c->vocab_size - 1, &c->start_id, err));
    c->writes_after = c->start_id;
    TRY(json_get_real(o, path, "layer_norm_epsilon", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "dropout_rate", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "classifier_dropout", false, 0, 0.999, &c->dropout_classifier, err));
    TRY(json_get_real(o, path, "initializer_factor", false, 0, 100, &own->init_factor, err));
    c->init_std = own->init_factor;
    c->dropout_embedding = c->dropout_attention = c->dropout_hidden;
    return read_feed_forward(o, path, own, err);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    TRY(read_config(o, path, c, err));
    return read_output(o, path, c, err);
}

/* mT5's output is never scaled, and its embeddings are as the folder has them. */
static int mt5_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    TRY(read_config(o, path, c, err));
    TRY(config_tied(o, path, c, err));
    c->untied_by_file = true;
    return SNUG_OK;
}

/* ---- the stacks ---- */

/* What is a stack's own. */
struct stack {
    const char *name;
    int cu, coords; /* of its rows */
    bool decoder;
    int table;  /* of biases */
    int source; /* of a decoder: what the encoder gives */
    int res,
        branch; /* the stream is `res` + dropout(`branch`); the norm of the next block adds them. res 0: branch alone */
};

/* Before the names of both stacks. */
static const char *base(const struct build *b)
{
    return model_reads_twice(b->c) ? "transformer." : "";
}

static struct init normal(const struct build *b, double over)
{
    struct init i = b->normal;
    i.std = b->c->own.t5.init_factor / sqrt(over);
    return i;
}

static int product(struct build *b, int x, const char *name, int64_t in, int64_t out, double over)
{
    return build_linear(b, x, name, in, out, (struct layer_options){.weight = normal(b, over), .no_bias = true});
}

static int normed(struct build *b, struct stack *s, const char *prefix)
{
    struct op_rms_norm n = build_rms_norm(b, s->branch, s->res, prefix, b->c->own.t5.norm_eps, false);
    s->res = n.h ? n.h : s->branch;
    return n.y;
}

static void branch(struct build *b, struct stack *s, int v)
{
    s->branch = build_dropout(b, v, s->coords, build_p(b, b->c->dropout_hidden));
}

/* Keys and values, or queries too, of x: one product. */
static int heads_of(struct build *b, int x, const char *prefix, bool queries, const char *whole)
{
    const struct model_config *c = b->c;
    int64_t inner = c->heads * c->own.t5.head_size;
    const struct part parts[] = {{graph_name(b->g, "%s.q", prefix), inner},
                                 {graph_name(b->g, "%s.k", prefix), inner},
                                 {graph_name(b->g, "%s.v", prefix), inner}};
    struct layer_options o = {.weight = normal(b, (double)c->hidden_size), .no_bias = true};
    return build_parts(b, x, graph_name(b->g, "%s.%s", prefix, whole), c->hidden_size, queries ? parts : parts + 1,
                       queries ? 3 : 2, o);
}

/* A layer's block `at`: attention of the stack's rows to themselves, or to the source. */
static void attend(struct build *b, struct stack *s, const char *layer, int at, bool to_source)
{
    const struct model_config *c = b->c;
    int64_t H = c->hidden_size, inner = c->heads * c->own.t5.head_size;
    int v = normed(b, s, graph_name(b->g, "%s.layer.%d.layer_norm", layer, at));
    struct general_options o = {.cu = s->cu, .coords = s->coords, .scale = 1};
    const char *prefix = graph_name(b->g, "%s.layer.%d.%s", layer, at, to_source ? "EncDecAttention" : "SelfAttention");
    if (to_source) {
        o.kv = heads_of(b, s->source, prefix, false, "kv");
        o.kv_cu = b->in.source_cu_seqlens;
        v = product(b, v, graph_name(b->g, "%s.q", prefix), H, inner, (double)(H * c->own.t5.head_size));
    } else {
        o.table = s->table, o.furthest = c->own.t5.furthest, o.causal = s->decoder;
        v = heads_of(b, v, prefix, true, "qkv");
    }
    v = build_general_attention(b, v, o);
    branch(b, s, product(b, v, graph_name(b->g, "%s.o", prefix), inner, H, (double)inner));
}

static void feed_forward(struct build *b, struct stack *s, const char *layer, int at)
{
    const struct t5_config *own = &b->c->own.t5;
    int64_t H = b->c->hidden_size, F = own->intermediate_size;
    int v = normed(b, s, graph_name(b->g, "%s.layer.%d.layer_norm", layer, at));
    const char *prefix = graph_name(b->g, "%s.layer.%d.DenseReluDense", layer, at);
    struct layer_options o = {.weight = normal(b, (double)H), .no_bias = true};
    if (own->gated) {
        const struct part parts[] = {{graph_name(b->g, "%s.wi_0", prefix), F},
                                     {graph_name(b->g, "%s.wi_1", prefix), F}};
        struct op_glu n = {.x = build_parts(b, v, graph_name(b->g, "%s.wi_0_1", prefix), H, parts, 2, o),
                           .act = own->act};
        emit_glu(b->g, &n);
        v = n.y;
    } else {
        o.act = own->act;
        v = build_linear(b, v, graph_name(b->g, "%s.wi", prefix), H, F, o);
    }
    v = build_dropout(b, v, s->coords, build_p(b, b->c->dropout_hidden));
    branch(b, s, product(b, v, graph_name(b->g, "%s.wo", prefix), F, H, (double)F));
}

/* Of a classifier the last block works row by row, and the head wants one row a sequence. */
static void keep_ends(struct build *b, struct stack *s)
{
    s->res = build_end_rows(b, s->res);
    s->branch = build_end_rows(b, s->branch);
    s->coords = b->in.samples;
}

/* Layers `first` … first + n - 1 of the model. Gives the stack's output. */
static int run_stack(struct build *b, struct stack *s, int ids, int first, int n)
{
    const struct model_config *c = b->c;
    const char *words = graph_name(b->g, "%s" WORDS, base(b));
    struct op_embed e = {.ids = ids, .table = WEIGHT(b, b->normal, words, DIM(c->vocab_size), DIM(c->hidden_size))};
    emit_embed(b->g, &e);
    branch(b, s, e.y);
    const char *bias = graph_name(b->g, "%s.block.0.layer.0.SelfAttention.relative_attention_bias.weight", s->name);
    s->table = WEIGHT(b, normal(b, (double)c->hidden_size), bias, DIM(c->own.t5.buckets), DIM(c->heads));
    for (int i = 0; i < n; i++) {
        const char *layer = graph_name(b->g, "%s.block.%d", s->name, i);
        b->g->layer = first + i;
        attend(b, s, layer, 0, false);
        if (s->decoder)
            attend(b, s, layer, 1, true);
        if (s->decoder && i == n - 1 && model_reads_twice(c))
            keep_ends(b, s);
        feed_forward(b, s, layer, s->decoder ? 2 : 1);
    }
    int v = normed(b, s, graph_name(b->g, "%s.final_layer_norm", s->name));
    return build_dropout(b, v, s->coords, build_p(b, c->dropout_hidden));
}

static int body(struct build *b)
{
    int layers = (int)b->c->stack_layers;
    struct stack encoder = {
        .name = graph_name(b->g, "%sencoder", base(b)), .cu = b->in.source_cu_seqlens, .coords = b->in.source_coords};
    struct stack decoder = {.name = graph_name(b->g, "%sdecoder", base(b)),
                            .cu = b->in.cu_seqlens,
                            .coords = b->in.coords,
                            .decoder = true};
    decoder.source = run_stack(b, &encoder, b->in.source_ids, 1, layers);
    return run_stack(b, &decoder, b->in.ids, layers + 1, (int)b->c->layers - layers);
}

static int seq2seq_lm(struct build *b, int v)
{
    const struct model_config *c = b->c;
    if (c->own.t5.scaled) {
        struct op_scale n = {.x = v, .by = 1 / sqrt((double)c->hidden_size)};
        emit_scale(b->g, &n);
        v = n.y;
    }
    struct op_linear n = {.x = v, .w = graph_find(b->g, WORDS)};
    if (c->untied)
        n.w = WEIGHT(b, b->normal, "lm_head.weight", DIM(c->vocab_size), DIM(c->hidden_size));
    emit_linear(b->g, &n);
    return n.y;
}

static int head_product(struct build *b, int v, const char *name, int64_t out, enum act act)
{
    struct layer_options o = {.weight = normal(b, (double)b->c->hidden_size), .bias = b->zero, .act = act};
    o.weight.head = o.bias.head = true;
    v = build_dropout(b, v, b->in.samples, build_p_classifier(b));
    return build_linear(b, v, name, b->c->hidden_size, out, o);
}

static int classifier(struct build *b, int v)
{
    v = head_product(b, v, "classification_head.dense", b->c->hidden_size, ACT_tanh);
    return head_product(b, v, "classification_head.out_proj", b->c->num_labels, ACT_none);
}

static const struct tied_name tied[] = {
    {"encoder.embed_tokens.weight", WORDS}, {"decoder.embed_tokens.weight", WORDS}, {"lm_head.weight", WORDS}, {0}};

/* Of attention to the encoder, which has no biases; old folders have one that nobody reads. */
static const char *const ignored[] = {"EncDecAttention.relative_attention_bias.weight", NULL};

#define HEADS(prefix)                                                                                                  \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "classification_head.out_proj.weight",                            \
                                           .logits = classifier},                                                      \
        [MODEL_SEQ2SEQ_LM] = {                                                                                         \
            .class_name = prefix "ForConditionalGeneration", .logits = seq2seq_lm, .untied = "lm_head.weight"},        \
    }
static const struct model_head heads[MODEL_COUNT] = HEADS("T5"), mt5_heads[MODEL_COUNT] = HEADS("MT5");

#define ARCH(type, prefix, its_heads, its_config, its_known)                                                           \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = "no limit but", .base_prefix = "transformer.",    \
        .layer_prefix = "encoder.block.", .second_prefix = "decoder.block.", .tied = tied, .ignored = ignored,         \
        .heads = its_heads, .adapted = "q,v", .known = its_known, .config = its_config, .body = body,                  \
    }
const struct model_arch arch_t5 = ARCH("t5", "T5", heads, config, "t5-small, t5-v1_1-base, flan-t5-base");
const struct model_arch arch_mt5 = ARCH("mt5", "MT5", mt5_heads, mt5_config, "mt5-small");
