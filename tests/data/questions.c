/* data/questions and metrics/squad: windows, labels, answers and scores as they were recorded (questions/record.py); the spellings of
 * answers; what is refused. */
#include "data/questions/questions.h"
#include "dataset_help.h"
#include "metrics/squad.h"

#include <jansson.h>
#include <math.h>

static json_t *expected(void)
{
    char from[4096];
    snprintf(from, sizeof from, "%s/tests/data/questions/expected.json", getenv("SNUG_SOURCE"));
    json_t *o = json_load_file(from, 0, NULL);
    assert_non_null(o);
    return o;
}

static json_int_t number(json_t *list, size_t i)
{
    return json_integer_value(json_array_get(list, i));
}

static void check_window(const struct dataset *d, int64_t row, json_t *want)
{
    json_t *ids = json_object_get(want, "ids"), *label = json_object_get(want, "label");
    assert_int_equal(dataset_length(d, row), json_array_size(ids));
    for (size_t i = 0; i < json_array_size(ids); i++) {
        int64_t at = d->offsets[row] + (int64_t)i;
        assert_int_equal(d->ids[at], number(ids, i));
        assert_int_equal(d->types ? d->types[at] : 0, number(json_object_get(want, "types"), i));
        int mark = ((size_t)number(label, 0) == i ? 1 : 0) + ((size_t)number(label, 1) == i ? 2 : 0);
        if (d->targets[at] != mark)
            fail_msg("row %lld, token %zu: %d, not %d: %s", (long long)row, i, d->targets[at], mark,
                     json_dumps(want, JSON_COMPACT));
    }
}

static void check_answers(const struct dataset *d, int64_t i, const double *logits, bool may_be_none, json_t *want)
{
    const struct answer_settings s = {.most = 20, .longest = 6, .may_be_none = may_be_none, .none_above = 1.5};
    struct answer got[21];
    int n;
    assert_int_equal(answers_find(d, i, logits, &s, got, &n, NULL), SNUG_OK);
    if ((size_t)n != json_array_size(want))
        fail_msg("question %lld: %d answers, not %s", (long long)i, n, json_dumps(want, JSON_COMPACT));
    for (int k = 0; k < n; k++) {
        json_t *one = json_array_get(want, (size_t)k), *text = json_array_get(one, 0);
        if (got[k].bytes != json_string_length(text) || memcmp(got[k].text, json_string_value(text), got[k].bytes))
            fail_msg("question %lld: \"%.*s\", not \"%s\"", (long long)i, (int)got[k].bytes, got[k].text,
                     json_string_value(text));
        assert_true(fabs(got[k].probability - json_number_value(json_array_get(one, 1))) < 1e-8);
    }
}

/* in_memory: bytes of tokens that may stay there. */
static void check_case(json_t *want, int64_t in_memory)
{
    char folder[4096], data[4096];
    struct tokenizer *t;
    struct dataset d;
    snprintf(folder, sizeof folder, "%s/tests/tokenizer/recorded/%s", getenv("SNUG_SOURCE"),
             json_string_value(json_object_get(want, "folder")));
    snprintf(data, sizeof data, "%s/tests/data/questions/questions.jsonl", getenv("SNUG_SOURCE"));
    assert_int_equal(tokenizer_open(&io_posix, folder, &t, NULL), SNUG_OK);
    struct question_options questions = {.doc_stride = json_integer_value(json_object_get(want, "doc_stride"))};
    struct dataset_options o = {.path = data,
                                .task = TASK_SPAN,
                                .tokenizer = t,
                                .questions = &questions,
                                .cache_dir = dir,
                                .in_memory = in_memory,
                                .max_length = (int32_t)json_integer_value(json_object_get(want, "max_length"))};
    assert_int_equal(dataset_open(&io_posix, &o, &d, NULL), SNUG_OK);
    json_t *list = json_object_get(want, "questions");
    assert_int_equal(d.questions->n, json_array_size(list));
    assert_true(d.questions->unanswered);
    assert_true(in_memory ? d.files.n_maps >= 3 && d.questions->mapped.p : !d.files.n_maps && !d.questions->mapped.p);
    double *logits = malloc(2 * (size_t)d.n_tokens * sizeof *logits);
    for (int64_t i = 0, row = 0; i < d.questions->n; i++) {
        json_t *one = json_array_get(list, (size_t)i), *windows = json_object_get(one, "windows");
        assert_int_equal(d.questions->list[i].first_row, row);
        assert_int_equal(d.questions->list[i].n_rows, json_array_size(windows));
        for (size_t k = 0; k < json_array_size(windows); k++, row++) {
            json_t *w = json_array_get(windows, k), *z[] = {json_object_get(w, "start"), json_object_get(w, "end")};
            check_window(&d, row, w);
            for (size_t token = 0; token < json_array_size(z[0]); token++)
                for (int side = 0; side < 2; side++)
                    logits[2 * (d.offsets[row] + (int64_t)token) + side] =
                        json_number_value(json_array_get(z[side], token));
        }
        check_answers(&d, i, logits, false, json_object_get(one, "answers"));
        check_answers(&d, i, logits, true, json_object_get(one, "or_none"));
    }
    free(logits);
    dataset_close(&d);
    tokenizer_close(t);
}

static void windows_and_answers_are_those_of_the_examples(void **state)
{
    (void)state;
    json_t *o = expected(), *one;
    size_t i;
    json_array_foreach(json_object_get(o, "cases"), i, one)
    {
        check_case(one, 0);
        check_case(one, 1);    /* which sends every question's tokens to files */
        check_case(one, 2000); /* and some questions' */
    }
    assert_int_equal(i, 3);
    json_decref(o);
}

