/* Each of B places runs one prompt, and takes the next prompt when that one has ended. A call of the program reads of every place
 * the tokens that its cache lacks: a piece of the prompt, or the token that was chosen last. A place without any reads its last
 * token again, which changes nothing. */
#include "train/generate/generate.h"

#include "base/size.h"
#include "base/str.h"
#include "train/generate/rules.h"
#include "train/generate/sampling.h"
#include "train/generate/telling.h"

#include <string.h>

enum { CONFIG_BYTES = 1 << 20 };

struct sequence_state {
    int32_t *ids; /* (cache_rows + 1): the prompt and what follows it */
    int64_t n, n_prompt, cached;
    int64_t prompt; /* which; -1: none yet */
    bool runs;
    int64_t source, source_read; /* of an encoder-decoder: tokens of the prompt, all or none of which are read */
};

/* What a prompt has become, until its turn to be told. */
struct result {
    int32_t *ids; /* (n): the prompt and what follows it */
    int64_t n, n_prompt;
    bool stopped; /* by an end token */
    bool ended;
};

struct generator {
    struct session *s;
    struct sampling sampling;
    struct rules rules;
    int32_t stops[CHAT_ENDS];
    int n_stops;
    int64_t forced_first, forced_last; /* tokens that a text begins and ends with; -1: any */
    int64_t B;                         /* places: as many as the program has room for, and no more than prompts */
    struct sequence_state *places;     /* (B) */
    struct result *results;            /* (prompts) */
    int64_t next;                      /* prompt that no place has had */
    int64_t told;                      /* prompt that is being told */
    struct telling telling;            /* its text */
    float *logits;                     /* (B,V) */
    struct candidate *candidates;
    int32_t *inputs;  /* ids (T), positions (T), cu (B+1), past (B), sample (B); */
    int32_t *sources; /* ids (S), positions (S), cu (B+1), rows (B); NULL: prompts are no sources */
    int (*piece)(void *ctx, const struct snug_piece *p);
    void *ctx;
};

/* ---- what the model says ---- */

static void add_stop(struct generator *g, json_t *id)
{
    if (json_is_integer(id) && g->n_stops < CHAT_ENDS && json_integer_value(id) >= 0 &&
        json_integer_value(id) < g->s->model.vocab_size)
        g->stops[g->n_stops++] = (int32_t)json_integer_value(id);
}

/* eos_token_id of generation_config.json, else of config.json: a number or a list. */
static void read_stops(struct generator *g, json_t *generation, json_t *config)
{
    json_t *ids = json_object_get(generation, "eos_token_id");
    if (!ids || json_is_null(ids))
        ids = json_object_get(config, "eos_token_id");
    add_stop(g, ids);
    for (size_t i = 0; i < json_array_size(ids); i++)
        add_stop(g, json_array_get(ids, i));
}

/* A token id of generation_config.json, else of config.json; -1: there is none. */
static int read_token(const struct generator *g, json_t *generation, const char *path, const char *key, int64_t *id,
                      struct snug_err *err)
{
    bool own = json_object_get(generation, key);
    *id = -1;
    return json_get_int(own ? generation : g->s->dir.config, own ? path : g->s->dir.config_path, key, false, 0,
                        g->s->model.vocab_size - 1, id, err);
}

/* An encoder-decoder's text may have to begin with a token, a language, say; any text that gets as long as it may can have to end
 * with one. */
static int read_forced(struct generator *g, json_t *generation, const char *path, struct snug_err *err)
{
    TRY(read_token(g, generation, path, "forced_bos_token_id", &g->forced_first, err));
    TRY(read_token(g, generation, path, "forced_eos_token_id", &g->forced_last, err));
    if (model_task(&g->s->model)->converses)
        g->forced_first = -1;
    return SNUG_OK;
}

static int read_rules(struct generator *g, json_t *generation, const char *path, struct snug_err *err)
{
    struct rules *r = &g->rules;
    *r = (struct rules){.penalty = 1, .stops = g->stops, .n_stops = g->n_stops};
    const struct {
        const char *name;
        int64_t *to;
    } keys[] = {{"no_repeat_ngram_size", &r->no_repeat}, {"min_length", &r->least}, {"min_new_tokens", &r->new_least}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *from = json_object_get(generation, keys[i].name) ? generation : g->s->dir.config;
        json_t *x = json_object_get(from, keys[i].name);
        if (x && !json_is_null(x))
            TRY(json_get_int(from, from == generation ? path : g->s->dir.config_path, keys[i].name, false, 0, 1 << 24,
                             keys[i].to, err));
    }
    json_t *from = json_object_get(generation, "repetition_penalty") ? generation : g->s->dir.config;
    json_t *x = json_object_get(from, "repetition_penalty");
    if (x && !json_is_null(x))
        TRY(json_get_real(from, from == generation ? path : g->s->dir.config_path, "repetition_penalty", false, 1e-6,
                          1e6, &r->penalty, err));
    return SNUG_OK;
}

