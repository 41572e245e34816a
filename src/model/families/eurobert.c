/* EuroBERT (Boizard et al., arXiv 2503.05500) as transformers' modeling_eurobert: Llama's blocks, whose tokens see those behind them. */
#include "model/decoder.h"
#include "model/refused.h"

#include <string.h>

static int read_pooling(json_t *o, const char *path, struct decoder_config *own, struct snug_err *err)
{
    const char *pooling = "late";
    TRY(json_get_string(o, path, "classifier_pooling", false, &pooling, err));
    own->pooling = !strcmp(pooling, "bos") ? POOL_FIRST : !strcmp(pooling, "mean") ? POOL_MEAN : POOL_LATE;
    return SNUG_OK;
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 8192, c->pad_id = 128001, c->untied = true;
    own->norm_eps = 1e-5, own->both_ways = true;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    own->head_bias = own->mlp_bias;
    TRY(read_pooling(o, path, own, err));
    return decoder_config(o, path, c, 1e4, err);
}

static int labels_of(struct build *b, int v)
{
    return build_head_linear(b, v, "classifier", b->c->hidden_size, b->c->num_labels, ACT_none);
}

static int classifier(struct build *b, int v)
{
    int64_t H = b->c->hidden_size;
    enum pooling pooling = b->c->own.decoder.pooling;
    v = pooling == POOL_MEAN ? build_mean_rows(b, v) : v;
    v = labels_of(b, build_head_linear(b, v, "dense", H, H, ACT_gelu));
    return pooling == POOL_LATE ? build_mean_rows(b, v) : v;
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "EuroBertForSequenceClassification",
                                       .weight = "classifier.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "EuroBertForMaskedLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"},
    [MODEL_TOKEN_CLASSIFICATION] = {
        .class_name = "EuroBertForTokenClassification", .weight = "classifier.weight", .logits = labels_of}};

static const struct refused refused[] = {
    {.key = "clf_pooling", .kind = REFUSED_OTHER, .words = {"late"}}, /* its makers' key */
    {.key = "classifier_pooling", .kind = REFUSED_OTHER, .words = {"bos", "mean", "late"}},
    {0},
};

const struct model_arch arch_eurobert =
    DECODER("eurobert", "EuroBert", heads, config, NULL, "EuroBERT-210m, EuroBERT-610m", refused);
