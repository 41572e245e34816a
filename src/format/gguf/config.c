/* config.json out of a GGUF file's metadata, as transformers writes it. */
#include "format/gguf/llama3.h"
#include "format/gguf/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is read, and where it goes. After a failure later calls do nothing. */
struct maker {
    const struct gguf_file *f;
    const struct gguf_family *family;
    json_t *out;
    struct snug_err *err;
    int code;
};

int gguf_family_of_file(const struct gguf_file *f, const struct gguf_family **family, struct snug_err *err)
{
    const char *name;
    char list[256];
    int64_t parts = 1;
    TRY(json_get_string(f->metadata, f->path, "general.architecture", true, &name, err));
    TRY(json_get_int(f->metadata, f->path, "split.count", false, 0, UINT16_MAX, &parts, err));
    if (parts > 1)
        return err_set(err, SNUG_ERR_INPUT, "%s: one of %lld parts of a model; join them with llama-gguf-split --merge",
                       f->path, (long long)parts);
    char key[128];
    int64_t experts = 0;
    snprintf(key, sizeof key, "%.60s.expert_count", name);
    TRY(json_get_int(f->metadata, f->path, key, false, 0, INT32_MAX, &experts, err));
    if (!gguf_family(name, false) && !gguf_family(name, true))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: general.architecture is \"%.60s\"; read from GGUF files are: %s; get the model as "
                       "safetensors",
                       f->path, name, gguf_family_list(false, list));
    *family = gguf_family(name, experts > 0);
    return *family ? SNUG_OK
                   : err_set(err, SNUG_ERR_INPUT,
                             "%s: %s is %lld; models of this architecture are read %s; get it as safetensors", f->path,
                             key, (long long)experts, experts ? "without experts alone" : "with experts alone");
}

/* A key of the architecture's. */
static const char *own_key(const struct maker *m, const char *name, char key[128])
{
    snprintf(key, 128, "%s.%s", m->family->architecture, name);
    return key;
}

static bool has(const struct maker *m, const char *name)
{
    char key[128];
    return json_object_get(m->f->metadata, own_key(m, name, key)) != NULL;
}

static void set(struct maker *m, const char *name, json_t *value)
{
    if (m->code)
        json_decref(value);
    else if (json_object_set_new(m->out, name, value))
        m->code = err_no_memory(m->err, 64);
}

/* Copies an integer from 1 on to `name`. */
static void copy_int(struct maker *m, const char *from, bool required, const char *name)
{
    char key[128];
    int64_t value = 0;
    if (!m->code)
        m->code =
            json_get_int(m->f->metadata, m->f->path, own_key(m, from, key), required, 1, INT32_MAX, &value, m->err);
    if (value)
        set(m, name, json_integer(value));
}

/* The number of fewest digits that is the same float: 9.99999975e-06 was 1e-05 before it was stored. */
static double shortest(double x)
{
    for (int digits = 1; digits < 9; digits++) {
        char text[40];
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtof(text, NULL) == (float)x)
            return strtod(text, NULL);
    }
    return x;
}

static void copy_real(struct maker *m, const char *from, bool required, const char *name)
{
    char key[128];
    double value = NAN;
    if (!m->code)
        m->code =
            json_get_real(m->f->metadata, m->f->path, own_key(m, from, key), required, -1e30, 1e30, &value, m->err);
    if (!m->code && !isnan(value))
        set(m, name, json_real(shortest(value)));
}

static void copy_token(struct maker *m, const char *key, const char *name)
{
    int64_t id = -1;
    if (!m->code)
        m->code = json_get_int(m->f->metadata, m->f->path, key, false, 0, INT32_MAX, &id, m->err);
    if (id >= 0)
        set(m, name, json_integer(id));
}

/* Of some chats a turn's end is another token than the text's: generation ends at both. */
static void add_end_of_turn(struct maker *m)
{
    json_t *eos = json_object_get(m->out, "eos_token_id");
    int64_t id = -1;
    if (!m->code)
        m->code =
            json_get_int(m->f->metadata, m->f->path, "tokenizer.ggml.eot_token_id", false, 0, INT32_MAX, &id, m->err);
    if (id < 0 || json_integer_value(eos) == id)
        return;
    set(m, "eos_token_id", eos ? json_pack("[O I]", eos, (json_int_t)id) : json_integer(id));
}

