/* StableLM (Bellagente et al., arXiv 2402.17834) as transformers' modeling_stablelm: Llama with layer norms, of whose heads a part turns. */
#include "model/decoder.h"
#include "model/refused.h"

static const struct decoder_norms sequential = {
    .attention = "input_layernorm", .mlp = "post_attention_layernorm", .last = "norm"};
static const struct decoder_norms parallel = {.attention = "input_layernorm", .last = "norm"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 4096, c->untied = true;
    own->kv_heads = 32, own->layer_norms = true, own->rotary_part = 0.25;
    TRY(json_get_bool(o, path, "use_qkv_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "use_parallel_residual", false, &own->parallel, err));
    own->norms = own->parallel ? &parallel : &sequential;
    TRY(decoder_config(o, path, c, 1e4, err));
    own->norm_eps = 1e-5; /* no key of Llama's */
    return json_get_real(o, path, "layer_norm_eps", false, 1e-300, 1, &own->norm_eps, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("StableLm");

static const struct refused refused[] = {
    {.key = "qk_layernorm", .kind = REFUSED_TRUE},      /* of each head, with a scale of its own */
    {.key = "hidden_dropout", .kind = REFUSED_ABOVE_0}, /* behind the feed-forward block alone */
    {0},
};

const struct model_arch arch_stablelm =
    DECODER("stablelm", "StableLm", heads, config, "q_proj,v_proj", "stablelm-2-1_6b, stablelm-zephyr-3b", refused);
