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
                                            .bias = "cls.predictions.bias",
                                            .words = ENCODER_WORDS};
    return encoder_masked_lm(b, v, &head, b->c->own.encoder.act);
}

static int token_classifier(struct build *b, int v)
{
    return encoder_token_classifier(b, v, build_p_classifier(b), "classifier");
}

#define HEADS(prefix)                                                                                                  \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "classifier.weight",                                              \
                                           .logits = classifier},                                                      \
        [MODEL_MASKED_LM] = {.class_name = prefix "ForMaskedLM",                                                       \
                             .weight = "cls.predictions.transform.dense.weight",                                       \
                             .logits = masked_lm},                                                                     \
        [MODEL_TOKEN_CLASSIFICATION] = {.class_name = prefix "ForTokenClassification",                                 \
                                        .weight = "classifier.weight",                                                 \
                                        .logits = token_classifier},                                                   \
        [MODEL_QUESTION_ANSWERING] = {                                                                                 \
            .class_name = prefix "ForQuestionAnswering", .weight = "qa_outputs.weight", .logits = encoder_answers},    \
    }
static const struct model_head bert_heads[MODEL_COUNT] = HEADS("Bert");
static const struct model_head ernie_heads[MODEL_COUNT] = HEADS("Ernie");
static const struct model_head megatron_bert_heads[MODEL_COUNT] = HEADS("MegatronBert");

#define TIED(prefix)                                                                                                   \
    {"cls.predictions.decoder.weight", prefix ENCODER_WORDS ".weight"},                                                \
    {                                                                                                                  \
        "cls.predictions.decoder.bias", "cls.predictions.bias"                                                         \
    }
static const struct tied_name bert_tied[] = {TIED("bert."), {0}};
static const struct tied_name ernie_tied[] = {TIED("ernie."), {0}};

static const char *const ignored[] = {"embeddings.position_ids", NULL};

#define ARCH(type, prefix, its_base, its_tied, its_heads, its_adapted, its_known, its_config, its_body)                \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = "max_position_embeddings",                        \
        .base_prefix = its_base, .layer_prefix = "encoder.layer.", .tied = its_tied, .ignored = ignored,               \
        .heads = its_heads, .adapted = its_adapted, .known = its_known, .refused = encoder_refused,                    \
        .config = its_config, .body = its_body,                                                                        \
    }
const struct model_arch arch_bert = ARCH("bert", "Bert", "bert.", bert_tied, bert_heads, "query,value",
                                         "bert-base-uncased, bert-large-cased", config, body);
const struct model_arch arch_ernie = ARCH("ernie", "Ernie", "ernie.", ernie_tied, ernie_heads, NULL,
                                          "ernie-2.0-base-en, ernie-3.0-base-zh", ernie_config, body);
const struct model_arch arch_megatron_bert =
    ARCH("megatron-bert", "MegatronBert", "bert.", bert_tied, megatron_bert_heads, NULL, "megatron-bert-uncased-345m",
         megatron_bert_config, megatron_bert_body);
