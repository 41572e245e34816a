/* GPT-Neo (Black et al., 2021) as transformers' modeling_gpt_neo: GPT-2 with weights stored (out,in), queries, keys and values by
 * themselves and without biases, scores that are not scaled, and layers in turn that see everything or a window. */
#include "model/gpt.h"

#include <string.h>

static const struct gpt_names names = {.words = "wte",
                                       .positions = "wpe",
                                       .attention_norm = "ln_1",
                                       .mlp_norm = "ln_2",
                                       .last_norm = "ln_f",
                                       .qkv = "attn.attention.qkv_proj",
                                       .query = "attn.attention.q_proj",
                                       .key = "attn.attention.k_proj",
                                       .value = "attn.attention.v_proj",
                                       .out = "attn.attention.out_proj",
                                       .up = "mlp.c_fc",
                                       .down = "mlp.c_proj",
                                       .head = "lm_head"};

static const struct gpt_keys keys = {.hidden_size = {"hidden_size", NULL},
                                     .layers = {"num_layers", "num_hidden_layers"},
                                     .heads = {"num_heads", "num_attention_heads"},
                                     .positions = {"max_position_embeddings", NULL},
                                     .intermediate_size = {"intermediate_size", NULL},
                                     .act = "activation_function",
                                     .norm_eps = "layer_norm_epsilon",
                                     .dropout_embedding = "embed_dropout",
                                     .dropout_hidden = "resid_dropout",
                                     .dropout_attention = "attention_dropout"};

static int refuse_types(json_t *types, const char *path, struct snug_err *err)
{
    char text[64];
    return err_set(err, SNUG_ERR_INPUT, "%s: attention_types has %s; write lists such as [[\"global\", \"local\"], 6]",
                   path, types ? json_value_text(types, text) : "no kind of a layer");
}

/* Which of the layers from *at on see a window: those of `kinds`, so often one after the other. */
static int read_kinds(json_t *item, const char *path, struct model_config *c, int64_t *at, struct snug_err *err)
{
    json_t *kinds = json_array_get(item, 0), *often = json_array_get(item, 1), *kind;
    size_t k;
    if (!json_is_array(kinds) || !json_is_integer(often) || json_array_size(item) != 2)
        return refuse_types(item, path, err);
    for (json_int_t n = 0; n < json_integer_value(often) && *at <= c->layers && json_array_size(kinds); n++)
        json_array_foreach(kinds, k, kind)
        {
            const char *name = json_is_string(kind) ? json_string_value(kind) : "";
            if (strcmp(name, "local") && strcmp(name, "global"))
                return refuse_types(kind, path, err);
            if (*at < c->layers)
                c->own.gpt.slides[*at] = !strcmp(name, "local");
            ++*at;
        }
    return SNUG_OK;
}

/* Without attention_types each second of 24 layers does. */
static int read_windows(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    json_t *types = json_object_get(o, "attention_types"), *item;
    int64_t told = 0;
    size_t i;
    c->own.gpt.window = 256;
    TRY(json_get_int(o, path, "window_size", false, 1, 1 << 30, &c->own.gpt.window, err));
    if (!types || json_is_null(types))
        for (; told < 24; told++)
            c->own.gpt.slides[told] = told % 2 == 1;
    else if (!json_is_array(types))
        return refuse_types(types, path, err);
    json_array_foreach(types, i, item) TRY(read_kinds(item, path, c, &told, err));
    return told == c->layers
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT, "%s: attention_types has %s layers than num_layers %lld; make them agree",
                         path, told < c->layers ? "fewer" : "more", (long long)c->layers);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    c->longest = 2048;
    own->names = &names, own->act = ACT_gelu_tanh, own->unscaled = true;
    own->out_bias = own->mlp_bias = true;
    TRY(gpt_config(o, path, c, &keys, err));
    return read_windows(o, path, c, err);
}

static const struct model_head heads[MODEL_COUNT] = GPT_HEADS("GPTNeo", "ForCausalLM", "lm_head.weight");

const struct model_arch arch_gpt_neo =
    GPT("gpt_neo", "GPTNeo", "max_position_embeddings", heads, gpt_tied, config, "q_proj,v_proj",
        "gpt-neo-125m, gpt-neo-1.3B, gpt-neo-2.7B, TinyStories-33M", NULL);
