#include "format/gguf/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct gguf_names outer[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
    {0},
};

/* Behind "blk.N." and "model.layers.N.". */
static const struct gguf_names everybodys[] = {
    {"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
    {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},      {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"}, {"attn_k_norm", "self_attn.k_norm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},       {0},
};

static const struct gguf_names gemma2[] = {
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {0},
};

static const struct gguf_names olmo2[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
    {0},
};

static const struct gguf_names phi3[] = {
    {"attn_qkv", "self_attn.qkv_proj"},
    {"ffn_up", "mlp.gate_up_proj"},
    {0},
};

static const struct gguf_names phi2[] = {
    {"attn_output", "self_attn.dense"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_down", "mlp.fc2"},
    {0},
};

static const struct gguf_names starcoder2[] = {
    {"ffn_up", "mlp.c_fc"},
    {"ffn_down", "mlp.c_proj"},
    {0},
};

static const struct gguf_names mixtral[] = {{"ffn_gate_inp", "block_sparse_moe.gate"}, {0}};
static const struct gguf_names qwen3_moe[] = {{"ffn_gate_inp", "mlp.gate"}, {0}};

static const struct gguf_expert_names mixtral_experts[] = {
    {"ffn_gate_exps", "block_sparse_moe.experts.", "w1"},
    {"ffn_up_exps", "block_sparse_moe.experts.", "w3"},
    {"ffn_down_exps", "block_sparse_moe.experts.", "w2"},
    {0},
};

static const struct gguf_expert_names qwen3_moe_experts[] = {
    {"ffn_gate_exps", "mlp.experts.", "gate_proj"},
    {"ffn_up_exps", "mlp.experts.", "up_proj"},
    {"ffn_down_exps", "mlp.experts.", "down_proj"},
    {0},
};

#define ACT(key, name) .act_key = key, .act = name
#define SILU ACT("hidden_act", "silu")
#define GELU_TANH ACT("hidden_act", "gelu_pytorch_tanh")
#define LATER_GELU ACT("hidden_activation", "gelu_pytorch_tanh")
#define ROW(its_architecture, its_type, its_class, ...)                                                                \
    {                                                                                                                  \
        .architecture = its_architecture, .model_type = its_type, .class_name = its_class, __VA_ARGS__                 \
    }

static const struct gguf_family families[] = {
    ROW("llama", "llama", "LlamaForCausalLM", SILU, .permuted = true),
    ROW("qwen2", "qwen2", "Qwen2ForCausalLM", SILU),
    ROW("qwen3", "qwen3", "Qwen3ForCausalLM", SILU),
    ROW("smollm3", "smollm3", "SmolLM3ForCausalLM", SILU, .permuted = true),
    ROW("granite", "granite", "GraniteForCausalLM", SILU, .permuted = true),
    ROW("gemma", "gemma", "GemmaForCausalLM", GELU_TANH, .norms_plus_one = true),
    ROW("gemma2", "gemma2", "Gemma2ForCausalLM", LATER_GELU, .norms_plus_one = true, .layer = gemma2),
    ROW("gemma3", "gemma3_text", "Gemma3ForCausalLM", LATER_GELU, .norms_plus_one = true, .layer = gemma2),
    ROW("olmo2", "olmo2", "Olmo2ForCausalLM", SILU, .layer = olmo2),
    ROW("phi2", "phi", "PhiForCausalLM", ACT("hidden_act", "gelu_new"), .layer = phi2,
        .layer_norm_eps = "layer_norm_eps", .last_norm = "model.final_layernorm"),
    ROW("phi3", "phi3", "Phi3ForCausalLM", SILU, .long_factors = true, .layer = phi3),
    ROW("qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM", SILU, .layer = qwen3_moe, .experts = qwen3_moe_experts),
    ROW("starcoder2", "starcoder2", "Starcoder2ForCausalLM", GELU_TANH, .layer = starcoder2,
        .layer_norm_eps = "norm_epsilon"),
    /* Files of Mistral's models are of the architecture llama, with experts or without. */
    ROW("llama", "mistral", "MistralForCausalLM", SILU, .permuted = true),
    ROW("llama", "mixtral", "MixtralForCausalLM", SILU, .permuted = true, .layer = mixtral, .experts = mixtral_experts),
};
enum { N_FAMILIES = sizeof families / sizeof *families };

const struct gguf_family *gguf_family(const char *architecture, bool experts)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].architecture, architecture) && !families[i].experts == !experts)
            return &families[i];
    return NULL;
}

/* Whether none of the rows before has its architecture. */
static bool is_first(int row)
{
    for (int i = 0; i < row; i++)
        if (!strcmp(families[i].architecture, families[row].architecture))
            return false;
    return true;
}

const struct gguf_family *gguf_family_of_type(const char *model_type)
{
    for (int i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].model_type, model_type))
            return &families[i];
    return NULL;
}

const char *gguf_family_list(bool model_types, char text[256])
{
    int n = 0;
    for (int i = 0; i < N_FAMILIES; i++)
        if (model_types || is_first(i))
            n += snprintf(text + n, 256 - (size_t)n, "%s%s", i ? ", " : "",
                          model_types ? families[i].model_type : families[i].architecture);
    return text;
}