static void scores_are_those_of_squad(void **state)
{
    (void)state;
    json_t *o = expected(), *one;
    size_t i;
    json_array_foreach(json_object_get(o, "scores"), i, one)
    {
        const char *right[4], *answer = json_string_value(json_array_get(one, 0));
        json_t *list = json_array_get(one, 1);
        struct squad_score got;
        for (size_t k = 0; k < json_array_size(list); k++)
            right[k] = json_string_value(json_array_get(list, k));
        assert_int_equal(squad_score(answer, strlen(answer), right, json_array_size(list), &got, NULL), SNUG_OK);
        double exact = json_number_value(json_array_get(one, 2)), f1 = json_number_value(json_array_get(one, 3));
        if (got.exact != exact || fabs(got.f1 - f1) > 1e-12)
            fail_msg("\"%s\": %g, %g, not %g, %g: %s", answer, got.exact, got.f1, exact, f1,
                     json_dumps(list, JSON_COMPACT));
    }
    assert_true(i > 100);
    json_decref(o);
}

static struct dataset_options of_questions(const char *name, const char *content)
{
    static const struct question_options questions = {.doc_stride = 2};
    write_data(name, content);
    struct dataset_options o = options(TASK_SPAN);
    o.questions = &questions;
    return o;
}

static void answers_have_several_spellings(void **state)
{
    static const struct {
        const char *name, *content;
    } same[] = {
        {"a.jsonl",
         "{\"question\":\"my\",\"context\":\"é card pay\",\"answers\":{\"text\":[\"card\"],\"answer_start\":[2]}}"},
        {"b.jsonl", "{\"id\":\"x\",\"question\":\"my\",\"context\":\"é card "
                    "pay\",\"answers\":{\"text\":\"card\",\"answer_start\":2}}"},
        {"c.json",
         "[{\"question\":\"my\",\"context\":\"é card pay\",\"answers\":[{\"text\":\"card\",\"answer_start\":2}]}]"},
        {"d.json",
         "{\"version\":\"2\",\"data\":[{\"title\":\"t\",\"paragraphs\":[{\"context\":\"é card "
         "pay\",\"qas\":[{\"id\":\"1\","
         "\"question\":\"my\",\"is_impossible\":false,\"answers\":[{\"text\":\"card\",\"answer_start\":2}]}]}]}]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct dataset_options o = of_questions(same[i].name, same[i].content);
        struct dataset d = opened(&o);
        assert_int_equal(d.n_rows, 1);
        assert_false(d.questions->unanswered);
        assert_string_equal(d.questions->list[0].answers[0], "card");
        int64_t marked = 0;
        for (int64_t t = 0; t < d.n_tokens; t++)
            if (d.targets[t]) {
                assert_int_equal(d.targets[t], 3);
                assert_int_equal(d.ids[t], tokenizer_id(tokenizer, "card"));
                marked++;
            }
        assert_int_equal(marked, 1);
        dataset_close(&d);
    }
}

static void what_is_no_question_is_refused(void **state)
{
    static const struct {
        const char *content, *message;
    } bad[] = {
        {"{\"question\":\"my\",\"context\":\"card\",\"answers\":{\"text\":[\"pay\"],\"answer_start\":[0]}}",
         "r.jsonl:1: the answer \"pay\" does not stand at character 0 of its context; correct answer_start"},
        {"{\"question\":\"my\",\"context\":\"card\",\"answers\":{\"text\":[\"card\"],\"answer_start\":[99]}}",
         "does not stand at character 99"},
        {"{\"question\":\"my\",\"context\":\"card\",\"answers\":{\"text\":[\"card\"],\"answer_start\":[-1]}}",
         "does not stand at character -1"},
        {"{\"question\":\"my\",\"context\":\"card\"}", "r.jsonl:1: no 'answers'; write"},
        {"{\"question\":7,\"context\":\"card\",\"answers\":{}}", "'question' is 7, not a string"},
        {"{\"question\":\"my\",\"answers\":[]}", "no 'context'; a row needs"},
        {"{\"question\":\"my\",\"context\":\"card\",\"answers\":{\"text\":[\"card\",\"card\"],\"answer_start\":[0]}}",
         "2 answers but 1 of 'answer_start'; each needs one"},
        {"{\"question\":\"my card my card my\",\"context\":\"card pay my card pay my card "
         "pay\",\"answers\":{\"text\":[],"
         "\"answer_start\":[]}}",
         "the question has 5 tokens, which leaves 2 of --max-length 10 for windows over its context, and --doc-stride "
         "2 "
         "needs more; shorten"},
        {"{\"question\":\"my card my card my card my card my card\",\"context\":\"card\",\"answers\":{\"text\":[],"
         "\"answer_start\":[]}}",
         "r.jsonl:1: the question has 10 tokens, which leaves none of --max-length 10 for its context; shorten the "
         "question, or give a larger --max-length"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct dataset_options o = of_questions("r.jsonl", bad[i].content);
        struct snug_err e = {0};
        struct dataset d;
        o.max_length = 10;
        assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
        if (!strstr(e.text, bad[i].message))
            fail_msg("'%s', not '%s'", e.text, bad[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_and_answers_are_those_of_the_examples),
        cmocka_unit_test(scores_are_those_of_squad),
        cmocka_unit_test(answers_have_several_spellings),
        cmocka_unit_test(what_is_no_question_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