/* What transformers would heed and this does not. */
static int note_unheeded(const struct generator *g, json_t *generation, struct snug_err *err)
{
    static const struct {
        const char *name;
        double idle; /* of no effect */
    } keys[] = {{"num_beams", 1}, {"encoder_no_repeat_ngram_size", 0}};
    struct str line = {0};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *x = json_object_get(generation, keys[i].name);
        x = x ? x : json_object_get(g->s->dir.config, keys[i].name);
        if (json_is_number(x) && json_number_value(x) != keys[i].idle)
            str_printf(&line, "%s%s %g", line.n ? ", " : "", keys[i].name, json_number_value(x));
    }
    int code = str_check(&line, err);
    if (!code && line.n)
        session_note(g->s, "not heeded, though the model's folder has it: %s", str_text(&line));
    str_free(&line);
    return code;
}

static int read_sampling(struct generator *g, json_t *generation, const char *path, struct snug_err *err)
{
    const struct options *o = g->s->o;
    struct sampling *p = &g->sampling;
    *p = (struct sampling){.on = o->do_sample, .temperature = 1, .top_k = 50, .top_p = 1, .seed = o->seed};
    if (!o->do_sample)
        return SNUG_OK;
    TRY(json_get_real(generation, path, "temperature", false, 1e-6, 1e6, &p->temperature, err));
    TRY(json_get_int(generation, path, "top_k", false, 0, 1 << 24, &p->top_k, err));
    TRY(json_get_real(generation, path, "top_p", false, 1e-9, 1, &p->top_p, err));
    if (option_given(o, temperature))
        p->temperature = o->temperature;
    if (option_given(o, top_k))
        p->top_k = o->top_k;
    if (option_given(o, top_p))
        p->top_p = o->top_p;
    return SNUG_OK;
}

static int read_model(struct generator *g, struct snug_err *err)
{
    json_t *generation = NULL;
    char *path = model_dir_file(&g->s->dir, "generation_config.json");
    if (!path)
        return err_no_memory(err, strlen(g->s->dir.path));
    int code = io_exists(g->s->io, path) ? json_read_object(g->s->io, path, CONFIG_BYTES, &generation, err) : SNUG_OK;
    if (!code) {
        read_stops(g, generation, g->s->dir.config);
        code = read_sampling(g, generation, path, err);
    }
    if (!code)
        code = read_forced(g, generation, path, err);
    if (!code && g->s->o->command == CMD_GENERATE) /* --eval-samples would say it each time */
        code = note_unheeded(g, generation, err);
    if (!g->n_stops && g->s->tokenizer && tokenizer_special(g->s->tokenizer, TOKEN_EOS) >= 0)
        g->stops[g->n_stops++] = tokenizer_special(g->s->tokenizer, TOKEN_EOS);
    if (!code)
        code = read_rules(g, generation, path, err);
    json_decref(generation);
    mem_free(path);
    return code;
}

/* ---- memory ---- */

static int allocate(struct generator *g, struct snug_err *err)
{
    const struct compile_settings *c = &g->s->compile;
    size_t B = (size_t)g->B, T = (size_t)c->generate_max.T, V = (size_t)g->s->model.vocab_size;
    size_t rows = (size_t)c->cache_rows + 1, S = (size_t)c->generate_max.S;
    g->places = mem_alloc(B * sizeof *g->places);
    g->results = mem_alloc(g->s->prompts.n * sizeof *g->results);
    g->logits = mem_alloc(B * V * sizeof *g->logits);
    g->candidates = mem_alloc(V * sizeof *g->candidates);
    g->rules.seen = mem_alloc(V * sizeof *g->rules.seen);
    g->inputs = mem_alloc((2 * T + 3 * B + 1) * sizeof *g->inputs);
    if (S && !(g->sources = mem_alloc((2 * S + 2 * B + 1) * sizeof *g->sources)))
        return err_no_memory(err, S * sizeof *g->sources);
    if (!g->places || !g->results || !g->logits || !g->candidates || !g->rules.seen || !g->inputs)
        return err_no_memory(err, B * V * sizeof *g->logits);
    for (size_t b = 0; b < B; b++) {
        g->places[b].ids = mem_alloc(rows * sizeof *g->places[b].ids);
        if (!g->places[b].ids)
            return err_no_memory(err, rows * sizeof *g->places[b].ids);
    }
    return SNUG_OK;
}

