/* The public interface as a program would use it: its own loop equals the command's, errors come back as values. */
#include "snug/snug.h"

#include "train/session/session.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void golden(char *to, const char *name)
{
    snprintf(to, 512, "%s/tests/golden/%s", getenv("SNUG_SOURCE"), name);
}

static bool same_bytes(const char *a, const char *b)
{
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    assert_non_null(f);
    assert_non_null(g);
    int c, d;
    do {
        c = getc(f);
        d = getc(g);
    } while (c == d && c != EOF);
    fclose(f);
    fclose(g);
    return c == d;
}

/* examples/own_loop against `snug train` with the same settings: one accumulates by hand, the other in its loop. */
static void own_loop_equals_train(void **state)
{
    (void)state;
    char dir[] = "/tmp/snug-api-XXXXXX", model[512], data[512], command[4096], a[600], b[600];
    assert_non_null(mkdtemp(dir));
    golden(model, "trainer/init");
    golden(data, "trainer/data.safetensors");
    snprintf(command, sizeof command, "%s %s %s %s/loop >/dev/null 2>&1", getenv("SNUG_EXAMPLE"), model, data, dir);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command,
             "%s train --model %s --train-data %s --output-dir %s/train --batch-size 4 --gradient-accumulation-steps 2 "
             "--num-train-epochs 2 --learning-rate 1e-3 --save-strategy no >/dev/null 2>&1",
             getenv("SNUG_COMMAND"), model, data, dir);
    assert_int_equal(system(command), 0);
    snprintf(a, sizeof a, "%s/loop/model.safetensors", dir);
    snprintf(b, sizeof b, "%s/train/model.safetensors", dir);
    assert_true(same_bytes(a, b));
    snprintf(a, sizeof a, "%s/loop/config.json", dir);
    snprintf(b, sizeof b, "%s/train/config.json", dir);
    assert_true(same_bytes(a, b));
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

static void errors_are_values(void **state)
{
    (void)state;
    struct snug_err err;
    snug_options *o;
    snug_session *s;
    struct snug_window w;
    char model[512], data[512];
    assert_int_equal(snug_options_new("trian", &o, &err), SNUG_ERR_USAGE);
    assert_int_equal(snug_options_new("train", &o, &err), 0);
    assert_int_equal(snug_options_set(o, "lerning_rate", "1", &err), SNUG_ERR_USAGE);
    assert_non_null(strstr(err.text, "learning"));
    assert_int_equal(snug_open(o, SNUG_WHOLE_RUNS, NULL, &s, &err), SNUG_ERR_USAGE); /* no model */
    assert_null(s);
    golden(model, "trainer/init");
    golden(data, "trainer/data.safetensors");
    assert_int_equal(snug_options_set(o, "model", model, &err), 0);
    assert_int_equal(snug_options_set(o, "train-data", data, &err), 0);
    assert_int_equal(snug_options_set(o, "output_dir", "/proc/nowhere", &err), 0);
    assert_int_equal(snug_open(o, SNUG_OWN_LOOP, NULL, &s, &err), 0);
    assert_int_equal(snug_next(s, &w, &err), SNUG_ERR_USAGE); /* not loaded */
    assert_int_equal(snug_update(s, 1e-3, NULL, &err), SNUG_ERR_USAGE);
    assert_true(snug_lower_bound_bytes(s) <= snug_peak_bytes(s));
    assert_true(snug_forecast(s).step_seconds == 0); /* what an own loop takes is its own */
    assert_int_equal(snug_load(s, &err), 0);
    assert_int_equal(snug_next(s, &w, &err), 0);
    assert_int_equal(w.n_micro, 1);
    assert_int_equal(w.samples, 8); /* the default batch */
    assert_int_equal(w.tokens, 80); /* rows of 10 */
    assert_int_equal(w.steps, 9);   /* 24 rows, 3 epochs */
    double loss;
    assert_int_equal(snug_forward_backward(s, 1, &loss, &err), SNUG_ERR_USAGE);
    assert_int_equal(snug_forward_backward(s, -1, &loss, &err), SNUG_ERR_USAGE);
    snug_close(s);
    assert_int_equal(snug_open(o, SNUG_WHOLE_RUNS, NULL, &s, &err), SNUG_ERR_IO); /* it cannot be made */
    assert_null(s);
    snug_options_free(o);
}

