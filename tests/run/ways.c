/* What `snug plan --memory-budget` lists, and `snug train --memory-budget` takes, against every way to cut a step: each is planned by
 * itself, with options that leave nothing else open. */
#include "command.h"

#include <math.h>

static const char *rows, *deep;

enum { ROWS = 12, CUTS = 6, MOST = 48 };
static const int parts[CUTS] = {1, 2, 3, 4, 6, 12};

/* The words of a command line that is made like printf's text; they last until the next call. */
static const char *const *words(const char *format, ...)
{
    static char text[2048];
    static const char *args[MOST];
    int n = 0;
    va_list ap;
    va_start(ap, format);
    assert_true(vsnprintf(text, sizeof text, format, ap) < (int)sizeof text);
    va_end(ap);
    for (char *word = strtok(text, " "); word && n < MOST - 1; word = strtok(NULL, " "))
        args[n++] = word;
    args[n] = NULL;
    return args;
}

/* NULL: it does not fit. */
static json_t *plan(const char *dtype, const char *more)
{
    size_t n;
    int status = snug(said(), ARGS("plan", "--json"),
                      words("--model %s --init-from-config --train-data %s --device cpu --threads 1 --save-strategy no "
                            "--dtype %s %s",
                            deep, rows, dtype, more));
    char *text = read_text(said(), &n);
    json_t *o = status ? NULL : json_loads(strchr(text, '{'), JSON_DISABLE_EOF_CHECK, NULL);
    if (status && (status != 4 || !strstr(text, "--memory-budget")))
        fail_msg("%s", text);
    free(text);
    return o;
}

static double number(const json_t *o, const char *name)
{
    assert_non_null(json_object_get(o, name));
    return json_number_value(json_object_get(o, name));
}

static double arena(const char *dtype, const char *more)
{
    json_t *o = plan(dtype, more);
    assert_non_null(o);
    double bytes = number(o, "arena_bytes");
    json_decref(o);
    return bytes;
}

static json_t *way_of(const json_t *o, int times)
{
    size_t i;
    json_t *way;
    json_array_foreach(json_object_get(o, "ways"), i,
                       way) if (number(way, "gradient_accumulation_steps") == times) return way;
    return NULL;
}

/* The table for a budget has just the cuts that fit when they are asked for by themselves, with what is chosen then, and in order. Gives
 * the seconds of the first. */
static double check_table(const char *dtype, long long budget)
{
    char more[160];
    size_t i;
    json_t *way;
    double before = 0, first = INFINITY;
    snprintf(more, sizeof more, "--batch-size %d --memory-budget %lldB", ROWS, budget);
    json_t *all = plan(dtype, more);
    for (int k = 0; k < CUTS; k++) {
        snprintf(more, sizeof more, "--batch-size %d --gradient-accumulation-steps %d --memory-budget %lldB",
                 ROWS / parts[k], parts[k], budget);
        json_t *one = plan(dtype, more);
        way = all ? way_of(all, parts[k]) : NULL;
        assert_int_equal(one != NULL, way != NULL);
        if (!one)
            continue;
        json_t *same = way_of(one, parts[k]);
        assert_int_equal(json_array_size(json_object_get(one, "ways")), 1);
        assert_true(number(one, "arena_bytes") == number(way, "bytes") && number(way, "bytes") <= (double)budget);
        assert_true(number(same, "typical_seconds") == number(way, "typical_seconds"));
        assert_true(number(same, "recomputed_layers") == number(way, "recomputed_layers"));
        first = fmin(first, number(way, "typical_seconds"));
        json_decref(one);
    }
    if (!all)
        return first;
    json_array_foreach(json_object_get(all, "ways"), i, way)
    {
        assert_int_equal(json_is_true(json_object_get(way, "taken")), i == 0);
        assert_true(number(way, "typical_seconds") >= before);
        before = number(way, "typical_seconds");
    }
    way = json_array_get(json_object_get(all, "ways"), 0);
    assert_true(number(way, "typical_seconds") == first && number(way, "bytes") == number(all, "arena_bytes"));
    assert_true(number(way, "arena_bytes") == number(all, "arena_bytes"));
    json_decref(all);
    return first;
}

/* From the run as it is asked for down to less than the least: more memory is never slower. */
static void the_table_is_what_there_is(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"fp32", "bf16"};
    enum { BUDGETS = 7 };
    for (int d = 0; d < 2; d++) {
        double most = arena(dtypes[d], "--batch-size 12"), slower = INFINITY, faster = 0;
        double least = arena(dtypes[d], "--batch-size 1 --gradient-accumulation-steps 12 --recompute layer "
                                        "--weight-copies transient");
        assert_true(least < most);
        for (int i = 0; i < BUDGETS; i++) {
            double seconds = check_table(dtypes[d], (long long)(most - (most - least) * i / (BUDGETS - 2)));
            assert_true(seconds >= faster);
            faster = seconds;
            slower = i ? slower : seconds;
        }
        assert_true(faster > slower);
    }
}

