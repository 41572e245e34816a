/* --lr-find: that the rates of the test are those of its steps, what it leaves, and what it does not touch. What it makes of the losses
 * is in tests/schedule/rate_test.c. */
#include "here.h"

#include "../cli/xml.h"
#include "schedule/rate_test.h"

#include <dirent.h>
#include <math.h>
#include <unistd.h>

static const char *rows;

#define COMMON "--model", fixture("golden/trainer/init"), "--train-data", rows, "--threads", "1", "--batch-size", "8"

/* Into folder/NAME; gives lr_find.json as a new reference. */
static json_t *find_rate(const char *name, const struct device *on, const char *const *more)
{
    const char *out = join(folder, name);
    expect_snug(0, said(),
                ARGS("train", COMMON, "--output-dir", out, "--lr-find", "--device", on->name, "--dtype", on->dtype),
                more);
    json_t *o = json_load_file(in(out, "lr_find.json"), 0, NULL);
    assert_non_null(o);
    return o;
}

static int names_in(const char *dir)
{
    return count_names(dir, "") - 2; /* without . and .. */
}

static double at(const json_t *o, const char *name, size_t i)
{
    return json_number_value(json_array_get(json_object_get(o, name), i));
}

static snug_session *own_loop(snug_options **o)
{
    struct snug_err err;
    snug_session *s;
    const char *const settings[] = {COMMON, "--device", "cpu", "--output-dir", "/proc/nowhere", "--max-steps", "100"};
    assert_int_equal(snug_options_new("train", o, &err), SNUG_OK);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i += 2)
        assert_int_equal(snug_options_set(*o, settings[i] + 2, settings[i + 1], &err), SNUG_OK);
    assert_int_equal(snug_open(*o, SNUG_OWN_LOOP, NULL, &s, &err), SNUG_OK);
    assert_int_equal(snug_load(s, &err), SNUG_OK);
    return s;
}

/* A loop that is given these rates one by one sees the same losses; the rows come again and again, as in a long run. */
static void each_step_has_its_rate(void **state)
{
    (void)state;
    struct device cpu = {.name = "cpu", .dtype = "fp32"};
    json_t *o = find_rate("rates", &cpu, NULL);
    size_t n = json_array_size(json_object_get(o, "learning_rate"));
    struct snug_err err;
    struct snug_window w;
    snug_options *options;
    snug_session *s = own_loop(&options);
    double loss, least = INFINITY;
    assert_in_range(n, 60, RATE_TEST_STEPS);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(snug_next(s, &w, &err), SNUG_OK);
        assert_int_equal(snug_forward_backward(s, 0, &loss, &err), SNUG_OK);
        assert_true(at(o, "learning_rate", i) == rate_test_rate((int64_t)i));
        if (fabs(at(o, "loss", i) - loss) > 1e-3 * loss)
            fail_msg("step %zu: %.9g is not %.9g", i, at(o, "loss", i), loss);
        least = fmin(least, loss);
        assert_int_equal(snug_update(s, at(o, "learning_rate", i), NULL, &err), SNUG_OK);
    }
    assert_true(least < 0.9 * at(o, "loss", 0)); /* something was learned */
    snug_close(s);
    snug_options_free(options);
    json_decref(o);
}

static void two_files_are_left(void **state)
{
    (void)state;
    const struct device *on = device(0);
    const char *out = join(folder, "left");
    json_t *o =
        find_rate("left", on, ARGS("--eval-data", rows, "--eval-strategy", "steps", "--save-steps", "3", "--live"));
    assert_int_equal(names_in(out), 2);
    assert_true(file_has(said(), "go on    snug train --model "));
    char text[64];
    snprintf(text, sizeof text, " --learning-rate %.2g\n",
             json_number_value(json_object_get(o, "suggested_learning_rate")));
    assert_true(file_has(said(), text));
    assert_true(file_has(said(), " --save-steps 3 "));
    assert_false(file_has(said(), "--max-steps"));
    assert_false(file_has(said(), "the page of this run"));
    size_t n;
    char *svg = read_text(in(out, "lr_find.svg"), &n);
    assert_null(xml_complaint(svg, n));
    free(svg);
    json_decref(o);

    /* A run into that folder is not in its way, and a test in that of a run leaves the run as it is. */
    expect_snug(0, said(), ARGS("train", COMMON, "--output-dir", out, "--device", on->name, "--max-steps", "2"), NULL);
    int there = names_in(out);
    char *model = read_text(in(out, "model.safetensors"), &n), *log = read_text(in(out, "log.jsonl"), &n);
    json_decref(find_rate("left", on, NULL));
    char *model_after = read_text(in(out, "model.safetensors"), &n), *log_after = read_text(in(out, "log.jsonl"), &n);
    assert_int_equal(names_in(out), there);
    assert_string_equal(log, log_after);
    assert_memory_equal(model, model_after, 1000);
    free(model), free(model_after), free(log), free(log_after);
    expect_snug(0, said(),
                ARGS("train", COMMON, "--output-dir", out, "--device", on->name, "--max-steps", "3",
                     "--resume-from-checkpoint", "true"),
                NULL);
}

static void with_whatever_trains(void **state)
{
    (void)state;
    const struct device *on = device(n_devices() - 1);
    const char *const *const ways[] = {
        ARGS("--use-peft"),
        ARGS("--gradient-accumulation-steps", "3", "--ranks", is_host(on) ? "2" : "1"),
        ARGS("--optim", "schedule_free_adamw", "--warmup-steps", "10"),
        ARGS("--lr-scheduler-type", "reduce_lr_on_plateau", "--eval-strategy", "steps", "--eval-data", rows),
        ARGS("--save-strategy", "best", "--eval-strategy", "steps", "--eval-steps", "5", "--eval-on-start",
             "--eval-data", rows, "--load-best-model-at-end", "--early-stopping-patience", "1", "--max-steps", "7"),
        ARGS("--optim", "sgd", "--nan-policy", "skip", "--log-hash"),
        ARGS("--gradient-checkpointing", "--hidden-dropout-prob", "0.2"),
        NULL, /* pure-bf16 */
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        struct device as = {.name = on->name, .dtype = ways[i] ? on->dtype : "pure-bf16"};
        json_t *o = find_rate("ways", &as, ways[i]);
        size_t n = json_array_size(json_object_get(o, "loss"));
        assert_in_range(n, 40, RATE_TEST_STEPS);
        assert_int_equal(json_array_size(json_object_get(o, "smoothed_loss")), n);
        assert_true(json_is_true(json_object_get(o, "diverged")) || n == RATE_TEST_STEPS);
        json_decref(o);
    }
    assert_int_equal(names_in(join(folder, "ways")), 2);
}

/* A stopped test leaves nothing at all. */
static void stopped(void **state)
{
    (void)state;
    struct snug_summary summary;
    struct snug_err err;
    const char *out = join(folder, "stopped");
    assert_int_equal(
        train_here(LISTS(ARGS(COMMON, "--output-dir", out, "--lr-find", "true", "--device", "cpu")), 7, &summary, &err),
        SNUG_STOPPED);
    assert_non_null(strstr(err.text, "after 7 of 100 rates"));
    assert_int_not_equal(access(out, F_OK), 0);
}

static int make_data(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 96, 12, 3, true);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_has_its_rate),
        cmocka_unit_test(two_files_are_left),
        cmocka_unit_test(with_whatever_trains),
        cmocka_unit_test(stopped),
    };
    return cmocka_run_group_tests_name("lr_find", tests, make_data, close_folder);
}
