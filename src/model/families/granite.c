/* Granite (IBM, 2024) as transformers' modeling_granite: Llama with factors of the embeddings, of what each block adds, of
 * attention's scores and of the logits. GraniteMoe and GraniteMoeShared as modeling_granitemoe and modeling_granitemoeshared: the same, whose
 * feed-forward blocks are mixtures of experts; of the second with one more block, which all tokens share. */
#include "model/decoder.h"
#include "model/experts.h"

static int granite_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    double logits = 1;
    c->longest = 2048, c->untied = true;
    own->norm_eps = 1e-6, own->score_scale = 1;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    TRY(json_get_bool(o, path, "mlp_bias", false, &own->mlp_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(json_get_real(o, path, "embedding_multiplier", false, 1e-9, 1e9, &own->embedding_scale, err));
    TRY(json_get_real(o, path, "residual_multiplier", false, 1e-9, 1e9, &own->branch_scale, err));
    TRY(json_get_real(o, path, "attention_multiplier", false, 1e-9, 1e9, &own->score_scale, err));
    TRY(json_get_real(o, path, "logits_scaling", false, 1e-9, 1e9, &logits, err));
    own->head_scale = 1 / logits;
    return decoder_config(o, path, c, 1e4, err);
}

/* transformers has no mlp_bias for these. */
static int moe_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    TRY(granite_config(o, path, c, err));
    own->mlp_bias = false;
    c->names_are_modules = true;
    own->experts = (struct experts_config){.n = 8, .chosen = 2, .normalized = true, .names = &experts_of_granite};
    TRY(experts_config(o, path, "num_local_experts", &own->experts, err));
    own->experts.intermediate_size = own->intermediate_size;
    decoder_all_experts(c);
    return SNUG_OK;
}

static int shared_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    TRY(moe_config(o, path, c, err));
    return json_get_int(o, path, "shared_intermediate_size", false, 0, 1 << 22, &own->experts.shared_size, err);
}

/* clang-format off */
#define HEADS(prefix)                                                                                                  \
    {[MODEL_CAUSAL_LM] = {                                                                                             \
        .class_name = prefix "ForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}}
/* clang-format on */

static const struct model_head granite_heads[MODEL_COUNT] = HEADS("Granite");
static const struct model_head moe_heads[MODEL_COUNT] = HEADS("GraniteMoe");
static const struct model_head shared_heads[MODEL_COUNT] = HEADS("GraniteMoeShared");

const struct model_arch arch_granite = DECODER("granite", "Granite", granite_heads, granite_config, NULL,
                                               "granite-3.3-2b-instruct, granite-3.3-8b-instruct", NULL);
const struct model_arch arch_granitemoe =
    DECODER("granitemoe", "GraniteMoe", moe_heads, moe_config, NULL,
            "granite-3.1-1b-a400m-instruct, granite-3.1-3b-a800m-instruct, PowerMoE-3b", NULL);
const struct model_arch arch_granitemoeshared = DECODER("granitemoeshared", "GraniteMoeShared", shared_heads,
                                                        shared_config, NULL, "moe-7b-1b-active-shared-experts", NULL);
