/* RoBERTa (Liu et al., arXiv 1907.11692), CamemBERT (Martin et al., arXiv 1911.03894), XLM-RoBERTa (Conneau et al., arXiv 1911.02116) and
 * data2vec's model of text (Baevski et al., arXiv 2202.03555) as transformers' modeling_roberta: BERT's encoder with positions that begin
 * behind the padding token's id, and heads without a pooler. Norms of XLM-RoBERTa-XL (Goyal et al., arXiv 2105.00572) and of
 * RoBERTa-PreLayerNorm (Ott et al., arXiv 1904.01038) stand before the blocks. */
#include "model/encoder.h"

static const struct encoder roberta = {ENCODER_NAMES, .norm = "embeddings.LayerNorm",
                                       .attention_norm = "attention.output.LayerNorm", .norm_out = "output.LayerNorm"};

static const struct encoder prelayernorm = {ENCODER_NAMES, .norm = "embeddings.LayerNorm",
                                            .attention_norm = "attention.LayerNorm",
                                            .norm_out = "intermediate.LayerNorm", .last = "LayerNorm"};

static const struct encoder xl = {ENCODER_NAMES, .attention_norm = "attention.self_attn_layer_norm",
                                  .norm_out = "LayerNorm", .last = "encoder.LayerNorm"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    encoder_defaults(c);
    c->pad_id = 1;
    TRY(encoder_config(o, path, c, err));
    return encoder_positions_behind_pad(c, path, err);
}

static int xl_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    encoder_defaults(c);
    c->pad_id = 1, c->type_vocab_size = 1, c->longest = 514;
    c->own.encoder.norm_eps = 1e-5;
    TRY(encoder_config(o, path, c, err));
    return encoder_positions_behind_pad(c, path, err);
}

static int body(struct build *b)
{
    return encoder_body(b, &roberta);
}

static int prelayernorm_body(struct build *b)
{
    return encoder_body(b, &prelayernorm);
}

static int xl_body(struct build *b)
{
    return encoder_body(b, &xl);
}

static int classifier(struct build *b, int v)
{
    return encoder_two_layer_classifier(b, v, ACT_tanh);
}

#define HEADS(prefix)                                                                                                  \
    ENCODER_HEADS(prefix, classifier, "classifier.out_proj.weight", encoder_lm_head, "lm_head.dense.weight")
static const struct model_head roberta_heads[MODEL_COUNT] = HEADS("Roberta");
static const struct model_head camembert_heads[MODEL_COUNT] = HEADS("Camembert");
static const struct model_head data2vec_text_heads[MODEL_COUNT] = HEADS("Data2VecText");
static const struct model_head prelayernorm_heads[MODEL_COUNT] = HEADS("RobertaPreLayerNorm");
static const struct model_head xlm_roberta_heads[MODEL_COUNT] = HEADS("XLMRoberta");
static const struct model_head xl_heads[MODEL_COUNT] = HEADS("XLMRobertaXL");

static const struct tied_name roberta_tied[] = {ENCODER_TIED("roberta.", "lm_head"), {0}};
static const struct tied_name data2vec_text_tied[] = {ENCODER_TIED("data2vec_text.", "lm_head"), {0}};
static const struct tied_name prelayernorm_tied[] = {ENCODER_TIED("roberta_prelayernorm.", "lm_head"), {0}};

const struct model_arch arch_roberta =
    ENCODER("roberta", "Roberta", "roberta.", roberta_tied, roberta_heads, "query,value",
            "roberta-base, roberta-large, distilroberta-base", config, body);
const struct model_arch arch_camembert =
    ENCODER("camembert", "Camembert", "roberta.", roberta_tied, camembert_heads, NULL, "camembert-base", config, body);
const struct model_arch arch_data2vec_text =
    ENCODER("data2vec-text", "Data2VecText", "data2vec_text.", data2vec_text_tied, data2vec_text_heads, NULL,
            "data2vec-text-base", config, body);
const struct model_arch arch_roberta_prelayernorm =
    ENCODER("roberta-prelayernorm", "RobertaPreLayerNorm", "roberta_prelayernorm.", prelayernorm_tied,
            prelayernorm_heads, NULL, "efficient_mlm_m0.40", config, prelayernorm_body);
const struct model_arch arch_xlm_roberta = ENCODER("xlm-roberta", "XLMRoberta", "roberta.", roberta_tied,
                                                   xlm_roberta_heads, "query,value", "xlm-roberta-base", config, body);
const struct model_arch arch_xlm_roberta_xl = ENCODER("xlm-roberta-xl", "XLMRobertaXL", "roberta.", roberta_tied,
                                                      xl_heads, NULL, "xlm-roberta-xl", xl_config, xl_body);
