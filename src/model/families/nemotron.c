/* Nemotron (Parmar et al., arXiv 2402.16819; Minitron: Muralidharan et al., arXiv 2407.14679) as transformers' modeling_nemotron: Llama with
 * layer norms that multiply by 1 + weight, heads of which a part turns, and a feed-forward block of two layers with a squared ReLU between
 * them. */
#include "model/decoder.h"

static const struct decoder_products products = {
    .attention_out = "self_attn.o_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 4096, c->untied = true, c->init_std = 0.0134;
    own->products = &products, own->layer_norms = own->one_plus = true, own->rotary_part = 0.5;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 1e4, err));
    own->norm_eps = 1e-5; /* no key of Llama's */
    TRY(json_get_real(o, path, "norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    return config_act(o, path, "hidden_act", ACT_relu2, &own->act, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Nemotron");

const struct model_arch arch_nemotron =
    DECODER("nemotron", "Nemotron", heads, config, NULL, "Minitron-4B-Base, Nemotron-Mini-4B-Instruct", NULL);
