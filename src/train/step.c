#include "train/step.h"

#include "base/seconds.h"
#include "ranks/ranks.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Losses of so many micro-batches are on their way at once; behind them, the gradient's norm and the
 * shares of experts. */
enum { LOSSES = 512, NORM = LOSSES, SHARES, RESULTS = SHARES + 2 };

int64_t stepper_results_bytes(void)
{
    return RESULTS * (int64_t)sizeof(double);
}

int stepper_open(struct stepper *s, struct run *run, const struct model_config *model, uint64_t seed,
                 struct snug_err *err)
{
    void *results;
    *s = (struct stepper){.run = run, .model = model, .seed = seed, .exchanges = run_exchanges(run, run->where.first)};
    TRY(run->backend->arena->alloc_host(run->backend, stepper_results_bytes(), &results, err));
    s->results = results;
    memset(&s->results[SHARES], 0, 2 * sizeof *s->results);
    return SNUG_OK;
}

void stepper_close(struct stepper *s)
{
    if (s->results)
        s->run->backend->arena->free_host(s->run->backend, s->results);
    *s = (struct stepper){0};
}

/* ---- inputs ---- */

/* The next inputs of program k, while they are written. */
struct input_image {
    const struct stepper *s;
    const struct program *g;
    char *image; /* laid out as the arena */
};

/* The value of input `name`, 0 when nobody reads it in this program. */
static int read_input(const struct input_image *in, const char *name)
{
    int id = graph_find(&in->g->graph, name);
    return id && in->g->at[id] >= 0 ? id : 0;
}

/* Where input `name` goes, NULL when nobody reads it. */
static void *place(const struct input_image *in, const char *name)
{
    int id = read_input(in, name);
    return id ? in->image + in->g->at[id] : NULL;
}

static void put(const struct input_image *in, const char *name, const void *from, enum dtype type, int64_t elements)
{
    int id = read_input(in, name);
    if (id)
        dtype_convert(in->image + in->g->at[id], graph_value(&in->g->graph, id)->dtype, from, type, elements);
}

/* A (T) input, with `fill` in the rows of the bucket behind the last token. from NULL: `fill` everywhere. */
static void put_tokens(const struct input_image *in, const char *name, const int32_t *from, int64_t T, int64_t bucket,
                       int32_t fill)
{
    int32_t *to = place(in, name);
    if (!to)
        return;
    if (from)
        memcpy(to, from, sizeof *from * (size_t)T);
    for (int64_t t = from ? T : 0; t < bucket; t++)
        to[t] = fill;
}

static void put_labels(const struct input_image *in, const struct batch *b, int64_t bucket)
{
    const struct model_config *c = in->s->model;
    if (b->values)
        put(in, "labels", b->values, DT_F32, b->B * c->num_labels);
    else if (model_task(c)->per_token)
        put_tokens(in, "labels", b->targets, b->T, bucket, IGNORE_INDEX);
    else if (b->classes || c->problem == PROBLEM_SINGLE_LABEL)
        put_tokens(in, "labels", b->classes, b->B, b->B, -1); /* no labels: -1 everywhere, ignored */
}

static void put_class_weights(const struct input_image *in)
{
    if (in->s->class_weights)
        put(in, "class_weights", in->s->class_weights, DT_F32, in->s->model->num_labels);
}

static void put_rotary(const struct input_image *in, const struct batch *b)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < b->B; i++) {
        int32_t length = b->cu_seqlens[i + 1] - b->cu_seqlens[i] + (b->past ? b->past[i] : 0);
        longest = length > longest ? length : longest;
    }
    for (int i = 0; i < ROTARY_KINDS; i++) {
        const struct rotary *r = &in->s->model->rotary[i];
        if (r->pairs)
            put(in, rotary_inputs[i], rotary_frequencies(r, longest), DT_F64, r->pairs);
    }
}

/* What all batches have: of each distance its row of the table; and the rows' places, for the dropout masks. */
static void put_relative(const struct input_image *in)
{
    const struct model_config *c = in->s->model;
    int32_t *rows = place(in, "relative_rows"), *coords = place(in, "relative_coords");
    if (rows)
        relative_rows(&c->relative, c->longest, rows);
    for (int64_t i = 0; coords && i < c->relative.rows; i++) {
        coords[2 * i] = 0;
        coords[2 * i + 1] = (int32_t)i;
    }
}

