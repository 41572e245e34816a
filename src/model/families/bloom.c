/* BLOOM (Le Scao et al., arXiv 2211.05100) as transformers' modeling_bloom: attention with biases by distance (ALiBi: Press et al., arXiv
 * 2108.12409), queries, keys and values head by head in one weight, and a norm behind the embeddings. */
#include "model/gpt.h"
#include "model/refused.h"

static const struct gpt_names names = {.words = "word_embeddings",
                                       .words_norm = "word_embeddings_layernorm",
                                       .attention_norm = "input_layernorm",
                                       .mlp_norm = "post_attention_layernorm",
                                       .last_norm = "ln_f",
                                       .qkv = "self_attention.query_key_value",
                                       .out = "self_attention.dense",
                                       .up = "mlp.dense_h_to_4h",
                                       .down = "mlp.dense_4h_to_h",
                                       .head = "lm_head"};

static const struct gpt_keys keys = {.hidden_size = {"hidden_size", "n_embed"},
                                     .layers = {"n_layer", "num_hidden_layers"},
                                     .heads = {"n_head", "num_attention_heads"},
                                     .norm_eps = "layer_norm_epsilon",
                                     .dropout_hidden = "hidden_dropout",
                                     .dropout_attention = "attention_dropout"};

enum { NO_LIMIT = 1 << 20, USUAL_LENGTH = 2048 };

/* Its positions know no limit; models were trained with inputs of `seq_length` tokens, which some files tell. */
static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    c->longest = NO_LIMIT, c->usual_length = USUAL_LENGTH;
    own->names = &names, own->act = ACT_gelu_tanh, own->slopes = true;
    own->qkv_bias = own->out_bias = own->mlp_bias = true;
    TRY(json_get_int(o, path, "seq_length", false, 1, NO_LIMIT, &c->usual_length, err));
    TRY(gpt_config(o, path, c, &keys, err));
    return gpt_by_group(path, c, err);
}

static const struct model_head heads[MODEL_COUNT] = GPT_HEADS("Bloom", "ForCausalLM", "lm_head.weight");

static const struct tied_name tied[] = {{"lm_head.weight", "transformer.word_embeddings.weight"}, {0}};

static const struct refused refused[] = {
    {.key = "apply_residual_connection_post_layernorm", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_bloom = GPT("bloom", "Bloom", "no limit but", heads, tied, config, "query_key_value",
                                         "bloom-560m, bloomz-560m, bloom-1b7", refused);