/* An offer is what the options that it names give in the same room. */
static void offers_are_kept(void **state)
{
    (void)state;
    size_t i;
    json_t *offer;
    char more[200];
    long long budget = (long long)(arena("fp32", "--batch-size 12") * 0.8);
    snprintf(more, sizeof more, "--batch-size %d --memory-budget %lldB", ROWS, budget);
    json_t *all = plan("fp32", more);
    assert_non_null(all);
    assert_int_equal(json_array_size(json_object_get(all, "offers")), 4);
    json_array_foreach(json_object_get(all, "offers"), i, offer)
    {
        const char *options = json_string_value(json_object_get(offer, "options"));
        bool pure = strstr(options, "pure");
        snprintf(more, sizeof more, "%s --batch-size %d --memory-budget %lldB", pure ? "" : options, ROWS, budget);
        json_t *taken = plan(pure ? "pure-bf16" : "fp32", more);
        assert_int_equal(taken != NULL, json_is_true(json_object_get(offer, "fits")));
        assert_true(taken && number(taken, "arena_bytes") == number(offer, "bytes"));
        assert_non_null(way_of(taken, (int)number(offer, "gradient_accumulation_steps")));
        json_decref(taken);
    }
    json_decref(all);
}

/* Whether a run with these options fits a budget. Some of them say a type of numbers, which is else given. */
static bool fits(const char *options, long long budget)
{
    char more[200];
    bool narrow = strstr(options, "bf16");
    size_t at = narrow && strstr(options, "--pure-bf16") ? strlen("--pure-bf16") : narrow ? strlen("--bf16") : 0;
    const char *dtype = at > strlen("--bf16") ? "pure-bf16" : narrow ? "bf16" : "fp32";
    if (narrow && strncmp(options, at > strlen("--bf16") ? "--pure-bf16" : "--bf16", at))
        fail_msg("%s", options);
    snprintf(more, sizeof more, "%s --batch-size %d --memory-budget %lldB", options + at, ROWS, budget);
    json_t *o = plan(dtype, more);
    json_decref(o);
    return o;
}

/* Where no way fits, each offer fits or not as it says, and the error names what fits and how little there could be. */
static void a_refusal_says_what_would_fit(void **state)
{
    (void)state;
    const double shares[] = {0.98, 0.5, 0.02};
    int offers = 0, fitting = 0, together = 0;
    double number_of, least;
    char said_least[48] = "", unit;
    assert_false(fits("", 1));
    size_t length;
    char *first = read_text(said(), &length), *at = strstr(first, ": the least takes ");
    assert_non_null(at);
    assert_int_equal(sscanf(at, ": the least takes %lf %ciB", &number_of, &unit), 2);
    least = number_of * (unit == 'K' ? 0x1p10 : unit == 'M' ? 0x1p20 : 1);
    snprintf(said_least, sizeof said_least, "%.*s", (int)strcspn(at, ";"), at);
    free(first);
    assert_true(fits("", (long long)(least * 1.006)) && !fits("", (long long)(least * 0.994)));
    for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
        size_t n;
        long long budget = (long long)(least * shares[i]);
        assert_false(fits("", budget));
        char *text = read_text(said(), &n), *error = strstr(text, "error: no way to run these steps fits");
        assert_non_null(error);
        assert_non_null(strstr(error, said_least));
        bool any = false;
        for (char *line = strstr(text, "note: with "), *end; line; line = strstr(end + 1, "note: with ")) {
            char options[100];
            assert_int_equal(sscanf(line, "note: with %99[^:]:", options), 1);
            end = strchr(line, '\n');
            *end = 0;
            bool promised = strstr(line, ": it fits");
            assert_int_equal(fits(options, budget), promised);
            any |= promised;
            offers++;
            fitting += promised;
            together += strstr(options, " --") != NULL;
        }
        assert_int_equal(strstr(error, "; it fits with --") != NULL, any);
        assert_int_equal(strstr(error, "no choice of options is enough") != NULL, !any);
        free(text);
    }
    assert_true(offers > 15 && fitting > 1 && together > 2);
}

