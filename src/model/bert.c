/* BERT (Devlin et al., arXiv 1810.04805) as transformers' modeling_bert: post-norm encoder, pooler and classifier, or
 * the masked language model's head with tied embeddings. */
#include "model/model.h"

#include <math.h>
#include <string.h>

static int read_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    const char *positions = "absolute";
    bool decoder = false, tied = true;
    c->max_positions = 512, c->type_vocab_size = 2, c->pad_id = 0;
    c->norm_eps = 1e-12, c->init_std = 0.02, c->dropout_hidden = c->dropout_attention = 0.1;
    TRY(json_get_int(o, path, "hidden_size", true, 1, 1 << 20, &c->hidden_size, err));
    TRY(json_get_int(o, path, "num_hidden_layers", true, 1, 1000, &c->layers, err));
    TRY(json_get_int(o, path, "num_attention_heads", true, 1, 4095, &c->heads, err));
    TRY(json_get_int(o, path, "intermediate_size", true, 1, 1 << 22, &c->intermediate_size, err));
    TRY(json_get_int(o, path, "vocab_size", true, 1, 1 << 24, &c->vocab_size, err));
    TRY(json_get_int(o, path, "max_position_embeddings", false, 1, 1 << 20, &c->max_positions, err));
    TRY(json_get_int(o, path, "type_vocab_size", false, 1, 1 << 16, &c->type_vocab_size, err));
    TRY(json_get_int(o, path, "pad_token_id", false, 0, 1 << 24, &c->pad_id, err));
    TRY(json_get_real(o, path, "layer_norm_eps", false, 1e-300, 1, &c->norm_eps, err));
    TRY(json_get_real(o, path, "initializer_range", false, 0, 10, &c->init_std, err));
    TRY(json_get_real(o, path, "hidden_dropout_prob", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(json_get_real(o, path, "attention_probs_dropout_prob", false, 0, 0.999, &c->dropout_attention, err));
    c->dropout_classifier = c->dropout_hidden;
    TRY(json_get_real(o, path, "classifier_dropout", false, 0, 0.999, &c->dropout_classifier, err));
    TRY(model_read_act(o, path, "hidden_act", ACT_gelu, &c->act, err));
    TRY(json_get_string(o, path, "position_embedding_type", false, &positions, err));
    TRY(json_get_bool(o, path, "is_decoder", false, &decoder, err));
    TRY(json_get_bool(o, path, "tie_word_embeddings", false, &tied, err));
    if (strcmp(positions, "absolute"))
        return err_set(err, SNUG_ERR_INPUT, "%s: position_embedding_type is \"%s\"; use a model that has \"absolute\"",
                       path, positions);
    if (decoder)
        return err_set(err, SNUG_ERR_INPUT, "%s: is_decoder is true; use a BERT that is an encoder", path);
    c->untied = !tied;
    c->dropout_embedding = c->dropout_hidden;
    c->kv_heads = c->heads;
    return SNUG_OK;
}

struct ctx {
    struct graph *g;
    const struct model_config *c;
    struct inputs in;
    double p, p_attention, p_classifier; /* 0 without dropout */
    int64_t site;                        /* of the next dropout */
    struct init normal, zero;
};

static int dropout(struct ctx *x, int v, int coords, double p)
{
    if (p <= 0)
        return v;
    struct op_dropout d = {.x = v, .coords = coords, .rng = x->in.rng, .p = p, .site = x->site++};
    emit_dropout(x->g, &d);
    return d.y;
}

static int embeddings(struct ctx *x)
{
    struct graph *g = x->g;
    int64_t H = x->c->hidden_size;
    struct init words = x->normal;
    words.zero_row = x->c->pad_id;
    struct op_embed e = {
        .ids = x->in.ids,
        .table = WEIGHT(g, words, "bert.embeddings.word_embeddings.weight", DIM(x->c->vocab_size), DIM(H)),
        .ids2 = x->in.positions,
        .table2 = WEIGHT(g, x->normal, "bert.embeddings.position_embeddings.weight", DIM(x->c->max_positions), DIM(H)),
        .ids3 = x->in.types,
        .table3 =
            WEIGHT(g, x->normal, "bert.embeddings.token_type_embeddings.weight", DIM(x->c->type_vocab_size), DIM(H)),
    };
    emit_embed(g, &e);
    struct op_norm n = model_norm(g, &x->in, e.y, 0, "bert.embeddings.LayerNorm", H, x->c->norm_eps, 0, 0);
    return dropout(x, n.y, x->in.coords, x->p);
}

/* Query, key and value have a weight each in the file and are one product here: (3H,H), its thirds under their own
 * names. */
static int query_key_value(struct ctx *x, int layer, int v)
{
    struct graph *g = x->g;
    int64_t H = x->c->hidden_size;
    static const char *const parts[] = {"query", "key", "value"};
    const char *prefix = graph_name(g, "bert.encoder.layer.%d.attention.self", layer);
    int w = WEIGHT(g, x->normal, graph_name(g, "%s.query_key_value.weight", prefix), DIM(3 * H), DIM(H));
    int b = WEIGHT(g, x->zero, graph_name(g, "%s.query_key_value.bias", prefix), DIM(3 * H));
    for (int i = 0; i < 3 && b; i++) {
        int sw =
            graph_add_slice(g, graph_name(g, "%s.%s.weight", prefix, parts[i]), w, i * H * H, SHAPE(DIM(H), DIM(H)));
        int sb = graph_add_slice(g, graph_name(g, "%s.%s.bias", prefix, parts[i]), b, i * H, SHAPE(DIM(H)));
        graph_value(g, sw)->init = x->normal;
        graph_value(g, sb)->init = x->zero;
        graph_value(g, w)->group = graph_value(g, b)->group = true;
    }
    struct op_linear n = {.x = v, .w = w, .b = b};
    emit_linear(g, &n);
    return n.y;
}

static int first_rows(struct ctx *x, int v)
{
    struct op_gather first = {.x = v, .cu = x->in.cu_seqlens};
    emit_gather(x->g, &first);
    return first.y;
}

/* Gives (T,H); or with `first_only` (B,H), the rows of the first tokens: behind attention everything is row by row, so
 * a classifier, which reads only those, needs no others of the last layer. Their dropout masks are the same: position 0
 * of each sample. */
static int layer(struct ctx *x, int i, int v, bool first_only)
{
    struct graph *g = x->g;
    const struct model_config *c = x->c;
    int64_t H = c->hidden_size, F = c->intermediate_size;
    g->layer = i + 1;
    int qkv = query_key_value(x, i, v);
    struct op_attention a = {.qkv = qkv,
                             .cu = x->in.cu_seqlens,
                             .coords = x->p_attention > 0 ? x->in.coords : 0,
                             .rng = x->p_attention > 0 ? x->in.rng : 0,
                             .heads = c->heads,
                             .kv_heads = c->heads,
                             .scale = 1 / sqrt((double)(H / c->heads)),
                             .p = x->p_attention,
                             .site = x->site++,
                             .longest = c->max_positions,
                             .queries = first_only};
    emit_attention(g, &a);
    struct inputs rows = x->in;
    if (first_only) {
        a.o = first_rows(x, a.o);
        v = first_rows(x, v);
        rows.coords = rows.samples;
    }
    struct layer_options plain = {.weight = x->normal, .bias = x->zero}, act = plain;
    act.act = c->act;
    int y = model_linear(g, a.o, graph_name(g, "bert.encoder.layer.%d.attention.output.dense", i), H, H, plain);
    struct op_norm n = model_norm(g, &rows, y, v, graph_name(g, "bert.encoder.layer.%d.attention.output.LayerNorm", i),
                                  H, c->norm_eps, x->p, x->site++);
    y = model_linear(g, n.y, graph_name(g, "bert.encoder.layer.%d.intermediate.dense", i), H, F, act);
    y = model_linear(g, y, graph_name(g, "bert.encoder.layer.%d.output.dense", i), F, H, plain);
    n = model_norm(g, &rows, y, n.y, graph_name(g, "bert.encoder.layer.%d.output.LayerNorm", i), H, c->norm_eps, x->p,
                   x->site++);
    return n.y;
}

static int classifier(struct ctx *x, int v)
{
    struct layer_options pooler = {.weight = x->normal, .bias = x->zero, .act = ACT_tanh}, head = pooler;
    pooler.weight.head = pooler.bias.head = head.weight.head = head.bias.head = true;
    head.act = ACT_none;
    int64_t H = x->c->hidden_size;
    int pooled = model_linear(x->g, v, "bert.pooler.dense", H, H, pooler);
    pooled = dropout(x, pooled, x->in.samples, x->p_classifier);
    return model_linear(x->g, pooled, "classifier", H, x->c->num_labels, head);
}

static int masked_lm(struct ctx *x, int v)
{
    struct graph *g = x->g;
    int64_t H = x->c->hidden_size, V = x->c->vocab_size;
    struct layer_options transform = {.weight = x->normal, .bias = x->zero, .act = x->c->act};
    transform.weight.head = transform.bias.head = true;
    struct init bias = x->zero;
    bias.head = true;
    int y = model_linear(g, v, "cls.predictions.transform.dense", H, H, transform);
    struct op_norm n = model_norm(g, &x->in, y, 0, "cls.predictions.transform.LayerNorm", H, x->c->norm_eps, 0, 0);
    if (!g->err.code)
        graph_value(g, n.gamma)->init.head = graph_value(g, n.beta)->init.head = true;
    struct op_linear decoder = {.x = n.y,
                                .w = graph_find(g, "bert.embeddings.word_embeddings.weight"),
                                .b = WEIGHT(g, bias, "cls.predictions.bias", DIM(V))};
    emit_linear(g, &decoder);
    return decoder.y;
}

static void build(struct graph *g, const struct model_config *c, bool with_dropout, struct loss_settings loss,
                  struct built *out)
{
    struct ctx x = {.g = g,
                    .c = c,
                    .p = with_dropout ? c->dropout_hidden : 0,
                    .p_attention = with_dropout ? c->dropout_attention : 0,
                    .p_classifier = with_dropout ? c->dropout_classifier : 0,
                    .normal = {.kind = INIT_NORMAL, .std = c->init_std, .zero_row = -1},
                    .zero = {.kind = INIT_ZERO, .zero_row = -1}};
    model_add_inputs(g, c, &x.in);
    int v = embeddings(&x);
    for (int i = 0; i < c->layers; i++)
        v = layer(&x, i, v, !model_task(c)->per_token && i == c->layers - 1);
    g->layer = (int)c->layers + 1;
    static int (*const by_task[MODEL_COUNT])(struct ctx *, int) = {
        [MODEL_SEQUENCE_CLASSIFICATION] = classifier, [MODEL_MASKED_LM] = masked_lm};
    out->logits = by_task[c->task](&x, v);
    out->loss = model_loss(g, c, &x.in, out->logits, loss);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {"BertForSequenceClassification", "classifier.weight"},
    [MODEL_MASKED_LM] = {"BertForMaskedLM", "cls.predictions.transform.dense.weight"}};

const struct model_arch arch_bert = {.model_type = "bert",
                                     .class_prefix = "Bert",
                                     .hidden_key = "hidden_size",
                                     .heads_key = "num_attention_heads",
                                     .positions_key = "max_position_embeddings",
                                     .weight_prefix = "bert.",
                                     .heads = heads,
                                     .config = read_config,
                                     .build = build};
