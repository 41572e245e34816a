/* config.json as a GGUF file's metadata: the keys that llama.cpp reads, and no others. What it takes for granted is checked on the
 * model as it would be trained, so that defaults and both spellings of a key are all one. */
#include "output/gguf/export_gguf.h"

#include "format/gguf/llama3.h"
#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct writing {
    struct gguf_writer *w;
    struct gguf_rotary *rotary;
    json_t *o;
    const char *path;
    const struct gguf_family *family;
    const struct model_config *c;
    const struct decoder_config *own; /* of c: all families of GGUF files are decoders of Llama's kind */
    json_t *scaling;                  /* the object that says how rotary positions are scaled, or NULL */
    const char *type;                 /* of it */
};

static const char *own_key(const struct writing *t, const char *name, char key[128])
{
    snprintf(key, 128, "%s.%s", t->family->architecture, name);
    return key;
}

static void put_int(const struct writing *t, const char *name, int64_t x)
{
    char key[128];
    gguf_put_uint(t->w, own_key(t, name, key), (uint32_t)x);
}

static void put_real(const struct writing *t, const char *name, double x)
{
    char key[128];
    gguf_put_float(t->w, own_key(t, name, key), x);
}

/* ---- what llama.cpp takes for granted ---- */

/* That of each `full_every` layers the last one sees everything and the others a window; 0: all see everything. */
static int check_windows(const struct writing *t, int64_t full_every, struct snug_err *err)
{
    for (int64_t i = 0; i < t->c->layers; i++) {
        bool slides = t->own->layer[i] & LAYER_SLIDES;
        if (slides != (full_every && (i + 1) % full_every))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: layer %lld sees %s, which has no place in a GGUF file of %s; keep the model as "
                           "safetensors",
                           t->path, (long long)i, slides ? "a window" : "everything", t->family->model_type);
    }
    return SNUG_OK;
}

static bool any_slides(const struct writing *t)
{
    bool any = false;
    for (int64_t i = 0; i < t->c->layers; i++)
        any |= t->own->layer[i] & LAYER_SLIDES;
    return any;
}

/* That each `interval`-th layer has no rotary positions; 0: all have them. */
static int check_turned(const struct writing *t, int64_t interval, struct snug_err *err)
{
    for (int64_t i = 0; i < t->c->layers; i++) {
        bool turned = !(t->own->layer[i] & LAYER_UNTURNED);
        if (turned != (!interval || (i + 1) % interval))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: layer %lld has %s rotary positions, which has no place in a GGUF file of %s; keep the "
                           "model as safetensors",
                           t->path, (long long)i, turned ? "" : "no", t->family->model_type);
    }
    return SNUG_OK;
}

/* query_pre_attn_scalar, which is in no file: a head's width, but for the model of `largest` layers. */
static int check_scores(const struct writing *t, int64_t largest, struct snug_err *err)
{
    int64_t assumed = t->c->layers == largest ? t->c->hidden_size / t->c->heads : t->own->head_size;
    double said = 1 / (t->own->score_scale * t->own->score_scale);
    return fabs(said / (double)assumed - 1) < 1e-9
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT,
                         "%s: query_pre_attn_scalar is %.6g, and llama.cpp takes it for %lld; keep the model as "
                         "safetensors",
                         t->path, said, (long long)assumed);
}

static int check_scaling(const struct writing *t, const char *known, struct snug_err *err)
{
    return !strcmp(t->type, "default") || !strcmp(t->type, known)
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT,
                         "%s: rope_type \"%.40s\" has no place in a GGUF file of %s; default and %s have", t->path,
                         t->type, t->family->model_type, known);
}

/* ---- rotary positions ---- */

/* transformers 5 has them in `rope_parameters`, by kinds of layers or for all of them; before, there was `rope_scaling`, which counts first. */
static int find_scaling(struct writing *t, struct snug_err *err)
{
    json_t *new = json_object_get(t->o, "rope_parameters"), *full = json_object_get(new, "full_attention");
    json_t *old = json_object_get(t->o, "rope_scaling");
    json_t *said = json_object_size(old) ? old : json_is_object(full) ? full : new;
    t->type = "default";
    t->scaling = json_is_object(said) ? said : NULL;
    TRY(json_get_string(t->scaling, t->path, "type", false, &t->type, err));
    return json_get_string(t->scaling, t->path, "rope_type", false, &t->type, err);
}