/* Of adapters whose states are less than a hundredth of the memory no other optimizer is offered. */
static void optimizers_are_offered_where_there_are_states(void **state)
{
    (void)state;
    size_t k;
    for (int few = 0; few < 2; few++) {
        const char *rank = few ? "--use-peft --lora-r 1" : "--use-peft --lora-r 64";
        char more[200];
        snprintf(more, sizeof more, "%s --batch-size %d --memory-budget 1GiB", rank, ROWS);
        json_t *all = plan("fp32", more), *offer;
        assert_non_null(all);
        double states = number(json_object_get(all, "components"), "optimizer states");
        assert_true(states > 0 && few == (100 * states < number(all, "arena_bytes")));
        int optimizers = 0, others = 0;
        json_array_foreach(json_object_get(all, "offers"), k, offer)
        {
            bool optimizer = strstr(json_string_value(json_object_get(offer, "options")), "--optim");
            optimizers += optimizer;
            others += !optimizer;
        }
        assert_true(optimizers == (few ? 0 : 2) && others == 2);
        json_decref(all);
    }
}

/* Training takes the first row, says so in two lines, and has the bits of a run that was asked for in that way. */
static void training_takes_the_first(void **state)
{
    (void)state;
    char more[160];
    size_t n;
    long long budget = (long long)(arena("bf16", "--batch-size 12") * 0.85);
    snprintf(more, sizeof more, "--batch-size %d --memory-budget %lldB", ROWS, budget);
    json_t *all = plan("bf16", more), *first = json_array_get(json_object_get(all, "ways"), 0);
    assert_non_null(first);
    int times = (int)number(first, "gradient_accumulation_steps");
    const char *out[] = {join(folder, "chosen"), join(folder, "asked")};
    const char *run = "--model %s --init-from-config --train-data %s --output-dir %s --device cpu --threads 1 "
                      "--save-strategy no --dtype bf16 --num-train-epochs 1 --batch-size %d %s";
    snprintf(more, sizeof more, "--memory-budget %lldB", budget);
    expect_snug(0, said(), ARGS("train"), words(run, deep, rows, out[0], ROWS, more));
    char *text = read_text(said(), &n), line[120];
    snprintf(line, sizeof line, "chosen: --batch-size %d --gradient-accumulation-steps %d,", ROWS / times, times);
    const char *at = strstr(text, line);
    assert_non_null(at);
    at = strstr(at + 1, number(first, "recomputed_layers") > 0 ? "chosen: activations of " : "chosen: all activations");
    assert_non_null(at);
    assert_null(strstr(at + 1, "chosen: "));
    free(text);
    snprintf(more, sizeof more, "--gradient-accumulation-steps %d", times);
    expect_snug(0, said(), ARGS("train"), words(run, deep, rows, out[1], ROWS / times, more));
    assert_true(same_bytes(join(out[0], "model.safetensors"), join(out[1], "model.safetensors")));
    json_decref(all);
}

/* Options that are given stay, and a plan that fits is as it was asked for. */
static void what_is_given_stays(void **state)
{
    (void)state;
    char more[200];
    long long all = (long long)arena("fp32", "--batch-size 12");
    snprintf(more, sizeof more, "--batch-size %d --memory-budget %lldB", ROWS, all);
    json_t *o = plan("fp32", more), *first = json_array_get(json_object_get(o, "ways"), 0);
    assert_true(number(o, "arena_bytes") == (double)all && number(first, "batch_size") == ROWS);
    assert_true(number(first, "recomputed_layers") == 0);
    json_decref(o);
    snprintf(more, sizeof more, "--batch-size %d --gradient-accumulation-steps 1 --recompute off --memory-budget %lldB",
             ROWS, all - 1);
    assert_null(plan("fp32", more));
    snprintf(more, sizeof more, "--batch-size %d --recompute off --memory-budget %lldB", ROWS, all - 1);
    o = plan("fp32", more);
    first = json_array_get(json_object_get(o, "ways"), 0);
    assert_true(number(first, "batch_size") < ROWS && number(first, "recomputed_layers") == 0);
    json_decref(o);
}

static int set_up(void **state)
{
    int code = open_folder(state);
    rows = make_rows(folder, 60, 12, 1, true);
    deep = make_deeper(folder, "golden/trainer/init", 4);
    return code;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_what_there_is),
        cmocka_unit_test(offers_are_kept),
        cmocka_unit_test(optimizers_are_offered_where_there_are_states),
        cmocka_unit_test(a_refusal_says_what_would_fit),
        cmocka_unit_test(training_takes_the_first),
        cmocka_unit_test(what_is_given_stays),
    };
    return cmocka_run_group_tests(tests, set_up, close_folder);
}
