#include "train/rate_search.h"

#include "output/own_file.h"
#include "output/own_json.h"
#include "report/chart.h"
#include "schedule/rate_test.h"
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void rate_search_settle(struct options *o)
{
    o->max_steps = RATE_TEST_STEPS;
    o->warmup_steps = (struct opt_steps){0};
    o->lr_scheduler_type = OPT_SCHEDULE_CONSTANT;
    o->eval_strategy = OPT_WHEN_NO;
    o->eval_on_start = false;
    o->save_strategy = OPT_SAVE_NO;
    o->load_best_model_at_end = false;
    o->discard_model = true;
    o->source[OPTION_early_stopping_patience] = FROM_DEFAULT; /* else 0 evaluations are its end */
    o->eval_samples = 0;
    o->predict_with_generate = false;
    o->live = false; /* its page is made of the log */
}

static int start(struct trainer *t, struct snug_err *err)
{
    t->rates = mem_alloc(sizeof *t->rates);
    return t->rates ? SNUG_OK : err_no_memory(err, sizeof *t->rates);
}

static double rate(const struct trainer *t)
{
    return rate_test_rate(t->state.step);
}

/* Rates that are too high end so; where the norm alone is not finite, the step has changed nothing. */
static int not_finite(struct trainer *t, const struct step_result *r, struct snug_err *err)
{
    (void)err;
    t->rates->diverged |= !isfinite(r->loss);
    return SNUG_OK;
}

static int after_step(struct trainer *t, double loss, bool ends_epoch, struct snug_err *err)
{
    (void)ends_epoch;
    (void)err;
    rate_test_add(t->rates, loss);
    if (t->rates->diverged)
        t->total = t->state.step;
    return SNUG_OK;
}

static int stop(struct trainer *t, struct snug_err *err)
{
    return err_set(err, SNUG_STOPPED, "stopped by a signal after %lld of %d rates; nothing is written, so start again",
                   (long long)t->state.step, RATE_TEST_STEPS);
}

/* ---- what it leaves ---- */

static void put_numbers(struct str *out, const char *name, const double *x, int n)
{
    str_printf(out, ",\n\"%s\": [", name);
    for (int i = 0; i < n; i++)
        str_printf(out, "%s%.17g", i ? ", " : "", x[i]);
    str_append(out, "]");
}

static void put_json(const struct rate_test *r, int best, struct str *out)
{
    own_json_begin(out);
    str_append(out, ",\n\"rule\": \"the middle of the longest fall of the smoothed loss\"");
    if (best >= 0)
        str_printf(out, ",\n\"suggested_learning_rate\": %.17g", r->rate[best]);
    else
        str_append(out, ",\n\"suggested_learning_rate\": null");
    str_printf(out, ",\n\"diverged\": %s", r->diverged ? "true" : "false");
    put_numbers(out, "learning_rate", r->rate, r->n);
    put_numbers(out, "loss", r->loss, r->n);
    put_numbers(out, "smoothed_loss", r->smoothed, r->n);
    str_append(out, "}\n");
}

/* The steps that are drawn: behind the lowest loss up to the first that is further above the losses before than those are apart,
 * beside which they would be a flat line. */
static size_t drawn(const struct rate_test *r, int best)
{
    int lowest = 0, i;
    for (i = 0; i < r->n; i++)
        lowest = r->loss[i] < r->loss[lowest] ? i : lowest;
    double most = r->loss[lowest];
    for (i = 0; i <= lowest; i++)
        most = fmax(most, r->loss[i]);
    double limit = most + (most - r->loss[lowest]);
    for (i = lowest; i < r->n && (i <= best || r->loss[i] <= limit); i++)
        ;
    return (size_t)i;
}

static void put_picture(const struct rate_test *r, int best, struct str *out)
{
    char mark[64];
    size_t n = drawn(r, best);
    struct chart c = {.title = "Learning-rate range test",
                      .x_title = "learning rate",
                      .log_x = true,
                      .series = {{"loss of a step", r->rate, r->loss, n, 1}, {"smoothed", r->rate, r->smoothed, n, 0}},
                      .n = 2};
    if (best >= 0) {
        snprintf(mark, sizeof mark, "suggested: %.2g", r->rate[best]);
        c.mark_text = mark;
        c.mark = r->rate[best];
    }
    chart_picture(&c, out);
}

static bool is_picture(const struct io *io, const char *path)
{
    return own_file_has_mark(io, path, OWN_PICTURE);
}

/* With --overwrite-output-dir. */
static bool is_anything(const struct io *io, const char *path)
{
    (void)io;
    (void)path;
    return true;
}

static int write_file(const struct trainer *t, const char *name, bool (*is_ours)(const struct io *io, const char *path),
                      const struct str *text, struct snug_err *err)
{
    const char *dir = t->o->output_dir;
    struct arena a = {0};
    char *path = arena_printf(&a, "%s/%s", dir, name), *tmp = ckpt_temporary(&a, dir, name);
    int code = path && tmp ? str_check(text, err) : err_no_memory(err, strlen(dir));
    if (!code)
        code = own_file_write(t->s->output.io, path, tmp, t->o->overwrite_output_dir ? is_anything : is_ours,
                              "was not written by snug; rename it", text, err);
    arena_free(&a);
    return code;
}

static int finish(struct trainer *t, struct snug_summary *out, struct snug_err *err)
{
    const struct rate_test *r = t->rates;
    struct str json = {0}, picture = {0};
    int best = rate_test_suggest(r);
    if (!r->n)
        return err_set(err, SNUG_ERR_NUMERIC, "--lr-find: the first loss is not finite; check the data and weights");
    put_json(r, best, &json);
    put_picture(r, best, &picture);
    int code = ckpt_folder_check(t->s->output.folder, err);
    if (!code)
        code = write_file(t, RATE_TEST_NAME, own_json_is, &json, err);
    if (!code)
        code = write_file(t, RATE_PICTURE_NAME, is_picture, &picture, err);
    str_free(&json);
    str_free(&picture);
    out->suggested_rate = best >= 0 ? r->rate[best] : 0;
    out->highest_rate = r->rate[r->n - 1];
    out->diverged = r->diverged;
    return code;
}

const struct purpose rate_search = {start, rate, not_finite, after_step, stop, finish};