/* Divisors of frequencies as a tensor of the file. */
static struct gguf_divisors *add_divisors(const struct writing *t, const char *tensor)
{
    struct gguf_divisors *d = &t->rotary->of[t->rotary->n++];
    *d = (struct gguf_divisors){.tensor = tensor, .n = t->c->rotary[ROTARY_ALL].pairs};
    return d;
}

static int put_llama3(const struct writing *t, struct snug_err *err)
{
    struct llama3_scaling s;
    TRY(llama3_scaling_read(t->scaling, t->path, &s, err));
    struct gguf_divisors *d = add_divisors(t, "rope_freqs.weight");
    for (int64_t i = 0; i < d->n; i++)
        d->x[i] = (float)llama3_divisor(&s, t->c->rotary[ROTARY_ALL].theta, i, d->n);
    return SNUG_OK;
}

/* Of LongRoPE the lists are as long as there are pairs: the model was read. */
static int put_longrope(const struct writing *t)
{
    static const char *const lists[] = {"long_factor", "short_factor"}, *const tensors[] = {
                                                                            "rope_factors_long.weight",
                                                                            "rope_factors_short.weight"};
    put_real(t, "rope.scaling.attn_factor", t->c->rotary[ROTARY_ALL].factor);
    for (int k = 0; k < 2; k++) {
        struct gguf_divisors *d = add_divisors(t, tensors[k]);
        for (int64_t i = 0; i < d->n; i++)
            d->x[i] = (float)json_number_value(json_array_get(json_object_get(t->scaling, lists[k]), (size_t)i));
    }
    return SNUG_OK;
}

/* What llama.cpp computes of a factor and a length alone. */
static int check_yarn(const struct writing *t, double factor, struct snug_err *err)
{
    static const struct {
        const char *key;
        double usual;
    } rows[] = {{"beta_fast", 32}, {"beta_slow", 1}};
    const char *other = json_is_false(json_object_get(t->scaling, "truncate")) ? "truncate" : NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *x = json_object_get(t->scaling, rows[i].key);
        if (json_is_number(x) && json_number_value(x) != rows[i].usual)
            other = rows[i].key;
    }
    double usual = factor <= 1 ? 1 : 0.1 * log(factor) + 1, own = t->c->rotary[ROTARY_ALL].factor;
    if (!other && fabs(own - usual) > 1e-6 * usual)
        other = json_object_get(t->scaling, "attention_factor") ? "attention_factor" : "mscale";
    return !other
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT,
                         "%s: %s of YaRN is not the usual one, and no GGUF file is written of another; keep the model "
                         "as safetensors",
                         t->path, other);
}

static int put_rotary(const struct writing *t, struct snug_err *err)
{
    double factor = 1;
    int64_t original = 0;
    char key[128];
    put_real(t, "rope.freq_base", t->c->rotary[ROTARY_ALL].theta);
    put_int(t, "rope.dimension_count", 2 * t->c->rotary[ROTARY_ALL].pairs);
    if (!strcmp(t->type, "default"))
        return SNUG_OK;
    if (!strcmp(t->type, "llama3"))
        return put_llama3(t, err);
    bool phi3 = !strcmp(t->family->model_type, "phi3"); /* whose lengths are keys of its own */
    if (phi3 && (!strcmp(t->type, "longrope") || !strcmp(t->type, "su")))
        return put_longrope(t);
    if (strcmp(t->type, "linear") && strcmp(t->type, "yarn"))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: rope_type \"%.40s\" has no place in a GGUF file; default, linear, llama3 and yarn "
                       "have",
                       t->path, t->type);
    TRY(json_get_real(t->scaling, t->path, "factor", true, 1, 1e9, &factor, err));
    TRY(json_get_int(t->scaling, t->path, "original_max_position_embeddings", !strcmp(t->type, "yarn"), 1, INT32_MAX,
                     &original, err));
    if (!strcmp(t->type, "yarn"))
        TRY(check_yarn(t, factor, err));
    gguf_put_text(t->w, own_key(t, "rope.scaling.type", key), t->type);
    put_real(t, "rope.scaling.factor", factor);
    if (original)
        put_int(t, "rope.scaling.original_context_length", original);
    return SNUG_OK;
}

