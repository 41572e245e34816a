#include "train/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int stepper_open(struct stepper *s, struct run *run, const struct model_config *model, uint64_t seed,
                 struct snug_err *err)
{
    *s = (struct stepper){.run = run, .model = model, .seed = seed};
    for (int k = 0; k < run->plan.n_programs; k++) {
        struct dims max = run->plan.programs[k].max;
        s->max_T = max.T > s->max_T ? max.T : s->max_T;
        s->max_B = max.B > s->max_B ? max.B : s->max_B;
    }
    size_t bytes = sizeof(int32_t) * (size_t)(s->max_T + 1);
    s->tokens = mem_alloc(bytes);
    s->coords = mem_alloc(2 * bytes);
    s->samples = mem_alloc(2 * sizeof(int32_t) * (size_t)(s->max_B + 1));
    if (s->tokens && s->coords && s->samples)
        return SNUG_OK;
    stepper_close(s);
    return err_no_memory(err, 3 * bytes);
}

void stepper_close(struct stepper *s)
{
    mem_free(s->tokens);
    mem_free(s->coords);
    mem_free(s->samples);
    *s = (struct stepper){0};
}

static int put(struct stepper *s, int k, const char *name, const void *from, enum dtype type, int64_t elements,
               struct snug_err *err)
{
    struct run_value v;
    if (!run_output(s->run, k, name, s->run->plan.programs[k].max, &v))
        return SNUG_OK; /* nobody reads it in this program */
    return run_write(s->run, &v, from, type, elements, err);
}

/* A (T) input, with `fill` in the rows of the bucket behind the last token. */
static int put_tokens(struct stepper *s, int k, const char *name, const int32_t *from, int64_t T, int64_t bucket,
                      int32_t fill, struct snug_err *err)
{
    memcpy(s->tokens, from, sizeof *from * (size_t)T);
    for (int64_t t = T; t < bucket; t++)
        s->tokens[t] = fill;
    return put(s, k, name, s->tokens, DT_I32, bucket, err);
}

static int put_labels(struct stepper *s, int k, const struct batch *b, int64_t bucket, struct snug_err *err)
{
    if (b->targets)
        return put_tokens(s, k, "labels", b->targets, b->T, bucket, IGNORE_INDEX, err);
    if (b->classes)
        return put(s, k, "labels", b->classes, DT_I32, b->B, err);
    if (b->values)
        return put(s, k, "labels", b->values, DT_F32, b->B * s->model->num_labels, err);
    memset(s->tokens, 0xFF, sizeof(int32_t) * (size_t)s->max_T); /* no labels: -1 everywhere, ignored */
    int64_t n = s->model->task == MODEL_SEQUENCE_CLASSIFICATION ? b->B : bucket;
    return s->model->task == MODEL_SEQUENCE_CLASSIFICATION && s->model->problem != PROBLEM_SINGLE_LABEL
               ? SNUG_OK
               : put(s, k, "labels", s->tokens, DT_I32, n, err);
}

static int put_batch(struct stepper *s, int k, const struct batch *b, int64_t bucket, struct snug_err *err)
{
    memset(s->coords, 0, 2 * sizeof(int32_t) * (size_t)bucket);
    for (int32_t i = 0; i < b->B; i++) {
        s->samples[2 * i] = b->sample[i];
        s->samples[2 * i + 1] = 0;
        for (int32_t t = b->cu_seqlens[i]; t < b->cu_seqlens[i + 1]; t++) {
            s->coords[2 * t] = b->sample[i];
            s->coords[2 * t + 1] = t - b->cu_seqlens[i];
        }
    }
    TRY(put_tokens(s, k, "input_ids", b->ids, b->T, bucket, 0, err));
    TRY(put_tokens(s, k, "positions", b->positions, b->T, bucket, 0, err));
    TRY(put_tokens(s, k, "token_type_ids", b->types, b->T, bucket, 0, err));
    TRY(put(s, k, "cu_seqlens", b->cu_seqlens, DT_I32, b->B + 1, err));
    TRY(put(s, k, "coords", s->coords, DT_I32, 2 * bucket, err));
    TRY(put(s, k, "samples", s->samples, DT_I32, 2 * b->B, err));
    return put_labels(s, k, b, bucket, err);
}

static int put_scalars(struct stepper *s, int k, const struct step_inputs *in, struct snug_err *err)
{
    const int32_t rng[4] = {(int32_t)(uint32_t)s->seed, (int32_t)(uint32_t)(s->seed >> 32), (int32_t)in->step, 0};
    double step[STEP_SCALARS] = {0};
    step[STEP_INV_N] = in->n > 0 ? 1.0 / (double)in->n : 0;
    step[STEP_LR] = in->learning_rate;
    step[STEP_UPDATE] = (double)in->update;
    TRY(put(s, k, "rng", rng, DT_I32, 4, err));
    return put(s, k, "step", step, DT_F64, STEP_SCALARS, err);
}

