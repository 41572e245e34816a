/* BERT (Devlin et al., arXiv 1810.04805), ERNIE (Sun et al., arXiv 1907.12412) and Megatron-BERT (Shoeybi et al., arXiv 1909.08053) as
 * transformers' modeling_bert, modeling_ernie and modeling_megatron_bert: pooler and classifier, or the masked language model's head with
 * tied embeddings. ERNIE may have embeddings of tasks; Megatron-BERT's norms stand before the blocks. */
#include "model/encoder.h"

static const struct encoder bert = {ENCODER_NAMES, .tasks = "embeddings.task_type_embeddings",
                                    .norm = "embeddings.LayerNorm", .attention_norm = "attention.output.LayerNorm",
                                    .norm_out = "output.LayerNorm"};

static const struct encoder megatron_bert = {ENCODER_NAMES, .attention_norm = "attention.ln", .norm_out = "ln",
                                             .last = "encoder.ln"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    encoder_defaults(c);
    return encoder_config(o, path, c, err);
}

static int ernie_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    bool tasks = false;
    int64_t rows = 3;
    TRY(config(o, path, c, err));
    TRY(json_get_bool(o, path, "use_task_id", false, &tasks, err));
    TRY(json_get_int(o, path, "task_type_vocab_size", false, 1, 1 << 16, &rows, err));
    c->task_vocab_size = tasks ? rows : 0;
    return SNUG_OK;
}

/* Its classifiers have no dropout of their own. */
static int megatron_bert_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    TRY(config(o, path, c, err));
    c->dropout_classifier = -1;
    return SNUG_OK;
}

static int body(struct build *b)
{
    return encoder_body(b, &bert);
}

static int megatron_bert_body(struct build *b)
{
    return encoder_body(b, &megatron_bert);
}

static int classifier(struct build *b, int v)
{
    return encoder_classifier(b, v, graph_name(b->g, "%spooler.dense", b->c->arch->base_prefix), ACT_tanh,
                              "classifier");
}

static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {.dense = "cls.predictions.transform.dense",
                                            .norm = "cls.predictions.transform.LayerNorm",
                                            .bias = "cls.predictions.bias"};
    return encoder_masked_lm(b, v, &head, b->c->own.encoder.act);
}

#define HEADS(prefix)                                                                                                  \
    ENCODER_HEADS(prefix, classifier, "classifier.weight", masked_lm, "cls.predictions.transform.dense.weight")
static const struct model_head bert_heads[MODEL_COUNT] = HEADS("Bert");
static const struct model_head ernie_heads[MODEL_COUNT] = HEADS("Ernie");
static const struct model_head megatron_bert_heads[MODEL_COUNT] = HEADS("MegatronBert");

static const struct tied_name bert_tied[] = {ENCODER_TIED("bert.", "cls.predictions"), {0}};
static const struct tied_name ernie_tied[] = {ENCODER_TIED("ernie.", "cls.predictions"), {0}};

const struct model_arch arch_bert = ENCODER("bert", "Bert", "bert.", bert_tied, bert_heads, "query,value",
                                            "bert-base-uncased, bert-large-cased", config, body);
const struct model_arch arch_ernie = ENCODER("ernie", "Ernie", "ernie.", ernie_tied, ernie_heads, NULL,
                                             "ernie-2.0-base-en, ernie-3.0-base-zh", ernie_config, body);
const struct model_arch arch_megatron_bert =
    ENCODER("megatron-bert", "MegatronBert", "bert.", bert_tied, megatron_bert_heads, NULL,
            "megatron-bert-uncased-345m", megatron_bert_config, megatron_bert_body);