/* (sample, position) of each row, for the dropout masks: of one row a sequence, */
static void put_samples(const struct input_image *in, const struct batch *b)
{
    int32_t *samples = place(in, "samples");
    for (int32_t i = 0; samples && i < b->B; i++) {
        samples[2 * i] = b->sample[i];
        samples[2 * i + 1] = 0;
    }
}

/* and of the rows of all sequences, which begin at cu (B+1). */
static void put_coords(const struct input_image *in, const char *name, const struct batch *b, const int32_t *cu,
                       int64_t bucket)
{
    int32_t *coords = place(in, name);
    for (int32_t i = 0; coords && i < b->B; i++)
        for (int32_t t = cu[i]; t < cu[i + 1]; t++) {
            coords[2 * t] = b->sample[i];
            coords[2 * t + 1] = t - cu[i];
        }
    if (coords)
        memset(coords + 2 * (int64_t)cu[b->B], 0, 2 * sizeof *coords * (size_t)(bucket - cu[b->B]));
}

/* As the model numbers them. */
static void put_positions(const struct input_image *in, const char *name, const int32_t *from, int64_t T,
                          int64_t bucket)
{
    int32_t *to = place(in, name), first = (int32_t)in->s->model->first_position;
    put_tokens(in, name, from, T, bucket, 0);
    for (int64_t t = 0; to && t < T; t++)
        to[t] += first;
}

static void put_source(const struct input_image *in, const struct batch *b, int64_t bucket)
{
    put_tokens(in, "source_ids", b->source_ids, b->S, bucket, 0);
    put_positions(in, "source_positions", b->source_positions, b->S, bucket);
    put(in, "source_cu_seqlens", b->source_cu_seqlens, DT_I32, b->B + 1);
    put_coords(in, "source_coords", b, b->source_cu_seqlens, bucket);
    if (b->source_rows)
        put(in, "source_rows", b->source_rows, DT_I32, b->B);
}

/* A decoder's ids of the text that the encoder reads, and where a classifier finds the text's last end token; in a text without one that
 * is its last token. */
static void put_shifted(const struct input_image *in, const struct batch *b, int64_t bucket)
{
    const struct model_config *c = in->s->model;
    int32_t *ids = place(in, "shifted_ids"), *ends = place(in, "ends");
    for (int32_t i = 0; i < b->B; i++) {
        int32_t from = b->cu_seqlens[i], to = b->cu_seqlens[i + 1], end = to;
        while (end > from && b->ids[end - 1] != c->end_id)
            end--;
        ends[i + 1] = end > from ? end : to;
        ids[from] = c->start_id == START_IS_LAST ? b->ids[to - 1] : (int32_t)c->start_id;
        memcpy(ids + from + 1, b->ids + from, (size_t)(to - from - 1) * sizeof *ids);
    }
    ends[0] = 0;
    for (int64_t t = b->T; t < bucket; t++)
        ids[t] = 0;
}

static void put_batch(const struct input_image *in, const struct batch *b, struct dims n)
{
    int64_t bucket = n.T;
    if (b->source_cu_seqlens)
        put_source(in, b, n.S);
    put_tokens(in, "input_ids", b->ids, b->T, bucket, 0);
    if (model_reads_twice(in->s->model))
        put_shifted(in, b, bucket);
    put_positions(in, "positions", b->positions, b->T, bucket);
    put_tokens(in, "token_type_ids", b->types, b->T, bucket, 0);
    put_tokens(in, "task_type_ids", NULL, b->T, bucket, 0);
    put(in, "cu_seqlens", b->cu_seqlens, DT_I32, b->B + 1);
    if (b->past)
        put(in, "past", b->past, DT_I32, b->B);
    if (b->cache_at)
        put(in, "cache_at", b->cache_at, DT_I32, b->B * b->cache_rows);
    if (b->source_at)
        put(in, "source_at", b->source_at, DT_I32, b->B);
    put_samples(in, b);
    put_coords(in, "coords", b, b->cu_seqlens, bucket);
    put_relative(in);
    put_labels(in, b, bucket);
    put_class_weights(in);
    put_rotary(in, b);
}

