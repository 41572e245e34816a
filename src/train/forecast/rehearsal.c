#include "train/forecast/rehearsal.h"

#include "base/philox.h"
#include "base/seconds.h"
#include "base/size.h"
#include "run/coding.h"
#include "run/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 1 << 18, MAX_MICRO = 8 };

/* Random numbers of an even distribution with the deviation `std`: a GPU is faster on zeros. */
static void make_pattern(float *to, double std)
{
    for (uint32_t i = 0; i < PATTERN; i += 4) {
        struct philox r = philox4x32((struct philox){{i, 0, 0, 0}}, 3, 4);
        for (int k = 0; k < 4; k++)
            to[i + (uint32_t)k] = (float)(((double)r.w[k] * 0x1p-32 - 0.5) * sqrt(12) * std);
    }
}

static int fill_coded(struct run *r, const struct run_value *w, const float *pattern, struct snug_err *err)
{
    struct coding c;
    TRY(coding_open(&c, r, w, QUANT_NF4, PATTERN, err));
    int code = SNUG_OK;
    for (int64_t at = 0; at < w->elements && !code; at += PATTERN)
        code = coding_put(&c, pattern, at, w->elements - at < PATTERN ? w->elements - at : PATTERN, err);
    if (!code)
        code = coding_finish(&c, err);
    coding_close(&c);
    return code;
}

static int fill_weight(struct run *r, struct run_value w, const float *pattern, struct snug_err *err)
{
    if (weight_is_coded(&w))
        return fill_coded(r, &w, pattern, err);
    for (int64_t at = 0; at < w.elements; at += PATTERN) {
        struct run_value part = run_part_of(&w, at, w.elements - at < PATTERN ? w.elements - at : PATTERN);
        TRY(run_write(r, &part, pattern, DT_F32, part.elements, err));
    }
    return SNUG_OK;
}

/* `share` of the time is left for what comes behind. */
static int in_time(const struct rehearsal *r, double share, struct snug_err *err)
{
    if (r->until > 0 && seconds_now() > r->until - share * r->limits.seconds)
        return err_set(err, SNUG_ERR_ENV, "a rehearsal takes too long");
    return SNUG_OK;
}

/* The kernel clears a page when it is first used, which can take longer than all else and cannot be stopped within a node. */
static int bring_memory(const struct rehearsal *r, struct snug_err *err)
{
    enum { PAGE = 4096, PIECE = 1 << 26 };
    volatile char *p = r->run.arenas.of[MEMORY_DEVICE];
    int64_t bytes = r->run.plan.arena_bytes;
    if (r->until == 0 || !r->run.backend->facts.host_memory)
        return SNUG_OK;
    for (int64_t at = 0; at < bytes; at += PIECE) {
        TRY(in_time(r, 0.5, err));
        for (int64_t page = at; page < bytes && page < at + PIECE; page += PAGE)
            p[page] = 0;
    }
    return SNUG_OK;
}

static int fill_weights(struct rehearsal *r, struct snug_err *err)
{
    struct run_value *w = NULL;
    size_t n = 0;
    float *pattern = mem_alloc(2 * PATTERN * sizeof *pattern), *ones = pattern + PATTERN;
    if (!pattern)
        return err_no_memory(err, 2 * PATTERN * sizeof *pattern);
    make_pattern(pattern, r->model.init_std);
    for (int i = 0; i < PATTERN; i++)
        ones[i] = 1;
    int code = run_list(&r->run, 1u << ROLE_WEIGHT, &w, &n, err);
    for (size_t i = 0; !code && i < n; i++)
        if (w[i].init.kind != INIT_ZERO)
            code = fill_weight(&r->run, w[i], w[i].init.kind == INIT_ONE ? ones : pattern, err);
    mem_free(w);
    mem_free(pattern);
    return code ? code : weights_changed(&r->run, err);
}

int rehearsal_open(struct rehearsal *r, const struct compile_settings *c, const struct choices *choices,
                   const struct rehearsal_limits *limits, struct snug_err *err)
{
    double start = seconds_now();
    *r = (struct rehearsal){.model = *c->model, .settings = *c, .limits = *limits};
    r->settings.model = &r->model;
    r->settings.dump = NULL;
    TRY(run_open(&r->run, &r->settings, choices, err));
    int64_t room = c->backend->arena->available(c->backend);
    room = room < limits->bytes ? room : limits->bytes;
    char needs[SIZE_TEXT_MAX], may[SIZE_TEXT_MAX];
    if (r->run.plan.arena_bytes > room)
        return err_set(err, SNUG_ERR_ENV, "a rehearsal needs %s, and may take %s",
                       size_text(r->run.plan.arena_bytes, needs), size_text(room, may));
    if (limits->seconds > 0 && r->run.plan.arena_bytes > limits->large_bytes)
        r->until = start + limits->seconds;
    TRY(run_alloc(&r->run, err));
    TRY(bring_memory(r, err));
    TRY(stepper_open(&r->stepper, &r->run, &r->model, 1, err));
    r->stepper.class_weights = c->class_weights;
    TRY(states_start(&r->run, err));
    return fill_weights(r, err);
}

