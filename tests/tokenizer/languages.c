/* Ids of sources and targets in their languages, as transformers' mBART tokenizers give them (languages/record.py); what is no language;
 * and that a language counts in the hash. */
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { CUT = 4 };

static struct tokenizer *open_one(const char *name)
{
    char path[4096];
    struct tokenizer *t;
    struct snug_err e;
    snprintf(path, sizeof path, "%s/tests/tokenizer/languages/%s", getenv("SNUG_SOURCE"), name);
    if (tokenizer_open(&io_posix, path, &t, &e))
        fail_msg("%s", e.text);
    return t;
}

static void check(json_t *want, const struct token_buf *got, const char *text)
{
    assert_int_equal(json_array_size(want), got->n);
    for (size_t i = 0; i < got->n; i++)
        if (json_integer_value(json_array_get(want, i)) != got->ids[i])
            fail_msg("\"%s\": token %zu is %d", text, i, got->ids[i]);
}

static void check_run(const char *name, json_t *texts, json_t *run)
{
    struct tokenizer *t = open_one(name);
    struct token_buf b = {0};
    struct snug_err e;
    const char *source = json_string_value(json_object_get(run, "source"));
    const char *target = json_string_value(json_object_get(run, "target"));
    assert_true(tokenizer_has_languages(t));
    if (source || target)
        assert_int_equal(tokenizer_set_languages(t, source, target, &e), 0);
    for (size_t i = 0; i < json_array_size(texts); i++) {
        const char *text = json_string_value(json_array_get(texts, i));
        assert_int_equal(tokenizer_encode(t, text, strlen(text), NULL, 0, 0, &b, &e), 0);
        check(json_array_get(json_object_get(run, "sources"), i), &b, text);
        assert_int_equal(tokenizer_encode(t, text, strlen(text), NULL, 0, CUT, &b, &e), 0);
        check(json_array_get(json_object_get(run, "cut"), i), &b, text);
        assert_int_equal(tokenizer_encode_target(t, text, strlen(text), 0, &b, &e), 0);
        check(json_array_get(json_object_get(run, "targets"), i), &b, text);
    }
    token_buf_free(&b);
    tokenizer_close(t);
}

static void test_recorded(void **state)
{
    static const char *const names[] = {"mbart", "mbart50"};
    (void)state;
    for (size_t n = 0; n < sizeof names / sizeof *names; n++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/tests/tokenizer/languages/%s/expected.json", getenv("SNUG_SOURCE"), names[n]);
        json_t *all = json_load_file(path, 0, NULL), *runs = json_object_get(all, "runs"), *run;
        size_t i;
        assert_int_equal(json_array_size(runs), 4);
        json_array_foreach(runs, i, run) check_run(names[n], json_object_get(all, "texts"), run);
        json_decref(all);
    }
}

/* Where a target has its language: mBART's behind it, mBART-50's before it. */
static void test_target_language(void **state)
{
    struct snug_err e;
    bool leads;
    (void)state;
    struct tokenizer *t = open_one("mbart");
    assert_int_equal(tokenizer_target_language(t, &leads), -1);
    assert_int_equal(tokenizer_set_languages(t, NULL, "ro_RO", &e), 0);
    assert_int_equal(tokenizer_target_language(t, &leads), tokenizer_id(t, "ro_RO"));
    assert_false(leads);
    tokenizer_close(t);
    t = open_one("mbart50");
    assert_int_equal(tokenizer_target_language(t, &leads), tokenizer_id(t, "hi_IN"));
    assert_true(leads);
    tokenizer_close(t);
}

static void test_hash(void **state)
{
    struct snug_err e;
    (void)state;
    struct tokenizer *t = open_one("mbart50"), *same = open_one("mbart50");
    struct hash128 first = tokenizer_hash(t), now;
    static const char *const languages[][2] = {{"de_DE", NULL}, {NULL, "de_DE"}, {"en_XX", "hi_IN"}};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tokenizer_set_languages(i == 2 ? same : t, languages[i][0], languages[i][1], &e), 0);
        now = tokenizer_hash(i == 2 ? same : t);
        assert_int_equal(!memcmp(&first, &now, sizeof now), i == 2);
    }
    tokenizer_close(t);
    tokenizer_close(same);
}

/* A word is no language, though the vocabulary has it; and a tokenizer without languages takes none. */
static void test_refused(void **state)
{
    char path[4096];
    struct snug_err e;
    (void)state;
    struct tokenizer *t = open_one("mbart");
    assert_int_equal(tokenizer_set_languages(t, NULL, "\u2581bank", &e), SNUG_ERR_INPUT);
    assert_non_null(
        strstr(e.text, "tokenizer.json: has no language \"\u2581bank\"; write one as it does, as in \"en_XX\""));
    tokenizer_close(t);
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/families/gpt2", getenv("SNUG_SOURCE"));
    assert_int_equal(tokenizer_open(&io_posix, path, &t, &e), 0);
    assert_false(tokenizer_has_languages(t));
    assert_int_equal(tokenizer_set_languages(t, "en_XX", NULL, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "gives texts no language"));
    tokenizer_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_recorded), cmocka_unit_test(test_target_language),
                                       cmocka_unit_test(test_hash), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("languages", tests, NULL, NULL);
}
