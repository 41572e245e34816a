/* BART (Lewis et al., arXiv 1910.13461) and mBART (Liu et al., arXiv 2001.08210) as transformers' modeling_bart and modeling_mbart: an
 * encoder and a decoder of BERT's kind with learned positions and biases. BART's norms stand behind each block; mBART's before it, and
 * behind each stack. The output is a product with the input's embeddings, with a bias that is not trained. A classifier's decoder reads the
 * text that its encoder reads, one token later, and the head what the decoder makes of the end token. */
#include "model/encoder.h"

#include <math.h>

#define WORDS "model.shared.weight"

enum { FIRST_POSITION = 2 }; /* the tables of positions have two rows more, which nobody reads */

static int read_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct bart_config *own = &c->own.bart;
    c->pad_id = 1, c->end_id = 2, c->longest = 1024, c->init_std = 0.02;
    c->dropout_hidden = 0.1;
    TRY(json_get_int(o, path, "d_model", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "encoder_layers", true, 1, MAX_LAYERS / 2, &c->stack_layers, err));
    TRY(json_get_int(o, path, "decoder_layers", true, 1, MAX_LAYERS / 2, &c->layers, err));
    c->layers += c->stack_layers;
    TRY(json_get_int(o, path, "decoder_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "encoder_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "encoder_ffn_dim", true, 1, 1 << 22, &own->encoder_size, err));
    TRY(json_get_int(o, path, "decoder_ffn_dim", true, 1, 1 << 22, &own->decoder_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 20, &c->longest, err));
    TRY(json_get_int(o, path, "eos_token_id", false, 0, c->vocab_size - 1, &c->end_id, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_int(o, path, "decoder_start_token_id", false, 0, c->vocab_size - 1, &c->writes_after, err));
    TRY(json_get_real(o, path, "init_std", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    TRY(json_get_real(o, path, "classifier_dropout", false, 0, 0.999, &c->dropout_classifier, err));
    TRY(json_get_real(o, path, "activation_dropout", false, 0, 0.999, &own->dropout_activation, err));
    TRY(json_get_bool(o, path, "scale_embedding", false, &own->scales, err));
    TRY(config_act(o, path, "activation_function", ACT_gelu, &own->act, err));
    TRY(config_tied(o, path, c, err));
    c->dropout_embedding = c->dropout_hidden;
    c->first_position = FIRST_POSITION;
    return config_check_heads(c, path, "d_model", "encoder_attention_heads", err);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->writes_after = 2;
    TRY(read_config(o, path, c, err));
    c->start_id = c->writes_after;
    return SNUG_OK;
}

/* A target's last token, which may be its language, is what the decoder reads first. */
static int mbart_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->own.bart.norms_first = true;
    c->start_id = START_IS_LAST;
    TRY(json_get_int(o, path, "bos_token_id", false, 0, 1 << 24, &c->writes_after, err));
    return read_config(o, path, c, err);
}

/* What is a stack's own. What goes through its layers is `res` + dropout(`branch`), or `res` where branch is 0. */
struct stack {
    const char *name;
    int ids, positions, cu, coords; /* of its rows */
    int source;                     /* of a decoder: what the encoder gives; 0: it is an encoder */
    int64_t size;                   /* of its feed-forward blocks */
    int res, branch;
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

/* The norm of the stream, whose sum is then made. */
static int norm(struct build *b, struct stack *s, const char *prefix)
{
    struct norm_options o = {.eps = 1e-5};
    if (s->branch)
        o = (struct norm_options){
            .res = s->res, .coords = s->coords, .p = build_p(b, b->c->dropout_hidden), .eps = 1e-5, .site = b->site++};
    struct op_norm n = build_norm(b, s->branch ? s->branch : s->res, prefix, o);
    s->res = s->branch ? n.h : s->res;
    s->branch = 0;
    return n.y;
}

/* What a block reads, and what becomes of what it gives. */
static int enter(struct build *b, struct stack *s, const char *layer, const char *name)
{
    return b->c->own.bart.norms_first ? norm(b, s, graph_name(b->g, "%s.%s", layer, name)) : s->res;
}

static void leave(struct build *b, struct stack *s, int v, const char *layer, const char *name)
{
    s->branch = v;
    if (!b->c->own.bart.norms_first)
        s->res = norm(b, s, graph_name(b->g, "%s.%s", layer, name));
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

static void attend(struct build *b, struct stack *s, const char *layer)
{
    const char *prefix = graph_name(b->g, "%s.self_attn", layer);
    int64_t H = b->c->hidden_size;
    struct attention_options o = {
        .head_size = H / b->c->heads, .causal = s->source != 0, .cu = s->cu, .coords = s->coords};
    int v = enter(b, s, layer, "self_attn_layer_norm");
    v = build_attention(b, heads_of(b, v, prefix, true), o);
    v = build_linear(b, v, graph_name(b->g, "%s.out_proj", prefix), H, H, plain(b));
    leave(b, s, v, layer, "self_attn_layer_norm");
}

static void attend_to_source(struct build *b, struct stack *s, const char *layer)
{
    const char *prefix = graph_name(b->g, "%s.encoder_attn", layer);
    int64_t H = b->c->hidden_size;
    struct general_options o = {.kv = heads_of(b, s->source, prefix, false),
                                .kv_cu = b->in.source_cu_seqlens,
                                .cu = s->cu,
                                .coords = s->coords,
                                .scale = 1 / sqrt((double)(H / b->c->heads))};
    int v = enter(b, s, layer, "encoder_attn_layer_norm");
    v = build_linear(b, v, graph_name(b->g, "%s.q_proj", prefix), H, H, plain(b));
    v = build_general_attention(b, v, o);
    v = build_linear(b, v, graph_name(b->g, "%s.out_proj", prefix), H, H, plain(b));
    leave(b, s, v, layer, "encoder_attn_layer_norm");
}

static void feed_forward(struct build *b, struct stack *s, const char *layer)
{
    int64_t H = b->c->hidden_size;
    struct layer_options act = plain(b);
    act.act = b->c->own.bart.act;
    int v = enter(b, s, layer, "final_layer_norm");
    v = build_linear(b, v, graph_name(b->g, "%s.fc1", layer), H, s->size, act);
    v = build_dropout(b, v, s->coords, build_p(b, b->c->own.bart.dropout_activation));
    v = build_linear(b, v, graph_name(b->g, "%s.fc2", layer), s->size, H, plain(b));
    leave(b, s, v, layer, "final_layer_norm");
}

/* Of a classifier the last block works row by row, and the head wants one row a sequence. */
static void keep_ends(struct build *b, struct stack *s)
{
    s->res = build_end_rows(b, s->res);
    s->branch = s->branch ? build_end_rows(b, s->branch) : 0;
    s->coords = b->in.samples;
}

/* Layers `first` … first + n - 1 of the model. Gives the stack's output. */
static int run_stack(struct build *b, struct stack *s, int first, int n)
{
    s->res = embeddings(b, s);
    for (int i = 0; i < n; i++) {
        const char *layer = graph_name(b->g, "%s.layers.%d", s->name, i);
        b->g->layer = first + i;
        attend(b, s, layer);
        if (s->source)
            attend_to_source(b, s, layer);
        if (s->source && i == n - 1 && model_reads_twice(b->c))
            keep_ends(b, s);
        feed_forward(b, s, layer);
    }
    return b->c->own.bart.norms_first ? norm(b, s, graph_name(b->g, "%s.layer_norm", s->name)) : s->res;
}

static int body(struct build *b)
{
    const struct inputs *in = &b->in;
    const struct bart_config *own = &b->c->own.bart;
    int layers = (int)b->c->stack_layers;
    struct stack encoder = {.name = "model.encoder",
                            .ids = in->source_ids,
                            .positions = in->source_positions,
                            .cu = in->source_cu_seqlens,
                            .coords = in->source_coords,
                            .size = own->encoder_size};
    struct stack decoder = {.name = "model.decoder",
                            .ids = in->ids,
                            .positions = in->positions,
                            .cu = in->cu_seqlens,
                            .coords = in->coords,
                            .size = own->decoder_size};
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

static int classifier(struct build *b, int v)
{
    v = build_dropout(b, v, b->in.samples, build_p_classifier(b));
    return encoder_classifier(b, v, "classification_head.dense", ACT_tanh, "classification_head.out_proj");
}

static const struct tied_name tied[] = {
    {"encoder.embed_tokens.weight", WORDS}, {"decoder.embed_tokens.weight", WORDS}, {"lm_head.weight", WORDS}, {0}};

static const char *const ignored[] = {"final_logits_bias", NULL};

static int64_t encoder_heads(const struct model_config *c)
{
    return c->heads;
}

static const struct refused refused[] = {
    {.key = "encoder_layerdrop", .kind = REFUSED_ABOVE_0},
    {.key = "decoder_layerdrop", .kind = REFUSED_ABOVE_0},
    {.key = "decoder_attention_heads",
     .kind = REFUSED_UNLIKE,
     .words = {"encoder_attention_heads"},
     .like = encoder_heads},
    {0},
};

#define HEADS(prefix)                                                                                                  \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "classification_head.out_proj.weight",                            \
                                           .logits = classifier},                                                      \
        [MODEL_SEQ2SEQ_LM] = {.class_name = prefix "ForConditionalGeneration", .logits = seq2seq_lm},                  \
    }
static const struct model_head heads[MODEL_COUNT] = HEADS("Bart"), mbart_heads[MODEL_COUNT] = HEADS("MBart");

#define ARCH(type, prefix, its_heads, its_config, its_known)                                                           \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = "max_position_embeddings",                        \
        .base_prefix = "model.", .layer_prefix = "encoder.layers.", .second_prefix = "decoder.layers.", .tied = tied,  \
        .ignored = ignored, .heads = its_heads, .adapted = "q_proj,v_proj", .known = its_known, .refused = refused,    \
        .config = its_config, .body = body,                                                                            \
    }
const struct model_arch arch_bart =
    ARCH("bart", "Bart", heads, config, "bart-base, bart-large-cnn, bart-large-mnli, distilbart-cnn-12-6");
const struct model_arch arch_mbart = ARCH("mbart", "MBart", mbart_heads, mbart_config,
                                          "mbart-large-cc25, mbart-large-50, mbart-large-50-many-to-many-mmt");
