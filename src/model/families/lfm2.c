/* LFM2 (Liquid AI, 2025) as transformers' modeling_lfm2: Llama with norms of queries and keys, most of whose layers have a gated short
 * convolution in place of attention. */
#include "model/decoder.h"

#include <string.h>

static const struct decoder_norms norms = {.attention = "operator_norm",
                                           .mlp = "ffn_norm",
                                           .last = "embedding_norm",
                                           .query = "self_attn.q_layernorm",
                                           .key = "self_attn.k_layernorm"};
static const struct decoder_products products = {.attention_out = "self_attn.out_proj",
                                                 .gate = "feed_forward.w1",
                                                 .up = "feed_forward.w3",
                                                 .down = "feed_forward.w2"};

/* full_attn_idxs has the numbers of the layers with attention; where it is absent all have it. */
static int read_indices(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    json_t *list = json_object_get(o, "full_attn_idxs"), *number;
    size_t k;
    char text[64];
    if (!list || json_is_null(list))
        return SNUG_OK;
    if (!json_is_array(list))
        return err_set(err, SNUG_ERR_INPUT, "%s: full_attn_idxs is %s; write a list of layers, from 0", path,
                       json_value_text(list, text));
    for (int64_t i = 0; i < c->layers; i++)
        c->own.decoder.layer[i] |= LAYER_CONVOLVES;
    json_array_foreach(list, k, number)
    {
        json_int_t i = json_is_integer(number) ? json_integer_value(number) : -1;
        if (i < 0 || i >= c->layers)
            return err_set(err, SNUG_ERR_INPUT, "%s: full_attn_idxs has %s; layers are 0 to %lld", path,
                           json_value_text(number, text), (long long)c->layers - 1);
        c->own.decoder.layer[i] &= (uint8_t)~LAYER_CONVOLVES;
    }
    return SNUG_OK;
}

/* Which layers convolve: layer_types, else full_attn_idxs. */
static int read_layers(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    json_t *types;
    char text[64];
    TRY(decoder_list(o, path, "layer_types", c, &types, err));
    if (!types)
        return read_indices(o, path, c, err);
    for (int64_t i = 0; i < c->layers; i++) {
        json_t *type = json_array_get(types, (size_t)i);
        const char *name = json_string_value(type);
        if (!name || (strcmp(name, "conv") && strcmp(name, "full_attention")))
            return err_set(err, SNUG_ERR_INPUT, "%s: layer_types has %s; supported are full_attention, conv", path,
                           json_value_text(type, text));
        c->own.decoder.layer[i] |= strcmp(name, "conv") ? 0 : LAYER_CONVOLVES;
    }
    return SNUG_OK;
}

/* The feed-forward blocks' size: what the file says, or two thirds of it, times a factor, up to a multiple. */
static int read_intermediate_size(json_t *o, const char *path, struct decoder_config *own, struct snug_err *err)
{
    bool adjusted = true;
    double factor = 1;
    int64_t multiple = 256;
    TRY(json_get_int(o, path, "block_ff_dim", false, 1, 1 << 22, &own->intermediate_size, err));
    TRY(json_get_bool(o, path, "block_auto_adjust_ff_dim", false, &adjusted, err));
    TRY(json_get_int(o, path, "block_multiple_of", false, 1, 1 << 22, &multiple, err));
    json_t *given = json_object_get(o, "block_ffn_dim_multiplier");
    if (!given || !json_is_null(given))
        TRY(json_get_real(o, path, "block_ffn_dim_multiplier", false, 1e-6, 1e6, &factor, err));
    if (!adjusted)
        return SNUG_OK;
    int64_t size = 2 * own->intermediate_size / 3;
    if (!given || !json_is_null(given)) /* null: neither factor nor multiple */
        size = ((int64_t)(factor * (double)size) + multiple - 1) / multiple * multiple;
    if (size < 1 || size > 1 << 22)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: the feed-forward blocks would have %lld columns; correct block_ff_dim, or intermediate_size, or "
            "block_ffn_dim_multiplier",
            path, (long long)size);
    own->intermediate_size = size;
    return SNUG_OK;
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    bool tied = true;
    c->heads = 32, c->vocab_size = 65536, c->longest = 128000, c->pad_id = 0;
    own->norms = &norms, own->products = &products, own->head_norms = HEADS_EACH;
    own->kv_heads = 8, own->intermediate_size = 12288, own->convolution.width = 3;
    TRY(decoder_config(o, path, c, 1e6, err));
    own->act = ACT_silu, c->dropout_attention = 0, own->norm_eps = 1e-5; /* no keys of Llama's */
    TRY(json_get_real(o, path, "norm_eps", false, 1e-300, 1, &own->norm_eps, err));
    TRY(json_get_int(o, path, "conv_L_cache", false, 1, 1 << 10, &own->convolution.width, err));
    TRY(json_get_bool(o, path, "conv_bias", false, &own->convolution.bias, err));
    if (json_object_get(o, "tie_embedding")) {
        TRY(json_get_bool(o, path, "tie_embedding", false, &tied, err));
        c->untied = !tied;
    }
    TRY(read_intermediate_size(o, path, own, err));
    return read_layers(o, path, c, err);
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "Lfm2ForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"},
};

const struct model_arch arch_lfm2 =
    DECODER("lfm2", "Lfm2", heads, config, NULL, "LFM2-350M, LFM2-700M, LFM2-1.2B, LFM2-2.6B", NULL);
