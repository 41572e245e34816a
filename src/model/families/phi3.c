/* Phi-3, Phi-3.5 and Phi-4-mini (Abdin et al., arXiv 2404.14219) as transformers' modeling_phi3: Llama with weights that are whole in the
 * file: queries, keys and values, and the two halves of the feed-forward block. */
#include "model/decoder.h"
#include "model/refused.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 4096, c->untied = true, own->norm_eps = 1e-5, own->qkv_fused = own->mlp_fused = true,
    own->rotary_part = 1;
    TRY(decoder_config(o, path, c, 1e4, err));
    return decoder_windows(o, path, c, (struct decoder_windows){0}, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Phi3");

static const struct refused refused[] = {
    {.key = "resid_pdrop", .kind = REFUSED_ABOVE_0},
    {0},
};

const struct model_arch arch_phi3 =
    DECODER("phi3", "Phi3", heads, config, NULL,
            "Phi-3-mini-4k-instruct, Phi-3-mini-128k-instruct, Phi-4-mini-instruct", refused);
