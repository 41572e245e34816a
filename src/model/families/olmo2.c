/* OLMo 2 (arXiv 2501.00656) as transformers' modeling_olmo2: Llama with norms behind the blocks alone, and norms over all queries and
 * all keys. */
#include "model/decoder.h"

static const struct decoder_norms norms = {.attention_out = "post_attention_layernorm",
                                           .mlp_out = "post_feedforward_layernorm"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->pad_id = 1, c->untied = true;
    own->norms = &norms, own->norm_eps = 1e-5, own->head_norms = HEADS_AS_ONE;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    return decoder_config(o, path, c, 1e4, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Olmo2");

const struct model_arch arch_olmo2 =
    DECODER("olmo2", "Olmo2", heads, config, NULL, "OLMo-2-0425-1B, OLMo-2-1124-7B-Instruct", NULL);
