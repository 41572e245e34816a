/* Granite (IBM, 2024) as transformers' modeling_granite: Llama with factors of the embeddings, of what each block adds, of
 * attention's scores and of the logits. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    double logits = 1;
    c->longest = 2048, c->untied = true;
    own->norm_eps = 1e-6, own->score_scale = 1;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(json_get_real(o, path, "embedding_multiplier", false, 1e-9, 1e9, &own->embedding_scale, err));
    TRY(json_get_real(o, path, "residual_multiplier", false, 1e-9, 1e9, &own->branch_scale, err));
    TRY(json_get_real(o, path, "attention_multiplier", false, 1e-9, 1e9, &own->score_scale, err));
    TRY(json_get_real(o, path, "logits_scaling", false, 1e-9, 1e9, &logits, err));
    own->head_scale = 1 / logits;
    return decoder_config(o, path, c, 1e4, err);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "GraniteForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};

const struct model_arch arch_granite =
    DECODER("granite", "Granite", heads, config, NULL, "granite-3.3-2b-instruct, granite-3.3-8b-instruct", NULL);