static void release(struct generator *g)
{
    for (int64_t b = 0; g->places && b < g->B; b++)
        mem_free(g->places[b].ids);
    for (size_t i = 0; g->results && i < g->s->prompts.n; i++)
        mem_free(g->results[i].ids);
    mem_free(g->places);
    mem_free(g->results);
    mem_free(g->logits);
    mem_free(g->candidates);
    mem_free(g->rules.seen);
    mem_free(g->inputs);
    mem_free(g->sources);
    telling_free(&g->telling);
}

/* ---- telling ---- */

/* Of the prompt that is being told. */
static int tell(struct generator *g, const struct result *r, struct snug_err *err)
{
    struct snug_piece p = {.prompt = g->told,
                           .text = "",
                           .ids = r->ids + r->n_prompt,
                           .n_ids = r->n - r->n_prompt,
                           .ended = r->ended,
                           .stopped = r->stopped};
    if (g->s->tokenizer)
        TRY(telling_next(&g->telling, g->s->tokenizer, r->ids, r->n_prompt, r->n, r->ended, &p.text, &p.text_bytes,
                         err));
    return p.text_bytes || p.ended ? g->piece(g->ctx, &p) : SNUG_OK;
}

/* Results that were waiting for the prompt before them. */
static int tell_ended(struct generator *g, struct snug_err *err)
{
    for (; g->told < (int64_t)g->s->prompts.n && g->results[g->told].ended; g->told++) {
        TRY(tell(g, &g->results[g->told], err));
        telling_free(&g->telling);
    }
    return SNUG_OK;
}

/* ---- a step ---- */

static void take_prompt(struct generator *g, struct sequence_state *q)
{
    const struct prompts *p = &g->s->prompts;
    if (q->runs || g->next == (int64_t)p->n)
        return;
    int32_t *ids = q->ids;
    *q = (struct sequence_state){.ids = ids, .prompt = g->next++, .runs = true};
    int64_t n = (int64_t)(p->begins[q->prompt + 1] - p->begins[q->prompt]);
    q->n = q->n_prompt = g->sources ? 1 : n;
    if (g->sources) {
        q->source = n;
        ids[0] = (int32_t)g->s->model.start_id;
    } else
        memcpy(ids, p->ids + p->begins[q->prompt], (size_t)n * sizeof *ids);
}

/* Lays the sources that no call has read yet. */
static void lay_sources(struct generator *g, struct batch *batch)
{
    const struct prompts *p = &g->s->prompts;
    struct dims max = g->s->compile.generate_max;
    int32_t *ids = g->sources, *positions = ids + max.S, *cu = positions + max.S, *rows = cu + g->B + 1;
    int64_t S = 0;
    cu[0] = 0;
    for (int64_t b = 0; b < g->B; b++) {
        struct sequence_state *q = &g->places[b];
        for (; q->source_read < q->source; q->source_read++, S++) {
            ids[S] = p->ids[p->begins[q->prompt] + (size_t)q->source_read];
            positions[S] = (int32_t)q->source_read;
        }
        cu[b + 1] = (int32_t)S;
        rows[b] = (int32_t)q->source;
    }
    batch->S = (int32_t)S;
    batch->source_ids = ids;
    batch->source_positions = positions;
    batch->source_cu_seqlens = cu;
    batch->source_rows = rows;
}

/* Lays what each place reads next; B places. */
static struct batch lay(struct generator *g)
{
    struct dims max = g->s->compile.generate_max;
    int32_t *ids = g->inputs, *positions = ids + max.T, *cu = positions + max.T, *past = cu + g->B + 1;
    int32_t *sample = past + g->B;
    int64_t piece = max.T / max.B, T = 0;
    cu[0] = 0;
    for (int64_t b = 0; b < g->B; b++) {
        struct sequence_state *q = &g->places[b];
        int64_t lacks = q->n - q->cached, rows = lacks < piece ? lacks : piece;
        if (!lacks) { /* ended, with nothing to take its place */
            q->cached--;
            rows = 1;
        }
        for (int64_t i = 0; i < rows; i++, T++) {
            ids[T] = q->ids[q->cached + i];
            positions[T] = (int32_t)(q->cached + i);
        }
        past[b] = (int32_t)q->cached;
        sample[b] = (int32_t)b;
        cu[b + 1] = (int32_t)T;
        q->cached += rows;
    }
    struct batch batch = {.T = (int32_t)T,
                          .B = (int32_t)g->B,
                          .ids = ids,
                          .positions = positions,
                          .cu_seqlens = cu,
                          .past = past,
                          .sample = sample};
    if (g->sources)
        lay_sources(g, &batch);
    return batch;
}