void rehearsal_close(struct rehearsal *r)
{
    if (r->stepper.results)
        stepper_close(&r->stepper);
    run_close(&r->run);
}

/* ---- what is timed ---- */

enum { EVALUATION = 0, GENERATION = -1 };

struct subject {
    const struct batch *micro; /* n_micro of them, or one of these programs */
    int32_t n_micro;
};

static int once_answers(struct rehearsal *r, const struct batch *b, struct snug_err *err)
{
    size_t n = (size_t)b->B * (size_t)r->model.vocab_size;
    float *logits = mem_alloc(n * sizeof *logits);
    if (!logits)
        return err_no_memory(err, n * sizeof *logits);
    int code = stepper_logits(&r->stepper, r->run.where.generate, b, logits, err);
    mem_free(logits);
    return code;
}

static int once(struct rehearsal *r, const struct subject *u, struct snug_err *err)
{
    struct step_inputs in = {.step = r->steps, .update = r->steps + 1, .scaled = true};
    struct step_result result;
    double loss;
    struct dims dims;
    if (u->n_micro == GENERATION)
        return once_answers(r, u->micro, err);
    in.n = (double)(u->micro->n_targets * (u->n_micro ? u->n_micro : 1));
    r->steps++;
    if (u->n_micro == EVALUATION)
        return stepper_forward(&r->stepper, r->run.where.eval, u->micro, &in, &loss, &dims, err);
    struct window w = {.n_micro = u->n_micro, .micro = u->micro};
    return stepper_step(&r->stepper, &w, &in, &result, err); /* the rate is 0: weights stay as they are */
}

static int time_it(struct rehearsal *r, const struct subject *u, double lasting, double *seconds, struct snug_err *err)
{
    int least = lasting > 0 ? 3 : 2;
    for (int phase = 0; phase < 2; phase++, lasting /= 2) { /* the first warms up */
        double start = seconds_now(), spent = 0;
        int n = 0;
        for (; n < least || spent < lasting; n++) {
            TRY(once(r, u, err));
            spent = seconds_now() - start;
        }
        *seconds = spent / n;
    }
    return SNUG_OK;
}

int rehearsal_step(struct rehearsal *r, const struct batch *b, int32_t n_micro, double lasting, double *seconds,
                   struct snug_err *err)
{
    struct batch micro[MAX_MICRO];
    int32_t n = n_micro < MAX_MICRO ? n_micro : MAX_MICRO;
    for (int i = 0; i < n; i++)
        micro[i] = *b;
    TRY(time_it(r, &(struct subject){micro, n}, lasting, seconds, err));
    if (n == n_micro)
        return SNUG_OK;
    double one; /* of many micro-batches: the further ones take the same time */
    TRY(time_it(r, &(struct subject){micro, 1}, lasting, &one, err));
    *seconds += (*seconds - one) / (n - 1) * (n_micro - n);
    return SNUG_OK;
}

int rehearsal_evaluation(struct rehearsal *r, const struct batch *b, double lasting, double *seconds,
                         struct snug_err *err)
{
    return time_it(r, &(struct subject){b, EVALUATION}, lasting, seconds, err);
}

int rehearsal_answers(struct rehearsal *r, const struct batch *b, double lasting, double *seconds, struct snug_err *err)
{
    return time_it(r, &(struct subject){b, GENERATION}, lasting, seconds, err);
}

/* Of program k. */
static int time_nodes(struct rehearsal *r, int k, struct dims dims, struct node_times *t, struct snug_err *err)
{
    const struct program *g = &r->run.plan.programs[k];
    double *seconds = mem_alloc((size_t)g->graph.n_nodes * sizeof *seconds);
    int code =
        seconds ? in_time(r, 0, err) : err_no_memory(err, (unsigned long long)g->graph.n_nodes * sizeof *seconds);
    if (!code)
        code = run_time_nodes(&r->run, k, dims, NULL, seconds, err);
    if (!code)
        code = node_times_add(t, g, dims, seconds, err);
    mem_free(seconds);
    return code;
}

int rehearsal_answer_nodes(struct rehearsal *r, const struct batch *b, struct node_times *t, struct snug_err *err)
{
    TRY(in_time(r, 0, err));
    TRY(once(r, &(struct subject){b, GENERATION}, err));
    return time_nodes(r, r->run.where.generate, batch_dims(r->run.backend, b), t, err);
}

int rehearsal_nodes(struct rehearsal *r, const struct batch *b, struct node_times *t, struct snug_err *err)
{
    const struct programs *p = &r->run.where;
    struct batch micro[2] = {*b, *b};
    struct dims dims = batch_dims(r->run.backend, b);
    TRY(in_time(r, 0, err));
    if (p->step >= 0 || p->first >= 0)
        TRY(once(r, &(struct subject){micro, p->next >= 0 ? 2 : 1}, err));
    TRY(in_time(r, 0, err));
    if (p->eval >= 0)
        TRY(once(r, &(struct subject){micro, EVALUATION}, err));
    for (int k = 0; k < r->run.plan.n_programs; k++)
        if (k != p->generate) /* has sizes of its own */
            TRY(time_nodes(r, k, dims, t, err));
    return SNUG_OK;
}
