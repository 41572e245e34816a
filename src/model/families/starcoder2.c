/* StarCoder2 (Lozhkov et al., arXiv 2402.19173) as transformers' modeling_starcoder2: Llama with layer norms, a feed-forward block without a
 * gate, biases and a window in all layers. */
#include "model/decoder.h"

static const struct decoder_products products = {
    .attention_out = "self_attn.o_proj", .up = "mlp.c_fc", .down = "mlp.c_proj"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    bool biases = true;
    c->longest = 4096, c->init_std = 0.018042;
    own->products = &products, own->layer_norms = own->embedding_drops = true, own->kv_heads = 2;
    TRY(json_get_bool(o, path, "use_bias", false, &biases, err));
    own->qkv_bias = own->out_bias = own->mlp_bias = biases;
    TRY(decoder_config(o, path, c, 1e4, err));
    own->norm_eps = 1e-5; /* no key of Llama's */
    TRY(json_get_real(o, path, "norm_epsilon", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_real(o, path, "embedding_dropout", false, 0, 0.999, &c->dropout_embedding, err));
    TRY(json_get_real(o, path, "residual_dropout", false, 0, 0.999, &c->dropout_hidden, err));
    TRY(config_act(o, path, "hidden_act", ACT_gelu_tanh, &own->act, err));
    return decoder_windows(o, path, c, (struct decoder_windows){0}, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Starcoder2");

const struct model_arch arch_starcoder2 = DROPPING_DECODER("starcoder2", "Starcoder2", heads, config, NULL,
                                                           "starcoder2-3b, starcoder2-7b, starcoder2-15b", NULL);
