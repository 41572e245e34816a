/* base/str: growing, JSON strings as Python's json.dumps(s, ensure_ascii=False) writes them, UTF-8 validity. */
#include "base/str.h"
#include "base/mem.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void grows(void **state)
{
    (void)state;
    struct str s = {0};
    assert_string_equal(str_text(&s), "");
    for (int i = 0; i < 1000; i++)
        str_printf(&s, "%03d", i);
    str_append(&s, "end");
    assert_int_equal(s.n, 3003);
    assert_int_equal(strlen(s.s), 3003);
    assert_memory_equal(s.s + 999 * 3, "999end", 7);
    assert_int_equal(str_check(&s, NULL), SNUG_OK);
    str_free(&s);
    assert_null(s.s);
}

static void *no_memory(void *ctx, void *p, size_t bytes)
{
    (void)ctx;
    return bytes > 100 ? NULL : realloc(p, bytes);
}

static void plain_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void remembers_a_failed_allocation(void **state)
{
    (void)state;
    mem_set_ops(&(struct mem_ops){.realloc = no_memory, .free = plain_free, .ctx = NULL});
    struct str s = {0};
    struct snug_err err;
    for (int i = 0; i < 200; i++)
        str_append(&s, "x");
    assert_int_equal(str_check(&s, &err), SNUG_ERR_ENV);
    assert_true(s.n <= 100);
    str_free(&s);
    mem_set_ops(NULL);
}

/* The bytes of code point c. */
static size_t put_utf8(uint32_t c, char *to)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n; i-- > 1; c >>= 6)
        to[i] = (char)(0x80 | (c & 0x3F));
    to[0] = (char)(n == 1 ? c : (0xF00u >> n & 0xFF) | c);
    return n;
}

static void json_strings(void **state)
{
    (void)state;
    struct str s = {0};
    str_json(&s, "a\"b\\c/\b\t\n\f\r\x01\x1f\x7f\xc3\xa9\xf0\x9f\x98\x80");
    assert_string_equal(s.s, "\"a\\\"b\\\\c/\\b\\t\\n\\f\\r\\u0001\\u001f\x7f\xc3\xa9\xf0\x9f\x98\x80\"");
    str_free(&s);
    str_json(&s, "\xff-\xe2\x82");
    assert_string_equal(s.s, "\"\xEF\xBF\xBD-\xEF\xBF\xBD\xEF\xBF\xBD\"");
    str_free(&s);
    struct str nul = {0}; /* as a byte token decodes */
    str_append_n(&nul, "a\0b", 3);
    str_json_str(&s, &nul);
    assert_string_equal(s.s, "\"a\\u0000b\"");
    str_free(&s);
    str_escape_str(&s, &nul);
    assert_string_equal(s.s, "a\\x00b");
    str_free(&s);
    str_free(&nul);
}

/* Control characters, separators, and all characters with the property Bidi_Control (Unicode, PropList.txt). */
static void nothing_steers_a_terminal(void **state)
{
    (void)state;
    static const uint32_t steering[] = {0x00,   0x09,   0x0A,   0x1B,   0x7F,   0x80,   0x9B,   0x9F,
                                        0x61C,  0x200E, 0x200F, 0x2028, 0x2029, 0x202A, 0x202B, 0x202C,
                                        0x202D, 0x202E, 0x2066, 0x2067, 0x2068, 0x2069};
    static const uint32_t harmless[] = {0x20,   0x7E,   0xA0,   0xE9,   0x61B,  0x61D,
                                        0x200D, 0x2010, 0x202F, 0x2065, 0x206A, 0x1F600};
    char text[8];
    for (size_t i = 0; i < sizeof steering / sizeof *steering; i++)
        assert_int_equal(utf8_printable(text, put_utf8(steering[i], text)), 0);
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++) {
        size_t n = put_utf8(harmless[i], text);
        assert_int_equal(utf8_printable(text, n), n);
    }
    struct str s = {0};
    str_escape(&s, "a\xe2\x80\xae\xc3\xa9\x1b[2J\xff");
    assert_string_equal(str_text(&s), "a\\xE2\\x80\\xAE\xc3\xa9\\x1B[2J\\xFF");
    str_free(&s);
    str_json_whole_printed(&s, "{\"a\":[\"\xe2\x80\xae\xc2\x9b\x7f\xc3\xa9\\n\",1]}");
    assert_string_equal(str_text(&s), "{\"a\":[\"\\u202e\\u009b\\u007f\xc3\xa9\\n\",1]}");
    str_free(&s);
    str_json_printed(&s, "a\xe2\x80\xae\xc2\x9b\x7f\xc3\xa9\n\xff");
    assert_string_equal(str_text(&s), "\"a\\u202e\\u009b\\u007f\xc3\xa9\\n\xEF\xBF\xBD\"");
    str_free(&s);
}

static void numbers_that_are_not_finite(void **state)
{
    (void)state;
    struct str s = {0};
    const double x[] = {0.1, NAN, -NAN, INFINITY, -INFINITY, 1e300};
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        str_json_number(&s, x[i], 10);
        str_append(&s, " ");
    }
    assert_string_equal(str_text(&s), "0.1 \"NaN\" \"NaN\" \"Infinity\" \"-Infinity\" 1e+300 ");
    str_free(&s);
    assert_null(number_word(-0.0));
}

/* Table 3-7 of the Unicode standard: the edges of each row. */
static void utf8_edges(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int bytes;
    } cases[] = {
        {"\x7f", 1},
        {"\x80", 0},
        {"\xc1\xbf", 0},
        {"\xc2\x80", 2},
        {"\xdf\xbf", 2},
        {"\xdf\x7f", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xe0\xa0\x80", 3},
        {"\xed\x9f\xbf", 3},
        {"\xed\xa0\x80", 0},
        {"\xef\xbf\xbf", 3},
        {"\xef\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xf0\x90\x80\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"\xf5\x80\x80\x80", 0},
        {"\xf4\x90\x80\x80", 0},
        {"\xff", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(utf8_sequence(cases[i].s, strlen(cases[i].s)), cases[i].bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grows),
        cmocka_unit_test(remembers_a_failed_allocation),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(utf8_edges),
        cmocka_unit_test(nothing_steers_a_terminal),
        cmocka_unit_test(numbers_that_are_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
