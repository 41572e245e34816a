/* EXAONE 4.0 (LG AI Research, arXiv 2507.11407) as transformers' modeling_exaone4: Llama with norms behind the blocks alone, and norms of
 * queries and keys. Where there are windows, only layers that have one turn. */
#include "model/decoder.h"

static const struct decoder_norms norms = {
    .attention_out = "post_attention_layernorm", .mlp_out = "post_feedforward_layernorm", .last = "norm"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->untied = true;
    own->norms = &norms, own->norm_eps = 1e-5, own->kv_heads = 32, own->head_norms = HEADS_EACH, own->window = 4096;
    TRY(decoder_config(o, path, c, 1e4, err));
    TRY(decoder_windows(o, path, c, (struct decoder_windows){.full_every = 4, .patterned = true}, err));
    if (own->window)
        decoder_turned_windows(c);
    return SNUG_OK;
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Exaone4");

const struct model_arch arch_exaone4 =
    DECODER("exaone4", "Exaone4", heads, config, NULL, "EXAONE-4.0-1.2B, EXAONE-4.0-32B", NULL);
