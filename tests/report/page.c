/* snug report and snug compare through the real command: pages are well-formed, need nothing else, and their numbers are those of
 * the log; texts of others are only texts. */
#include "../run/command.h"

#include "../cli/xml.h"

#include <sys/stat.h>
#include <unistd.h>

/* A page, of which the checks that every page must pass are done. */
static char *read_page(const char *path)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    size_t n;
    char *page = read_text(path, &n);
    const char *complaint;
    assert_true(!strncmp(page, doctype, strlen(doctype)));
    if ((complaint = xml_complaint(page + strlen(doctype), n - strlen(doctype))))
        fail_msg("%s", complaint);
    assert_true(n < 2 << 20);
    assert_null(strstr(page, "<script"));
    assert_null(strstr(page, "http"));
    assert_null(strstr(page, "src="));
    assert_null(strstr(page, "url("));
    assert_non_null(strstr(page, "prefers-color-scheme:dark"));
    return page;
}

static void expect_text(const char *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void expect_text(const char *page, const char *format, ...)
{
    char text[256];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (!strstr(page, text))
        fail_msg("the page has no %s", text);
}

/* Each number of each line of the log is on the page: what curves show as they show it, evaluations in their table. */
static void check_numbers(const char *page, const char *out)
{
    static const struct {
        const char *member, *name;
    } curves[] = {{"loss", "training"},
                  {"eval_loss", "evaluation"},
                  {"learning_rate", "learning rate"},
                  {"grad_norm", "gradient norm"},
                  {"samples_per_second", "samples per second"}};
    json_t *log = read_whole_log(out), *line, *v;
    const char *member;
    size_t i, evaluations = 0, points = 0;
    json_array_foreach(log, i, line)
    {
        long long step = json_integer_value(json_object_get(line, "step"));
        for (size_t k = 0; k < sizeof curves / sizeof *curves; k++)
            if ((v = json_object_get(line, curves[k].member))) {
                expect_text(page, "%s, step %lld: %.6g</title>", curves[k].name, step, json_number_value(v));
                points++;
            }
        if (!json_object_get(line, "eval_loss"))
            continue;
        evaluations++;
        json_object_foreach(line, member, v) if (!strstr(member, "runtime") && !strstr(member, "_per_second"))
            expect_text(page, "<td class=\"n\">%.10g</td>", json_number_value(v));
    }
    assert_true(evaluations >= 2 && points >= 30);
    json_decref(log);
}

static const char *train(const char *name, const char *model, const char *rows, const char *const *more)
{
    const char *out = join(folder, name);
    expect_snug(0, said(),
                ARGS("train", "--model", fixture(model), "--train-data", rows, "--eval-data", rows, "--eval-strategy",
                     "steps", "--eval-steps", "5", "--logging-steps", "1", "--batch-size", "4", "--max-steps", "10",
                     "--device", "cpu", "--threads", "1", "--save-strategy", "no", "--output-dir", out),
                more);
    return out;
}

/* What is told of options is told because it is not as by default. */
static void check_options(const char *page)
{
    const char *at = strstr(page, "<h2>Options</h2>");
    assert_non_null(at);
    const char *end = strstr(at, "</tbody>");
    at = strstr(at, "<tbody>");
    int rows = 0;
    for (; (at = strstr(at, "<td")) && at < end; rows++) {
        const char *value = strchr(at, '>') + 1, *usual = strchr(strstr(value, "<td"), '>') + 1;
        size_t n = strcspn(value, "<");
        if (n == strcspn(usual, "<") && !strncmp(value, usual, n))
            fail_msg("an option is as by default: %.*s", (int)n, value);
        at = usual;
    }
    assert_true(rows > 8);
    assert_null(strstr(page, "<th scope=\"row\">overwrite_output_dir</th>"));
}

static void numbers_are_those_of_the_log(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 3, true);
    const char *const outs[] = {train("classes", "golden/trainer/init", rows, NULL),
                                train("values", "golden/bert_regression", rows, NULL),
                                train("texts", "golden/gpt2", make_rows(folder, 24, 12, 4, false), NULL)};
    for (size_t i = 0; i < sizeof outs / sizeof *outs; i++) {
        expect_snug(0, said(), ARGS("report", outs[i]), NULL);
        char *page = read_page(join(outs[i], "report.html"));
        check_numbers(page, outs[i]);
        expect_text(page, "<th scope=\"row\">max_steps</th><td class=\"n\">10</td>");
        check_options(page);
        free(page);
    }
}

