/* What a page shows of single classes, against scikit-learn's numbers: the matrices that tests/metrics/record.py has recorded, and 150
 * classes (classes.py), of which the worst are shown. */
#include "report/report.h"

#include "../cli/xml.h"
#include "../run/command.h"
#include "output/evaluation.h"
#include "output/own_json.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

static json_t *load(const char *path)
{
    json_error_t e;
    json_t *file = json_load_file(fixture(path), 0, &e);
    if (!file)
        fail_msg("%s: %s", path, e.text);
    return file;
}

/* The page of a run whose only evaluation, after step 3, is `m`. */
static char *make_page(const char *name, const struct metrics *m, const char *const *names)
{
    struct str text = {0}, page = {0};
    const char *out = join(folder, name);
    double loss = m->loss_sum / (double)m->n;
    char line[128];
    assert_int_equal(mkdir(out, 0700), 0);
    snprintf(line, sizeof line, "{\"step\": 3, \"epoch\": 1, \"eval_loss\": %.10g}\n", loss);
    write_text(out, "log.jsonl", line);
    assert_int_equal(evaluation_text(m, names, NULL, 3, &text, NULL), 0);
    assert_int_equal(own_json_write(&io_posix, join(out, EVALUATION_NAME), NULL, &text, NULL), 0);
    assert_int_equal(report_page(&io_posix, &out, 1, NULL, &page, NULL), 0);
    const char *begin = strchr(page.s, '\n') + 1, *complaint = xml_complaint(begin, strlen(begin));
    if (complaint)
        fail_msg("%s", complaint);
    str_free(&text);
    return page.s;
}

/* The table of that title; the page must have one. */
static const char *find_table(const char *page, const char *title)
{
    char head[128];
    snprintf(head, sizeof head, "<h2>%s</h2>", title);
    const char *at = strstr(page, head);
    if (!at)
        fail_msg("there is no table %s", title);
    return strstr(at, "<tbody>");
}

static bool has_table(const char *page, const char *title)
{
    char head[128];
    snprintf(head, sizeof head, "<h2>%s</h2>", title);
    return strstr(page, head);
}

/* The text of the next cell, and behind it; NULL: the table ends first. */
static const char *next_cell(const char *at, char text[64])
{
    const char *end = strstr(at, "</tbody>"), *th = strstr(at, "<th"), *td = strstr(at, "<td");
    const char *cell = !th || (td && td < th) ? td : th;
    if (!cell || cell > end)
        return NULL;
    cell = strchr(cell, '>') + 1;
    snprintf(text, 64, "%.*s", (int)strcspn(cell, "<"), cell);
    return cell;
}

static void expect_cell(const char **at, const char *want)
{
    char text[64];
    *at = next_cell(*at, text);
    assert_non_null(*at);
    assert_string_equal(text, want);
}

/* With the four digits that a page has. */
static void expect_number(const char **at, double want)
{
    char text[64];
    *at = next_cell(*at, text);
    assert_non_null(*at);
    if (fabs(atof(text) - want) > 5.1e-5)
        fail_msg("%s on the page, recorded %.10g", text, want);
}

static void evaluate(struct metrics *m, const double *logits, const int32_t *labels, int64_t rows, int64_t classes)
{
    struct metrics_setup s = {.kind = METRICS_SINGLE_LABEL, .rows = rows, .width = classes};
    assert_int_equal(metrics_open(m, &s, NULL), 0);
    for (int64_t r = 0; r < rows; r++)
        metrics_add_classes(m, &r, logits + r * classes, labels + r, 1);
    metrics_finish(m);
}

