/* Qwen2, Qwen2.5 (arXiv 2407.10671, 2412.15115) and Qwen3 (arXiv 2505.09388) as transformers' modeling_qwen2 and modeling_qwen3:
 * Llama, with biases of queries, keys and values, or with norms of queries and keys instead. */
#include "model/decoder.h"

static int qwen2_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 32768, c->untied = true, own->norm_eps = 1e-6, own->kv_heads = 32, own->window = 4096;
    own->qkv_bias = true;
    TRY(decoder_config(o, path, c, 1e4, err));
    return decoder_windows(o, path, c, (struct decoder_windows){.asked = true}, err);
}

static int qwen3_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 32768, c->untied = true, own->norm_eps = 1e-6, own->kv_heads = 32, own->window = 4096;
    own->head_size = 128;
    own->head_norms = HEADS_EACH;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, 1e4, err));
    return decoder_windows(o, path, c, (struct decoder_windows){.asked = true}, err);
}

static const struct model_head qwen2_heads[MODEL_COUNT] = DECODER_HEADS("Qwen2");
static const struct model_head qwen3_heads[MODEL_COUNT] = DECODER_HEADS("Qwen3");

const struct model_arch arch_qwen2 =
    DECODER("qwen2", "Qwen2", qwen2_heads, qwen2_config, "q_proj,v_proj", "Qwen2.5-0.5B, Qwen2.5-7B-Instruct", NULL);
const struct model_arch arch_qwen3 =
    DECODER("qwen3", "Qwen3", qwen3_heads, qwen3_config, "q_proj,v_proj", "Qwen3-0.6B, Qwen3-8B", NULL);
