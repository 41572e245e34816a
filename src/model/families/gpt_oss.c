/* gpt-oss (OpenAI, arXiv 2508.10925) as transformers' modeling_gpt_oss: Llama with biases and sinks in attention, of which every second layer
 * sees a window, and mixtures of experts whose weights files have as one. */
#include "model/decoder.h"
#include "model/experts.h"
#include "model/refused.h"

static const struct expert_names names = {.block = "mlp", .router = "router"};

/* What transformers takes where config.json says nothing of rotary positions. */
static int default_rotary(json_t *o, struct snug_err *err)
{
    json_t *yarn;
    if (!json_is_null(json_object_get(o, "rope_parameters")) && json_object_get(o, "rope_parameters"))
        return SNUG_OK;
    if (!json_is_null(json_object_get(o, "rope_scaling")) && json_object_get(o, "rope_scaling"))
        return SNUG_OK;
    yarn = json_pack("{s:s, s:f, s:f, s:f, s:b, s:i}", "rope_type", "yarn", "factor", 32.0, "beta_fast", 32.0,
                     "beta_slow", 1.0, "truncate", 0, "original_max_position_embeddings", 4096);
    return json_object_set_new(o, "rope_parameters", yarn) ? err_no_memory(err, 1 << 10) : SNUG_OK;
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    bool biases = true;
    c->longest = 131072, c->untied = true;
    own->norm_eps = 1e-5, own->kv_heads = 8, own->head_size = 64, own->window = 128, own->sinks = true;
    own->experts = (struct experts_config){
        .n = 128, .chosen = 4, .normalized = true, .names = &names, .whole = true, .alpha = 1.702, .limit = 7};
    TRY(default_rotary(o, err));
    TRY(decoder_config(o, path, c, 150000, err));
    TRY(decoder_windows(o, path, c, (struct decoder_windows){.full_every = 2}, err));
    TRY(json_get_bool(o, path, "attention_bias", false, &biases, err));
    TRY(json_get_real(o, path, "swiglu_alpha", false, 0, 1e6, &own->experts.alpha, err));
    TRY(json_get_real(o, path, "swiglu_limit", false, 1e-6, 1e30, &own->experts.limit, err));
    TRY(experts_config(o, path, "num_experts", &own->experts, err));
    own->qkv_bias = own->out_bias = biases;
    own->experts.intermediate_size = own->intermediate_size;
    decoder_all_experts(c);
    return SNUG_OK;
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("GptOss");

const struct model_arch arch_gpt_oss =
    DECODER("gpt_oss", "GptOss", heads, config, NULL, "gpt-oss-20b, gpt-oss-120b", NULL);
