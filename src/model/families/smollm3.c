/* SmolLM3 (Hugging Face, 2025) as transformers' modeling_smollm3: Llama with tied embeddings, and without rotary positions in every
 * fourth layer. */
#include "model/decoder.h"
#include "model/refused.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 32768, own->norm_eps = 1e-6, own->kv_heads = 4;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 2e6, err));
    return decoder_unturned(o, path, c, 4, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("SmolLM3");

static const struct refused refused[] = {
    {.key = "use_sliding_window", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_smollm3 =
    DECODER("smollm3", "SmolLM3", heads, config, "q_proj,v_proj", "SmolLM3-3B", refused);
