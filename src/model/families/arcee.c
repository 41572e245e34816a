/* Arcee's AFM (2025) as transformers' modeling_arcee: Llama with a feed-forward block of two layers and a squared ReLU between them. */
#include "model/decoder.h"

static const struct decoder_products products = {
    .attention_out = "self_attn.o_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 4096, c->untied = true, own->norm_eps = 1e-5, own->products = &products;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 1e4, err));
    return config_act(o, path, "hidden_act", ACT_relu2, &own->act, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Arcee");

const struct model_arch arch_arcee = DECODER("arcee", "Arcee", heads, config, NULL, "AFM-4.5B, AFM-4.5B-Base", NULL);
