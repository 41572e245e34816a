/* Phi-1, Phi-1.5 and Phi-2 (Li et al., arXiv 2309.05463) as transformers' modeling_phi: both blocks of a layer read what its one layer norm
 * makes, a part of each head turns, every product has a bias, that of the output too. */
#include "model/decoder.h"
#include "model/refused.h"

static const struct decoder_norms norms = {.attention = "input_layernorm", .last = "final_layernorm"};
static const struct decoder_products products = {
    .attention_out = "self_attn.dense", .up = "mlp.fc1", .down = "mlp.fc2"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 2048, c->untied = true;
    own->norms = &norms, own->products = &products;
    own->layer_norms = own->embedding_drops = own->parallel = own->qkv_bias = own->out_bias = own->mlp_bias =
        own->head_bias = true;
    own->rotary_part = 0.5;
    TRY(decoder_config(o, path, c, 1e4, err));
    own->norm_eps = 1e-5; /* no key of Llama's */
    TRY(json_get_real(o, path, "layer_norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "embd_pdrop", false, 0, 0.999, &c->dropout_embedding, err));
    TRY(json_get_real(o, path, "resid_pdrop", false, 0, 0.999, &c->dropout_hidden, err));
    return config_act(o, path, "hidden_act", ACT_gelu_tanh, &own->act, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Phi");

static const struct refused refused[] = {
    {.key = "qk_layernorm", .kind = REFUSED_TRUE}, /* it would be of each head, with a bias, and no op has that */
    {0},
};

const struct model_arch arch_phi =
    DROPPING_DECODER("phi", "Phi", heads, config, "q_proj,v_proj,fc1,fc2", "phi-1, phi-1_5, phi-2", refused);
