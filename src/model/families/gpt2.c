/* GPT-2 (Radford et al., 2019) as transformers' modeling_gpt2: learned positions, weights stored (in,out), output embeddings tied to
 * the input's. And GPT-BigCode (Ben Allal et al., arXiv 2301.03988; Li et al., arXiv 2305.06161) as modeling_gpt_bigcode: weights stored
 * (out,in), one key and value for all heads. */
#include "model/gpt.h"
#include "model/refused.h"

static const struct gpt_names names = {.words = "wte",
                                       .positions = "wpe",
                                       .attention_norm = "ln_1",
                                       .mlp_norm = "ln_2",
                                       .last_norm = "ln_f",
                                       .qkv = "attn.c_attn",
                                       .out = "attn.c_proj",
                                       .up = "mlp.c_fc",
                                       .down = "mlp.c_proj",
                                       .head = "lm_head"};

/* What both have. */
static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    bool scaled = true;
    c->longest = 1024, c->dropout_embedding = c->dropout_hidden = c->dropout_attention = 0.1;
    own->names = &names, own->act = ACT_gelu_tanh, own->small_residuals = true;
    own->qkv_bias = own->out_bias = own->mlp_bias = true;
    TRY(gpt_config(o, path, c, &gpt2_keys, err));
    TRY(json_get_bool(o, path, "scale_attn_weights", false, &scaled, err));
    own->unscaled = !scaled;
    return SNUG_OK;
}

static int gpt2_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    TRY(config(o, path, c, err));
    own->in_out = true;
    return json_get_bool(o, path, "scale_attn_by_inverse_layer_idx", false, &own->scaled_by_layer, err);
}

/* Where each head has a key of its own, the weight has queries, keys and values head by head. */
static int bigcode_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    bool one = true;
    TRY(config(o, path, c, err));
    TRY(json_get_bool(o, path, "multi_query", false, &one, err));
    own->kv_heads = one ? 1 : c->heads;
    return one ? SNUG_OK : gpt_by_group(path, c, err);
}

static const struct model_head gpt2_heads[MODEL_COUNT] = GPT_HEADS("GPT2", "LMHeadModel", "lm_head.weight");
static const struct model_head bigcode_heads[MODEL_COUNT] = GPT_HEADS("GPTBigCode", "ForCausalLM", "lm_head.weight");

static const struct refused refused[] = {
    {.key = "add_cross_attention", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_gpt2 =
    GPT("gpt2", "GPT2", "n_positions", gpt2_heads, gpt_tied, gpt2_config, "c_attn", "gpt2, gpt2-medium", refused);
const struct model_arch arch_gpt_bigcode =
    GPT("gpt_bigcode", "GPTBigCode", "n_positions", bigcode_heads, gpt_tied, bigcode_config, "c_attn",
        "starcoderbase-1b, tiny_starcoder_py, gpt_bigcode-santacoder", refused);