static int read_scalar(struct stepper *s, int k, const char *name, double *to, struct snug_err *err)
{
    struct run_value v;
    if (!run_output(s->run, k, name, (struct dims){0}, &v))
        return err_set(err, SNUG_ERR_ENV, "program %s has no %s", s->run->plan.programs[k].name, name);
    return run_read_f64(s->run, &v, to, err);
}

/* What is asked before the first weight changes. */
struct gate {
    struct stepper *s;
    int k;
    bool has_loss, has_norm;
    double loss, norm;
    int code;
    struct snug_err *err;
};

static bool may_update(void *ctx, bool has_norm)
{
    struct gate *g = ctx;
    g->has_norm = has_norm;
    g->code = has_norm ? read_scalar(g->s, g->k, "grad_norm", &g->norm, g->err) : SNUG_OK;
    if (!g->code && g->has_loss)
        g->code = read_scalar(g->s, g->k, "loss", &g->loss, g->err);
    return !g->code && isfinite(g->norm) && isfinite(g->loss);
}

static void find_where(struct stepper *s, int k, struct dims dims, struct step_result *out)
{
    out->finite = false;
    if (!run_first_not_finite(s->run, k, dims, out->where, sizeof out->where))
        snprintf(out->where, sizeof out->where, "the gradient's norm (every single value is finite)");
}

/* The norm of a step whose updates did not wait for it. */
static int read_early_norm(struct stepper *s, int k, struct step_result *out, struct snug_err *err)
{
    TRY(read_scalar(s, k, "grad_norm", &out->grad_norm, err));
    out->finite = isfinite(out->grad_norm);
    if (!out->finite && !run_gradient_not_finite(s->run, k, out->where, sizeof out->where))
        snprintf(out->where, sizeof out->where, "the gradient's norm (every single gradient's is finite)");
    return SNUG_OK;
}

static struct dims batch_dims(const struct stepper *s, const struct batch *b)
{
    return (struct dims){.T = s->run->backend->bucket(b->T), .B = b->B};
}

/* The whole step as one program. */
static int step_at_once(struct stepper *s, const struct batch *b, const struct step_inputs *in, struct step_result *out,
                        struct snug_err *err)
{
    int k = s->run->where.step;
    struct dims dims = batch_dims(s, b);
    struct gate gate = {.s = s, .k = k, .has_loss = true, .err = err};
    TRY(put_batch(s, k, b, dims.T, err));
    TRY(put_scalars(s, k, in, err));
    TRY(run_program(s->run, k, dims, may_update, &gate, err));
    TRY(gate.code);
    out->loss = gate.loss;
    if (!gate.has_norm && isfinite(gate.loss))
        return read_early_norm(s, k, out, err);
    out->grad_norm = gate.norm;
    if (!isfinite(gate.loss) || !isfinite(gate.norm))
        find_where(s, k, dims, out);
    return SNUG_OK;
}

int stepper_micro(struct stepper *s, const struct window *w, int32_t i, const struct step_inputs *in, double *loss,
                  struct snug_err *err)
{
    struct dims dims;
    return stepper_forward(s, i == 0 ? s->run->where.first : s->run->where.next, &w->micro[i], in, loss, &dims, err);
}

int stepper_update(struct stepper *s, const struct step_inputs *in, struct step_result *out, struct snug_err *err)
{
    struct gate gate = {.s = s, .k = s->run->where.update, .err = err};
    *out = (struct step_result){.finite = true};
    TRY(put_scalars(s, gate.k, in, err));
    TRY(run_program(s->run, gate.k, (struct dims){0}, may_update, &gate, err));
    TRY(gate.code);
    out->grad_norm = gate.norm;
    if (!isfinite(gate.norm))
        find_where(s, gate.k, (struct dims){0}, out);
    return SNUG_OK;
}

static int step_in_parts(struct stepper *s, const struct window *w, const struct step_inputs *in,
                         struct step_result *out, struct snug_err *err)
{
    double sum = 0, loss;
    for (int32_t i = 0; i < w->n_micro; i++) {
        TRY(stepper_micro(s, w, i, in, &loss, err));
        sum += loss;
        if (!isfinite(loss)) {
            out->loss = sum;
            find_where(s, i == 0 ? s->run->where.first : s->run->where.next, batch_dims(s, &w->micro[i]), out);
            return SNUG_OK;
        }
    }
    int code = stepper_update(s, in, out, err);
    out->loss = sum;
    return code;
}

int stepper_step(struct stepper *s, const struct window *w, const struct step_inputs *in, struct step_result *out,
                 struct snug_err *err)
{
    *out = (struct step_result){.finite = true};
    return s->run->where.step >= 0 ? step_at_once(s, &w->micro[0], in, out, err) : step_in_parts(s, w, in, out, err);
}

int stepper_forward(struct stepper *s, int k, const struct batch *b, const struct step_inputs *in, double *loss,
                    struct dims *dims, struct snug_err *err)
{
    *dims = batch_dims(s, b);
    TRY(put_batch(s, k, b, dims->T, err));
    TRY(put_scalars(s, k, in, err));
    TRY(run_program(s->run, k, *dims, NULL, NULL, err));
    return read_scalar(s, k, "loss", loss, err);
}
