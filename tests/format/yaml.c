/* format/yaml: documents as PyYAML reads them (recorded by yaml_recorded.py), what is refused beyond that, and where. */
#include "format/yaml.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *recorded(void)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/format/yaml_recorded.json", getenv("SNUG_SOURCE"));
    json_t *rows = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(rows);
    return rows;
}

static void as_pyyaml_reads_them(void **state)
{
    (void)state;
    json_t *rows = recorded(), *row;
    size_t at;
    assert_true(json_array_size(rows) > 40);
    json_array_foreach(rows, at, row)
    {
        const char *text = json_string_value(json_array_get(row, 0));
        bool good = json_is_true(json_array_get(row, 2));
        json_t *out, *lines;
        struct snug_err e = {0};
        int code = yaml_parse(text, strlen(text), "f", &out, &lines, &e);
        if (good && (code || !json_equal(out, json_array_get(row, 1))))
            fail_msg("%s\ngave %s", text, code ? e.text : json_dumps(out, JSON_ENCODE_ANY));
        if (!good && (code != SNUG_ERR_INPUT || strncmp(e.text, "f:", 2) != 0 || out || lines))
            fail_msg("%s\ngave %d %s", text, code, e.text);
        json_decref(out);
        json_decref(lines);
    }
    json_decref(rows);
}

/* Where YAML 1.2 has a number and PyYAML, by 1.1, a text. */
static void numbers_without_a_point(void **state)
{
    (void)state;
    json_t *out, *lines;
    const char *text = "a: 5e-5\nb: 1E3\nc: -2e-1";
    assert_int_equal(yaml_parse(text, strlen(text), "f", &out, &lines, NULL), SNUG_OK);
    assert_true(json_real_value(json_object_get(out, "a")) == 5e-5);
    assert_true(json_real_value(json_object_get(out, "b")) == 1000);
    assert_true(json_real_value(json_object_get(out, "c")) == -0.2);
    assert_int_equal(json_integer_value(json_object_get(lines, "c")), 3);
    json_decref(out);
    json_decref(lines);
}

static void refused_where(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"a: 1\nb: 2\na: 3", "f:3:1: 'a' is there twice; give it once"},
        {"a: 1\nb: x: y", "f:2:5: a ':' where none can be; quote a value that holds one"},
        {"a:\n\tb: 1", "f:2:1: a tab; indent with blanks"},
        {"a: &x 1", "f:1:4: merges, tags and anchors are not read; write the value out"},
        {"a: !!python/object:os.system x", "f:1:4: merges, tags and anchors are not read; write the value out"},
        {"a: {<<: {b: 1}}", "f:1:5: merges, tags and anchors are not read; write the value out"},
        {"[1]: 2", "f:1:1: a name was expected; give lines of NAME: VALUE"},
        {"a: 1\n---\nb: 1", "f:2:1: a second document begins; give one"},
        {"a: \"\\0\"", "f:1:4: a text that holds \\0; leave it out"},
        {"a: 1\nb: \xff", "f:2: holds bytes that are not UTF-8 text; is it the right file?"},
        {"a: 1\nb: 'x", "f:2:6: a quote or bracket is not closed"},
        {"a: 1\nb: @x", "f:2:4: a value cannot begin so; quote it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *out, *lines;
        struct snug_err e;
        assert_int_equal(yaml_parse(cases[i].text, strlen(cases[i].text), "f", &out, &lines, &e), SNUG_ERR_INPUT);
        assert_string_equal(e.text, cases[i].message);
        assert_null(out);
        assert_null(lines);
    }
    char deep[512] = "a: ";
    memset(deep + 3, '[', 100);
    json_t *out, *lines;
    struct snug_err e;
    assert_int_equal(yaml_parse(deep, 103, "f", &out, &lines, &e), SNUG_ERR_INPUT);
    assert_string_equal(e.text, "f:1:35: nested too deeply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_pyyaml_reads_them),
        cmocka_unit_test(numbers_without_a_point),
        cmocka_unit_test(refused_where),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