static void copy_tokens(struct maker *m)
{
    copy_token(m, "tokenizer.ggml.bos_token_id", "bos_token_id");
    copy_token(m, "tokenizer.ggml.eos_token_id", "eos_token_id");
    add_end_of_turn(m);
    copy_token(m, "tokenizer.ggml.padding_token_id", "pad_token_id");
}

/* The rows of the embeddings count: vocab_size, where it is there, may be without padding. */
static void copy_vocabulary(struct maker *m)
{
    const struct gguf_tensor *words = gguf_find(m->f, "token_embd.weight");
    if (words && words->ndim == 2)
        set(m, "vocab_size", json_integer(words->shape[0]));
    else if (!m->code)
        m->code =
            err_set(m->err, SNUG_ERR_INPUT, "%s: no table of embeddings, token_embd.weight" GGUF_AGAIN, m->f->path);
    set(m, "tie_word_embeddings", json_boolean(!gguf_find(m->f, "output.weight")));
}

/* ---- rotary positions ---- */

/* Whether the n divisors are those of Llama 3.1's rule for so many positions; *s: with which settings. */
static bool is_llama3(const float *divisors, int64_t n, double theta, double original, struct llama3_scaling *s)
{
    *s = (struct llama3_scaling){.factor = divisors[n - 1], .low = 1, .high = 4, .original = original};
    bool same = true;
    for (int64_t i = 0; same && i < n; i++)
        same = fabs(divisors[i] / llama3_divisor(s, theta, i, n) - 1) < 1e-4;
    return same;
}

/* rope_freqs.weight holds what Llama 3.1 divides frequencies by, and no setting says how they were made: the settings of the
 * published models are tried, then other lengths, and must give all of them. */
static void find_llama3(struct maker *m, const struct gguf_tensor *t)
{
    float divisors[1024];
    char key[128];
    double theta = 10000;
    struct llama3_scaling s = {.factor = 1};
    int64_t n = t->elements;
    if (m->code)
        return;
    m->code =
        json_get_real(m->f->metadata, m->f->path, own_key(m, "rope.freq_base", key), false, 1, 1e15, &theta, m->err);
    bool fits = n >= 1 && n <= 1024 && t->type->dtype == DT_F32;
    if (!m->code && fits)
        m->code = gguf_read(m->f, t, 0, n, divisors, m->err);
    if (!m->code && fits && !is_llama3(divisors, n, theta, 8192, &s)) {
        int64_t original = 16;
        while (original <= 1 << 20 && !is_llama3(divisors, n, theta, (double)original, &s))
            original *= 2;
        fits = original <= 1 << 20;
    }
    if (!m->code && !fits)
        m->code =
            err_set(m->err, SNUG_ERR_INPUT,
                    "%s: rope_freqs.weight is not made by Llama 3.1's rule; get the model as safetensors", m->f->path);
    set(m, "rope_scaling",
        json_pack("{ss sf sf sf si}", "rope_type", "llama3", "factor", shortest(s.factor), "low_freq_factor", s.low,
                  "high_freq_factor", s.high, "original_max_position_embeddings", (int)s.original));
}

/* What YaRN may have besides, and what it is where transformers says nothing. */
static void check_yarn(struct maker *m)
{
    static const struct {
        const char *key;
        double usual;
    } rows[] = {{"rope.scaling.attn_factor", 1},      {"rope.scaling.yarn_ext_factor", 1},
                {"rope.scaling.yarn_attn_factor", 1}, {"rope.scaling.yarn_beta_fast", 32},
                {"rope.scaling.yarn_beta_slow", 1},   {"rope.scaling.yarn_log_multiplier", 0}};
    for (size_t i = 0; !m->code && i < sizeof rows / sizeof *rows; i++) {
        char key[128];
        double x = rows[i].usual;
        m->code =
            json_get_real(m->f->metadata, m->f->path, own_key(m, rows[i].key, key), false, -1e30, 1e30, &x, m->err);
        if (!m->code && fabs(x - rows[i].usual) > 1e-6)
            m->code = err_set(m->err, SNUG_ERR_INPUT, "%s: %s is %g; %g is what is read; get the model as safetensors",
                              m->f->path, key, x, rows[i].usual);
    }
}