/* ---- names ---- */

/* The other name of the n bytes at `name`; NULL: the list, which may be NULL, has none. */
static const char *other_name(const struct gguf_names *list, bool to_hf, const char *name, size_t n)
{
    for (; list && list->own; list++) {
        const char *from = to_hf ? list->own : list->hf;
        if (strlen(from) == n && !memcmp(from, name, n))
            return to_hf ? list->hf : list->own;
    }
    return NULL;
}

/* Digits at `at` up to a dot; 0: there are none, or too many. */
static size_t number_length(const char *at)
{
    size_t digits = strspn(at, "0123456789");
    return digits && digits <= 6 && at[digits] == '.' ? digits : 0;
}

static bool translate(const struct gguf_family *f, bool to_hf, const char *name, char out[GGUF_NAME_MAX])
{
    const char *from = to_hf ? "blk." : "model.layers.", *to = to_hf ? "model.layers." : "blk.";
    const char *end = strrchr(name, '.'), *other = NULL, *at = name;
    if (!end || (strcmp(end, ".weight") && strcmp(end, ".bias")))
        return false;
    if (strncmp(name, from, strlen(from))) {
        const struct gguf_names own[] = {{"output_norm", f->last_norm}, {0}};
        size_t n = (size_t)(end - name);
        other = f->last_norm ? other_name(own, to_hf, name, n) : NULL;
        other = other ? other : other_name(outer, to_hf, name, n);
        return other && snprintf(out, GGUF_NAME_MAX, "%s%s", other, end) < GGUF_NAME_MAX;
    }
    at += strlen(from);
    size_t digits = number_length(at);
    const char *part = at + digits + 1;
    if (!digits || part >= end)
        return false;
    other = other_name(f->layer, to_hf, part, (size_t)(end - part));
    if (!other)
        other = other_name(everybodys, to_hf, part, (size_t)(end - part));
    return other && snprintf(out, GGUF_NAME_MAX, "%s%.*s.%s%s", to, (int)digits, at, other, end) < GGUF_NAME_MAX;
}

bool gguf_name_to_hf(const struct gguf_family *f, const char *own, char hf[GGUF_NAME_MAX])
{
    return translate(f, true, own, hf);
}

bool gguf_name_from_hf(const struct gguf_family *f, const char *hf, char own[GGUF_NAME_MAX])
{
    return translate(f, false, hf, own);
}

bool gguf_expert_to_hf(const struct gguf_family *f, const char *own, int64_t e, char hf[GGUF_NAME_MAX])
{
    const char *at = own + strlen("blk."), *end = strrchr(own, '.');
    size_t digits = strncmp(own, "blk.", strlen("blk.")) ? 0 : number_length(at);
    if (!digits || strcmp(end, ".weight"))
        return false;
    const char *part = at + digits + 1;
    for (const struct gguf_expert_names *n = f->experts; n && n->own; n++)
        if (part < end && strlen(n->own) == (size_t)(end - part) && !strncmp(part, n->own, (size_t)(end - part)))
            return snprintf(hf, GGUF_NAME_MAX, "model.layers.%.*s.%s%lld.%s.weight", (int)digits, at, n->before,
                            (long long)e, n->behind) < GGUF_NAME_MAX;
    return false;
}

bool gguf_expert_from_hf(const struct gguf_family *f, const char *hf, char own[GGUF_NAME_MAX], int64_t *e)
{
    const char *layers = "model.layers.", *at = hf + strlen(layers);
    size_t digits = strncmp(hf, layers, strlen(layers)) ? 0 : number_length(at);
    const char *part = at + digits + 1;
    for (const struct gguf_expert_names *n = f->experts; digits && n && n->own; n++) {
        const char *number = part + strlen(n->before);
        size_t own_digits = strncmp(part, n->before, strlen(n->before)) ? 0 : number_length(number);
        const char *behind = number + own_digits + 1;
        if (!own_digits || strncmp(behind, n->behind, strlen(n->behind)) ||
            strcmp(behind + strlen(n->behind), ".weight"))
            continue;
        *e = strtoll(number, NULL, 10);
        return snprintf(own, GGUF_NAME_MAX, "blk.%.*s.%s.weight", (int)digits, at, n->own) < GGUF_NAME_MAX;
    }
    return false;
}

/* ---- numbers ---- */

bool gguf_stays_wide(const char *own)
{
    return strstr(own, ".ffn_gate_inp.") != NULL;
}

enum gguf_change gguf_change(const struct gguf_family *f, const char *own)
{
    const char *norm = strstr(own, "_norm.weight");
    if (f->permuted && strstr(own, ".attn_q."))
        return GGUF_QUERY_ROWS;
    if (f->permuted && strstr(own, ".attn_k."))
        return GGUF_KEY_ROWS;
    return norm && f->norms_plus_one ? GGUF_PLUS_ONE : GGUF_SAME;
}

int64_t gguf_stored_row(int64_t row, int64_t width)
{
    int64_t at = row % width;
    return row - at + (at < width / 2 ? 2 * at : 2 * (at - width / 2) + 1);
}

int64_t gguf_model_row(int64_t stored, int64_t width)
{
    int64_t at = stored % width;
    return stored - at + at / 2 + at % 2 * (width / 2);
}
