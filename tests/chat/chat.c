/* Chat templates render what transformers renders: recorded.jsonl (record.py). What snug does not know it names. */
#include "../failing_memory.h"
#include "chat/template.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* more: an object with other variables, or NULL. */
static int render_with(const char *template, json_t *messages, bool prompt, json_t *tokens, json_t *more, int64_t now,
                       struct chat_rendering *out, struct snug_err *err)
{
    struct chat_template *t;
    struct chat_variable variables[8];
    const char *names[8];
    json_t *values[8];
    size_t n = 0, n_more = 0;
    const char *key;
    json_t *value;
    int code = chat_template_open("chat_template", template, strlen(template), &t, err);
    if (code)
        return code;
    json_object_foreach(tokens, key, value) variables[n++] = (struct chat_variable){key, json_string_value(value)};
    json_object_foreach(more, key, value)
    {
        names[n_more] = key;
        values[n_more++] = value;
    }
    struct chat_input in = {.messages = messages,
                            .more_names = names,
                            .more = values,
                            .n_more = n_more,
                            .add_generation_prompt = prompt,
                            .tokens = variables,
                            .n_tokens = n,
                            .now = now};
    code = chat_template_render(t, &in, out, err);
    chat_template_close(t);
    return code;
}

static int render(const char *template, json_t *messages, bool prompt, json_t *tokens, struct chat_rendering *out,
                  struct snug_err *err)
{
    return render_with(template, messages, prompt, tokens, NULL, 0, out, err);
}

/* Bytes of so many code points. */
static size_t bytes_of(const char *s, json_int_t points)
{
    size_t i = 0;
    for (; s[i] && (points || ((unsigned char)s[i] & 0xc0) == 0x80); i++)
        points -= ((unsigned char)s[i + 1] & 0xc0) != 0x80;
    return i;
}

static bool same_marks(json_t *want, const struct chat_rendering *got)
{
    bool same = json_array_size(want) == got->n_marks;
    for (size_t i = 0; same && i < got->n_marks; i++) {
        json_t *mark = json_array_get(want, i);
        same = bytes_of(str_text(&got->text), json_integer_value(json_array_get(mark, 0))) == got->marks[i].from &&
               bytes_of(str_text(&got->text), json_integer_value(json_array_get(mark, 1))) == got->marks[i].to;
    }
    return same;
}

static bool replay(json_t *row, struct chat_rendering *out)
{
    const char *template = json_string_value(json_object_get(row, "template"));
    json_t *text = json_object_get(row, "text");
    struct snug_err e = {0};
    int code = render_with(template, json_object_get(row, "messages"),
                           json_is_true(json_object_get(row, "add_generation_prompt")), json_object_get(row, "tokens"),
                           json_object_get(row, "more"), json_integer_value(json_object_get(row, "now")), out, &e);
    bool same = text ? !code && !strcmp(str_text(&out->text), json_string_value(text)) &&
                           same_marks(json_object_get(row, "marks"), out)
                     : code == SNUG_ERR_INPUT && strstr(e.text, "chat_template: line ");
    if (!same)
        printf("%s: %s\n--- wanted %s\n--- got (%d) %s%s\n", json_string_value(json_object_get(row, "name")), template,
               text ? json_string_value(text) : json_string_value(json_object_get(row, "error")), code,
               code ? e.text : "", code ? "" : str_text(&out->text));
    return same;
}

