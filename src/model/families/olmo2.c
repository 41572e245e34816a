/* OLMo 2 (arXiv 2501.00656) and OLMo 3 (Ai2, 2025) as transformers' modeling_olmo2 and modeling_olmo3: Llama with norms behind the
 * blocks alone, and norms over all queries and all keys. OLMo 3 has windows in three layers of four, whose rotary positions are never
 * scaled. */
#include "model/decoder.h"

static const struct decoder_norms norms = {
    .attention_out = "post_attention_layernorm", .mlp_out = "post_feedforward_layernorm", .last = "norm"};

static int config(json_t *o, const char *path, struct model_config *c, double theta, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->pad_id = 1, c->untied = true;
    own->norms = &norms, own->norm_eps = 1e-5, own->head_norms = HEADS_AS_ONE;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    return decoder_config(o, path, c, theta, err);
}

static int olmo2_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    return config(o, path, c, 1e4, err);
}

static int olmo3_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    own->window = 4096;
    TRY(config(o, path, c, 5e5, err));
    const struct rotary_model window = {.head_size = own->head_size,
                                        .positions = c->longest,
                                        .theta = 5e5,
                                        .layer_type = "sliding_attention",
                                        .theta_key = "rope_theta"};
    TRY(rotary_read(o, path, &window, &c->rotary[ROTARY_WINDOW], err));
    return decoder_windows(o, path, c, (struct decoder_windows){.full_every = 4}, err);
}

static const struct model_head olmo2_heads[MODEL_COUNT] = DECODER_HEADS("Olmo2");
static const struct model_head olmo3_heads[MODEL_COUNT] = DECODER_HEADS("Olmo3");

const struct model_arch arch_olmo2 =
    DECODER("olmo2", "Olmo2", olmo2_heads, olmo2_config, NULL, "OLMo-2-0425-1B, OLMo-2-1124-7B-Instruct", NULL);
const struct model_arch arch_olmo3 =
    DECODER("olmo3", "Olmo3", olmo3_heads, olmo3_config, NULL, "Olmo-3-1025-7B, Olmo-3-7B-Instruct", NULL);
