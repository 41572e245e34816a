/* Mixtral (Jiang et al., arXiv 2401.04088) as transformers' modeling_mixtral: Mistral, whose feed-forward blocks are mixtures of
 * experts. */
#include "model/decoder.h"
#include "model/experts.h"
#include "model/refused.h"

static const struct expert_names names = {.block = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"};

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 131072, c->untied = true, own->norm_eps = 1e-5, own->kv_heads = 8;
    own->experts = (struct experts_config){.n = 8, .chosen = 2, .normalized = true, .names = &names};
    TRY(decoder_config(o, path, c, 1e6, err));
    TRY(decoder_windows(o, path, c, (struct decoder_windows){0}, err));
    TRY(experts_config(o, path, "num_experts", &own->experts, err));
    own->experts.intermediate_size = own->intermediate_size;
    decoder_all_experts(c);
    return SNUG_OK;
}

static const struct model_head heads[MODEL_COUNT] = DECODER_HEADS("Mixtral");

static const struct refused refused[] = {
    {.key = "router_jitter_noise", .kind = REFUSED_ABOVE_0},
    {0},
};

const struct model_arch arch_mixtral = DECODER("mixtral", "Mixtral", heads, config, "q_proj,v_proj",
                                               "Mixtral-8x7B-v0.1, Mixtral-8x7B-Instruct-v0.1", refused);
