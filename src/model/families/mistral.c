/* Mistral (Jiang et al., arXiv 2310.06825) and Ministral (Mistral AI, 2024) as transformers' modeling_mistral and modeling_ministral: Llama
 * with a window, in all layers or in some. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 131072, c->untied = true, own->norm_eps = 1e-6, own->kv_heads = 8, own->window = 4096;
    TRY(decoder_config(o, path, c, 1e4, err));
    return decoder_windows(o, path, c, (struct decoder_windows){0}, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Mistral");
static const struct model_head ministral_heads[MODEL_COUNT] = DECODER_HEADS("Ministral");

const struct model_arch arch_mistral =
    DECODER("mistral", "Mistral", heads, config, "q_proj,v_proj", "Mistral-7B-v0.1, Mistral-7B-Instruct-v0.3", NULL);
const struct model_arch arch_ministral =
    DECODER("ministral", "Ministral", ministral_heads, config, NULL, "Ministral-8B-Instruct-2410", NULL);
