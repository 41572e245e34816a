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
                                            .bias = "generator_lm_head.bias"};
    return encoder_masked_lm(b, v, &head, ACT_gelu);
}

static const struct model_head heads[MODEL_COUNT] =
    ENCODER_HEADS("Electra", classifier, "classifier.out_proj.weight", masked_lm, "generator_predictions.dense.weight");

static const struct tied_name tied[] = {{"generator_lm_head.weight", "electra." ENCODER_WORDS ".weight"}, {0}};

const struct model_arch arch_electra = ENCODER("electra", "Electra", "electra.", tied, heads, "query,value",
                                               "electra-small-discriminator, electra-base-generator", config, body);
