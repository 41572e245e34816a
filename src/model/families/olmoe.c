/* OLMoE (Muennighoff et al., arXiv 2409.02060) as transformers' modeling_olmoe: Llama with norms over all queries and all keys, whose
 * feed-forward blocks are mixtures of experts. */
#include "model/decoder.h"
#include "model/experts.h"
#include "model/refused.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 4096, c->pad_id = 1, c->untied = true, own->norm_eps = 1e-5, own->head_norms = HEADS_AS_ONE;
    own->experts = (struct experts_config){.n = 64, .chosen = 8, .balance = 0.01, .names = &experts_of_qwen};
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 1e4, err));
    TRY(experts_config(o, path, "num_experts", &own->experts, err));
    TRY(json_get_bool(o, path, "norm_topk_prob", false, &own->experts.normalized, err));
    own->experts.intermediate_size = own->intermediate_size;
    decoder_all_experts(c);
    return SNUG_OK;
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "OlmoeForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};

static const struct refused refused[] = {
    {.key = "clip_qkv", .kind = REFUSED_PRESENT},
    {0},
};

const struct model_arch arch_olmoe =
    DECODER("olmoe", "Olmoe", heads, config, "q_proj,v_proj", "OLMoE-1B-7B-0924, OLMoE-1B-7B-0125-Instruct", refused);
