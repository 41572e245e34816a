/* Budgets from what a run takes without one down to the least possible: each is kept to the byte by the run itself, none is predicted
 * to be faster than a larger one, and not a bit of any loss or state changes. */
#include "command.h"

#include <math.h>

enum { BUDGETS = 20, ROWS = 12, ARGUMENTS = 40 };
static const char *rows, *deep, *out;

/* snug COMMAND with the options of the run, then `more`, cut at its blanks. Gives the exit status. */
static int run(const char *command, const struct device *on, const char *more)
{
    static char text[512];
    const char *args[ARGUMENTS];
    int n = 0;
    snprintf(text, sizeof text,
             "--batch-size %d --gradient-accumulation-steps 1 --threads 1 --save-strategy no --num-train-epochs 1 "
             "--max-grad-norm 0 --logging-steps 1 --log-hash --discard-model %s",
             ROWS, more);
    const char *const paths[] = {
        "--model",      deep, "--init-from-config",    "--train-data", rows, "--device", on->name, "--dtype", on->dtype,
        "--output-dir", out,  "--overwrite-output-dir"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        args[n++] = paths[i];
    for (char *word = strtok(text, " "); word && n < ARGUMENTS - 1; word = strtok(NULL, " "))
        args[n++] = word;
    args[n] = NULL;
    return snug(said(), ARGS(command, "--json"), args);
}

/* What a plan says; false: there is none in this budget. */
static bool plan(const struct device *on, long long budget, long long *bytes, double *seconds)
{
    char more[64];
    size_t n;
    snprintf(more, sizeof more, "--memory-budget %lldB", budget);
    int status = run("plan", on, more);
    char *text = read_text(said(), &n);
    if (status)
        assert_true(status == 4 && strstr(text, "--memory-budget"));
    json_t *o = status ? NULL : json_loads(strchr(text, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    json_t *way = json_array_get(json_object_get(o, "ways"), 0);
    *bytes = json_integer_value(json_object_get(o, "arena_bytes"));
    *seconds = json_number_value(json_object_get(way, "typical_seconds"));
    json_decref(o);
    free(text);
    return !status;
}

/* Trains within the budget: the losses of its steps, hashes of the whole state, and the bytes that it has allocated. */
static json_t *train(const struct device *on, long long budget, long long *bytes)
{
    char more[64];
    snprintf(more, sizeof more, "--memory-budget %lldB", budget);
    assert_int_equal(run("train", on, more), 0);
    json_t *losses = json_array();
    size_t n;
    char *text = read_text(said(), &n);
    *bytes = 0;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_t *o = *line == '{' ? json_loads(line, 0, NULL) : NULL;
        if (json_object_get(o, "loss"))
            json_array_append(losses, json_object_get(o, "loss"));
        if (json_object_get(o, "state_hash"))
            json_array_append(losses, json_object_get(o, "state_hash"));
        if (json_object_get(o, "arena_bytes"))
            *bytes = json_integer_value(json_object_get(o, "arena_bytes"));
        json_decref(o);
    }
    free(text);
    return losses;
}

static void each_budget_is_kept(void **state)
{
    (void)state;
    for (int d = 0; d < n_devices(); d++) {
        const struct device *on = device(d);
        long long most, least = 1, bytes, allocated;
        double seconds, before = 0;
        if (!is_host(on) || !strcmp(on->name, "reference"))
            continue;
        assert_true(plan(on, INT64_C(1) << 40, &most, &seconds));
        for (long long high = most; least < high;) { /* halving */
            long long middle = (least + high) / 2;
            if (plan(on, middle, &bytes, &seconds))
                high = bytes;
            else
                least = middle + 1;
        }
        json_t *all = train(on, most, &allocated);
        int smaller = 0;
        assert_true(json_array_size(all) >= 2 * 4 && least < most && allocated == most);
        for (int i = 0; i < BUDGETS; i++) {
            long long budget = most - (most - least) * i / (BUDGETS - 1);
            assert_true(plan(on, budget, &bytes, &seconds) && bytes <= budget);
            json_t *losses = train(on, budget, &allocated);
            assert_int_equal(allocated, bytes);
            assert_true(json_equal(losses, all));
            assert_true(seconds >= before);
            before = seconds;
            smaller += bytes < most;
            json_decref(losses);
        }
        assert_int_equal(bytes, least);
        assert_true(smaller >= BUDGETS / 2);
        json_decref(all);
    }
}

static int set_up(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 48, 12, 1, true);
    deep = make_deeper(folder, "golden/trainer/init", 4);
    out = join(folder, "out");
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_budget_is_kept)};
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