static void copy_scaling(struct maker *m)
{
    const struct gguf_tensor *factors = gguf_find(m->f, "rope_freqs.weight");
    const char *type = "none";
    char key[128];
    double factor = 1;
    int64_t original = 0;
    if (factors) {
        find_llama3(m, factors);
        return;
    }
    if (m->code || (m->code = json_get_string(m->f->metadata, m->f->path, own_key(m, "rope.scaling.type", key), false,
                                              &type, m->err)))
        return;
    if (!strcmp(type, "none"))
        return;
    if (strcmp(type, "linear") && strcmp(type, "yarn")) {
        m->code = err_set(m->err, SNUG_ERR_INPUT, "%s: %s is \"%.40s\"; supported are none, linear, yarn", m->f->path,
                          key, type);
        return;
    }
    m->code = json_get_real(m->f->metadata, m->f->path, own_key(m, "rope.scaling.factor", key), true, 1, 1e9, &factor,
                            m->err);
    if (!m->code)
        m->code = json_get_int(m->f->metadata, m->f->path, own_key(m, "rope.scaling.original_context_length", key),
                               !strcmp(type, "yarn"), 1, INT32_MAX, &original, m->err);
    if (!strcmp(type, "yarn"))
        check_yarn(m);
    json_t *scaling = json_pack("{ss sf}", "rope_type", type, "factor", shortest(factor));
    if (original)
        json_object_set_new(scaling, "original_max_position_embeddings", json_integer(original));
    set(m, "rope_scaling", scaling);
}

/* ---- what some have ---- */

static void refuse_key(struct maker *m, const char *name, const char *why)
{
    char key[128];
    if (!m->code && has(m, name))
        m->code = err_set(m->err, SNUG_ERR_INPUT, "%s: has %s; %s; get the model as safetensors", m->f->path,
                          own_key(m, name, key), why);
}

static void copy_gemma2(struct maker *m)
{
    const json_t *layers = json_object_get(m->out, "num_hidden_layers"),
                 *hidden = json_object_get(m->out, "hidden_size");
    const json_t *heads = json_object_get(m->out, "num_attention_heads"), *width = json_object_get(m->out, "head_dim");
    bool largest = json_integer_value(layers) == 46; /* of 27 B, as llama.cpp tells it too */
    copy_real(m, "attn_logit_softcapping", true, "attn_logit_softcapping");
    copy_real(m, "final_logit_softcapping", true, "final_logit_softcapping");
    copy_int(m, "attention.sliding_window", true, "sliding_window");
    if (!m->code)
        set(m, "query_pre_attn_scalar",
            json_integer(largest ? json_integer_value(hidden) / json_integer_value(heads) : json_integer_value(width)));
}

/* Every sixth layer sees all positions, and has a rotary base of its own; the file knows that of the others only where it is not
 * llama.cpp's. */
static void copy_gemma3(struct maker *m)
{
    const json_t *layers = json_object_get(m->out, "num_hidden_layers"),
                 *hidden = json_object_get(m->out, "hidden_size");
    const json_t *heads = json_object_get(m->out, "num_attention_heads"), *width = json_object_get(m->out, "head_dim");
    bool largest = json_integer_value(layers) == 62; /* of 27 B, as llama.cpp tells it too */
    bool windows = has(m, "attention.sliding_window");
    refuse_key(m, "attention.sliding_window_pattern", "one full layer in six is what is read");
    copy_real(m, "final_logit_softcapping", false, "final_logit_softcapping");
    copy_int(m, "attention.sliding_window", false, "sliding_window");
    set(m, "sliding_window_pattern", json_integer(windows ? 6 : 1));
    if (has(m, "rope.freq_base_swa"))
        copy_real(m, "rope.freq_base_swa", true, "rope_local_base_freq");
    else
        set(m, "rope_local_base_freq", json_real(10000));
    if (!has(m, "rope.freq_base"))
        set(m, "rope_theta", json_real(1e6));
    if (!m->code)
        set(m, "query_pre_attn_scalar",
            json_integer(largest ? json_integer_value(hidden) / json_integer_value(heads) : json_integer_value(width)));
}

static void copy_llama(struct maker *m)
{
    set(m, "attention_bias", json_boolean(gguf_find(m->f, "blk.0.attn_q.bias") != NULL));
    set(m, "mlp_bias", json_boolean(gguf_find(m->f, "blk.0.ffn_gate.bias") != NULL));
}

static void copy_granite(struct maker *m)
{
    copy_llama(m);
    copy_real(m, "attention.scale", true, "attention_multiplier");
    copy_real(m, "embedding_scale", true, "embedding_multiplier");
    copy_real(m, "residual_scale", true, "residual_multiplier");
    copy_real(m, "logit_scale", true, "logits_scaling");
}

