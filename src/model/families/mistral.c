/* Mistral (Jiang et al., arXiv 2310.06825) as transformers' modeling_mistral: Llama with a window. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 131072, c->untied = true, own->norm_eps = 1e-6, own->kv_heads = 8, own->window = 4096;
    TRY(decoder_config(o, path, c, 1e4, err));
    return decoder_windows(o, path, c, (struct decoder_windows){0}, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Mistral");

const struct model_arch arch_mistral =
    DECODER("mistral", "Mistral", heads, config, "q_proj,v_proj", "Mistral-7B-v0.1, Mistral-7B-Instruct-v0.3", NULL);
