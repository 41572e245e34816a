#include "train/generate/beams.h"

#include "base/mem.h"
#include "format/json.h"
#include "train/session/session.h"

#include <math.h>
#include <string.h>

enum { CONFIG_BYTES = 1 << 20 };

/* ---- settings ---- */

/* The member of generation_config.json, else of config.json. */
static json_t *setting(const struct session *s, json_t *generation, const char *key)
{
    json_t *x = json_object_get(generation, key);
    return x ? x : json_object_get(s->dir.config, key);
}

static int read_numbers(struct session *s, json_t *generation, const char *path, struct snug_err *err)
{
    struct beam_settings *b = &s->beams;
    const char *config = s->dir.config_path;
    json_t *n = setting(s, generation, "num_beams"), *penalty = setting(s, generation, "length_penalty");
    bool own = json_object_get(generation, "num_beams"), own_penalty = json_object_get(generation, "length_penalty");
    if (n && !json_is_null(n))
        TRY(json_get_int(own ? generation : s->dir.config, own ? path : config, "num_beams", false, 1, 64, &b->n, err));
    if (penalty && !json_is_null(penalty))
        TRY(json_get_real(own_penalty ? generation : s->dir.config, own_penalty ? path : config, "length_penalty",
                          false, -100, 100, &b->length_penalty, err));
    json_t *end = setting(s, generation, "early_stopping");
    b->end = json_is_true(end)                                                     ? BEAMS_END_FULL
             : json_is_string(end) && strcmp(json_string_value(end), "never") == 0 ? BEAMS_END_NEVER
                                                                                   : BEAMS_END_WORSE;
    return SNUG_OK;
}

int beams_read(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    json_t *generation = NULL;
    char *path = model_dir_file(&s->dir, "generation_config.json");
    s->beams = (struct beam_settings){.n = 1, .length_penalty = 1};
    if (!path)
        return err_no_memory(err, strlen(s->dir.path));
    int code = io_exists(s->io, path) ? json_read_object(s->io, path, CONFIG_BYTES, &generation, err) : SNUG_OK;
    if (!code)
        code = read_numbers(s, generation, path, err);
    json_decref(generation);
    mem_free(path);
    if (option_given(o, num_beams))
        s->beams.n = o->num_beams;
    if (option_given(o, length_penalty))
        s->beams.length_penalty = o->length_penalty;
    if (option_given(o, early_stopping))
        s->beams.end = (enum beams_end)o->early_stopping;
    if (o->do_sample)
        s->beams.n = 1;
    return code;
}

/* ---- memory ---- */

int beams_open(struct beams *b, const struct beam_settings *s, int64_t most, const int32_t *stops, int n_stops,
               struct snug_err *err)
{
    size_t n = (size_t)s->n, candidates = n * (size_t)(n_stops > 1 ? 1 + n_stops : 2);
    *b = (struct beams){.s = *s, .most = most, .stops = stops, .n_stops = n_stops, .n_candidates = (int64_t)candidates};
    b->sums = mem_alloc(n * sizeof *b->sums);
    b->candidates = mem_alloc(candidates * sizeof *b->candidates);
    b->ended = mem_alloc((n + 1) * sizeof *b->ended);
    b->from = mem_alloc(n * sizeof *b->from);
    b->next = mem_alloc(n * sizeof *b->next);
    if (!b->sums || !b->candidates || !b->ended || !b->from || !b->next)
        return err_no_memory(err, n * sizeof *b->sums);
    for (size_t i = 0; i <= n; i++)
        if (!(b->ended[i].ids = mem_alloc((size_t)most * sizeof *b->ended[i].ids)))
            return err_no_memory(err, (size_t)most * sizeof *b->ended[i].ids);
    return SNUG_OK;
}

void beams_close(struct beams *b)
{
    for (int64_t i = 0; b->ended && i <= b->s.n; i++)
        mem_free(b->ended[i].ids);
    mem_free(b->sums);
    mem_free(b->candidates);
    mem_free(b->ended);
    mem_free(b->from);
    mem_free(b->next);
    *b = (struct beams){0};
}