static void put_scalars(const struct input_image *in, const struct step_inputs *step)
{
    uint64_t seed = in->s->seed;
    const int32_t rng[4] = {(int32_t)(uint32_t)seed, (int32_t)(uint32_t)(seed >> 32), (int32_t)step->step, 0};
    const double scalars[STEP_SCALARS] = {[STEP_INV_N] = step->n > 0 ? 1.0 / step->n : 0,
                                          [STEP_LR] = step->learning_rate,
                                          [STEP_UPDATE] = (double)step->update,
                                          [STEP_SEED_LOW] = (double)(uint32_t)seed,
                                          [STEP_SEED_HIGH] = (double)(uint32_t)(seed >> 32),
                                          [STEP_AVERAGE] = step->average};
    put(in, "rng", rng, DT_I32, 4);
    put(in, "step", scalars, DT_F64, STEP_SCALARS);
}

struct dims batch_dims(const struct backend *backend, const struct batch *b)
{
    int64_t T = b ? backend_bucket(backend, b->T) : 0,
            S = b && b->source_cu_seqlens ? backend_bucket(backend, b->S) : 0;
    return (struct dims){.T = T, .B = b ? b->B : 0, .S = S};
}

/* The batch (NULL: none) and the scalars, on their way to program k. */
static int send(struct stepper *s, int k, const struct batch *b, const struct step_inputs *step, struct snug_err *err)
{
    void *image;
    const struct backend *backend = s->run->backend;
    const struct dims n = batch_dims(backend, b), most = s->run->plan.programs[k].max;
    assert(!b || (n.T <= most.T && n.B <= most.B && n.S <= most.S));
    TRY(backend->arena->inputs(backend, s->run->arenas.of[MEMORY_DEVICE], &image, err));
    struct input_image in = {.s = s, .g = &s->run->plan.programs[k], .image = image};
    if (b)
        put_batch(&in, b, n);
    put_scalars(&in, step);
    return backend->arena->send(backend, s->run->arenas.of[MEMORY_DEVICE], err);
}

double stepper_targets(const struct stepper *s, const struct window *w)
{
    double sum = 0;
    bool tokens = model_task(s->model)->per_token;
    if (!s->class_weights || (!tokens && s->model->problem != PROBLEM_SINGLE_LABEL))
        return (double)w->n_targets;
    for (int32_t i = 0; i < w->n_micro; i++) {
        const struct batch *b = &w->micro[i];
        const int32_t *labels = tokens ? b->targets : b->classes;
        for (int32_t k = 0; k < (tokens ? b->T : b->B); k++)
            sum += labels[k] >= 0 ? (double)s->class_weights[labels[k]] : 0;
    }
    return sum;
}

/* ---- results ---- */

/* Scalar `name` of program k, to results[slot]; results are doubles only after `result` has read them. */
static int fetch_scalar(struct stepper *s, int k, const char *name, int slot, struct run_fetch *f, struct snug_err *err)
{
    struct run_value v;
    if (!run_output(s->run, k, name, (struct dims){0}, &v))
        return err_set(err, SNUG_ERR_ENV, "program %s has no %s", s->run->plan.programs[k].name, name);
    *f = (struct run_fetch){.to = &s->results[slot], .from = v.data, .bytes = dtype_bytes(v.dtype, 1)};
    return SNUG_OK;
}

/* Likewise what program k, a micro-step or a whole one, has of the shares of experts, if any: gives how many fetches that is. */
static int fetch_shares(struct stepper *s, int k, struct run_fetch *f)
{
    struct run_value v;
    if (!run_output(s->run, k, "expert_shares", (struct dims){0}, &v))
        return 0;
    *f = (struct run_fetch){.to = &s->results[SHARES], .from = v.data, .bytes = dtype_bytes(v.dtype, 2)};
    return 1;
}

static double result(const struct stepper *s, int slot)
{
    float x;
    if (s->run->backend->facts.float_type == DT_F64)
        return s->results[slot];
    memcpy(&x, &s->results[slot], sizeof x);
    return (double)x;
}

/* 0 where nothing has been fetched. */
static void read_shares(const struct stepper *s, struct step_result *out)
{
    float x[2];
    memcpy(out->expert_shares, &s->results[SHARES], sizeof out->expert_shares);
    if (s->run->backend->facts.float_type == DT_F64)
        return;
    memcpy(x, &s->results[SHARES], sizeof x);
    out->expert_shares[0] = (double)x[0];
    out->expert_shares[1] = (double)x[1];
}

static int wait(const struct stepper *s, struct snug_err *err)
{
    return s->run->backend->arena->wait(s->run->backend, 0, err);
}

/* What has come of sums over ranks is worth nothing where one of them has left. */
static int check_others(const struct stepper *s, struct snug_err *err)
{
    const struct rank *r = s->run->rank;
    return r && ranks_left(r->all) >= 0 ? err_set(err, SNUG_ERR_ENV, "rank %d: another rank has failed", r->me)
                                        : SNUG_OK;
}