/* llama.cpp has OLMo 3 under the same name. */
static void copy_olmo2(struct maker *m)
{
    refuse_key(m, "attention.sliding_window", "OLMo 3 is not there, OLMo 2 has none");
}

/* Divisors of frequencies, a number a pair. */
static void copy_factors(struct maker *m, const char *tensor, json_t *scaling, const char *name)
{
    float factors[1024];
    const struct gguf_tensor *t = gguf_find(m->f, tensor);
    json_t *list = json_array();
    if (!m->code && (!t || t->elements > 1024 || t->type->dtype != DT_F32))
        m->code = err_set(m->err, SNUG_ERR_INPUT, "%s: %s is not there, is not F32 or has over 1024 numbers" GGUF_AGAIN,
                          m->f->path, tensor);
    if (!m->code)
        m->code = gguf_read(m->f, t, 0, t->elements, factors, m->err);
    for (int64_t i = 0; !m->code && i < t->elements; i++)
        json_array_append_new(list, json_real(shortest(factors[i])));
    json_object_set_new(scaling, name, list);
}

/* Of a head rope.dimension_count entries turn, all where the key is not there. */
static void copy_part(struct maker *m)
{
    char key[128];
    if (m->code)
        return;
    int64_t turns = 0,
            usual = json_integer_value(json_object_get(m->out, "hidden_size")) /
                    json_integer_value(json_object_get(m->out, "num_attention_heads")),
            width = has(m, "attention.key_length") ? json_integer_value(json_object_get(m->out, "head_dim")) : usual;
    m->code = json_get_int(m->f->metadata, m->f->path, own_key(m, "rope.dimension_count", key), false, 1, INT32_MAX,
                           &turns, m->err);
    if (width == usual)
        json_object_del(m->out, "head_dim");
    set(m, "partial_rotary_factor", json_real(turns && turns < width ? (double)turns / (double)width : 1));
}

/* The factor of cosines follows from both lengths, in the converter as in transformers; a model may have another one. */
static void copy_longrope_factor(struct maker *m, json_t *scaling)
{
    double original = json_number_value(json_object_get(m->out, "original_max_position_embeddings")),
           longer = json_number_value(json_object_get(m->out, "max_position_embeddings")) / original;
    double usual = longer <= 1 ? 1 : sqrt(1 + log(longer) / log(original)), own = usual;
    char key[128];
    if (!m->code)
        m->code = json_get_real(m->f->metadata, m->f->path, own_key(m, "rope.scaling.attn_factor", key), false, 1e-9,
                                1e9, &own, m->err);
    if (fabs(own - usual) > 1e-5 * usual)
        json_object_set_new(scaling, "attention_factor", json_real(shortest(own)));
}

/* Files of long contexts have LongRoPE's factors as tensors. A window of 0 is none. */
static void copy_phi3(struct maker *m)
{
    char key[128];
    int64_t window = 0;
    copy_int(m, "rope.scaling.original_context_length", false, "original_max_position_embeddings");
    copy_part(m);
    if (!m->code)
        m->code = json_get_int(m->f->metadata, m->f->path, own_key(m, "attention.sliding_window", key), false, 0,
                               INT32_MAX, &window, m->err);
    if (!json_object_get(m->out, "pad_token_id")) /* the class has one of its own, which a small vocabulary may lack */
        set(m, "pad_token_id", json_null());
    if (window)
        set(m, "sliding_window", json_integer(window));
    if (gguf_find(m->f, "rope_factors_long.weight")) {
        json_t *scaling = json_pack("{ss}", "rope_type", "longrope");
        copy_factors(m, "rope_factors_short.weight", scaling, "short_factor");
        copy_factors(m, "rope_factors_long.weight", scaling, "long_factor");
        copy_longrope_factor(m, scaling);
        set(m, "rope_scaling", scaling);
    }
}

/* The converter writes no base. */
static void copy_phi(struct maker *m)
{
    copy_part(m);
    if (!has(m, "rope.freq_base"))
        set(m, "rope_theta", json_real(10000));
}

/* A window is in no file, and llama.cpp knows none. */
static void copy_starcoder2(struct maker *m)
{
    set(m, "use_bias", json_boolean(gguf_find(m->f, "blk.0.attn_q.bias") != NULL));
}