static void keep_evaluation(void *ctx, const char *line)
{
    const char *loss = strstr(line, "\"eval_loss\": ");
    if (loss)
        *(double *)ctx = strtod(loss + strlen("\"eval_loss\": "), NULL);
}

static void keep_loss(void *ctx, const char *name, double value)
{
    if (!strcmp(name, "loss"))
        *(double *)ctx = value;
}

/* What comes after training is about the trained weights, and what was evaluated before does not change training. */
static void one_session_trains_and_evaluates(void **state)
{
    (void)state;
    char dir[] = "/tmp/snug-api-XXXXXX", model[512], data[512], out[600], command[700];
    assert_non_null(mkdtemp(dir));
    golden(model, "trainer/init");
    golden(data, "trainer/data.safetensors");
    double logged[2] = {0}, untrained = 0, trained = 0, saved = 0;
    struct snug_err err;
    snug_options *o;
    snug_session *s;
    for (int before = 0; before < 2; before++) {
        snprintf(out, sizeof out, "%s/%d", dir, before);
        const char *settings[][2] = {{"model", model},       {"train_data", data}, {"eval_data", data},
                                     {"output_dir", out},    {"max_steps", "8"},   {"learning_rate", "0.01"},
                                     {"save_strategy", "no"}};
        struct snug_events events = {.logged = keep_evaluation, .ctx = &logged[before]};
        assert_int_equal(snug_options_new("train", &o, &err), 0);
        for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
            assert_int_equal(snug_options_set(o, settings[i][0], settings[i][1], &err), 0);
        assert_int_equal(snug_open(o, SNUG_WHOLE_RUNS, &events, &s, &err), 0);
        if (before)
            assert_int_equal(snug_evaluate(s, keep_loss, &untrained, &err), 0);
        assert_int_equal(snug_train(s, NULL, &err), 0);
        assert_int_equal(snug_evaluate(s, keep_loss, &trained, &err), 0);
        assert_float_equal(trained, logged[before], 1e-9 * trained); /* the log has ten digits */
        assert_int_equal(snug_train(s, NULL, &err), SNUG_ERR_USAGE);
        assert_non_null(strstr(err.text, "a session trains once"));
        assert_int_equal(snug_evaluate(s, keep_loss, &trained, &err), 0);
        assert_float_equal(trained, logged[before], 1e-9 * trained);
        snug_close(s);
        snug_options_free(o);
    }
    assert_true(logged[0] == logged[1] && untrained - trained > 0.01);

    assert_int_equal(snug_options_new("eval", &o, &err), 0); /* of the folder that training wrote */
    assert_int_equal(snug_options_set(o, "model", out, &err), 0);
    assert_int_equal(snug_options_set(o, "data", data, &err), 0);
    assert_int_equal(snug_open(o, SNUG_WHOLE_RUNS, NULL, &s, &err), 0);
    assert_int_equal(snug_evaluate(s, keep_loss, &saved, &err), 0);
    assert_float_equal(saved, trained, 1e-6);
    snug_close(s);
    snug_options_free(o);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    assert_int_equal(system(command), 0);
}

/* A session for an own loop on the fixture's model and data, loaded. */
static snug_session *own_loop(const char *batch_size, const char *accumulation, snug_options **o)
{
    struct snug_err err;
    snug_session *s;
    char model[512], data[512];
    golden(model, "trainer/init");
    golden(data, "trainer/data.safetensors");
    const char *settings[][2] = {{"model", model},
                                 {"train_data", data},
                                 {"output_dir", "/proc/nowhere"},
                                 {"batch_size", batch_size},
                                 {"gradient_accumulation_steps", accumulation}};
    assert_int_equal(snug_options_new("train", o, &err), 0);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        assert_int_equal(snug_options_set(*o, settings[i][0], settings[i][1], &err), 0);
    assert_int_equal(snug_open(*o, SNUG_OWN_LOOP, NULL, &s, &err), 0);
    assert_int_equal(snug_load(s, &err), 0);
    return s;
}

/* Each micro-batch once, in order, then one update: anything else would train on gradients of another window, or on the
 * same ones twice. */