static int end_sequence(struct generator *g, struct sequence_state *q, bool stopped, struct snug_err *err)
{
    struct result *r = &g->results[q->prompt];
    *r = (struct result){.n = q->n, .n_prompt = q->n_prompt, .stopped = stopped, .ended = true};
    if (!(r->ids = mem_alloc((size_t)r->n * sizeof *r->ids)))
        return err_no_memory(err, (unsigned long long)r->n * sizeof *r->ids);
    memcpy(r->ids, q->ids, (size_t)r->n * sizeof *r->ids);
    q->runs = false;
    q->n = q->cached; /* its last token is not read */
    return SNUG_OK;
}

static int32_t choose(struct generator *g, int64_t b)
{
    const struct sequence_state *q = &g->places[b];
    int64_t V = g->s->model.vocab_size, made = q->n - q->n_prompt;
    if (made + 1 == g->s->o->max_new_tokens && g->forced_last >= 0)
        return (int32_t)g->forced_last;
    if (made == 0 && g->forced_first >= 0)
        return (int32_t)g->forced_first;
    rules_apply(&g->rules, q->ids, q->n, q->n_prompt, g->logits + b * V);
    return sampling_choose(&g->sampling, g->logits + b * V, V, g->candidates, q->prompt, q->n);
}

/* The next token of a place whose cache has all others. */
static int go_on(struct generator *g, int64_t b, struct snug_err *err)
{
    struct sequence_state *q = &g->places[b];
    int64_t longest = g->s->model.longest;
    int32_t id = choose(g, b);
    bool stopped = false;
    q->ids[q->n++] = id;
    for (int i = 0; i < g->n_stops; i++)
        stopped |= g->stops[i] == id;
    if (stopped || q->n - q->n_prompt == g->s->o->max_new_tokens || q->n > longest)
        return end_sequence(g, q, stopped, err);
    const struct result so_far = {.ids = q->ids, .n = q->n, .n_prompt = q->n_prompt};
    return q->prompt == g->told ? tell(g, &so_far, err) : SNUG_OK;
}

static int step(struct generator *g, struct snug_err *err)
{
    struct session *s = g->s;
    if (stop_asked(s->stop))
        return err_set(err, SNUG_STOPPED, "stopped by a signal; the texts so far are not ended");
    for (int64_t b = 0; b < g->B; b++)
        take_prompt(g, &g->places[b]);
    struct batch batch = lay(g);
    TRY(stepper_logits(&s->stepper, s->run.where.generate, &batch, g->logits, err));
    for (int64_t b = 0; b < batch.B; b++)
        if (g->places[b].runs && g->places[b].cached == g->places[b].n)
            TRY(go_on(g, b, err));
    return tell_ended(g, err);
}

int generate_run(struct session *s, int (*piece)(void *ctx, const struct snug_piece *p), void *ctx,
                 struct snug_err *err)
{
    int64_t n = (int64_t)s->prompts.n, most = s->compile.generate_max.B;
    struct generator g = {.s = s, .piece = piece, .ctx = ctx, .B = n < most ? n : most};
    int code = read_model(&g, err);
    if (!code)
        code = allocate(&g, err);
    while (!code && g.told < (int64_t)s->prompts.n)
        code = step(&g, err);
    release(&g);
    return code;
}

void generate_describe(const struct session *s)
{
    const struct program *p = &s->run.plan.programs[s->run.where.generate];
    char all[SIZE_TEXT_MAX], cache[SIZE_TEXT_MAX];
    int64_t bytes = 0;
    for (int i = 1; i < p->graph.n_values; i++)
        if (p->graph.values[i].role == ROLE_STATE)
            bytes += value_bytes(&p->graph.values[i], p->max);
    session_note(s, "memory %s; of it %s are keys and values of %lld prompt%s at once, %lld tokens each",
                 size_text(s->run.plan.arena_bytes, all), size_text(bytes, cache), (long long)p->max.B,
                 p->max.B == 1 ? "" : "s", (long long)(s->compile.source_rows + s->compile.cache_rows));
}
