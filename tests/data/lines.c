/* data/lines: lines of text files as Python reads them (lines/record.py), in pieces of any size. */
#include "data/files/lines.h"
#include "../memory_io.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void check(const char *text, size_t bytes, json_t *want, size_t piece)
{
    struct memory_file file = {"f.txt", text, bytes};
    struct memory_io m;
    struct lines l;
    struct snug_err e;
    size_t n = 0;
    memory_io_init(&m, &file, 1);
    m.short_read = piece;
    assert_int_equal(lines_open(&m.io, "f.txt", &l, &e), 0);
    for (;; n++) {
        assert_int_equal(lines_next(&l, &e), 0);
        if (l.ended)
            break;
        json_t *line = json_array_get(want, n);
        assert_int_equal(l.line, n + 1);
        assert_int_equal(l.n_text, json_string_length(line));
        assert_memory_equal(l.text, json_string_value(line), l.n_text + 1);
    }
    assert_int_equal(n, json_array_size(want));
    lines_close(&l);
    assert_int_equal(m.open_files, 0);
}

static void lines_are_those_of_python(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/data/lines/cases.json", getenv("SNUG_SOURCE"));
    json_t *cases = json_load_file(path, 0, NULL), *c;
    size_t k;
    assert_int_equal(json_array_size(cases), 136);
    json_array_foreach(cases, k, c)
    {
        json_t *text = json_array_get(c, 0);
        for (size_t piece = 0; piece < 4; piece++)
            check(json_string_value(text), json_string_length(text), json_array_get(c, 1), piece);
    }
    json_decref(cases);
}

/* A long file: lines of 0 to 999 bytes across many pieces. */
static void long_files(void **state)
{
    (void)state;
    static char text[2000000];
    json_t *want = json_array();
    size_t n = 0;
    for (size_t i = 0; i < 3000; i++) {
        size_t length = i * 7919 % 1000;
        memset(text + n, 'a' + (int)(i % 26), length);
        json_array_append_new(want, json_stringn(text + n, length));
        n += length;
        memcpy(text + n, "\r\n", 2);
        n += 2;
    }
    check(text, n, want, 0);
    check(text, n, want, 4099);
    json_decref(want);
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        size_t bytes;
    } cases[] = {{"a\nb\xFF\n", "f.txt:2: row 2, byte at offset 3: 0xFF is not UTF-8", 5},
                 {"a\n\0\n", "f.txt:2: row 2 has a NUL byte at offset 2", 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct memory_file file = {"f.txt", cases[i].text, cases[i].bytes};
        struct memory_io m;
        struct lines l;
        struct snug_err e;
        memory_io_init(&m, &file, 1);
        assert_int_equal(lines_open(&m.io, "f.txt", &l, &e), 0);
        int code;
        do
            code = lines_next(&l, &e);
        while (!code && !l.ended);
        assert_int_equal(code, SNUG_ERR_INPUT);
        assert_int_equal(strncmp(e.text, cases[i].message, strlen(cases[i].message)), 0);
        lines_close(&l);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_are_those_of_python),
        cmocka_unit_test(long_files),
        cmocka_unit_test(refused),
    };
    return cmocka_run_group_tests_name("lines", tests, NULL, NULL);
}
