/* HunYuan's dense models (Tencent, 2025) as transformers' modeling_hunyuan_v1_dense: Llama with norms of queries and keys behind their
 * rotation. */
#include "model/decoder.h"

static const struct decoder_norms norms = {.attention = "input_layernorm",
                                           .mlp = "post_attention_layernorm",
                                           .last = "norm",
                                           .query = "self_attn.query_layernorm",
                                           .key = "self_attn.key_layernorm"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->pad_id = 0, c->untied = true;
    own->norms = &norms, own->norm_eps = 1e-5, own->head_norms = HEADS_EACH, own->turned_first = true;
    own->rotary_alpha = true;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    return decoder_config(o, path, c, 1e4, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("HunYuanDenseV1");

const struct model_arch arch_hunyuan_v1_dense = DECODER("hunyuan_v1_dense", "HunYuanDenseV1", heads, config, NULL,
                                                        "Hunyuan-0.5B-Instruct, Hunyuan-7B-Instruct", NULL);
