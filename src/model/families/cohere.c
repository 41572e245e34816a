/* Command R (Cohere, 2024), Aya 23 (Aryabumi et al., arXiv 2405.15032) and Command R7B as transformers' modeling_cohere and
 * modeling_cohere2: decoders whose two blocks read what a layer's one norm makes, whose norms have no bias and whose heads turn in pairs of
 * neighbours. Of the later models three layers of four have windows, and those alone turn. */
#include "model/decoder.h"
#include "model/refused.h"

static const struct decoder_norms norms = {.attention = "input_layernorm", .last = "norm"};

static int config(json_t *o, const char *path, struct model_config *c, double theta, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 8192, c->pad_id = 0;
    own->norms = &norms, own->head_scale = 0.0625;
    own->layer_norms = own->norms_unbiased = own->parallel = own->interleaved = true;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(json_get_real(o, path, "logit_scale", false, 1e-9, 1e9, &own->head_scale, err));
    TRY(decoder_config(o, path, c, theta, err));
    own->norm_eps = 1e-5; /* no key of Llama's */
    return json_get_real(o, path, "layer_norm_eps", false, 1e-300, 1, &own->norm_eps, err);
}

static int cohere_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    return config(o, path, c, 5e5, err);
}

static int cohere2_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    c->own.decoder.window = 4096;
    TRY(config(o, path, c, 1e4, err));
    TRY(decoder_windows(o, path, c, (struct decoder_windows){.full_every = 4, .patterned = true}, err));
    decoder_turned_windows(c);
    return SNUG_OK;
}

static const struct model_head cohere_heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "CohereForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};
static const struct model_head cohere2_heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "Cohere2ForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};

static const struct refused refused[] = {
    {.key = "use_qk_norm", .kind = REFUSED_TRUE}, /* of each head, with a scale of its own */
    {0},
};

const struct model_arch arch_cohere =
    DECODER("cohere", "Cohere", cohere_heads, cohere_config, NULL, "c4ai-command-r-v01, aya-23-8B", refused);
const struct model_arch arch_cohere2 =
    DECODER("cohere2", "Cohere2", cohere2_heads, cohere2_config, NULL, "c4ai-command-r7b-12-2024", NULL);
