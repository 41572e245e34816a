/* BART (Lewis et al., arXiv 1910.13461) and its relatives as transformers' modeling_bart and so on: an encoder and a decoder of BERT's
 * kind. The output is a product with the input's embeddings, with a bias that is not trained. A classifier's decoder reads the text that
 * its encoder reads, one token later, and the head what the decoder makes of the end token.
 *
 *                                                   positions    norms                                 behind the embeddings
 *     BART                                          learned      behind each block                     a norm
 *     mBART (Liu et al., arXiv 2001.08210)          learned      before each block, behind each stack  a norm
 *     Marian (Junczys-Dowmunt et al., 1804.00344)   sines        behind each block                     nothing
 *     Pegasus (Zhang et al., arXiv 1912.08777)      sines        before each block, behind each stack  nothing
 *     M2M-100 (Fan et al., 2010.11125), NLLB (Costa-jussa et al., 2207.04672): as Pegasus, without the bias */
#include "model/encoder.h"

#include <math.h>

#define WORDS "model.shared.weight"

enum { FIRST_POSITION = 2 }; /* those tables of positions have two rows more, which nobody reads */

/* What a class has where its config.json says nothing is there before. */
static int read_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct bart_config *own = &c->own.bart;
    c->longest = 1024, c->init_std = 0.02;
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
    TRY(config_act(o, path, "activation_function", own->act, &own->act, err));
    TRY(config_tied(o, path, c, err));
    c->dropout_embedding = c->dropout_hidden;
    return config_check_heads(c, path, "d_model", "encoder_attention_heads", err);
}

/* As most of them have it: the decoder reads the same token before each target. */
static int read_with_start(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    TRY(read_config(o, path, c, err));
    c->start_id = c->writes_after;
    return SNUG_OK;
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->pad_id = 1, c->end_id = 2, c->writes_after = 2, c->first_position = FIRST_POSITION;
    c->own.bart = (struct bart_config){.act = ACT_gelu, .norms_words = true};
    return read_with_start(o, path, c, err);
}

/* A target's last token, which may be its language, is what the decoder reads first. */
static int mbart_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->pad_id = 1, c->end_id = 2, c->first_position = FIRST_POSITION;
    c->own.bart = (struct bart_config){.act = ACT_gelu, .norms_words = true, .norms_first = true};
    c->start_id = START_IS_LAST;
    TRY(json_get_int(o, path, "bos_token_id", false, 0, 1 << 24, &c->writes_after, err));
    return read_config(o, path, c, err);
}

static int marian_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    int64_t words;
    c->pad_id = 58100, c->end_id = 0, c->writes_after = 58100;
    c->own.bart = (struct bart_config){.act = ACT_gelu, .positions = BART_SINES};
    TRY(read_with_start(o, path, c, err));
    words = c->vocab_size;
    TRY(json_get_int(o, path, "decoder_vocab_size", false, 1, 1 << 24, &words, err));
    if (words != c->vocab_size)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: decoder_vocab_size is %lld, not vocab_size, which is not supported; use "
                       "a model with one vocabulary",
                       path, (long long)words);
    return SNUG_OK;
}

static int pegasus_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->pad_id = 0, c->end_id = 1, c->writes_after = 0;
    c->own.bart = (struct bart_config){.act = ACT_gelu, .positions = BART_SINES, .norms_first = true};
    return read_with_start(o, path, c, err);
}

/* Its class drops layers where config.json does not say how many. */
static int m2m_100_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    double drops;
    c->pad_id = 1, c->end_id = 2, c->writes_after = 2, c->first_position = FIRST_POSITION, c->dropout_attention = 0.1;
    c->own.bart = (struct bart_config){
        .act = ACT_relu, .positions = BART_SINES_OF_F32, .norms_first = true, .scales = true, .no_bias = true};
    TRY(json_get_real(o, path, "encoder_layerdrop", true, 0, 1, &drops, err));
    TRY(json_get_real(o, path, "decoder_layerdrop", true, 0, 1, &drops, err));
    return read_with_start(o, path, c, err);
}

/* What is a stack's own. What goes through its layers is `res` + dropout(`branch`), or `res` where branch is 0. */
struct stack {
    const char *name;
    int ids, positions, cu, coords; /* of its rows */
    int source;                     /* of a decoder: what the encoder gives; 0: it is an encoder */
    int64_t size;                   /* of its feed-forward blocks */
    int res, branch;
};

/* Sines are calculated, and no file has to have them. */
static int positions_of(struct build *b, const struct stack *s)
{
    const struct model_config *c = b->c;
    enum bart_positions kind = c->own.bart.positions;
    double half = (double)(c->hidden_size / 2);
    struct init sines = {.kind = INIT_SINES, .zero_row = -1, .std = 1 / half};
    if (kind == BART_SINES_OF_F32)
        sines.std = 1 / (half - 1), sines.rounded = true;
    int id = WEIGHT(b, kind == BART_LEARNED ? b->normal : sines, graph_name(b->g, "%s.embed_positions.weight", s->name),
                    DIM(c->first_position + c->longest), DIM(c->hidden_size));
    if (id)
        graph_value(b->g, id)->frozen = kind != BART_LEARNED;
    return id;
}

static int embeddings(struct build *b, const struct stack *s)
{
    const struct model_config *c = b->c;
    struct init words = b->normal;
    words.zero_row = c->pad_id;
    int table = WEIGHT(b, words, WORDS, DIM(c->vocab_size), DIM(c->hidden_size)), positions = positions_of(b, s);
    struct op_embed e = {.ids = s->ids, .table = table, .still = c->pad_id + 1};
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
    if (c->own.bart.norms_words)
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
    if (!b->c->own.bart.no_bias)
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
    {.key = "share_encoder_decoder_embeddings", .kind = REFUSED_FALSE},
    {0},
};

#define WRITER(class) [MODEL_SEQ2SEQ_LM] = {.class_name = class, .logits = seq2seq_lm}
#define HEADS(prefix)                                                                                                  \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "classification_head.out_proj.weight",                            \
                                           .logits = classifier},                                                      \
        WRITER(prefix "ForConditionalGeneration"),                                                                     \
    }
static const struct model_head heads[MODEL_COUNT] = HEADS("Bart"), mbart_heads[MODEL_COUNT] = HEADS("MBart"),
                               marian_heads[MODEL_COUNT] = {WRITER("MarianMTModel")},
                               pegasus_heads[MODEL_COUNT] = {WRITER("PegasusForConditionalGeneration")},
                               m2m_100_heads[MODEL_COUNT] = {WRITER("M2M100ForConditionalGeneration")};

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
const struct model_arch arch_marian =
    ARCH("marian", "Marian", marian_heads, marian_config, "opus-mt-en-de, opus-mt-fr-en, opus-mt-mul-en");
const struct model_arch arch_pegasus =
    ARCH("pegasus", "Pegasus", pegasus_heads, pegasus_config, "pegasus-xsum, pegasus-cnn_dailymail, pegasus-large");
const struct model_arch arch_m2m_100 =
    ARCH("m2m_100", "M2M100", m2m_100_heads, m2m_100_config, "nllb-200-distilled-600M, nllb-200-1.3B, m2m100_418M");
