/* Each of B places runs one prompt, and takes the next prompt when that one has ended. A call of the program reads of every place
 * the tokens that its cache lacks: a piece of the prompt, or the token that was chosen last. A place without any reads its last
 * token again, which changes nothing. */
#include "train/generate/generate.h"

#include "base/size.h"
#include "train/generate/generator.h"

#include <math.h>
#include <string.h>

/* ---- memory ---- */

static int allocate_beams(struct generator *g, struct snug_err *err)
{
    size_t B = (size_t)g->B, rows = (size_t)g->s->compile.cache_rows, groups = B / (size_t)g->beams;
    if (g->beams == 1)
        return SNUG_OK;
    g->searches = mem_alloc(groups * sizeof *g->searches);
    g->cache_at = mem_alloc(B * rows * sizeof *g->cache_at);
    g->source_at = mem_alloc(B * sizeof *g->source_at);
    g->kept = mem_alloc((size_t)g->beams * (rows + 1) * sizeof *g->kept);
    g->kept_ids = mem_alloc((size_t)g->beams * sizeof *g->kept_ids);
    if (!g->searches || !g->cache_at || !g->source_at || !g->kept || !g->kept_ids)
        return err_no_memory(err, B * rows * sizeof *g->cache_at);
    for (size_t i = 0; i < groups; i++)
        TRY(beams_open(&g->searches[i], &g->s->beams, g->s->o->max_new_tokens, g->stops, g->n_stops, err));
    for (size_t b = 0; b < B; b++)
        g->source_at[b] = (int32_t)((int64_t)b / g->beams * g->s->compile.source_rows);
    return SNUG_OK;
}

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
    return allocate_beams(g, err);
}

static void release(struct generator *g)
{
    for (int64_t b = 0; g->places && b < g->B; b++)
        mem_free(g->places[b].ids);
    for (size_t i = 0; g->results && i < g->s->prompts.n; i++)
        mem_free(g->results[i].ids);
    for (int64_t i = 0; g->searches && i < g->B / g->beams; i++)
        beams_close(&g->searches[i]);
    mem_free(g->searches);
    mem_free(g->cache_at);
    mem_free(g->source_at);
    mem_free(g->kept);
    mem_free(g->kept_ids);
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
        ids[0] = (int32_t)g->start;
    } else
        memcpy(ids, p->ids + p->begins[q->prompt], (size_t)n * sizeof *ids);
}

