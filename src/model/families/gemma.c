/* Gemma (arXiv 2403.08295), Gemma 2 (arXiv 2408.00118) and the text model of Gemma 3 (arXiv 2503.19786) as transformers'
 * modeling_gemma, modeling_gemma2 and modeling_gemma3: Llama with scaled embeddings. The later two have norms behind the blocks too,
 * and windows in turn; with caps of scores and logits, or with norms of queries and keys and rotary positions of their own for the
 * layers with windows. */
#include "model/decoder.h"
#include "model/refused.h"

#include <math.h>

static const struct decoder_norms norms = {.attention = "input_layernorm",
                                           .attention_out = "post_attention_layernorm",
                                           .mlp = "pre_feedforward_layernorm",
                                           .mlp_out = "post_feedforward_layernorm",
                                           .last = "norm"};

/* What all have. */
static int config(json_t *o, const char *path, struct model_config *c, double theta, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->pad_id = 0;
    own->norm_eps = 1e-6, own->one_plus = true, own->head_size = 256;
    TRY(json_get_bool(o, path, "attention_bias", false, &own->qkv_bias, err));
    own->out_bias = own->qkv_bias;
    TRY(decoder_config(o, path, c, theta, err));
    own->embedding_scale = sqrt((double)c->hidden_size);
    return SNUG_OK;
}

/* What the first releases call gelu is meant to be its approximation. */
static int gemma_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 8192, own->kv_heads = 16;
    TRY(config(o, path, c, 1e4, err));
    TRY(config_act(o, path, "hidden_act", ACT_gelu_tanh, &own->act, err));
    own->act = own->act == ACT_gelu ? ACT_gelu_tanh : own->act;
    return SNUG_OK;
}

/* What the later two have. */
static int later_config(json_t *o, const char *path, struct model_config *c, double theta,
                        struct decoder_windows windows, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    double query = 256;
    own->norms = &norms, own->window = 4096;
    TRY(config(o, path, c, theta, err));
    TRY(config_act(o, path, "hidden_activation", ACT_gelu_tanh, &own->act, err));
    TRY(json_get_real(o, path, "query_pre_attn_scalar", false, 1e-9, 1e9, &query, err));
    own->score_scale = 1 / sqrt(query);
    return decoder_windows(o, path, c, windows, err);
}

/* A cap: null is none. */
static int read_cap(json_t *o, const char *path, const char *key, double *cap, struct snug_err *err)
{
    if (json_is_null(json_object_get(o, key)))
        *cap = 0;
    return json_get_real(o, path, key, false, 1e-6, 1e9, cap, err);
}

static int gemma2_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 8192, own->kv_heads = 4, own->score_cap = 50, own->cap = 30;
    TRY(read_cap(o, path, "attn_logit_softcapping", &own->score_cap, err));
    TRY(read_cap(o, path, "final_logit_softcapping", &own->cap, err));
    return later_config(o, path, c, 1e4, (struct decoder_windows){.full_every = 2}, err);
}

static int gemma3_config(json_t *o, const char *path, struct model_config *c, struct snug_err *err)
{
    struct decoder_config *own = &c->own.decoder;
    c->longest = 131072, c->vocab_size = 262208, c->heads = 8;
    own->kv_heads = 4, own->head_norms = HEADS_EACH;
    TRY(read_cap(o, path, "final_logit_softcapping", &own->cap, err)); /* its attn_logit_softcapping nobody uses */
    TRY(later_config(o, path, c, 1e6, (struct decoder_windows){.full_every = 6, .patterned = true}, err));
    const struct rotary_model window = {.head_size = own->head_size,
                                        .positions = c->longest,
                                        .theta = 1e4,
                                        .layer_type = "sliding_attention",
                                        .theta_key = "rope_local_base_freq"};
    return rotary_read(o, path, &window, &c->rotary[ROTARY_WINDOW], err);
}

static const struct model_head gemma_heads[MODEL_COUNT] = DECODER_HEADS("Gemma");
static const struct model_head gemma2_heads[MODEL_COUNT] = DECODER_HEADS("Gemma2");
static const struct model_head gemma3_heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "Gemma3TextForSequenceClassification",
                                       .weight = "score.weight",
                                       .logits = decoder_classifier},
    [MODEL_CAUSAL_LM] = {.class_name = "Gemma3ForCausalLM", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};

/* With pictures: the text model is a part. */
static const struct model_head gemma3_part_heads[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.class_name = "Gemma3ForSequenceClassification",
                                       .weight = "score.weight",
                                       .logits = decoder_classifier},
    [MODEL_CAUSAL_LM] = {
        .class_name = "Gemma3ForConditionalGeneration", .logits = decoder_causal_lm, .untied = "lm_head.weight"}};

static const struct refused refused[] = {
    {.key = "use_bidirectional_attention", .kind = REFUSED_TRUE},
    {0},
};

const struct model_arch arch_gemma = DECODER("gemma", "Gemma", gemma_heads, gemma_config, "q_proj,v_proj",
                                             "gemma-2b-it, gemma-7b, codegemma-2b", refused);
const struct model_arch arch_gemma2 =
    DECODER("gemma2", "Gemma2", gemma2_heads, gemma2_config, "q_proj,v_proj", "gemma-2-2b-it, gemma-2-9b", refused);
const struct model_arch arch_gemma3_text = DECODER("gemma3_text", "Gemma3", gemma3_heads, gemma3_config,
                                                   "q_proj,v_proj", "gemma-3-270m-it, gemma-3-1b-it", refused);

static const struct tied_name part_tied[] = {{"lm_head.weight", "model.language_model.embed_tokens.weight"}, {0}};
static const struct spelled_name part_spelled[] = {
    {"model.language_model.", "language_model.model."}, {"lm_head.", "language_model.lm_head."}, {0}};
static const char *const beside[] = {"vision_tower.", "multi_modal_projector.", "model.vision_tower.",
                                     "model.multi_modal_projector.", NULL};

const struct model_arch arch_gemma3 = {.model_type = "gemma3",
                                       .class_prefix = "Gemma3",
                                       .positions_key = "max_position_embeddings",
                                       .base_prefix = "model.language_model.",
                                       .layer_prefix = "layers.",
                                       .tied = part_tied,
                                       .part = "text_config",
                                       .alone = "gemma3_text",
                                       .spelled = part_spelled,
                                       .beside = beside,
                                       .excluded = ".*(vision_tower|multi_modal_projector).*",
                                       .ignored = decoder_ignored,
                                       .heads = gemma3_part_heads,
                                       .adapted = "q_proj,v_proj",
                                       .config = gemma3_config,
                                       .body = decoder_body,
                                       .only_attention_drops = true,
                                       .known = "gemma-3-4b-it, gemma-3-12b-it, gemma-3-27b-it",
                                       .refused = refused};