static void check_recorded(const json_t *c)
{
    static const char *const members[] = {"precision", "recall", "f1", "support"};
    const json_t *outputs = json_object_get(c, "outputs"), *matrix = json_object_get(c, "confusion_matrix");
    size_t rows = json_array_size(outputs), n = json_array_size(matrix);
    double *logits = calloc(rows * n, sizeof *logits);
    int32_t *labels = calloc(rows, sizeof *labels);
    struct metrics m;
    char label[32], count[64];
    assert_true(logits && labels);
    for (size_t r = 0; r < rows; r++) {
        labels[r] = (int32_t)json_integer_value(json_array_get(json_object_get(c, "labels"), r));
        for (size_t i = 0; i < n; i++)
            logits[r * n + i] = json_number_value(json_array_get(json_array_get(outputs, r), i));
    }
    evaluate(&m, logits, labels, (int64_t)rows, (int64_t)n);
    char *page = make_page(json_string_value(json_object_get(c, "name")), &m, NULL);
    const char *table = find_table(page, "Classes"), *cells = find_table(page, "Confusion matrix");
    assert_false(has_table(page, "Confused most often"));
    for (size_t a = 0; a < n; a++) {
        const json_t *by = json_array_get(json_object_get(c, "by_label"), a);
        snprintf(label, sizeof label, "LABEL_%zu", a);
        expect_cell(&table, label);
        for (size_t k = 0; k < sizeof members / sizeof *members; k++)
            expect_number(&table, json_number_value(json_object_get(by, members[k])));
        expect_cell(&cells, label);
        for (size_t p = 0; p < n; p++) {
            const json_t *row = json_array_get(matrix, a);
            snprintf(count, sizeof count, "%lld", (long long)json_integer_value(json_array_get(row, p)));
            expect_cell(&cells, count);
        }
        table = strstr(table, "</tr>");
    }
    assert_null(next_cell(cells, count));
    assert_null(next_cell(table, count));
    metrics_close(&m);
    free(page);
    free(logits);
    free(labels);
}

static void few_classes_are_all_there(void **state)
{
    json_t *file = load("metrics/recorded.json"), *c;
    size_t i, n = 0;
    (void)state;
    json_array_foreach(json_object_get(file, "cases"), i, c) if (json_object_get(c, "confusion_matrix"))
    {
        check_recorded(c);
        n++;
    }
    assert_true(n > 10);
    json_decref(file);
}

static void of_many_classes_the_worst_are_there(void **state)
{
    json_t *file = load("report/classes.json"), *v;
    size_t n = (size_t)json_integer_value(json_object_get(file, "classes")), i;
    const json_t *actual = json_object_get(file, "actual"), *predicted = json_object_get(file, "predicted");
    size_t rows = json_array_size(actual);
    double *logits = calloc(rows * n, sizeof *logits);
    int32_t *labels = calloc(rows, sizeof *labels);
    char(*names)[32] = calloc(n, sizeof *names);
    const char **list = calloc(n, sizeof *list);
    struct metrics m;
    char text[64];
    (void)state;
    assert_true(logits && labels && names && list);
    for (size_t r = 0; r < rows; r++) {
        labels[r] = (int32_t)json_integer_value(json_array_get(actual, r));
        logits[r * n + (size_t)json_integer_value(json_array_get(predicted, r))] = 2;
    }
    for (i = 0; i < n; i++)
        snprintf(names[i], sizeof names[i], "class %zu", i), list[i] = names[i];
    evaluate(&m, logits, labels, (int64_t)rows, (int64_t)n);
    char *page = make_page("many", &m, list);
    assert_false(has_table(page, "Confusion matrix"));
    const char *at = find_table(page, "Classes: 20 of the lowest F1, of 150");
    json_array_foreach(json_object_get(file, "worst"), i, v)
    {
        expect_cell(&at, names[json_integer_value(json_array_get(v, 0))]);
        for (size_t k = 1; k < 5; k++)
            expect_number(&at, json_number_value(json_array_get(v, k)));
        at = strstr(at, "</tr>");
    }
    assert_int_equal(i, 20);
    assert_null(next_cell(at, text));
    at = find_table(page, "Confused most often");
    json_array_foreach(json_object_get(file, "pairs"), i, v)
    {
        double count = json_number_value(json_array_get(v, 2)), of = json_number_value(json_array_get(v, 3));
        expect_cell(&at, names[json_integer_value(json_array_get(v, 0))]);
        expect_cell(&at, names[json_integer_value(json_array_get(v, 1))]);
        expect_number(&at, count);
        snprintf(text, sizeof text, "%.3g %%", 100 * count / of);
        expect_cell(&at, text);
    }
    assert_int_equal(i, 20);
    assert_null(next_cell(at, text));
    metrics_close(&m);
    free(page), free(logits), free(labels), free(names), free(list);
    json_decref(file);
}