static void find_where(struct stepper *s, int k, struct dims dims, struct step_result *out)
{
    if (!run_first_not_finite(s->run, k, dims, out->where, sizeof out->where))
        snprintf(out->where, sizeof out->where, "the gradient's norm (every single value is finite)");
}

/* The norm of a step whose updates did not wait for it. */
static void find_where_early(struct stepper *s, int k, struct step_result *out)
{
    if (!run_gradient_not_finite(s->run, k, out->where, sizeof out->where))
        snprintf(out->where, sizeof out->where, "the gradient's norm (every single gradient's is finite)");
}

/* ---- steps ---- */

/* Of several ranks each has its share of a window: this one micro-batches me, me + n, me + 2n, … How many these are; where the window
 * has none for it, one without rows, for gradients that are 0. Where ranks exchange something in each, all have as many as the first. */
static int32_t share(const struct stepper *s, const struct window *w)
{
    const struct rank *r = s->run->rank;
    int32_t me = r && !s->exchanges ? r->me : 0;
    int32_t more = r ? (w->n_micro - me + r->n - 1) / r->n : w->n_micro;
    return more > 0 ? more : 1;
}

const struct batch *batch_of_no_rows(void)
{
    static int32_t no_rows[1];
    static const struct batch none = {.cu_seqlens = no_rows, .source_cu_seqlens = no_rows};
    return &none;
}

/* The i-th of them. */
static const struct batch *micro_batch(const struct stepper *s, const struct window *w, int32_t i)
{
    const struct rank *r = s->run->rank;
    int64_t at = r ? r->me + (int64_t)i * r->n : i;
    return at < w->n_micro ? &w->micro[at] : batch_of_no_rows();
}

/* The whole step as one program, of a rank its micro-batch. */
static int step_at_once(struct stepper *s, const struct window *w, const struct step_inputs *in,
                        struct step_result *out, struct snug_err *err)
{
    int k = s->run->where.step;
    const struct batch *b = micro_batch(s, w, 0);
    struct dims dims = batch_dims(s->run->backend, b);
    struct run_fetch f[3];
    TRY(fetch_scalar(s, k, "loss", 0, &f[0], err));
    TRY(fetch_scalar(s, k, "grad_norm", NORM, &f[1], err));
    int n = 2 + fetch_shares(s, k, &f[2]);
    TRY(send(s, k, b, in, err));
    out->sent = seconds_now();
    TRY(run_program(s->run, k, dims, f, n, err));
    TRY(wait(s, err));
    TRY(check_others(s, err));
    out->loss = result(s, 0);
    read_shares(s, out);
    out->grad_norm = result(s, NORM);
    out->finite = isfinite(out->loss) && isfinite(out->grad_norm);
    if (out->finite || (isfinite(out->loss) && in->scaled))
        return SNUG_OK;
    if (isfinite(out->loss) && !run_updates_wait(s->run, k))
        find_where_early(s, k, out);
    else
        find_where(s, k, dims, out);
    return SNUG_OK;
}

/* Its program. */
static int micro_program(const struct stepper *s, int32_t i)
{
    return i == 0 ? s->run->where.first : s->run->where.next;
}

/* It is on its way, since *sent, and its loss to results[i % LOSSES]. */
static int launch_micro(struct stepper *s, const struct window *w, int32_t i, const struct step_inputs *in,
                        double *sent, struct snug_err *err)
{
    int k = micro_program(s, i);
    const struct batch *b = micro_batch(s, w, i);
    struct run_fetch f[2];
    TRY(fetch_scalar(s, k, "loss", i % LOSSES, &f[0], err));
    int n = 1 + fetch_shares(s, k, &f[1]);
    TRY(send(s, k, b, in, err));
    *sent = seconds_now();
    return run_program(s->run, k, batch_dims(s->run->backend, b), f, n, err);
}

int stepper_micro(struct stepper *s, const struct window *w, int32_t i, const struct step_inputs *in, double *loss,
                  struct snug_err *err)
{
    double sent;
    TRY(launch_micro(s, w, i, in, &sent, err));
    TRY(wait(s, err));
    *loss = result(s, i % LOSSES);
    return SNUG_OK;
}

