#include "model/rotary.h"

#include "snug/snug.h"

#include <math.h>
#include <string.h>

/* What a file says of one kind of layers. */
struct source {
    json_t *o;       /* has the parameters of `type` */
    json_t *beneath; /* has others; NULL: there is none */
    json_t *all;     /* config.json */
    const char *path, *type;
    double theta;
    int64_t size;      /* entries of a head that turn */
    int64_t positions; /* max_position_embeddings */
    bool alpha;        /* of struct rotary_model */
};

static bool says_something(json_t *o)
{
    return o && !json_is_null(o) && !(json_is_object(o) && !json_object_size(o));
}

/* The object with the type and its parameters: `rope_parameters`, or what it has for this kind of layers. In the older spelling, which goes
 * before it where both are there, `rope_scaling`; what has kinds of layers keeps what that does not say. */
static int find_object(struct source *s, const struct rotary_model *m, struct snug_err *err)
{
    const char *key = "rope_parameters";
    char text[64];
    json_t *o = json_object_get(s->all, key), *kind = m->layer_type ? json_object_get(o, m->layer_type) : NULL;
    json_t *older = m->theta_key ? NULL : json_object_get(s->all, "rope_scaling");
    if (kind)
        o = json_object_get(o, key = m->layer_type);
    if (says_something(older)) {
        s->beneath = json_is_object(kind) ? kind : NULL;
        o = older, key = "rope_scaling";
    }
    s->o = o && !json_is_null(o) ? o : NULL;
    return !s->o || json_is_object(s->o) ? SNUG_OK
                                         : err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; write {\"rope_type\": ...}",
                                                   s->path, key, json_value_text(s->o, text));
}

/* In the older spelling `rope_theta` and `partial_rotary_factor` stand beside `rope_scaling`, whose type was once called
 * `type`. */
static int find_source(json_t *o, const char *path, const struct rotary_model *m, struct source *s,
                       struct snug_err *err)
{
    double part = m->part > 0 ? m->part : 1, unused = 1, *to = m->part > 0 ? &part : &unused;
    *s = (struct source){
        .all = o, .path = path, .type = "default", .theta = m->theta, .positions = m->positions, .alpha = m->alpha};
    TRY(find_object(s, m, err));
    TRY(json_get_string(s->o, path, "type", false, &s->type, err));
    TRY(json_get_string(s->o, path, "rope_type", false, &s->type, err));
    TRY(json_get_real(o, path, m->theta_key ? m->theta_key : "rope_theta", false, 1 + 1e-9, 1e15, &s->theta, err));
    TRY(json_get_real(s->beneath, path, "rope_theta", false, 1 + 1e-9, 1e15, &s->theta, err));
    TRY(json_get_real(s->o, path, "rope_theta", false, 1 + 1e-9, 1e15, &s->theta, err));
    TRY(json_get_real(o, path, "partial_rotary_factor", false, 1e-3, 1, to, err));
    TRY(json_get_real(s->o, path, "partial_rotary_factor", false, 1e-3, 1, to, err));
    s->size = (int64_t)((double)m->head_size * part);
    if (s->size < 2 || s->size % 2 || s->size > 2 * ROTARY_PAIRS)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %lld entries of a head of %lld have rotary positions; supported are even numbers up to %d",
                       path, (long long)s->size, (long long)m->head_size, 2 * ROTARY_PAIRS);
    return SNUG_OK;
}

static int get_factor(const struct source *s, double *factor, struct snug_err *err)
{
    return json_get_real(s->o, s->path, "factor", true, 1, 1e9, factor, err);
}

/* The length that the model was first trained for. Phi-3 has it beside the other keys, where it counts first. */
static int get_original(const struct source *s, double *original, struct snug_err *err)
{
    static const char key[] = "original_max_position_embeddings";
    *original = (double)s->positions;
    TRY(json_get_real(s->o, s->path, key, false, 2, 1e9, original, err));
    return json_get_real(s->all, s->path, key, false, 2, 1e9, original, err);
}

/* Every type begins with the plain frequencies, and changes them. */
static int plain(const struct source *s, struct rotary *r, struct snug_err *err)
{
    (void)s, (void)r, (void)err;
    return SNUG_OK;
}

/* Positions closer together (Chen et al., arXiv 2306.15595). */
static int linear(const struct source *s, struct rotary *r, struct snug_err *err)
{
    double factor;
    TRY(get_factor(s, &factor, err));
    for (int64_t i = 0; i < r->pairs; i++)
        r->frequency[i] /= factor;
    return SNUG_OK;
}

/* Llama 3.1: low frequencies as with linear, high ones as they are, a line between. */
static int llama3(const struct source *s, struct rotary *r, struct snug_err *err)
{
    double factor, low, high, original;
    TRY(get_factor(s, &factor, err));
    TRY(json_get_real(s->o, s->path, "low_freq_factor", true, 1e-9, 1e9, &low, err));
    TRY(json_get_real(s->o, s->path, "high_freq_factor", true, 1e-9, 1e9, &high, err));
    TRY(get_original(s, &original, err));
    if (low >= high)
        return err_set(err, SNUG_ERR_INPUT, "%s: low_freq_factor %.6g is not below high_freq_factor %.6g; correct one",
                       s->path, low, high);
    for (int64_t i = 0; i < r->pairs; i++) {
        double turns = original * r->frequency[i] / (2 * M_PI), part = (turns - low) / (high - low);
        part = fmin(fmax(part, 0), 1);
        r->frequency[i] *= part + (1 - part) / factor;
    }
    return SNUG_OK;
}

