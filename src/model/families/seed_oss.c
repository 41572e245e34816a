/* Seed-OSS (ByteDance, 2025) as transformers' modeling_seed_oss: Llama with biases of queries, keys and values, and dropout behind both
 * blocks. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 524288, c->pad_id = 1, c->untied = true, c->dropout_attention = c->dropout_hidden = 0.1;
    own->norm_eps = 1e-6, own->kv_heads = 8, own->head_size = 128, own->qkv_bias = true;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "attention_out_bias", false, &own->out_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    TRY(json_get_real(o, path, "residual_dropout", false, 0, 0.999, &c->dropout_hidden, err));
    return decoder_config(o, path, c, 1e4, err);
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("SeedOss");

const struct model_arch arch_seed_oss =
    DROPPING_DECODER("seed_oss", "SeedOss", heads, config, NULL, "Seed-OSS-36B-Base, Seed-OSS-36B-Instruct", NULL);
