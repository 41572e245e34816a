/* BERT (Devlin et al., arXiv 1810.04805) as transformers' modeling_bert: pooler and classifier, or the masked language
 * model's head with tied embeddings. */
#include "model/encoder.h"

#define WORDS "bert.embeddings.word_embeddings"

static const struct encoder bert = {.words = WORDS,
                                    .positions = "bert.embeddings.position_embeddings",
                                    .types = "bert.embeddings.token_type_embeddings",
                                    .norm = "bert.embeddings.LayerNorm",
                                    .layer = "bert.encoder.layer",
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
    return encoder_config(o, path, c, err);
}

static int body(struct build *b)
{
    return encoder_body(b, &bert);
}

static int classifier(struct build *b, int v)
{
    return encoder_classifier(b, v, "bert.pooler.dense", ACT_tanh, "classifier");
}

static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {.dense = "cls.predictions.transform.dense",
                                            .norm = "cls.predictions.transform.LayerNorm",
                                            .bias = "cls.predictions.bias",
                                            .words = WORDS};
    return encoder_masked_lm(b, v, &head, b->c->own.encoder.act);
}

static int token_classifier(struct build *b, int v)
{
    return encoder_token_classifier(b, v, build_p_classifier(b), "classifier");
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "BertForSequenceClassification",
                                       .weight = "classifier.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "BertForMaskedLM",
                         .weight = "cls.predictions.transform.dense.weight",
                         .logits = masked_lm},
    [MODEL_TOKEN_CLASSIFICATION] = {.class_name = "BertForTokenClassification",
                                    .weight = "classifier.weight",
                                    .logits = token_classifier},
    [MODEL_QUESTION_ANSWERING] = {
        .class_name = "BertForQuestionAnswering", .weight = "qa_outputs.weight", .logits = encoder_answers}};

static const struct tied_name tied[] = {
    {"cls.predictions.decoder.weight", WORDS ".weight"}, {"cls.predictions.decoder.bias", "cls.predictions.bias"}, {0}};

static const char *const ignored[] = {"embeddings.position_ids", NULL};

const struct model_arch arch_bert = {.model_type = "bert",
                                     .known = "bert-base-uncased, bert-large-cased",
                                     .class_prefix = "Bert",
                                     .positions_key = "max_position_embeddings",
                                     .base_prefix = "bert.",
                                     .layer_prefix = "encoder.layer.",
                                     .tied = tied,
                                     .ignored = ignored,
                                     .heads = heads,
                                     .adapted = "query,value",
                                     .refused = encoder_refused,
                                     .config = config,
                                     .body = body};
