/* GLM-4 (Zeng et al., arXiv 2406.12793) and GLM-4-0414 as transformers' modeling_glm and modeling_glm4: Llama with biases of queries, keys
 * and values, of whose heads a part turns, in pairs of neighbours. Files have the two halves of the feed-forward block whole. The later
 * models have norms behind the blocks too. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 131072, c->pad_id = 151329, c->untied = true;
    own->norm_eps = 1.5625e-7, own->kv_heads = 2, own->head_size = 128, own->qkv_bias = own->mlp_fused = true;
    own->rotary_part = 0.5, own->interleaved = true;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    return decoder_config(o, path, c, 1e4, err);
}

static const struct decoder_norms glm4_norms = {.attention = "input_layernorm",
                                                .attention_out = "post_self_attn_layernorm",
                                                .mlp = "post_attention_layernorm",
                                                .mlp_out = "post_mlp_layernorm",
                                                .last = "norm"};

static int glm4_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->own.decoder.norms = &glm4_norms;
    return config(o, path, c, err);
}

static const struct model_head glm_heads[MODEL_COUNT] = DECODER_HEADS("Glm");
static const struct model_head glm4_heads[MODEL_COUNT] = DECODER_HEADS("Glm4");

const struct model_arch arch_glm =
    DECODER("glm", "Glm", glm_heads, config, NULL, "glm-4-9b-chat-hf, glm-edge-1.5b-chat", NULL);
const struct model_arch arch_glm4 =
    DECODER("glm4", "Glm4", glm4_heads, glm4_config, NULL, "GLM-4-9B-0414, GLM-4-32B-0414", NULL);
