/* ELECTRA (Clark et al., arXiv 2003.10555) as transformers' modeling_electra: BERT's encoder with embeddings that may be narrower
 * than the layers. Discriminators make classifiers, generators are masked language models. */
#include "model/encoder.h"

static const struct encoder electra = {ENCODER_NAMES, .norm = "embeddings.LayerNorm",
                                       .projection = "embeddings_project",
                                       .attention_norm = "attention.output.LayerNorm", .norm_out = "output.LayerNorm"};

/* Embeddings as wide as the layers have no projection. */
static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    int64_t size = 128;
    encoder_defaults(c);
    TRY(encoder_config(o, path, c, err));
    TRY(json_get_int(o, path, "embedding_size", false, 1, 1 << 20, &size, err));
    c->own.encoder.embedding_size = size == c->hidden_size ? 0 : size;
    return SNUG_OK;
}

static int body(struct build *b)
{
    return encoder_body(b, &electra);
}

static int classifier(struct build *b, int v)
{
    return encoder_two_layer_classifier(b, v, ACT_gelu);
}

/* Its activation is GELU, whatever hidden_act says. */
static int masked_lm(struct build *b, int v)
{
    static const struct encoder_mlm head = {.dense = "generator_predictions.dense",
                                            .norm = "generator_predictions.LayerNorm",
                                            .bias = "generator_lm_head.bias",
                                            .words = ENCODER_WORDS};
    return encoder_masked_lm(b, v, &head, ACT_gelu);
}

static int token_classifier(struct build *b, int v)
{
    return encoder_token_classifier(b, v, build_p_classifier(b), "classifier");
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "ElectraForSequenceClassification",
                                       .weight = "classifier.out_proj.weight",
                                       .logits = classifier},
    [MODEL_MASKED_LM] = {.class_name = "ElectraForMaskedLM",
                         .weight = "generator_predictions.dense.weight",
                         .logits = masked_lm},
    [MODEL_TOKEN_CLASSIFICATION] = {.class_name = "ElectraForTokenClassification",
                                    .weight = "classifier.weight",
                                    .logits = token_classifier},
    [MODEL_QUESTION_ANSWERING] = {
        .class_name = "ElectraForQuestionAnswering", .weight = "qa_outputs.weight", .logits = encoder_answers}};

static const struct tied_name tied[] = {{"generator_lm_head.weight", "electra." ENCODER_WORDS ".weight"}, {0}};

static const char *const ignored[] = {"embeddings.position_ids", NULL};

const struct model_arch arch_electra = {.model_type = "electra",
                                        .known = "electra-small-discriminator, electra-base-generator",
                                        .class_prefix = "Electra",
                                        .positions_key = "max_position_embeddings",
                                        .base_prefix = "electra.",
                                        .layer_prefix = "encoder.layer.",
                                        .tied = tied,
                                        .ignored = ignored,
                                        .heads = heads,
                                        .adapted = "query,value",
                                        .refused = encoder_refused,
                                        .config = config,
                                        .body = body};
