/* Phi-3, Phi-3.5 and Phi-4-mini (Abdin et al., arXiv 2404.14219) as transformers' modeling_phi3: Llama with weights that are whole in the
 * file: queries, keys and values, and the two halves of the feed-forward block. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    double dropped = 0;
    c->longest = 4096, c->untied = true, own->norm_eps = 1e-5, own->fused = true;
    TRY(json_get_real(o, path, "resid_pdrop", false, 0, 0.999, &dropped, err));
    if (dropped > 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: resid_pdrop is %.6g; supported is 0", path, dropped);
    TRY(decoder_config(o, path, c, 1e4, err));
    return decoder_windows(o, path, c, (struct decoder_windows){0}, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Phi3");

const struct model_arch arch_phi3 = DECODER("phi3", "Phi3", heads, config, NULL);
