/* ModernBERT (Warner et al., arXiv 2412.13663) as transformers' modeling_modernbert: an encoder with norms before the blocks, rotary
 * positions, a gated feed-forward block, and layers that see a window on both sides; these have a rotary base of their own. */
#include "model/build.h"
#include "model/refused.h"

#include <math.h>
#include <string.h>

#define WORDS "model.embeddings.tok_embeddings.weight"

/* ---- config.json ---- */

static int read_biases(json_t *o, const char *path, struct modernbert_config *own, struct snug_err *err)
{
    own->decoder_bias = true;
    TRY(json_get_bool(o, path, "norm_bias", false, &own->norm_bias, err));
    TRY(json_get_bool(o, path, "attention_bias", false, &own->attention_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    TRY(json_get_bool(o, path, "classifier_bias", false, &own->classifier_bias, err));
    return json_get_bool(o, path, "decoder_bias", false, &own->decoder_bias, err);
}

static int read_dropout(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->dropout_classifier = 0;
    TRY(json_get_real(o, path, "embedding_dropout", false, 0, 0.999, &c->dropout_embedding, err));
    TRY(json_get_real(o, path, "mlp_dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_dropout", false, 0, 0.999, &c->dropout_attention, err));
    return json_get_real(o, path, "classifier_dropout", false, 0, 0.999, &c->dropout_classifier, err);
}

/* `layer_types` says which layers see a window; older files have every third one see everything, the first among them. */
static int read_windows(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct modernbert_config *own = &c->own.modernbert;
    json_t *types = json_object_get(o, "layer_types");
    int64_t full_every = 3, width = 128;
    char text[64];
    TRY(json_get_int(o, path, "local_attention", false, 1, 1 << 30, &width, err));
    TRY(json_get_int(o, path, "global_attn_every_n_layers", false, 1, 1 << 30, &full_every, err));
    own->window = width / 2 + 1;
    types = json_is_null(types) ? NULL : types;
    if (types && (!json_is_array(types) || (int64_t)json_array_size(types) != c->layers))
        return err_set(err, SNUG_ERR_INPUT, "%s: layer_types is %s; write a list of num_hidden_layers %lld values",
                       path, json_is_array(types) ? "a list of another length" : json_value_text(types, text),
                       (long long)c->layers);
    for (int64_t i = 0; i < c->layers; i++) {
        json_t *type = json_array_get(types, (size_t)i);
        const char *name = json_is_string(type) ? json_string_value(type) : "";
        own->slides[i] = types ? !strcmp(name, "sliding_attention") : i % full_every != 0;
        if (types && !own->slides[i] && strcmp(name, "full_attention") != 0)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: layer_types has %s; supported are full_attention, sliding_attention", path,
                           json_value_text(type, text));
    }
    return SNUG_OK;
}

static int read_rotary(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    int64_t D = c->hidden_size / c->heads;
    const struct rotary_model all = {.head_size = D,
                                     .positions = c->longest,
                                     .theta = 160000,
                                     .layer_type = "full_attention",
                                     .theta_key = "global_rope_theta"},
                              window = {.head_size = D,
                                        .positions = c->longest,
                                        .theta = 1e4,
                                        .layer_type = "sliding_attention",
                                        .theta_key = "local_rope_theta"};
    TRY(rotary_read(o, path, &all, &c->rotary[ROTARY_ALL], err));
    return rotary_read(o, path, &window, &c->rotary[ROTARY_WINDOW], err);
}

static int read_pooling(json_t *o, const char *path, struct modernbert_config *own, struct snug_err *err)
{
    const char *pooling = "cls";
    TRY(json_get_string(o, path, "classifier_pooling", false, &pooling, err));
    own->pools_mean = !strcmp(pooling, "mean");
    return SNUG_OK;
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct modernbert_config *own = &c->own.modernbert;
    c->longest = 8192, c->pad_id = 50283, c->init_std = 0.02;
    own->norm_eps = 1e-5;
    TRY(json_get_int(o, path, "hidden_size", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", true, 1, MAX_LAYERS, &c->layers, err));
    TRY(json_get_int(o, path, "num_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "intermediate_size", true, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 30, &c->longest, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(config_act(o, path, "hidden_activation", ACT_gelu, &own->act, err));
    TRY(config_act(o, path, "classifier_activation", ACT_gelu, &own->head_act, err));
    TRY(config_check_heads(c, path, "hidden_size", "num_attention_heads", err));
    TRY(read_biases(o, path, own, err));
    TRY(read_dropout(o, path, c, err));
    TRY(read_windows(o, path, c, err));
    TRY(read_rotary(o, path, c, err));
    TRY(read_pooling(o, path, own, err));
    return config_tied(o, path, c, err);
}

/* ---- the forward pass ---- */

/* The residual stream is res + dropout(branch); the norm of the next block adds them. */
struct stream {
    int branch, res, coords;
    double p;
};

static int norm(struct build *b, struct stream *s, const char *prefix)
{
    const struct modernbert_config *own = &b->c->own.modernbert;
    struct op_norm n = build_norm(b, s->branch, prefix,
                                  (struct norm_options){.res = s->res,
                                                        .coords = s->coords,
                                                        .p = s->p,
                                                        .eps = own->norm_eps,
                                                        .site = b->site++,
                                                        .no_bias = !own->norm_bias});
    s->res = n.h ? n.h : s->branch;
    return n.y;
}

static const char *of_layer(struct build *b, int i, const char *name)
{
    return graph_name(b->g, "model.layers.%d.%s", i, name);
}

/* Products that end a block begin narrower, by the depth of the model. */
static struct layer_options product(const struct build *b, bool bias, bool ends_block)
{
    struct layer_options o = {.weight = b->normal, .bias = b->zero, .no_bias = !bias};
    if (ends_block)
        o.weight.std /= sqrt(2.0 * (double)b->c->layers);
    return o;
}

static int attend(struct build *b, int i, int v, const int *tables, bool first_only)
{
    const struct model_config *c = b->c;
    const struct modernbert_config *own = &c->own.modernbert;
    int64_t H = c->hidden_size;
    bool slides = own->slides[i];
    v = build_linear(b, v, of_layer(b, i, "attn.Wqkv"), H, 3 * H, product(b, own->attention_bias, false));
    struct op_rotary turn = {
        .qkv = v, .table = tables[slides ? ROTARY_WINDOW : ROTARY_ALL], .heads = c->heads, .kv_heads = c->heads};
    emit_rotary(b->g, &turn);
    return build_attention(b, turn.y,
                           (struct attention_options){
                               .head_size = H / c->heads, .queries = first_only, .window = slides ? own->window : 0});
}

static int feed_forward(struct build *b, int i, int v, int coords)
{
    const struct modernbert_config *own = &b->c->own.modernbert;
    int64_t H = b->c->hidden_size, F = own->intermediate_size;
    v = build_linear(b, v, of_layer(b, i, "mlp.Wi"), H, 2 * F, product(b, own->mlp_bias, false));
    struct op_glu gate = {.x = v, .act = own->act};
    emit_glu(b->g, &gate);
    v = build_dropout(b, gate.y, coords, build_p(b, b->c->dropout_hidden));
    return build_linear(b, v, of_layer(b, i, "mlp.Wo"), F, H, product(b, own->mlp_bias, true));
}

/* The first layer reads the embeddings, which are normalised. Behind the last layer's attention everything is row by row, and a
 * classifier may want the first rows alone. */
static void layer(struct build *b, struct stream *s, int i, const int *tables, bool first_only)
{
    int64_t H = b->c->hidden_size;
    int v = s->branch;
    if (i)
        v = norm(b, s, of_layer(b, i, "attn_norm"));
    else
        s->res = v;
    v = attend(b, i, v, tables, first_only);
    if (first_only) {
        v = build_first_rows(b, v);
        s->res = build_first_rows(b, s->res);
        s->coords = b->in.samples;
    }
    s->branch =
        build_linear(b, v, of_layer(b, i, "attn.Wo"), H, H, product(b, b->c->own.modernbert.attention_bias, true));
    s->p = build_p(b, b->c->dropout_attention);
    v = norm(b, s, of_layer(b, i, "mlp_norm"));
    s->p = 0;
    s->branch = feed_forward(b, i, v, s->coords);
}

static int embeddings(struct build *b)
{
    const struct model_config *c = b->c;
    struct init words = b->normal;
    words.zero_row = c->pad_id;
    struct op_embed e = {.ids = b->in.ids, .table = WEIGHT(b, words, WORDS, DIM(c->vocab_size), DIM(c->hidden_size))};
    emit_embed(b->g, &e);
    struct stream s = {.branch = e.y};
    return build_dropout(b, norm(b, &s, "model.embeddings.norm"), b->in.coords, build_p(b, c->dropout_embedding));
}

static int body(struct build *b)
{
    const struct model_config *c = b->c;
    bool one_row = !model_task(c)->per_token, mean = c->own.modernbert.pools_mean;
    struct stream s = {.branch = embeddings(b), .coords = b->in.coords};
    int tables[ROTARY_KINDS];
    for (int k = 0; k < ROTARY_KINDS; k++)
        tables[k] = build_rotary_table(b, k);
    for (int i = 0; i < c->layers; i++) {
        b->g->layer = i + 1;
        layer(b, &s, i, tables, one_row && !mean && i == c->layers - 1);
    }
    b->g->layer = (int)c->layers + 1;
    int v = norm(b, &s, "model.final_norm");
    return one_row && mean ? build_mean_rows(b, v) : v;
}

/* ---- heads ---- */

static int head(struct build *b, int v)
{
    const struct modernbert_config *own = &b->c->own.modernbert;
    struct layer_options dense = product(b, own->classifier_bias, true);
    dense.act = own->head_act;
    dense.weight.head = dense.bias.head = true;
    v = build_linear(b, v, "head.dense", b->c->hidden_size, b->c->hidden_size, dense);
    struct norm_options norm = {.eps = own->norm_eps, .no_bias = !own->norm_bias, .head = true};
    return build_norm(b, v, "head.norm", norm).y;
}

/* Of sequences or tokens; coords: that of the rows. */
static int labels_of(struct build *b, int v, int coords)
{
    struct layer_options labels = product(b, true, false);
    labels.weight.std = 1 / sqrt((double)b->c->hidden_size);
    labels.weight.head = labels.bias.head = true;
    v = build_dropout(b, head(b, v), coords, build_p_classifier(b));
    return build_linear(b, v, "classifier", b->c->hidden_size, b->c->num_labels, labels);
}

static int classifier(struct build *b, int v)
{
    return labels_of(b, v, b->in.samples);
}

static int token_classifier(struct build *b, int v)
{
    return labels_of(b, v, b->in.coords);
}

static int masked_lm(struct build *b, int v)
{
    struct init bias = b->zero;
    bias.head = true;
    struct op_linear decoder = {.x = head(b, v), .w = graph_find(b->g, WORDS)};
    if (b->c->own.modernbert.decoder_bias)
        decoder.b = WEIGHT(b, bias, "decoder.bias", DIM(b->c->vocab_size));
    emit_linear(b->g, &decoder);
    return decoder.y;
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "ModernBertForSequenceClassification",
                                       .weight = "classifier.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "ModernBertForMaskedLM", .weight = "head.dense.weight", .logits = masked_lm},
    [MODEL_TOKEN_CLASSIFICATION] = {.class_name = "ModernBertForTokenClassification",
                                    .weight = "classifier.weight",
                                    .logits = token_classifier},
    [MODEL_QUESTION_ANSWERING] = {
        .class_name = "ModernBertForQuestionAnswering", .weight = "classifier.weight", .logits = token_classifier}};

static const struct tied_name tied[] = {{"decoder.weight", WORDS}, {0}};

static const char *const ignored[] = {"rotary_emb.inv_freq", NULL};

static const struct refused refused[] = {
    {.key = "rope_scaling", .kind = REFUSED_PRESENT},
    {.key = "classifier_pooling", .kind = REFUSED_OTHER, .words = {"cls", "mean"}},
    {0},
};

const struct model_arch arch_modernbert = {.model_type = "modernbert",
                                           .known = "ModernBERT-base, ModernBERT-large",
                                           .class_prefix = "ModernBert",
                                           .positions_key = "max_position_embeddings",
                                           .base_prefix = "model.",
                                           .layer_prefix = "layers.",
                                           .tied = tied,
                                           .ignored = ignored,
                                           .heads = heads,
                                           .refused = refused,
                                           .config = config,
                                           .body = body};