static void the_order_of_an_own_loop_is_kept(void **state)
{
    (void)state;
    struct snug_err err;
    snug_options *o;
    snug_session *s = own_loop("4", "2", &o);
    struct snug_window w;
    double loss, norm;
    for (int step = 0; step < 2; step++) {
        assert_int_equal(snug_next(s, &w, &err), 0);
        assert_int_equal(w.n_micro, 2);
        assert_int_equal(snug_update(s, 1e-3, &norm, &err), SNUG_ERR_USAGE);
        assert_non_null(strstr(err.text, "only 0 of the window's 2 micro-batches"));
        assert_int_equal(snug_forward_backward(s, 1, &loss, &err), SNUG_ERR_USAGE);
        assert_int_equal(snug_forward_backward(s, 0, &loss, &err), 0);
        assert_int_equal(snug_forward_backward(s, 0, &loss, &err), SNUG_ERR_USAGE);
        assert_non_null(strstr(err.text, "micro-batch 0: 1 of 2 are done"));
        assert_int_equal(snug_update(s, 1e-3, &norm, &err), SNUG_ERR_USAGE);
        assert_int_equal(snug_forward_backward(s, 1, &loss, &err), 0);
        assert_int_equal(snug_forward_backward(s, 2, &loss, &err), SNUG_ERR_USAGE);
        assert_int_equal(snug_update(s, 1e-3, &norm, &err), 0);
        assert_int_equal(snug_update(s, 1e-3, &norm, &err), SNUG_ERR_USAGE);
        assert_non_null(strstr(err.text, "call snug_next first"));
        assert_int_equal(snug_forward_backward(s, 0, &loss, &err), SNUG_ERR_USAGE);
    }
    snug_close(s);
    snug_options_free(o);
}

static bool overflows;
int __real_stepper_update(struct stepper *s, const struct step_inputs *in, struct step_result *out,
                          struct snug_err *err);
int __wrap_stepper_update(struct stepper *s, const struct step_inputs *in, struct step_result *out,
                          struct snug_err *err);
int __wrap_stepper_update(struct stepper *s, const struct step_inputs *in, struct step_result *out,
                          struct snug_err *err)
{
    int code = __real_stepper_update(s, in, out, err);
    if (overflows) {
        out->grad_norm = INFINITY;
        out->finite = false;
    }
    return code;
}

/* Under fp16's loss scaling a norm that is not finite is a step that is skipped, as in whole runs; without it, or where
 * the loss itself is not finite, it is an error. The CPU has no fp16; the session is told otherwise. */
static void an_overflow_of_the_loss_scale_goes_on(void **state)
{
    (void)state;
    struct snug_err err;
    snug_options *o;
    snug_session *s = own_loop("8", "1", &o);
    struct snug_window w;
    double loss, norm, rate = 0;
    struct session *session = (struct session *)s; /* its first member */
    for (int step = 0; step < 3; step++) {
        session->compile.precision.narrow = step ? DT_F16 : DT_F32;
        assert_int_equal(snug_next(s, &w, &err), 0);
        if (step) /* no update was made: the schedule is where it was */
            assert_true(w.learning_rate == rate);
        rate = w.learning_rate;
        if (step == 2) {
            struct run_value v;
            assert_true(run_find(&session->run, "classifier.bias", &v));
            assert_int_equal(run_write(&session->run, &v, &(double){NAN}, DT_F64, 1, &err), 0);
        }
        assert_int_equal(snug_forward_backward(s, 0, &loss, &err), 0);
        overflows = true;
        assert_int_equal(snug_update(s, rate, &norm, &err), step == 1 ? SNUG_OK : SNUG_ERR_NUMERIC);
        overflows = false;
        assert_true(!isfinite(norm));
    }
    snug_close(s);
    snug_options_free(o);
}

static size_t largest;

static void *watched_realloc(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    largest = bytes > largest ? bytes : largest;
    return realloc(p, bytes);
}

static void watched_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* With an allocator of the caller's, too, the arena's pages are the system's and come when they are touched. */
static void the_arena_is_not_the_allocators(void **state)
{
    (void)state;
    snug_options *o;
    snug_set_allocator(&(struct snug_allocator){watched_realloc, watched_free, NULL});
    snug_session *s = own_loop("8", "1", &o);
    assert_true(largest > 0 && (int64_t)largest < snug_peak_bytes(s));
    snug_close(s);
    snug_options_free(o);
    snug_set_allocator(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(own_loop_equals_train),
                                       cmocka_unit_test(errors_are_values),
                                       cmocka_unit_test(one_session_trains_and_evaluates),
                                       cmocka_unit_test(the_order_of_an_own_loop_is_kept),
                                       cmocka_unit_test(an_overflow_of_the_loss_scale_goes_on),
                                       cmocka_unit_test(the_arena_is_not_the_allocators)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