/* llama.cpp has a base of 10000 where the file says none; transformers another. Old files have a tensor for each expert. */
static void copy_mixtral(struct maker *m)
{
    if (!m->code && gguf_find(m->f, "blk.0.ffn_gate.0.weight"))
        m->code = err_set(m->err, SNUG_ERR_INPUT,
                          "%s: has blk.0.ffn_gate.0.weight, a tensor for each expert, as in files of before April "
                          "2024; get a newer one",
                          m->f->path);
    copy_int(m, "expert_count", true, "num_local_experts");
    copy_int(m, "expert_used_count", true, "num_experts_per_tok");
    if (!has(m, "rope.freq_base"))
        set(m, "rope_theta", json_real(10000));
}

/* All layers have experts, and a token's weights of its experts add up to 1: llama.cpp knows no others. */
static void copy_qwen3_moe(struct maker *m)
{
    copy_int(m, "expert_count", true, "num_experts");
    copy_int(m, "expert_used_count", true, "num_experts_per_tok");
    copy_int(m, "expert_feed_forward_length", true, "moe_intermediate_size");
    set(m, "norm_topk_prob", json_true());
    set(m, "decoder_sparse_step", json_integer(1));
    set(m, "mlp_only_layers", json_array());
}

/* Of families that may have biases, or not; a file tells by its tensors. */
static void copy_biases(struct maker *m)
{
    static const char *const types[] = {"gemma", "gemma2", "gemma3_text", "qwen3", "qwen3_moe", "olmo2", "smollm3"};
    bool attention = gguf_find(m->f, "blk.0.attn_q.bias"), mlp = gguf_find(m->f, "blk.0.ffn_gate.bias");
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i], m->family->model_type) != 0)
            continue;
        if (attention)
            set(m, "attention_bias", json_true());
        if (mlp)
            set(m, "mlp_bias", json_true());
    }
}

static const struct {
    const char *model_type;
    void (*copy)(struct maker *m);
} own_parts[] = {{"gemma2", copy_gemma2},        {"gemma3_text", copy_gemma3}, {"llama", copy_llama},
                 {"mixtral", copy_mixtral},      {"olmo2", copy_olmo2},        {"phi3", copy_phi3},
                 {"qwen3_moe", copy_qwen3_moe},  {"granite", copy_granite},    {"phi", copy_phi},
                 {"starcoder2", copy_starcoder2}};

static void copy_all(struct maker *m)
{
    copy_int(m, "block_count", true, "num_hidden_layers");
    copy_int(m, "embedding_length", true, "hidden_size");
    copy_int(m, "feed_forward_length", true, "intermediate_size");
    copy_int(m, "context_length", true, "max_position_embeddings");
    copy_int(m, "attention.head_count", true, "num_attention_heads");
    copy_int(m, has(m, "attention.head_count_kv") ? "attention.head_count_kv" : "attention.head_count", true,
             "num_key_value_heads");
    copy_int(m, has(m, "attention.key_length") ? "attention.key_length" : "rope.dimension_count", false, "head_dim");
    if (m->family->layer_norm_eps)
        copy_real(m, "attention.layer_norm_epsilon", true, m->family->layer_norm_eps);
    else
        copy_real(m, "attention.layer_norm_rms_epsilon", true, "rms_norm_eps");
    copy_real(m, "rope.freq_base", false, "rope_theta");
    copy_scaling(m);
    copy_vocabulary(m);
    copy_tokens(m);
    copy_biases(m);
    for (size_t i = 0; !m->code && i < sizeof own_parts / sizeof *own_parts; i++)
        if (!strcmp(own_parts[i].model_type, m->family->model_type))
            own_parts[i].copy(m);
}

int gguf_config(const struct gguf_file *f, json_t **config, struct snug_err *err)
{
    struct maker m = {.f = f, .err = err};
    TRY(gguf_family_of_file(f, &m.family, err));
    m.out = json_pack("{s[s] ss ss ss}", "architectures", m.family->class_name, "model_type", m.family->model_type,
                      m.family->act_key, m.family->act, "torch_dtype", "float32");
    if (!m.out)
        return err_no_memory(err, 1024);
    copy_all(&m);
    if (m.code)
        json_decref(m.out);
    else
        *config = m.out;
    return m.code;
}

int gguf_generation_config(const struct gguf_file *f, json_t **config, struct snug_err *err)
{
    struct maker m = {.f = f, .err = err, .out = json_object()};
    if (!m.out)
        return err_no_memory(err, 64);
    copy_tokens(&m);
    if (m.code)
        json_decref(m.out);
    else
        *config = m.out;
    return m.code;
}