int stepper_update(struct stepper *s, const struct step_inputs *in, struct step_result *out, struct snug_err *err)
{
    int k = s->run->where.update;
    struct run_fetch f;
    *out = (struct step_result){.finite = true};
    TRY(fetch_scalar(s, k, "grad_norm", NORM, &f, err));
    TRY(send(s, k, NULL, in, err));
    TRY(run_program(s->run, k, (struct dims){0}, &f, 1, err));
    TRY(wait(s, err));
    TRY(check_others(s, err));
    out->grad_norm = result(s, NORM);
    out->finite = isfinite(out->grad_norm);
    if (!out->finite && !in->scaled)
        find_where(s, k, (struct dims){0}, out);
    return SNUG_OK;
}

/* Adds the losses of micro-batches from … end-1, which have arrived; -1, or the first that is not finite. */
static int32_t add_losses(const struct stepper *s, int32_t from, int32_t end, double *sum)
{
    int32_t bad = -1;
    for (int32_t i = from; i < end; i++) {
        double loss = result(s, i % LOSSES);
        *sum += loss;
        if (bad < 0 && !isfinite(loss))
            bad = i;
    }
    return bad;
}

static int step_in_parts(struct stepper *s, const struct window *w, const struct step_inputs *in,
                         struct step_result *out, struct snug_err *err)
{
    double sum = 0, sent, first_sent = 0;
    int32_t bad = -1, added = 0, n = share(s, w);
    for (int32_t i = 0; i < n && (bad < 0 || s->run->rank); i++) { /* the other ranks wait for this one's gradients */
        TRY(launch_micro(s, w, i, in, &sent, err));
        if (i == 0)
            first_sent = sent;
        if (i + 1 == n || i + 1 - added == LOSSES) {
            if (i + 1 < n)
                TRY(wait(s, err));
            else
                TRY(stepper_update(s, in, out, err));
            int32_t worse = add_losses(s, added, i + 1, &sum);
            bad = bad < 0 ? worse : bad;
            added = i + 1;
        }
    }
    out->loss = sum;
    out->sent = first_sent; /* stepper_update began the result anew */
    read_shares(s, out);
    if (bad < 0)
        return SNUG_OK;
    out->finite = false;
    if (added < n)
        out->grad_norm = NAN; /* there was no update */
    TRY(send(s, micro_program(s, bad), micro_batch(s, w, bad), in, err));
    find_where(s, micro_program(s, bad), batch_dims(s->run->backend, micro_batch(s, w, bad)), out);
    return SNUG_OK;
}

int stepper_step(struct stepper *s, const struct window *w, const struct step_inputs *in, struct step_result *out,
                 struct snug_err *err)
{
    *out = (struct step_result){.finite = true};
    return s->run->where.step >= 0 ? step_at_once(s, w, in, out, err) : step_in_parts(s, w, in, out, err);
}

int stepper_forward_begin(struct stepper *s, int k, const struct batch *b, const struct step_inputs *in,
                          const struct run_fetch *output, int flight, struct snug_err *err)
{
    struct run_fetch f[2];
    TRY(fetch_scalar(s, k, "loss", flight, &f[0], err));
    f[0].flight = flight;
    if (output) {
        f[1] = *output;
        f[1].flight = flight;
    }
    TRY(send(s, k, b, in, err));
    return run_program(s->run, k, batch_dims(s->run->backend, b), f, output ? 2 : 1, err);
}

int stepper_forward_end(struct stepper *s, int flight, double *loss, struct snug_err *err)
{
    TRY(s->run->backend->arena->wait(s->run->backend, flight, err));
    *loss = result(s, flight);
    return SNUG_OK;
}

int stepper_logits(struct stepper *s, int k, const struct batch *b, float *logits, struct snug_err *err)
{
    struct run_value v;
    if (!run_output(s->run, k, "logits", batch_dims(s->run->backend, b), &v))
        return err_set(err, SNUG_ERR_ENV, "program %s has no logits", s->run->plan.programs[k].name);
    TRY(send(s, k, b, &(struct step_inputs){0}, err));
    TRY(run_program(s->run, k, batch_dims(s->run->backend, b), NULL, 0, err));
    return run_read(s->run, &v, logits, DT_F32, err);
}

int stepper_forward(struct stepper *s, int k, const struct batch *b, const struct step_inputs *in, double *loss,
                    struct dims *dims, struct snug_err *err)
{
    *dims = batch_dims(s->run->backend, b);
    TRY(stepper_forward_begin(s, k, b, in, NULL, 0, err));
    return stepper_forward_end(s, 0, loss, err);
}
