/* Falcon (Almazrouei et al., arXiv 2311.16867) as transformers' modeling_falcon: rotary positions, queries, keys and values in one weight,
 * and layers whose blocks read the same. In three forms: one key and value for all heads and one norm a layer (falcon-7b); groups of
 * heads (new_decoder_architecture), mostly with a norm for each block (falcon-40b); a key for each head. */
#include "model/gpt.h"
#include "model/refused.h"

#define NAMES(norm, other)                                                                                             \
    {                                                                                                                  \
        .words = "word_embeddings", .attention_norm = norm, .mlp_norm = other, .last_norm = "ln_f",                    \
        .qkv = "self_attention.query_key_value", .out = "self_attention.dense", .up = "mlp.dense_h_to_4h",             \
        .down = "mlp.dense_4h_to_h", .head = "lm_head",                                                                \
    }
static const struct gpt_names one_norm = NAMES("input_layernorm", NULL), own_norms = NAMES("ln_attn", "ln_mlp"),
                              in_turn = NAMES("input_layernorm", "post_attention_layernorm");

static const struct gpt_keys keys = {.hidden_size = {"hidden_size", "n_embed"},
                                     .layers = {"num_hidden_layers", NULL},
                                     .heads = {"num_attention_heads", NULL},
                                     .positions = {"max_position_embeddings", NULL},
                                     .intermediate_size = {"ffn_hidden_size", NULL},
                                     .act = "activation",
                                     .norm_eps = "layer_norm_epsilon"};

/* Which norms a layer has. */
static int read_norms(json_t *o, const char *path, struct model_config *c, bool newer, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    int64_t norms = newer ? 2 : 1;
    own->parallel = true;
    TRY(json_get_bool(o, path, "parallel_attn", false, &own->parallel, err));
    TRY(json_get_int(o, path, "num_ln_in_parallel_attn", false, 1, 2, &norms, err));
    own->names = !own->parallel ? &in_turn : norms == 2 ? &own_norms : &one_norm;
    if (newer && !own->parallel)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: parallel_attn is false with new_decoder_architecture, and such a layer has no form; correct "
            "one",
            path);
    if (!newer && own->parallel && norms == 2)
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: num_ln_in_parallel_attn is 2 without new_decoder_architecture, and such a layer has no form; "
            "correct one",
            path);
    return SNUG_OK;
}

/* How many keys there are, and how they lie in the weight. */
static int read_keys(json_t *o, const char *path, struct model_config *c, bool newer, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    bool one = true;
    TRY(json_get_bool(o, path, "multi_query", false, &one, err));
    own->by_group = newer || !one;
    own->kv_heads = newer || !one ? c->heads : 1;
    if (newer)
        TRY(json_get_int(o, path, "num_kv_heads", false, 1, 4095, &own->kv_heads, err));
    return c->heads % own->kv_heads == 0
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT,
                         "%s: num_attention_heads %lld is not a multiple of num_kv_heads %lld; correct one", path,
                         (long long)c->heads, (long long)own->kv_heads);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    bool newer = false, biases = false;
    c->longest = 2048;
    own->act = ACT_gelu;
    TRY(json_get_bool(o, path, "new_decoder_architecture", false, &newer, err));
    TRY(read_norms(o, path, c, newer, err));
    TRY(gpt_config(o, path, c, &keys, err));
    TRY(read_keys(o, path, c, newer, err));
    TRY(json_get_bool(o, path, "bias", false, &biases, err));
    own->qkv_bias = own->out_bias = own->mlp_bias = biases;
    const struct rotary_model r = {.head_size = c->hidden_size / c->heads, .positions = c->longest, .theta = 1e4};
    return rotary_read(o, path, &r, &c->rotary[ROTARY_ALL], err);
}

static const struct model_head heads[MODEL_COUNT] = GPT_HEADS("Falcon", "ForCausalLM", "lm_head.weight");

static const struct tied_name tied[] = {{"lm_head.weight", "transformer.word_embeddings.weight"}, {0}};

/* Its dropouts are not where they are elsewhere: attention's is behind it, and only where blocks follow one another. */
static const struct refused refused[] = {
    {.key = "alibi", .kind = REFUSED_TRUE},
    {.key = "attention_dropout", .kind = REFUSED_ABOVE_0},
    {.key = "hidden_dropout", .kind = REFUSED_ABOVE_0},
    {0},
};

const struct model_arch arch_falcon =
    GPT("falcon", "Falcon", "max_position_embeddings", heads, tied, config, "query_key_value",
        "falcon-7b, falcon-7b-instruct, falcon-11B, falcon-40b", refused);
