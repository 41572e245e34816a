/* RoBERTa (Liu et al., arXiv 1907.11692), CamemBERT (Martin et al., arXiv 1911.03894) and XLM-RoBERTa (Conneau et al.,
 * arXiv 1911.02116) as transformers' modeling_roberta: BERT's encoder with positions that begin behind the padding token's id, and heads without a pooler. */
#include "model/encoder.h"

#define WORDS "roberta.embeddings.word_embeddings"

static const struct encoder roberta = {.words = WORDS,
                                       .positions = "roberta.embeddings.position_embeddings",
                                       .types = "roberta.embeddings.token_type_embeddings",
                                       .norm = "roberta.embeddings.LayerNorm",
                                       .layer = "roberta.encoder.layer",
                                       .query = "attention.self.query",
                                       .key = "attention.self.key",
                                       .value = "attention.self.value",
                                       .query_key_value = "attention.self.query_key_value",
                                       .attention = "attention.output.dense",
                                       .attention_norm = "attention.output.LayerNorm",
                                       .up = "intermediate.dense",
                                       .down = "output.dense",
                                       .norm_out = "output.LayerNorm"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    encoder_defaults(c);
    c->pad_id = 1;
    TRY(encoder_config(o, path, c, err));
    c->first_position = c->pad_id + 1;
    c->longest -= c->first_position;
    if (c->longest < 1)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: max_position_embeddings %lld leaves no position behind pad_token_id %lld; correct one",
                       path, (long long)(c->first_position + c->longest), (long long)c->pad_id);
    return SNUG_OK;
}

static int body(struct build *b)
{
    return encoder_body(b, &roberta);
}

static int classifier(struct build *b, int v)
{
    return encoder_two_layer_classifier(b, v, ACT_tanh);
}

/* Its activation is GELU, whatever hidden_act says. */
static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {
        .dense = "lm_head.dense", .norm = "lm_head.layer_norm", .bias = "lm_head.bias", .words = WORDS};
    return encoder_masked_lm(b, v, &head, ACT_gelu);
}

static int token_classifier(struct build *b, int v)
{
    return encoder_token_classifier(b, v, build_p_classifier(b), "classifier");
}

#define HEADS(prefix)                                                                                                  \
    {                                                                                                                  \
        [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = prefix "ForSequenceClassification",                           \
                                           .weight = "classifier.out_proj.weight",                                     \
                                           .logits = classifier},                                                      \
        [MODEL_MASKED_LM] = {.class_name = prefix "ForMaskedLM",                                                       \
                             .weight = "lm_head.dense.weight",                                                         \
                             .logits = masked_lm},                                                                     \
        [MODEL_TOKEN_CLASSIFICATION] = {.class_name = prefix "ForTokenClassification",                                 \
                                        .weight = "classifier.weight",                                                 \
                                        .logits = token_classifier},                                                   \
        [MODEL_QUESTION_ANSWERING] = {                                                                                 \
            .class_name = prefix "ForQuestionAnswering", .weight = "qa_outputs.weight", .logits = encoder_answers},    \
    }
static const struct model_head roberta_heads[MODEL_COUNT] = HEADS("Roberta");
static const struct model_head camembert_heads[MODEL_COUNT] = HEADS("Camembert");
static const struct model_head xlm_roberta_heads[MODEL_COUNT] = HEADS("XLMRoberta");

static const struct tied_name tied[] = {
    {"lm_head.decoder.weight", WORDS ".weight"}, {"lm_head.decoder.bias", "lm_head.bias"}, {0}};

static const char *const ignored[] = {"embeddings.position_ids", NULL};

#define ARCH(type, prefix, its_heads, its_adapted, its_known)                                                          \
    {                                                                                                                  \
        .model_type = type, .class_prefix = prefix, .positions_key = "max_position_embeddings",                        \
        .base_prefix = "roberta.", .layer_prefix = "encoder.layer.", .tied = tied, .ignored = ignored,                 \
        .heads = its_heads, .adapted = its_adapted, .known = its_known, .refused = encoder_refused, .config = config,  \
        .body = body,                                                                                                  \
    }
const struct model_arch arch_roberta =
    ARCH("roberta", "Roberta", roberta_heads, "query,value", "roberta-base, roberta-large, distilroberta-base");
const struct model_arch arch_camembert = ARCH("camembert", "Camembert", camembert_heads, NULL, "camembert-base");
const struct model_arch arch_xlm_roberta =
    ARCH("xlm-roberta", "XLMRoberta", xlm_roberta_heads, "query,value", "xlm-roberta-base");