/* The other beams have the same prompt, and wait until the first has read it. */
static void take_prompt_by_beams(struct generator *g, int64_t first)
{
    struct sequence_state *q = &g->places[first];
    bool ran = q->runs;
    take_prompt(g, q);
    if (ran || !q->runs || !g->searches)
        return;
    beams_begin(&g->searches[first / g->beams]);
    for (int64_t i = 1; i < g->beams; i++) {
        int32_t *ids = q[i].ids;
        memcpy(ids, q->ids, (size_t)q->n * sizeof *ids);
        q[i] = *q;
        q[i].ids = ids;
        q[i].cached = q->n;
        q[i].source_read = q->source;
    }
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
    int64_t piece = max.T / max.B, T = 0, L = g->s->compile.cache_rows;
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
            if (g->cache_at)
                g->cache_at[b * L + q->cached + i] = (int32_t)(b * L + q->cached + i);
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
                          .cache_at = g->cache_at,
                          .source_at = g->sources ? g->source_at : NULL,
                          .cache_rows = L,
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

/* What the token behind so many others has to be; -1: any. */
static int64_t forced_token(const struct generator *g, int64_t made)
{
    if (made + 1 == g->s->o->max_new_tokens && g->forced_last >= 0)
        return g->forced_last;
    return made == 0 ? g->forced_first : -1;
}

static int32_t choose(struct generator *g, int64_t b)
{
    const struct sequence_state *q = &g->places[b];
    int64_t V = g->s->model.vocab_size, forced = forced_token(g, q->n - q->n_prompt);
    if (forced >= 0)
        return (int32_t)forced;
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

/* ---- a step of a search ---- */

/* Log-probabilities of the next token of each beam, as the rules have them. */
static void weigh(struct generator *g, int64_t first)
{
    int64_t V = g->s->model.vocab_size;
    for (int64_t b = first; b < first + g->beams; b++) {
        const struct sequence_state *q = &g->places[b];
        float *x = g->logits + b * V;
        int64_t forced = forced_token(g, q->n - q->n_prompt);
        beams_log_softmax(x, V);
        rules_apply(&g->rules, q->ids, q->n, q->n_prompt, x);
        for (int64_t i = 0; forced >= 0 && i < V; i++)
            x[i] = i == forced ? 0 : -INFINITY;
    }
}

/* Each place gets the text of the beam that it goes on from, and what is known of its rows in the caches. */
static void change_places(struct generator *g, int64_t first, const struct beams *search)
{
    struct sequence_state *q = &g->places[first];
    int64_t n = q->n, rows = g->s->compile.cache_rows;
    int32_t *at = g->cache_at + first * rows;
    memcpy(g->kept, at, (size_t)(g->beams * rows) * sizeof *at);
    for (int64_t i = 0; i < g->beams; i++)
        memcpy(at + i * rows, g->kept + search->from[i] * rows, (size_t)rows * sizeof *at);
    for (int64_t i = 0; i < g->beams; i++)
        memcpy(g->kept + i * (rows + 1), q[i].ids, (size_t)n * sizeof *at);
    for (int64_t i = 0; i < g->beams; i++) {
        memcpy(q[i].ids, g->kept + search->from[i] * (rows + 1), (size_t)n * sizeof *at);
        q[i].ids[q[i].n++] = search->next[i];
    }
}

static int end_search(struct generator *g, int64_t first, const struct beams *search, struct snug_err *err)
{
    struct sequence_state *q = &g->places[first];
    struct result *r = &g->results[q->prompt];
    const struct beam_text *best = &search->ended[0];
    int64_t n = search->n_ended ? best->n : 0;
    *r = (struct result){.n = q->n_prompt + n, .n_prompt = q->n_prompt, .ended = true};
    if (!(r->ids = mem_alloc((size_t)(r->n + 1) * sizeof *r->ids)))
        return err_no_memory(err, (unsigned long long)r->n * sizeof *r->ids);
    memcpy(r->ids, q->ids, (size_t)q->n_prompt * sizeof *r->ids);
    if (n)
        memcpy(r->ids + q->n_prompt, best->ids, (size_t)n * sizeof *r->ids);
    for (int i = 0; i < g->n_stops && n; i++)
        r->stopped |= g->stops[i] == best->ids[n - 1];
    for (int64_t i = 0; i < g->beams; i++) {
        q[i].runs = false;
        q[i].n = q[i].cached;
    }
    return SNUG_OK;
}

/* The next token of all beams of a prompt, whose caches have all others. */
static int search_on(struct generator *g, int64_t first, struct snug_err *err)
{
    struct sequence_state *q = &g->places[first];
    struct beams *search = &g->searches[first / g->beams];
    int64_t made = q->n - q->n_prompt, V = g->s->model.vocab_size;
    bool last = made + 1 == g->s->o->max_new_tokens || q->n + 1 > g->s->model.longest;
    weigh(g, first);
    for (int64_t i = 0; i < g->beams; i++)
        g->kept_ids[i] = q[i].ids + q->n_prompt;
    if (!beams_step(search, g->logits + first * V, V, g->kept_ids, made, last))
        return end_search(g, first, search, err);
    change_places(g, first, search);
    return SNUG_OK;
}

static int step(struct generator *g, struct snug_err *err)
{
    struct session *s = g->s;
    if (stop_asked(s->stop) && !run_exchanges(&s->run, s->run.where.generate)) /* others would wait for this one */
        return err_set(err, SNUG_STOPPED, "stopped by a signal; the texts so far are not ended");
    for (int64_t b = 0; b < g->B; b += g->beams)
        take_prompt_by_beams(g, b);
    struct batch batch = lay(g);
    TRY(stepper_logits(&s->stepper, s->run.where.generate, &batch, g->logits, err));
    for (int64_t b = 0; b < batch.B; b += g->beams)
        if (g->places[b].runs && g->places[b].cached == g->places[b].n)
            TRY(g->searches ? search_on(g, b, err) : go_on(g, b, err));
    return tell_ended(g, err);
}

int generate_run(struct session *s, int (*piece)(void *ctx, const struct snug_piece *p), void *ctx,
                 struct snug_err *err)
{
    int64_t beams = s->beams.n, most = s->compile.generate_max.B / beams, n = (int64_t)s->prompts.n;
    struct generator g = {.s = s, .piece = piece, .ctx = ctx, .beams = beams, .B = (n < most ? n : most) * beams};
    int code = generator_read(&g, err);
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
                 size_text(s->run.plan.arena_bytes, all), size_text(bytes, cache), (long long)(p->max.B / s->beams.n),
                 p->max.B == s->beams.n ? "" : "s", (long long)(s->compile.source_rows + s->compile.cache_rows));
}