static void several_runs_side_by_side(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 5, true), *file = join(folder, "two.html");
    const char *a = train("slow", "golden/trainer/init", rows, ARGS("--learning-rate", "1e-4"));
    const char *b = train("fast", "golden/trainer/init", rows, ARGS("--learning-rate", "2e-2"));
    expect_snug(0, said(), ARGS("compare", a, b, "--output", file), NULL);
    char *page = read_page(file);
    expect_text(page, "<th scope=\"row\">learning_rate</th><td class=\"n\">0.0001</td><td class=\"n\">0.02</td>");
    assert_null(strstr(page, "<th scope=\"row\">max_steps</th>"));  /* alike */
    assert_null(strstr(page, "<th scope=\"row\">output_dir</th>")); /* never alike, and no news */
    const char *const outs[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        json_t *log = read_whole_log(outs[i]), *line;
        size_t k, n = 0;
        json_array_foreach(log, k, line) if (json_object_get(line, "loss"))
        {
            expect_text(page, "%s, step %lld: %.6g</title>", outs[i],
                        (long long)json_integer_value(json_object_get(line, "step")),
                        json_number_value(json_object_get(line, "loss")));
            n++;
        }
        assert_int_equal(n, 10);
        json_decref(log);
    }
    free(page);
    expect_snug(2, said(), ARGS("compare", a), NULL);
    expect_snug(2, said(), ARGS("compare", a, b, a, b, a, b, a, b, a), NULL);
}

/* A run that is stopped and goes on leaves a page of all its steps, the one that snug report makes; and nothing of one that was
 * killed while it wrote its page. */
static void a_run_leaves_its_page(void **state)
{
    (void)state;
    size_t n, again;
    const char *rows = make_rows(folder, 24, 12, 6, true), *out = join(folder, "resumed");
    const char *const first[] = {"5", "10"};
    for (int i = 0; i < 2; i++) {
        if (i)
            write_text(out, ".tmp-report.html.0123456789abcdef0123456789abcdef", "<!DOCTYPE html>\n<ht");
        expect_snug(0, said(),
                    ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--eval-data", rows,
                         "--eval-strategy", "steps", "--eval-steps", "5", "--logging-steps", "1", "--batch-size", "4",
                         "--lr-scheduler-type", "constant", "--device", "cpu", "--threads", "1", "--save-strategy",
                         "steps", "--save-steps", "5", "--output-dir", out, "--max-steps", first[i]),
                    i ? ARGS("--resume-from-checkpoint", "true") : NULL);
    }
    assert_int_equal(count_names(out, ".tmp-"), 0);
    char *page = read_page(join(out, "report.html"));
    check_numbers(page, out);
    expect_text(page, "<th scope=\"row\">max_steps</th><td class=\"n\">10</td>");
    expect_snug(0, said(), ARGS("report", out), NULL);
    char *made = read_text(join(out, "report.html"), &again);
    n = strlen(page);
    assert_int_equal(n, again);
    assert_memory_equal(page, made, n);
    free(page);
    free(made);
}

static void a_run_without_a_page(void **state)
{
    (void)state;
    size_t n;
    const char *rows = make_rows(folder, 24, 12, 7, true);
    assert_int_equal(count_names(train("none", "golden/trainer/init", rows, ARGS("--no-report")), "report"), 0);
    assert_int_equal(count_names(train("less", "golden/trainer/init", rows, ARGS("--discard-model")), "report"), 0);
    const char *out = train("mine", "golden/trainer/init", rows, NULL);
    write_text(out, "report.html", "mine\n");
    train("mine", "golden/trainer/init", rows, ARGS("--overwrite-output-dir"));
    assert_true(file_has(said(), "no report is written: "));
    assert_int_equal(count_names(out, "model.safetensors"), 1);
    char *text = read_text(join(out, "report.html"), &n);
    assert_string_equal(text, "mine\n");
    free(text);
}

static const char *make_run(const char *name, const char *log, const char *options)
{
    const char *out = join(folder, name);
    assert_int_equal(mkdir(out, 0700), 0);
    write_text(out, "log.jsonl", log);
    if (options)
        write_text(out, "training_args.json", options);
    return out;
}

