/* OLMo (Groeneveld et al., arXiv 2402.00838) as transformers' modeling_olmo: Llama with layer norms that have no weights. */
#include "model/decoder.h"
#include "model/refused.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->pad_id = 1, c->untied = true;
    own->layer_norms = own->norms_weightless = true;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 1e4, err));
    own->norm_eps = 1e-5; /* whatever the file says */
    return SNUG_OK;
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Olmo");

static const struct refused refused[] = {
    {.key = "clip_qkv", .kind = REFUSED_PRESENT},
    {0},
};

const struct model_arch arch_olmo = DECODER("olmo", "Olmo", heads, config, NULL, "OLMo-1B-hf, OLMo-7B-hf", refused);
