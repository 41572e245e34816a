/* Qwen1.5-MoE and Qwen2's mixture (arXiv 2407.10671), Qwen3-MoE (arXiv 2505.09388) as transformers' modeling_qwen2_moe and
 * modeling_qwen3_moe: Qwen2 and Qwen3, where the feed-forward blocks of all layers or of every n-th are mixtures of experts. Those of the
 * earlier ones have an expert that all tokens share. */
#include "model/decoder.h"
#include "model/experts.h"

/* Which layers have experts: every decoder_sparse_step-th but for those in mlp_only_layers. */
static int read_layers(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    int64_t step = 1;
    size_t k;
    char text[64];
    json_t *only = json_object_get(o, "mlp_only_layers"), *layer;
    TRY(json_get_int(o, path, "decoder_sparse_step", false, 1, 1 << 20, &step, err));
    for (int64_t i = 0; i < c->layers; i++)
        if ((i + 1) % step == 0)
            c->own.decoder.layer[i] |= LAYER_EXPERTS;
    if (only && !json_is_array(only) && !json_is_null(only))
        return err_set(err, SNUG_ERR_INPUT, "%s: mlp_only_layers is %s; write a list of layers, from 0", path,
                       json_value_text(only, text));
    json_array_foreach(only, k, layer)
    {
        if (!json_is_integer(layer))
            return err_set(err, SNUG_ERR_INPUT, "%s: mlp_only_layers has %s; write the numbers of layers, from 0", path,
                           json_value_text(layer, text));
        if (json_integer_value(layer) >= 0 && json_integer_value(layer) < c->layers)
            c->own.decoder.layer[json_integer_value(layer)] &= (uint8_t)~LAYER_EXPERTS;
    }
    return SNUG_OK;
}

/* What both have: which layers slide, where use_sliding_window is true; the experts. */
static int read_experts(json_t *o, const char *path, struct model_config *c, struct decoder_windows w,
                        struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    bool window = false;
    TRY(json_get_bool(o, path, "use_sliding_window", false, &window, err));
    if (window)
        TRY(decoder_windows(o, path, c, w, err));
    TRY(experts_config(o, path, "num_experts", &own->experts, err));
    TRY(json_get_int(o, path, "moe_intermediate_size", false, 1, 1 << 22, &own->experts.intermediate_size, err));
    TRY(json_get_bool(o, path, "norm_topk_prob", false, &own->experts.normalized, err));
    return read_layers(o, path, c, err);
}

static int qwen2_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 32768, c->untied = true, own->norm_eps = 1e-6, own->kv_heads = 16, own->window = 4096;
    own->qkv_bias = c->names_are_modules = true;
    own->experts = (struct experts_config){
        .n = 60, .chosen = 4, .intermediate_size = 1408, .shared_size = 5632, .names = &experts_of_qwen};
    TRY(json_get_bool(o, path, "qkv_bias", false, &own->qkv_bias, err));
    TRY(json_get_int(o, path, "shared_expert_intermediate_size", false, 1, 1 << 22, &own->experts.shared_size, err));
    TRY(decoder_config(o, path, c, 1e4, err));
    return read_experts(o, path, c, (struct decoder_windows){.asked = true, .before = true, .full_every = 2}, err);
}

static int qwen3_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 32768, c->untied = true, own->norm_eps = 1e-6, own->kv_heads = 4, own->window = 4096;
    own->head_norms = HEADS_EACH;
    own->experts = (struct experts_config){.n = 128, .chosen = 8, .intermediate_size = 768, .names = &experts_of_qwen};
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 1e4, err));
    return read_experts(o, path, c, (struct decoder_windows){0}, err);
}

static const struct model_head qwen2_heads[MODEL_COUNT] = DECODER_HEADS("Qwen2Moe");
static const struct model_head qwen3_heads[MODEL_COUNT] = DECODER_HEADS("Qwen3Moe");

const struct model_arch arch_qwen2_moe = DECODER("qwen2_moe", "Qwen2Moe", qwen2_heads, qwen2_config, "q_proj,v_proj",
                                                 "Qwen1.5-MoE-A2.7B, Qwen2-57B-A14B", NULL);
const struct model_arch arch_qwen3_moe = DECODER("qwen3_moe", "Qwen3Moe", qwen3_heads, qwen3_config, "q_proj,v_proj",
                                                 "Qwen3-30B-A3B, Qwen3-Coder-30B-A3B-Instruct", NULL);
