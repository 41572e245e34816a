/* ERNIE 4.5's dense models (Baidu, 2025) as transformers' modeling_ernie4_5: Llama, whose heads turn in pairs of neighbours. */
#include "model/decoder.h"

static int config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 131072, c->pad_id = 0;
    own->norm_eps = 1e-5, own->kv_heads = 2, own->head_size = 128, own->interleaved = true;
    TRY(json_get_bool(o, path, "use_bias", false, &own->qkv_bias, err));
    own->out_bias = own->mlp_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 5e5, err));
    c->dropout_attention = 0; /* whatever the file says */
    return SNUG_OK;
}

static const struct model_head heads[MODEL_COUNT] = {
    [MODEL_CAUSAL_LM] = {.class_name = "Ernie4_5ForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};

const struct model_arch arch_ernie4_5 =
    DECODER("ernie4_5", "Ernie4_5", heads, config, NULL, "ERNIE-4.5-0.3B-PT, ERNIE-4.5-0.3B-Base-PT", NULL);
