/* config.json as a GGUF file's metadata: the keys that llama.cpp reads, and no others. */
#include "output/gguf/export_gguf.h"

#include "format/gguf/llama3.h"

#include <stdio.h>
#include <string.h>

struct config {
    struct gguf_writer *w;
    json_t *o;
    const char *path;
    const struct gguf_family *family;
};

static const char *own_key(const struct config *c, const char *name, char key[128])
{
    snprintf(key, 128, "%s.%s", c->family->architecture, name);
    return key;
}

static int get(const struct config *c, const char *name, bool required, int64_t *x, struct snug_err *err)
{
    return json_get_int(c->o, c->path, name, required, 1, INT32_MAX, x, err);
}

static int put_int(const struct config *c, const char *from, const char *name, int64_t fallback, struct snug_err *err)
{
    char key[128];
    int64_t x = fallback;
    TRY(get(c, from, !fallback, &x, err));
    gguf_put_uint(c->w, own_key(c, name, key), (uint32_t)x);
    return SNUG_OK;
}

static int put_real(const struct config *c, const char *from, const char *name, struct snug_err *err)
{
    char key[128];
    double x;
    TRY(json_get_real(c->o, c->path, from, true, -1e30, 1e30, &x, err));
    gguf_put_float(c->w, own_key(c, name, key), x);
    return SNUG_OK;
}

/* ---- rotary positions ---- */

/* transformers 5 has them all in `rope_parameters`; before, `rope_theta` stood beside `rope_scaling`. */
static int put_rotary(const struct config *c, int64_t width, float factors[GGUF_FACTORS], int64_t *n_factors,
                      struct snug_err *err)
{
    json_t *new = json_object_get(c->o, "rope_parameters"), *old = json_object_get(c->o, "rope_scaling");
    json_t *said = json_is_object(new) ? new : json_is_object(old) ? old : NULL;
    const char *type = "default";
    char key[128];
    double theta = 10000, factor = 1;
    int64_t original = 0;
    TRY(json_get_real(c->o, c->path, "rope_theta", false, 1, 1e15, &theta, err));
    TRY(json_get_real(said, c->path, "rope_theta", false, 1, 1e15, &theta, err));
    TRY(json_get_string(said, c->path, "type", false, &type, err));
    TRY(json_get_string(said, c->path, "rope_type", false, &type, err));
    gguf_put_float(c->w, own_key(c, "rope.freq_base", key), theta);
    gguf_put_uint(c->w, own_key(c, "rope.dimension_count", key), (uint32_t)width);
    if (!strcmp(type, "default"))
        return SNUG_OK;
    if (!strcmp(type, "llama3")) {
        struct llama3_scaling s;
        if (width / 2 > GGUF_FACTORS)
            return err_set(err, SNUG_ERR_INPUT, "%s: heads of %lld are too wide", c->path, (long long)width);
        TRY(llama3_scaling_read(said, c->path, &s, err));
        *n_factors = width / 2;
        for (int64_t i = 0; i < *n_factors; i++)
            factors[i] = (float)llama3_divisor(&s, theta, i, *n_factors);
        return SNUG_OK;
    }
    if (strcmp(type, "linear") && strcmp(type, "yarn"))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: rope_type \"%.40s\" has no place in a GGUF file; default, linear, llama3 and yarn "
                       "have",
                       c->path, type);
    TRY(json_get_real(said, c->path, "factor", true, 1, 1e9, &factor, err));
    TRY(json_get_int(said, c->path, "original_max_position_embeddings", !strcmp(type, "yarn"), 1, INT32_MAX, &original,
                     err));
    gguf_put_text(c->w, own_key(c, "rope.scaling.type", key), type);
    gguf_put_float(c->w, own_key(c, "rope.scaling.factor", key), factor);
    if (original)
        gguf_put_uint(c->w, own_key(c, "rope.scaling.original_context_length", key), (uint32_t)original);
    return SNUG_OK;
}

/* ---- what some have ---- */

/* What llama.cpp takes for granted, and what it does not know. */
static int check_assumed(const struct config *c, struct snug_err *err)
{
    bool windows = false;
    int64_t interval = 4;
    TRY(json_get_bool(c->o, c->path, "use_sliding_window", false, &windows, err));
    TRY(get(c, "no_rope_layer_interval", false, &interval, err));
    if (windows)
        return err_set(err, SNUG_ERR_INPUT, "%s: use_sliding_window true has no place in a GGUF file of %s", c->path,
                       c->family->model_type);
    if (interval != 4)
        return err_set(err, SNUG_ERR_INPUT, "%s: no_rope_layer_interval is %lld; llama.cpp knows 4 alone", c->path,
                       (long long)interval);
    return SNUG_OK;
}

static int put_gemma2(const struct config *c, struct snug_err *err)
{
    TRY(put_real(c, "attn_logit_softcapping", "attn_logit_softcapping", err));
    TRY(put_real(c, "final_logit_softcapping", "final_logit_softcapping", err));
    return put_int(c, "sliding_window", "attention.sliding_window", 4096, err);
}

int gguf_put_config(struct gguf_writer *w, const struct model_dir *d, const struct gguf_family *family,
                    float factors[GGUF_FACTORS], int64_t *n_factors, struct snug_err *err)
{
    struct config c = {w, d->config, d->config_path, family};
    char key[128];
    int64_t hidden, heads, width;
    TRY(check_assumed(&c, err));
    TRY(get(&c, "hidden_size", true, &hidden, err));
    TRY(get(&c, "num_attention_heads", true, &heads, err));
    width = hidden / heads;
    TRY(get(&c, "head_dim", false, &width, err));
    TRY(put_int(&c, "num_hidden_layers", "block_count", 0, err));
    TRY(put_int(&c, "max_position_embeddings", "context_length", 0, err));
    TRY(put_int(&c, "hidden_size", "embedding_length", 0, err));
    TRY(put_int(&c, "intermediate_size", "feed_forward_length", 0, err));
    TRY(put_int(&c, "num_attention_heads", "attention.head_count", 0, err));
    TRY(put_int(&c, "num_key_value_heads", "attention.head_count_kv", heads, err));
    TRY(put_int(&c, "vocab_size", "vocab_size", 0, err));
    TRY(put_real(&c, "rms_norm_eps", "attention.layer_norm_rms_epsilon", err));
    gguf_put_uint(w, own_key(&c, "attention.key_length", key), (uint32_t)width);
    gguf_put_uint(w, own_key(&c, "attention.value_length", key), (uint32_t)width);
    TRY(put_rotary(&c, width, factors, n_factors, err));
    return !strcmp(family->model_type, "gemma2") ? put_gemma2(&c, err) : SNUG_OK;
}