/* ---- what is a family's own ---- */

static int put_plain(const struct writing *t, struct snug_err *err)
{
    TRY(check_turned(t, 0, err));
    return check_windows(t, 0, err);
}

/* llama.cpp has no windows for Mistral: it sees everything, as its converter takes for granted. */
static int put_mistral(const struct writing *t, struct snug_err *err)
{
    return check_turned(t, 0, err);
}

/* llama.cpp gives all heads together the width of the layers. */
static int check_heads(const struct writing *t, struct snug_err *err)
{
    return t->own->head_size * t->c->heads == t->c->hidden_size
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT,
                         "%s: head_dim is %lld, and llama.cpp takes it for hidden_size / num_attention_heads; keep the "
                         "model as safetensors",
                         t->path, (long long)t->own->head_size);
}

static int put_phi(const struct writing *t, struct snug_err *err)
{
    TRY(check_heads(t, err));
    if (!t->c->untied)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: tie_word_embeddings is true, which has no place in a GGUF file of phi; keep the model as "
                       "safetensors",
                       t->path);
    return put_plain(t, err);
}

/* A window is in no file, as Mistral's. */
static int put_starcoder2(const struct writing *t, struct snug_err *err)
{
    TRY(check_heads(t, err));
    if (!t->own->qkv_bias)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: use_bias is false, which has no place in a GGUF file of starcoder2; keep the model as "
                       "safetensors",
                       t->path);
    return check_turned(t, 0, err);
}

static void put_experts(const struct writing *t)
{
    put_int(t, "expert_count", t->own->experts.n);
    put_int(t, "expert_used_count", t->own->experts.chosen);
}

static int put_mixtral(const struct writing *t, struct snug_err *err)
{
    put_experts(t);
    return put_mistral(t, err);
}

static int put_qwen3_moe(const struct writing *t, struct snug_err *err)
{
    for (int64_t i = 0; i < t->c->layers; i++)
        if (!(t->own->layer[i] & LAYER_EXPERTS))
            return err_set(
                err, SNUG_ERR_INPUT,
                "%s: layer %lld has no experts, which has no place in a GGUF file of qwen3_moe; keep the model "
                "as safetensors",
                t->path, (long long)i);
    if (!t->own->experts.normalized)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: norm_topk_prob is false, and llama.cpp takes it for true; keep the model as safetensors",
                       t->path);
    put_experts(t);
    put_int(t, "expert_feed_forward_length", t->own->experts.intermediate_size);
    return put_plain(t, err);
}

static int put_granite(const struct writing *t, struct snug_err *err)
{
    const struct decoder_config *own = t->own;
    put_real(t, "attention.scale", own->score_scale);
    put_real(t, "embedding_scale", own->embedding_scale > 0 ? own->embedding_scale : 1);
    put_real(t, "residual_scale", own->branch_scale > 0 ? own->branch_scale : 1);
    put_real(t, "logit_scale", 1 / own->head_scale);
    return put_plain(t, err);
}

static int put_smollm3(const struct writing *t, struct snug_err *err)
{
    TRY(check_turned(t, 4, err));
    return check_windows(t, 0, err);
}

static int put_gemma2(const struct writing *t, struct snug_err *err)
{
    TRY(check_windows(t, 2, err));
    TRY(check_scores(t, 46, err));
    if (!(t->own->score_cap > 0 && t->own->cap > 0))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: attn_logit_softcapping or final_logit_softcapping is null, which has no place in a GGUF "
                       "file of gemma2; keep the model as safetensors",
                       t->path);
    put_real(t, "attn_logit_softcapping", t->own->score_cap);
    put_real(t, "final_logit_softcapping", t->own->cap);
    put_int(t, "attention.sliding_window", t->own->window);
    return SNUG_OK;
}

/* Layers with windows have rotary positions of their own, which llama.cpp does not scale; 10000 is their base where no key says
 * another. */
