/* GPT-J (Wang and Komatsuzaki, 2021) as transformers' modeling_gptj: rotary positions that turn neighbours in a part of each head, layers
 * whose blocks read the same norm, and a bias of the output. */
#include "model/gpt.h"
#include "model/refused.h"

static const struct gpt_names names = {.words = "wte",
                                       .attention_norm = "ln_1",
                                       .last_norm = "ln_f",
                                       .qkv = "attn.qkv_proj",
                                       .query = "attn.q_proj",
                                       .key = "attn.k_proj",
                                       .value = "attn.v_proj",
                                       .out = "attn.out_proj",
                                       .up = "mlp.fc_in",
                                       .down = "mlp.fc_out",
                                       .head = "lm_head"};

/* Nothing scales the positions: another model's settings of that kind are not looked at. */
static int read_rotary(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct rotary_model r = {.head_size = 64, .positions = c->longest, .theta = 1e4};
    int64_t D = c->hidden_size / c->heads;
    TRY(json_get_int(o, path, "rotary_dim", false, 2, 1 << 16, &r.head_size, err));
    bool null = json_is_null(json_object_get(o, "rotary_dim"));
    if (null || r.head_size > D)
        return err_set(err, SNUG_ERR_INPUT, "%s: rotary_dim is %s of a head of %lld; write how many entries turn", path,
                       null ? "null, and not a part" : "more than all", (long long)D);
    TRY(rotary_read(NULL, path, &r, &c->rotary[ROTARY_ALL], err));
    return refused_present(o, path, "rope_scaling", err);
}

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct gpt_config *own = &c->own.gpt;
    c->longest = 2048, c->untied = true;
    own->names = &names, own->act = ACT_gelu_tanh;
    own->interleaved = own->parallel = own->mlp_bias = own->head_bias = true;
    TRY(gpt_config(o, path, c, &gpt2_keys, err));
    return read_rotary(o, path, c, err);
}

static const struct model_head heads[MODEL_COUNT] = GPT_HEADS("GPTJ", "ForCausalLM", "lm_head.weight");

const struct model_arch arch_gptj =
    GPT("gptj", "GPTJ", "n_positions", heads, gpt_tied, config, "q_proj,v_proj", "gpt-j-6b", NULL);
