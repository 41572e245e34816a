/* Llama (Touvron et al., arXiv 2302.13971 and 2307.09288; Grattafiori et al., arXiv 2407.21783) as transformers'
 * modeling_llama. SmolLM and SmolLM2, TinyLlama and others are of this type too. */
#include "model/decoder.h"
#include "model/refused.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->untied = true, own->norm_eps = 1e-6;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    return decoder_config(o, path, c, 1e4, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Llama");

static const struct refused refused[] = {
    {.key = "rope_interleaved", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_llama =
    DECODER("llama", "Llama", heads, config, "q_proj,v_proj",
            "Llama-3.2-1B-Instruct, TinyLlama-1.1B-Chat, SmolLM2-135M-Instruct", refused);
