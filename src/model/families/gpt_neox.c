/* GPT-NeoX and Pythia (Black et al., arXiv 2204.06745; Biderman et al., arXiv 2304.01373) as transformers' modeling_gpt_neox: rotary
 * positions of a part of each head, queries, keys and values head by head in one weight, and layers whose two blocks read the same, each
 * with a norm of its own. */
#include "model/gpt.h"

static const struct gpt_names names = {.words = "embed_in",
                                       .attention_norm = "input_layernorm",
                                       .mlp_norm = "post_attention_layernorm",
                                       .last_norm = "final_layer_norm",
                                       .qkv = "attention.query_key_value",
                                       .out = "attention.dense",
                                       .up = "mlp.dense_h_to_4h",
                                       .down = "mlp.dense_4h_to_h",
                                       .head = "embed_out"};

static const struct gpt_keys keys = {.hidden_size = {"hidden_size", NULL},
                                     .layers = {"num_hidden_layers", NULL},
                                     .heads = {"num_attention_heads", NULL},
                                     .positions = {"max_position_embeddings", NULL},
                                     .intermediate_size = {"intermediate_size", NULL},
                                     .tells_width = true,
                                     .act = "hidden_act",
                                     .norm_eps = "layer_norm_eps",
                                     .dropout_embedding = "hidden_dropout",
                                     .dropout_hidden = "hidden_dropout",
                                     .dropout_attention = "attention_dropout"};

/* Before transformers 5 the settings of rotary positions had names of their own here. */
static int read_rotary(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct rotary_model r = {
        .head_size = c->hidden_size / c->heads, .positions = c->longest, .theta = 1e4, .part = 0.25};
    TRY(json_get_real(o, path, "rotary_emb_base", false, 1 + 1e-9, 1e15, &r.theta, err));
    TRY(json_get_real(o, path, "rotary_pct", false, 1e-3, 1, &r.part, err));
    return rotary_read(o, path, &r, &c->rotary[ROTARY_ALL], err);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    bool biases = true;
    c->longest = 2048, c->untied = true;
    own->names = &names, own->act = ACT_gelu, own->by_group = own->parallel = own->mlp_bias = true;
    TRY(gpt_config(o, path, c, &keys, err));
    TRY(json_get_bool(o, path, "attention_bias", false, &biases, err));
    own->qkv_bias = own->out_bias = biases;
    TRY(json_get_bool(o, path, "use_parallel_residual", false, &own->parallel, err));
    return read_rotary(o, path, c, err);
}

static const struct model_head heads[MODEL_COUNT] = GPT_HEADS("GPTNeoX", "ForCausalLM", "embed_out.weight");

static const struct tied_name tied[] = {{"embed_out.weight", "gpt_neox.embed_in.weight"}, {0}};

const struct model_arch arch_gpt_neox = {.model_type = "gpt_neox",
                                         .known = "pythia-160m, pythia-6.9b, gpt-neox-20b",
                                         .class_prefix = "GPTNeoX",
                                         .positions_key = "max_position_embeddings",
                                         .base_prefix = "gpt_neox.",
                                         .layer_prefix = "layers.",
                                         .tied = tied,
                                         .ignored = gpt_ignored,
                                         .heads = heads,
                                         .adapted = "query_key_value",
                                         .config = config,
                                         .body = gpt_body};