/* All beams are the prompt: one of them is enough. */
void beams_begin(struct beams *b)
{
    for (int64_t i = 0; i < b->s.n; i++)
        b->sums[i] = i ? -INFINITY : 0;
    b->n_ended = 0;
    b->closed = false;
}

/* ---- a step ---- */

void beams_log_softmax(float *x, int64_t V)
{
    double max = -INFINITY, sum = 0;
    for (int64_t i = 0; i < V; i++)
        max = (double)x[i] > max ? (double)x[i] : max;
    for (int64_t i = 0; i < V; i++)
        sum += exp((double)x[i] - max);
    double log_sum = max + log(sum);
    for (int64_t i = 0; i < V; i++)
        x[i] = (float)((double)x[i] - log_sum);
}

/* The best candidates of all, the best first, of equal ones the first; how many. */
static int64_t find_candidates(struct beams *b, const float *log_probs, int64_t V)
{
    struct beam_candidate *all = b->candidates;
    int64_t n = 0;
    for (int64_t beam = 0; beam < b->s.n; beam++)
        for (int64_t i = 0; isfinite(b->sums[beam]) && i < V; i++) {
            double sum = b->sums[beam] + (double)log_probs[beam * V + i];
            if (!isfinite(sum) || (n == b->n_candidates && !(sum > all[n - 1].sum)))
                continue;
            int64_t to = n < b->n_candidates ? n++ : n - 1;
            for (; to > 0 && sum > all[to - 1].sum; to--)
                all[to] = all[to - 1];
            all[to] = (struct beam_candidate){.sum = sum, .beam = beam, .token = (int32_t)i};
        }
    return n;
}

static bool is_stop(const struct beams *b, int32_t token)
{
    for (int i = 0; i < b->n_stops; i++)
        if (b->stops[i] == token)
            return true;
    return false;
}

static double score_of(const struct beams *b, double sum, int64_t length)
{
    return sum / pow((double)length, b->s.length_penalty);
}

/* Among the ended texts, of which the worst may go; behind those of equal score. */
static void add_ended(struct beams *b, const struct beam_candidate *c, const int32_t *ids, int64_t made)
{
    struct beam_text text = b->ended[b->n_ended];
    int64_t to = b->n_ended;
    text.score = score_of(b, c->sum, made + 1);
    text.n = made + 1;
    if (made) /* or there is nothing to copy from */
        memcpy(text.ids, ids, (size_t)made * sizeof *ids);
    text.ids[made] = c->token;
    for (; to > 0 && text.score > b->ended[to - 1].score; to--)
        b->ended[to] = b->ended[to - 1];
    b->ended[to] = text;
    b->n_ended += b->n_ended < b->s.n;
}

/* Whether a text that goes on may still get among the ended ones. */
static bool may_be_better(const struct beams *b, int64_t length)
{
    bool any_length = b->s.end == BEAMS_END_NEVER && b->s.length_penalty > 0;
    return b->n_ended < b->s.n ||
           score_of(b, b->sums[0], any_length ? b->most : length) > b->ended[b->n_ended - 1].score;
}

bool beams_step(struct beams *b, const float *log_probs, int64_t V, const int32_t *const *ids, int64_t made, bool last)
{
    int64_t n = find_candidates(b, log_probs, V), running = 0;
    bool full = b->s.end == BEAMS_END_FULL && b->n_ended == b->s.n;
    for (int64_t i = 0; i < n; i++) {
        const struct beam_candidate *c = &b->candidates[i];
        bool ends = last || is_stop(b, c->token);
        if (ends && i < b->s.n && !b->closed && !full)
            add_ended(b, c, ids[c->beam], made);
        if (ends || running == b->s.n)
            continue;
        b->from[running] = c->beam;
        b->next[running] = c->token;
        b->sums[running++] = c->sum; /* read above, into the candidates */
    }
    if (!running)
        return false;
    for (int64_t i = running; i < b->s.n; i++) { /* a place without a beam does what another does */
        b->from[i] = b->from[0];
        b->next[i] = b->next[0];
        b->sums[i] = -INFINITY;
    }
    b->closed |= !may_be_better(b, made + 1);
    return !b->closed && !(b->s.end == BEAMS_END_FULL && b->n_ended == b->s.n);
}
