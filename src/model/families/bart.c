/* BART (Lewis et al., arXiv 1910.13461) as transformers' modeling_bart: an encoder and a decoder of BERT's kind, with norms behind each
 * block, learned positions and biases. The output is a product with the input's embeddings, with a bias that is not trained. */
#include "model/build.h"

#include <math.h>

#define WORDS "model.shared.weight"

enum { FIRST_POSITION = 2 }; /* the tables of positions have two rows more, which nobody reads */

/* Both stacks have their own keys for what must be the same here. */
static int read_same(json_t *o, const char *path, const char *key, const char *other, int64_t most, int64_t *out,
                     struct snug_err *err)
{
    int64_t second;
    TRY(json_get_int(o, path, key, true, 1, most, out, err));
    TRY(json_get_int(o, path, other, true, 1, most, &second, err));
    if (second == *out)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_INPUT, "%s: %s is %lld and %s %lld; use a model that has as many of both", path, key,
                   (long long)*out, other, (long long)second);
}

static int refuse_layerdrop(json_t *o, const char *path, const char *key, struct snug_err *err)
{
    double p = 0;
    TRY(json_get_real(o, path, key, false, 0, 1, &p, err));
    return p > 0 ? err_set(err, SNUG_ERR_INPUT, "%s: %s is %g and not supported; set it to 0", path, key, p) : SNUG_OK;
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct bart_config *own = &c->own.bart;
    c->pad_id = 1, c->start_id = 2, c->longest = 1024, c->init_std = 0.02;
    c->dropout_hidden = 0.1;
    TRY(json_get_int(o, path, "d_model", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "encoder_layers", true, 1, MAX_LAYERS / 2, &c->stack_layers, err));
    TRY(json_get_int(o, path, "decoder_layers", true, 1, MAX_LAYERS / 2, &c->layers, err));
    c->layers += c->stack_layers;
    TRY(read_same(o, path, "encoder_attention_heads", "decoder_attention_heads", 4095, &c->heads, err));
    TRY(json_get_int(o, path, "encoder_ffn_dim", true, 1, 1 << 22, &own->encoder_size, err));
    TRY(json_get_int(o, path, "decoder_ffn_dim", true, 1, 1 << 22, &own->decoder_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 20, &c->longest, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_int(o, path, "decoder_start_token_id", false, 0, c->vocab_size - 1, &c->start_id, err));
    TRY(json_get_real(o, path, "init_std", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    TRY(json_get_real(o, path, "activation_dropout", false, 0, 0.999, &own->dropout_activation, err));
    TRY(json_get_bool(o, path, "scale_embedding", false, &own->scales, err));
    TRY(config_act(o, path, "activation_function", ACT_gelu, &own->act, err));
    TRY(refuse_layerdrop(o, path, "encoder_layerdrop", err));
    TRY(refuse_layerdrop(o, path, "decoder_layerdrop", err));
    TRY(config_tied(o, path, c, err));
    c->dropout_embedding = c->dropout_hidden;
    c->first_position = FIRST_POSITION;
    return config_check_heads(c, path, "d_model", "encoder_attention_heads", err);
}

/* What is a stack's own. */
struct stack {
    const char *name;
    int ids, positions, cu, coords; /* of its rows */
    int source;                     /* of a decoder: what the encoder gives; 0: it is an encoder */
    int64_t size;                   /* of its feed-forward blocks */
};

static int embeddings(struct build *b, const struct stack *s)
{
    const struct model_config *c = b->c;
    const struct dim H = DIM(c->hidden_size);
    struct init words = b->normal;
    words.zero_row = c->pad_id;
    int table = WEIGHT(b, words, WORDS, DIM(c->vocab_size), H);
    int positions = WEIGHT(b, b->normal, graph_name(b->g, "%s.embed_positions.weight", s->name),
                           DIM(FIRST_POSITION + c->longest), H);
    struct op_embed e = {.ids = s->ids, .table = table};
    int v;
    if (c->own.bart.scales) {
        struct op_embed p = {.ids = s->positions, .table = positions};
        emit_embed(b->g, &e);
        struct op_scale scaled = {.x = e.y, .by = sqrt((double)c->hidden_size)};
        emit_scale(b->g, &scaled);
        emit_embed(b->g, &p);
        struct op_add sum = {.a = scaled.y, .b = p.y};
        emit_add(b->g, &sum);
        v = sum.y;
    } else {
        e.ids2 = s->positions, e.table2 = positions;
        emit_embed(b->g, &e);
        v = e.y;
    }
    v = build_norm(b, v, graph_name(b->g, "%s.layernorm_embedding", s->name), (struct norm_options){.eps = 1e-5}).y;
    return build_dropout(b, v, s->coords, build_p(b, c->dropout_hidden));
}

static struct layer_options plain(const struct build *b)
{
    return (struct layer_options){.weight = b->normal, .bias = b->zero};
}

/* norm(res + dropout(v)) */
static int add_and_norm(struct build *b, const struct stack *s, int v, int res, const char *layer, const char *name)
{
    struct norm_options o = {
        .res = res, .coords = s->coords, .p = build_p(b, b->c->dropout_hidden), .eps = 1e-5, .site = b->site++};
    return build_norm(b, v, graph_name(b->g, "%s.%s", layer, name), o).y;
}

/* One product for the keys and values of x, and for its queries too. */
static int heads_of(struct build *b, int x, const char *prefix, bool queries)
{
    int64_t H = b->c->hidden_size;
    const struct part parts[] = {{graph_name(b->g, "%s.q_proj", prefix), H},
                                 {graph_name(b->g, "%s.k_proj", prefix), H},
                                 {graph_name(b->g, "%s.v_proj", prefix), H}};
    const char *whole = graph_name(b->g, "%s.%s", prefix, queries ? "qkv_proj" : "kv_proj");
    return build_parts(b, x, whole, H, queries ? parts : parts + 1, queries ? 3 : 2, plain(b));
}

static int attend(struct build *b, const struct stack *s, int v, const char *layer)
{
    const char *prefix = graph_name(b->g, "%s.self_attn", layer);
    int64_t H = b->c->hidden_size;
    struct attention_options o = {
        .head_size = H / b->c->heads, .causal = s->source != 0, .cu = s->cu, .coords = s->coords};
    int a = build_attention(b, heads_of(b, v, prefix, true), o);
    a = build_linear(b, a, graph_name(b->g, "%s.out_proj", prefix), H, H, plain(b));
    return add_and_norm(b, s, a, v, layer, "self_attn_layer_norm");
}

static int attend_to_source(struct build *b, const struct stack *s, int v, const char *layer)
{
    const char *prefix = graph_name(b->g, "%s.encoder_attn", layer);
    int64_t H = b->c->hidden_size;
    struct general_options o = {.kv = heads_of(b, s->source, prefix, false),
                                .kv_cu = b->in.source_cu_seqlens,
                                .cu = s->cu,
                                .coords = s->coords,
                                .scale = 1 / sqrt((double)(H / b->c->heads))};
    int a = build_linear(b, v, graph_name(b->g, "%s.q_proj", prefix), H, H, plain(b));
    a = build_general_attention(b, a, o);
    a = build_linear(b, a, graph_name(b->g, "%s.out_proj", prefix), H, H, plain(b));
    return add_and_norm(b, s, a, v, layer, "encoder_attn_layer_norm");
}

static int feed_forward(struct build *b, const struct stack *s, int v, const char *layer)
{
    int64_t H = b->c->hidden_size;
    struct layer_options act = plain(b);
    act.act = b->c->own.bart.act;
    int f = build_linear(b, v, graph_name(b->g, "%s.fc1", layer), H, s->size, act);
    f = build_dropout(b, f, s->coords, build_p(b, b->c->own.bart.dropout_activation));
    f = build_linear(b, f, graph_name(b->g, "%s.fc2", layer), s->size, H, plain(b));
    return add_and_norm(b, s, f, v, layer, "final_layer_norm");
}

/* Layers `first` … first + n - 1 of the model. Gives the stack's output. */
static int run_stack(struct build *b, const struct stack *s, int first, int n)
{
    int v = embeddings(b, s);
    for (int i = 0; i < n; i++) {
        const char *layer = graph_name(b->g, "%s.layers.%d", s->name, i);
        b->g->layer = first + i;
        v = attend(b, s, v, layer);
        if (s->source)
            v = attend_to_source(b, s, v, layer);
        v = feed_forward(b, s, v, layer);
    }
    return v;
}

static int body(struct build *b)
{
    const struct inputs *in = &b->in;
    const struct bart_config *own = &b->c->own.bart;
    int layers = (int)b->c->stack_layers;
    struct stack encoder = {"model.encoder",       in->source_ids,    in->source_positions,
                            in->source_cu_seqlens, in->source_coords, 0,
                            own->encoder_size};
    struct stack decoder = {"model.decoder", in->ids, in->positions, in->cu_seqlens, in->coords, 0, own->decoder_size};
    decoder.source = run_stack(b, &encoder, 1, layers);
    return run_stack(b, &decoder, layers + 1, (int)b->c->layers - layers);
}

/* The bias is a buffer of the class, a row in files; published ones are 0. */
static int seq2seq_lm(struct build *b, int v)
{
    struct init bias = b->zero;
    bias.head = true;
    struct op_linear n = {.x = v, .w = graph_find(b->g, WORDS)};
    n.b = WEIGHT(b, bias, "final_logits_bias", DIM(b->c->vocab_size));
    if (n.b)
        graph_value(b->g, n.b)->frozen = graph_value(b->g, n.b)->row = true;
    emit_linear(b->g, &n);
    return n.y;
}

static const struct tied_name tied[] = {
    {"encoder.embed_tokens.weight", WORDS}, {"decoder.embed_tokens.weight", WORDS}, {"lm_head.weight", WORDS}, {0}};

static const char *const ignored[] = {NULL};

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQ2SEQ_LM] = {.class_name = "BartForConditionalGeneration", .logits = seq2seq_lm}};

const struct model_arch arch_bart = {.model_type = "bart",
                                     .class_prefix = "Bart",
                                     .positions_key = "max_position_embeddings",
                                     .base_prefix = "model.",
                                     .layer_prefix = "encoder.layers.",
                                     .second_prefix = "decoder.layers.",
                                     .tied = tied,
                                     .ignored = ignored,
                                     .heads = heads,
                                     .adapted = "q_proj,v_proj",
                                     .config = config,
                                     .body = body};