static int put_gemma3(const struct writing *t, struct snug_err *err)
{
    const struct rotary *r = &t->c->rotary[ROTARY_WINDOW];
    bool slides = any_slides(t), plain = true;
    TRY(check_windows(t, slides ? 6 : 0, err));
    TRY(check_scores(t, 62, err));
    TRY(check_scaling(t, "linear", err));
    for (int64_t i = 0; i < r->pairs; i++)
        plain &= fabs(r->frequency[i] * pow(r->theta, (double)i / (double)r->pairs) - 1) < 1e-9;
    if (slides && !plain)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: rotary positions of layers with windows are scaled, which has no place in a GGUF file of "
                       "gemma3_text; keep the model as safetensors",
                       t->path);
    if (t->own->cap > 0)
        put_real(t, "final_logit_softcapping", t->own->cap);
    if (slides)
        put_int(t, "attention.sliding_window", t->own->window);
    if (slides && r->theta != 10000)
        put_real(t, "rope.freq_base_swa", r->theta);
    return SNUG_OK;
}

/* A window of 0 is none: the converter writes it, and llama.cpp tells Phi-4 by it. */
static int put_phi3(const struct writing *t, struct snug_err *err)
{
    int64_t original = t->c->rotary[ROTARY_ALL].original;
    TRY(check_scaling(t, !strcmp(t->type, "su") ? "su" : "longrope", err));
    TRY(json_get_int(t->o, t->path, "original_max_position_embeddings", false, 2, INT32_MAX, &original, err));
    if (original)
        put_int(t, "rope.scaling.original_context_length", original);
    put_int(t, "attention.sliding_window", any_slides(t) ? t->own->window : 0);
    return SNUG_OK;
}

static const struct {
    const char *model_type;
    int (*put)(const struct writing *t, struct snug_err *err);
} own_parts[] = {
    {"llama", put_plain},        {"qwen2", put_plain},     {"qwen3", put_plain},          {"olmo2", put_plain},
    {"mistral", put_mistral},    {"smollm3", put_smollm3}, {"gemma2", put_gemma2},        {"phi3", put_phi3},
    {"gemma3_text", put_gemma3}, {"mixtral", put_mixtral}, {"qwen3_moe", put_qwen3_moe},  {"granite", put_granite},
    {"gemma", put_plain},        {"phi", put_phi},         {"starcoder2", put_starcoder2}};

static int put_all(struct writing *t, struct snug_err *err)
{
    bool silu = !strcmp(t->family->act, "silu");
    if (t->own->act != (silu ? ACT_silu : ACT_gelu_tanh))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is another than %s, which llama.cpp takes for granted", t->path,
                       t->family->act_key, t->family->act);
    TRY(find_scaling(t, err));
    put_int(t, "block_count", t->c->layers);
    put_int(t, "context_length", t->c->longest);
    put_int(t, "embedding_length", t->c->hidden_size);
    put_int(t, "feed_forward_length", t->own->intermediate_size);
    put_int(t, "attention.head_count", t->c->heads);
    put_int(t, "attention.head_count_kv", t->own->kv_heads);
    put_int(t, "vocab_size", t->c->vocab_size);
    put_real(t, t->family->layer_norm_eps ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
             t->own->norm_eps);
    put_int(t, "attention.key_length", t->own->head_size);
    put_int(t, "attention.value_length", t->own->head_size);
    for (size_t i = 0; i < sizeof own_parts / sizeof *own_parts; i++)
        if (!strcmp(own_parts[i].model_type, t->family->model_type))
            TRY(own_parts[i].put(t, err));
    return put_rotary(t, err);
}

int gguf_put_config(struct gguf_writer *w, const struct model_dir *d, const struct gguf_family *family,
                    struct gguf_rotary *rotary, int64_t *experts, struct snug_err *err)
{
    struct model_config c;
    struct writing t = {w, rotary, d->config, d->config_path, family, .c = &c, .own = &c.own.decoder};
    *rotary = (struct gguf_rotary){0};
    TRY(model_config_read(d->config, d->config_path, &c, err));
    *experts = c.own.decoder.experts.n;
    return put_all(&t, err);
}