/* The pair that turns so often within the original length; a real number. */
static double pair_of(const struct source *s, double turns, double original)
{
    return (double)s->size * log(original / (turns * 2 * M_PI)) / (2 * log(s->theta));
}

static double yarn_scale(double factor, double by)
{
    return factor <= 1 ? 1 : 0.1 * by * log(factor) + 1;
}

/* YaRN (Peng et al., arXiv 2309.00071): the same over the pairs' numbers, and larger cosines and sines. */
static int yarn(const struct source *s, struct rotary *r, struct snug_err *err)
{
    double factor, original, fast = 32, slow = 1, scale = 0, scale_all = 0;
    bool truncate = true;
    TRY(get_factor(s, &factor, err));
    TRY(get_original(s, &original, err));
    TRY(json_get_real(s->o, s->path, "beta_fast", false, 1e-9, 1e9, &fast, err));
    TRY(json_get_real(s->o, s->path, "beta_slow", false, 1e-9, 1e9, &slow, err));
    TRY(json_get_real(s->o, s->path, "mscale", false, 0, 1e9, &scale, err));
    TRY(json_get_real(s->o, s->path, "mscale_all_dim", false, 0, 1e9, &scale_all, err));
    TRY(json_get_bool(s->o, s->path, "truncate", false, &truncate, err));
    r->factor =
        scale > 0 && scale_all > 0 ? yarn_scale(factor, scale) / yarn_scale(factor, scale_all) : yarn_scale(factor, 1);
    TRY(json_get_real(s->o, s->path, "attention_factor", false, 1e-9, 1e9, &r->factor, err));
    double from = pair_of(s, fast, original), to = pair_of(s, slow, original);
    from = fmax(truncate ? floor(from) : from, 0);
    to = fmin(truncate ? ceil(to) : to, (double)s->size - 1);
    to += from == to ? 0.001 : 0;
    for (int64_t i = 0; i < r->pairs; i++) {
        double part = fmin(fmax(((double)i - from) / (to - from), 0), 1);
        r->frequency[i] *= 1 - part + part / factor;
    }
    return SNUG_OK;
}

static int divide(const struct source *s, const char *key, int64_t pairs, double *frequency, struct snug_err *err)
{
    json_t *list = json_object_get(s->o, key);
    char text[64];
    if (!json_is_array(list) || (int64_t)json_array_size(list) != pairs)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; write a list of %lld numbers, one a pair", s->path, key,
                       json_is_array(list) ? "a list of another length" : json_value_text(list, text),
                       (long long)pairs);
    for (int64_t i = 0; i < pairs; i++) {
        double by = json_number_value(json_array_get(list, (size_t)i));
        if (!(by > 0))
            return err_set(err, SNUG_ERR_INPUT, "%s: %s has %s; write numbers above 0", s->path, key,
                           json_value_text(json_array_get(list, (size_t)i), text));
        frequency[i] /= by;
    }
    return SNUG_OK;
}

/* LongRoPE (Ding et al., arXiv 2402.13753): a factor for each pair, and others for rows beyond the original length. */
static int longrope(const struct source *s, struct rotary *r, struct snug_err *err)
{
    double original, factor;
    TRY(get_original(s, &original, err));
    factor = (double)s->positions / original;
    TRY(json_get_real(s->o, s->path, "factor", false, 1e-9, 1e9, &factor, err));
    r->factor = factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
    TRY(json_get_real(s->o, s->path, "attention_factor", false, 1e-9, 1e9, &r->factor, err));
    r->original = (int64_t)original;
    memcpy(r->longer, r->frequency, sizeof r->longer);
    TRY(divide(s, "short_factor", r->pairs, r->frequency, err));
    return divide(s, "long_factor", r->pairs, r->longer, err);
}

/* Frequencies change for rows beyond max_position_embeddings alone, and there are none. With an alpha they are those of another base:
 * all rows are taken for so much longer. */
static int dynamic(const struct source *s, struct rotary *r, struct snug_err *err)
{
    double alpha = 1;
    if (s->alpha)
        TRY(json_get_real(s->o, s->path, "alpha", false, 1e-9, 1e9, &alpha, err));
    for (int64_t i = 0; i < r->pairs && r->pairs > 1; i++)
        r->frequency[i] *= pow(alpha, -2.0 * (double)i / (double)(s->size - 2));
    return SNUG_OK;
}

static const struct {
    const char *type;
    int (*change)(const struct source *s, struct rotary *r, struct snug_err *err);
} types[] = {{"default", plain}, {"linear", linear},     {"dynamic", dynamic}, {"llama3", llama3},
             {"yarn", yarn},     {"longrope", longrope}, {"su", longrope}};

int rotary_read(json_t *o, const char *path, const struct rotary_model *m, struct rotary *out, struct snug_err *err)
{
    struct source s;
    TRY(find_source(o, path, m, &s, err));
    *out = (struct rotary){.pairs = s.size / 2, .theta = s.theta, .factor = 1};
    for (int64_t i = 0; i < out->pairs; i++)
        out->frequency[i] = pow(s.theta, -2.0 * (double)i / (double)s.size);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].type, s.type))
            return types[i].change(&s, out, err);
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: rope_type is \"%s\"; supported are default, linear, dynamic, llama3, yarn, longrope", path,
                   s.type);
}

const double *rotary_frequencies(const struct rotary *r, int64_t longest)
{
    return r->original && longest > r->original ? r->longer : r->frequency;
}