/* A run of its own: the matrix is the one that snug eval gives of its result. */
static void a_run_shows_its_last_evaluation(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 40, 12, 9, true), *out = join(folder, "run");
    expect_snug(0, said(),
                ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--eval-data", rows,
                     "--eval-strategy", "steps", "--eval-steps", "5", "--batch-size", "4", "--max-steps", "10",
                     "--device", "cpu", "--threads", "1", "--save-strategy", "no", "--output-dir", out),
                NULL);
    expect_snug(0, said(), ARGS("eval", "--model", out, "--data", rows, "--device", "cpu", "--json"), NULL);
    json_t *eval = json_load_file(said(), JSON_DISABLE_EOF_CHECK, NULL), *row, *v;
    size_t n, i, k, total = 0;
    char *page = read_text(join(out, "report.html"), &n), count[64], text[64];
    const char *at = find_table(page, "Confusion matrix");
    assert_non_null(eval);
    json_array_foreach(json_object_get(eval, "confusion_matrix"), i, row)
    {
        at = next_cell(at, text); /* its name */
        json_array_foreach(row, k, v)
        {
            snprintf(count, sizeof count, "%lld", (long long)json_integer_value(v));
            expect_cell(&at, count);
            total += (size_t)json_integer_value(v);
        }
    }
    assert_int_equal(total, 40);
    free(page);
    json_decref(eval);
    /* A log that knows nothing of this evaluation, as after a resumption from an earlier step. */
    write_text(out, "log.jsonl", "{\"step\": 5, \"epoch\": 0.5, \"eval_loss\": 1.5}\n");
    expect_snug(0, said(), ARGS("report", out), NULL);
    page = read_text(join(out, "report.html"), &n);
    assert_false(has_table(page, "Classes"));
    free(page);
}

static void files_of_others_stay(void **state)
{
    (void)state;
    size_t n;
    const char *rows = make_rows(folder, 16, 12, 10, true), *out = join(folder, "theirs");
    const char *const *args =
        ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows, "--eval-data", rows,
             "--batch-size", "4", "--max-steps", "8", "--eval-strategy", "epoch", "--device", "cpu", "--threads", "1",
             "--save-strategy", "no", "--output-dir", out);
    assert_int_equal(mkdir(out, 0700), 0);
    write_text(out, EVALUATION_NAME, "[\"mine\"]\n");
    expect_snug(0, said(), args, NULL);
    assert_true(file_has(said(), EVALUATION_NAME ": is there already and was not written by snug; rename it"));
    char *notes = read_text(said(), &n), *note = strstr(notes, "the report does not show classes and mistakes: ");
    assert_non_null(note);
    assert_null(strstr(note + 1, "the report does not show")); /* told once */
    free(notes);
    char *text = read_text(join(out, EVALUATION_NAME), &n);
    assert_string_equal(text, "[\"mine\"]\n");
    free(text);
    assert_int_equal(count_names(out, "report.html"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_classes_are_all_there),
        cmocka_unit_test(of_many_classes_the_worst_are_there),
        cmocka_unit_test(a_run_shows_its_last_evaluation),
        cmocka_unit_test(files_of_others_stay),
    };
    return cmocka_run_group_tests_name("classes", tests, open_folder, close_folder);
}