static void texts_are_only_texts(void **state)
{
    (void)state;
    const char *out = make_run(
        "it's \"<b>&amp;",
        "{\"step\": 1, \"epoch\": 0.5, \"loss\": \"NaN\", \"grad_norm\": \"Infinity\", \"learning_rate\": 0.5}\n"
        "{\"step\": 1, \"loss\": 9.0, \"bad\": \"\xff\xfe\"}\n" /* not UTF-8: no line of ours */
        "{\"step\": 2, \"epoch\": 1, \"loss\": 3.25}\n"
        "{\"step\": 2, \"epoch\": 1, \"eval_loss\": 1.5, \"eval_<i>\": 0.25}\n"
        "{\"step\": 2, \"eval_sample\": 0, \"prompt\": \"<script>alert(1)</script>\", \"expected\": \"\\\"'>]]>&#0;\", "
        "\"generated\": \"\\u0007\\u202e</td></table><img onerror=x>\"}\n"
        "{\"step\": 3, \"loss\": 77", /* being written */
        "{\"snug_version\": \"0.1<\", \"model\": \"</title><script>x</script>\", \"run\": [\"<a>\"], \"seed\": 7}\n");
    expect_snug(0, said(), ARGS("report", out), NULL);
    char *page = read_page(join(out, "report.html"));
    expect_text(page, "&lt;script&gt;alert(1)&lt;/script&gt;");
    expect_text(page, "&lt;/title&gt;&lt;script&gt;x&lt;/script&gt;");
    expect_text(page, "&lt;img onerror=x&gt;");
    expect_text(page, "training, step 2: 3.25</title>");
    assert_null(strstr(page, "<img"));
    expect_text(page, "--config '%s/it'\\''s &quot;&lt;b&gt;&amp;amp;/training_args.json' --output-dir ANOTHER<",
                folder);
    expect_text(page, "snug report '%s/it'\\''s &quot;&lt;b&gt;&amp;amp;'<", folder);
    assert_null(strstr(page, "77"));
    assert_null(strstr(page, "step 1: 9"));
    free(page);
}

/* A hundred thousand steps, one of them far out. */
static void long_runs_stay_small(void **state)
{
    (void)state;
    const char *out = make_run("long", "", NULL);
    FILE *f = fopen(join(out, "log.jsonl"), "w");
    assert_non_null(f);
    for (int i = 1; i <= 100000; i++)
        fprintf(f,
                "{\"step\": %d, \"epoch\": %g, \"loss\": %.9g, \"grad_norm\": %.9g, \"learning_rate\": %.9g, "
                "\"samples_per_second\": %.9g, \"tokens_per_second\": %.9g, \"data_wait\": 0.01, \"memory\": %d}\n",
                i, i / 1000.0, i == 41234 ? 98.76 : 1 + 1.0 / i, 1.0 + i % 17, 1e-5 * i, 100.0 + i % 13,
                5000.0 + i % 11, 1 << 20);
    assert_int_equal(fclose(f), 0);
    expect_snug(0, said(), ARGS("report", out), NULL);
    char *page = read_page(join(out, "report.html"));
    expect_text(page, "step 41234: 98.76</title>");
    expect_text(page, "has none yet"); /* options */
    free(page);
}

static void files_of_others_stay(void **state)
{
    (void)state;
    size_t n;
    const char *out = make_run("short", "{\"step\": 1, \"loss\": 2.5}\n", NULL), *file = join(out, "report.html");
    write_text(out, "report.html", "mine\n");
    expect_snug(2, said(), ARGS("report", out), NULL);
    assert_true(file_has(said(), "report.html: is there already"));
    char *text = read_text(file, &n);
    assert_string_equal(text, "mine\n");
    free(text);
    expect_snug(0, said(), ARGS("report", out, "--output", join(out, "other.html")), NULL);
    assert_int_equal(unlink(file), 0);
    expect_snug(0, said(), ARGS("report", out), NULL);
    write_text(out, "log.jsonl", "{\"step\": 1, \"loss\": 4.75}\n");
    expect_snug(0, said(), ARGS("report", out), NULL); /* a page of ours is made again */
    text = read_page(file);
    expect_text(text, "step 1: 4.75</title>");
    free(text);
    assert_int_equal(count_names(out, "report.html"), 1);
}

static void what_is_no_run_is_told(void **state)
{
    (void)state;
    const char *empty = make_run("empty", "", NULL);
    expect_snug(3, said(), ARGS("report", folder), NULL);
    assert_true(file_has(said(), "has no log.jsonl; give the --output-dir of a run of snug train"));
    expect_snug(3, said(), ARGS("report", empty), NULL);
    assert_true(file_has(said(), "has no line of a run yet"));
    assert_int_equal(count_names(empty, "report"), 0);
    expect_snug(3, said(), ARGS("compare", empty, folder, "--output", join(folder, "none.html")), NULL);
    assert_int_equal(count_names(folder, "none"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_log), cmocka_unit_test(several_runs_side_by_side),
        cmocka_unit_test(texts_are_only_texts),         cmocka_unit_test(long_runs_stay_small),
        cmocka_unit_test(files_of_others_stay),         cmocka_unit_test(what_is_no_run_is_told),
        cmocka_unit_test(a_run_leaves_its_page),        cmocka_unit_test(a_run_without_a_page),
    };
    return cmocka_run_group_tests_name("page", tests, open_folder, close_folder);
}