static void test_recorded(void **state)
{
    (void)state;
    char path[512];
    struct chat_rendering out = {0};
    int rows = 0, differ = 0;
    snprintf(path, sizeof path, "%s/tests/chat/recorded.jsonl", getenv("SNUG_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (json_t *row; (row = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); rows++) {
        differ += !replay(row, &out);
        json_decref(row);
    }
    fclose(f);
    chat_rendering_free(&out);
    assert_true(rows > 100);
    assert_int_equal(differ, 0);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *template, *message;
    } cases[] = {
        {"a\nb\n{{ 1 | foo }}", "chat_template: line 3: filter 'foo' is not known to snug"},
        {"{{ 1 is foo }}", "chat_template: line 1: test 'foo' is not known to snug"},
        {"\n{% include 'x' %}", "chat_template: line 2: statement 'include' is not known to snug"},
        {"{{ 'x'.foo() }}", "chat_template: line 1: method 'foo' is not known to snug"},
        {"{{ foo() }}", "chat_template: line 1: function 'foo' is not known to snug"},
        {"{% for x in y recursive %}{% endfor %}", "chat_template: line 1: a recursive loop is not known to snug"},
        {"{{ 'x' | replace('a') }}", "chat_template: line 1: replace: what it becomes is undefined, not a string"},
        {"{{ 'x' | trim(a=1) }}", "chat_template: line 1: filter 'trim' with the argument 'a' is not known to snug"},
        {"{{ [1] }}", "chat_template: line 1: a list where a string is written; add |tojson"},
        {"{{ raise_exception('no tools') }}", "chat_template: line 1: the template refuses it: no tools"},
        {"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "chat_template: line 1: nested deeper than 200"},
        {"{% for a in range(10000) %}{% for b in range(10000) %}{% endfor %}{% endfor %}",
         "chat_template: line 1: takes more than 64 MiB for one row; it may be a loop"},
        {"{{ 'aaaaaaaa' * 100000000 }}", "chat_template: line 1: takes more than 64 MiB for one row; it may be a loop"},
        {"{% macro f() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ f() }}",
         "chat_template: line 1: 'generation' within a macro or a block that is set is not known to snug"},
        {"\xff", "chat_template: byte 0 is no UTF-8; write the template as UTF-8"},
    };
    json_t *messages = json_array();
    struct chat_rendering out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct snug_err e = {0};
        assert_int_equal(render(cases[i].template, messages, false, NULL, &out, &e), SNUG_ERR_INPUT);
        assert_string_equal(e.text, cases[i].message);
    }
    chat_rendering_free(&out);
    json_decref(messages);
}

/* What is no list of objects is the template's, as it is. */
static void test_odd_messages(void **state)
{
    (void)state;
    static const char *const cases[] = {"[1, null, \"a\", [], {}]", "{\"thinking\": null}", "5", "null"};
    struct chat_rendering out = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct snug_err e = {0};
        json_t *messages = json_loads(cases[i], JSON_DECODE_ANY, NULL);
        assert_int_equal(render("{{ messages | tojson }}", messages, false, NULL, &out, &e), SNUG_OK);
        assert_string_equal(str_text(&out.text), cases[i]);
        json_decref(messages);
    }
    chat_rendering_free(&out);
}

/* Nested as deep as it goes: no stack overflows. */
static void test_deep(void **state)
{
    (void)state;
    static const char *const parts[] = {"(", "[", "{'a':", "-", "not ", "x[", "f(", "1 if ", "a.b|c(", "{% if 1 %}"};
    struct snug_err e;
    struct chat_template *t;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        struct str s = {0};
        str_append(&s, *parts[i] == '{' && parts[i][1] == '%' ? "" : "{{ ");
        for (int k = 0; k < 100000; k++)
            str_append(&s, parts[i]);
        assert_int_equal(chat_template_open("t", str_text(&s), s.n, &t, &e), SNUG_ERR_INPUT);
        str_free(&s);
    }
}

static void test_memory(void **state)
{
    (void)state;
    const char *template =
        "{% macro f(a) %}{{ a | upper }}{% endmacro %}{% for m in messages %}{{ f(m.content) }}"
        "{% generation %}{{ m | tojson }}{% endgeneration %}{{ 'a b'.split() | join('-') }}"
        "{% set x %}{{ m.role | replace('s', '\\u00e9') }}{% endset %}{{ x }}"
        "{{ m | dictsort | map('first') | join }}{{ ['b', 'A'] | sort | max }}"
        "{{ {'z': '\\u00e9', 1: m.thinking} | tojson(true, 1) }}{{ x | indent(2, true) }}{% endfor %}";
    json_t *messages = json_loads("[{\"role\":\"user\",\"content\":\"hi\",\"reasoning\":\"so\"}]", 0, NULL);
    bool failed = true;
    for (long k = 1; failed; k++) {
        struct failing_memory memory;
        struct chat_rendering out = {0};
        struct snug_err e = {0};
        failing_memory_set(&memory, k, false);
        int code = render(template, messages, false, NULL, &out, &e);
        failed = failing_memory_hit(&memory);
        assert_int_equal(code, failed ? SNUG_ERR_ENV : SNUG_OK);
        if (!failed)
            assert_string_equal(
                str_text(&out.text),
                "HI{\"thinking\": \"so\", \"role\": \"user\", \"content\": \"hi\", \"reasoning\": \"so\", "
                "\"reasoning_content\": \"so\"}a-bu\xc3\xa9"
                "ercontentreasoningreasoning_contentrolethinkingb{\n \"z\": \"\\u00e9\",\n \"1\": "
                "\"so\"\n}  u\xc3\xa9"
                "er");
        chat_rendering_free(&out);
        mem_set_ops(NULL);
    }
    json_decref(messages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded), cmocka_unit_test(test_refused), cmocka_unit_test(test_odd_messages),
        cmocka_unit_test(test_deep),     cmocka_unit_test(test_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
