/* format/json: which documents are accepted (cases written from the rules of RFC 8259, plus the stricter ones that
 * json.h names), where an error is placed, and the typed members. */
#include "format/json.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#define BYTES(s) s, sizeof s - 1

static const struct {
    const char *text;
    size_t bytes;
} accepted[] = {
    {BYTES("null")},
    {BYTES("true")},
    {BYTES("false")},
    {BYTES("0")},
    {BYTES("-0")},
    {BYTES("\"\"")},
    {BYTES(" \t\r\n[]\n ")},
    {BYTES("[[],{}]")},
    {BYTES("{}")},
    {BYTES("{\"\":0}")},
    {BYTES("{\"a\":{\"a\":{\"a\":1}},\"b\":1}")},
    {BYTES("[{\"a\":1},{\"a\":2}]")}, /* the same key in two objects */
    {BYTES("[1,-1,0.5,-0.5,1e2,1E+2,1e-2,123.456e10]")},
    {BYTES("[9223372036854775807,-9223372036854775808]")},
    {BYTES("[1e-400]")},
    {BYTES("[0.4e006]")},
    {BYTES("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u20AC\"]")},
    {BYTES("[\"\\ud83d\\ude00\"]")}, /* a surrogate pair */
    {BYTES("[\"\xc2\xa2\xe2\x82\xac\xf0\x9f\x98\x80\xef\xbf\xbf\x7f\"]")},
    {BYTES("[\"\\uFFFF\\u0001\"]")},
    {BYTES("\xef\xbb\xbf{\"a\":1}")}, /* BOM */
    {BYTES("[\"{[\",\"]}\",\"\\\"[\"]")},
};

static const struct {
    const char *text;
    size_t bytes;
    const char *part; /* of the message */
} refused[] = {
    {BYTES(""), "f: is empty"},
    {BYTES(" \n\t"), "f: is empty"},
    {BYTES("\xef\xbb\xbf"), "f: is empty"},
    {BYTES("\xff\xfe{\0}\0"), "UTF-16"},
    {BYTES("\xfe\xff\0{\0}"), "UTF-16"},
    {BYTES("{\0}\0"), "UTF-16"},
    {BYTES("\0{\0}"), "UTF-16"},
    {BYTES("{"), "complete?"},
    {BYTES("["), "complete?"},
    {BYTES("{\"a\":"), "f:1:6: not valid JSON: it ends where a value is expected; is the file complete?"},
    {BYTES("[\"abc"), "complete?"},
    {BYTES("[\"abc\\"), "f:1:"},
    {BYTES("[1,]"), "f:1:4: not valid JSON: ']' where a value is expected; is there a comma too many?"},
    {BYTES("{\"a\":1,}"), "f:1:8: not valid JSON: '}' where a name in quotes is expected; is there a comma too many?"},
    {BYTES("{\n \"a\": NaN\n}"), "f:2:7: not valid JSON: 'NaN' where a value is expected; JSON has no NaN"},
    {BYTES("[Infinity]"), "JSON has no Infinity"},
    {BYTES("[-Infinity]"), "JSON has no -Infinity"},
    {BYTES("[1, // one\n2]"), "JSON has no comments"},
    {BYTES("/* c */ 1"), "JSON has no comments"},
    {BYTES("# c\n1"), "JSON has no comments"},
    {BYTES("[1]x"), "where the end of the document is expected"},
    {BYTES("{} {}"), "where the end of the document is expected"},
    {BYTES("1 2"), "where the end of the document is expected"},
    {BYTES("[1]\0"), "f:1:"},
    {BYTES("[,1]"), "f:1:2"},
    {BYTES("[1,,2]"), "f:1:4"},
    {BYTES("[1 2]"), "f:1:4"},
    {BYTES("[1}"), "f:1:3"},
    {BYTES("{\"a\" 1}"), "'1' where ':' is expected"},
    {BYTES("{\"a\":1 \"b\":2}"), "f:1:"},
    {BYTES("{a:1}"), "f:1:2"},
    {BYTES("{'a':1}"), "f:1:2"},
    {BYTES("{1:1}"), "f:1:2"},
    {BYTES("{\"a\":\"b\":1}"), "f:1:"},
    {BYTES("['a']"), "f:1:2"},
    {BYTES("[01]"), "f:1:2"},
    {BYTES("[-01]"), "f:1:"},
    {BYTES("[+1]"), "f:1:2"},
    {BYTES("[.5]"), "f:1:2"},
    {BYTES("[1.]"), "f:1:"},
    {BYTES("[1e]"), "f:1:"},
    {BYTES("[1e+]"), "f:1:"},
    {BYTES("[0x10]"), "f:1:"},
    {BYTES("[1e400]"), "a number is too large"},
    {BYTES("[-1e400]"), "a number is too large"},
    {BYTES("[True]"), "f:1:2"},
    {BYTES("[tru]"), "f:1:2"},
    {BYTES("[nul]"), "f:1:2"},
    {BYTES("[\"\\x41\"]"), "f:1:"},
    {BYTES("[\"\\u00g0\"]"), "f:1:"},
    {BYTES("[\"\\u00\"]"), "f:1:"},
    {BYTES("[\"a\nb\"]"), "f:1:"},
    {BYTES("[\"a\tb\"]"), "f:1:"},
    {BYTES("[\"\x1f\"]"), "f:1:"},
    {BYTES("[\"\\ud800\"]"), "f:1:"}, /* lone surrogates */
    {BYTES("[\"\\udc00\"]"), "f:1:"},
    {BYTES("[\"\\ud800\\u0041\"]"), "f:1:"},
    {BYTES("[\"\xed\xa0\x80\"]"), "UTF-8"},     /* the same, encoded (CESU) */
    {BYTES("[\"\xc0\xaf\"]"), "UTF-8"},         /* overlong */
    {BYTES("[\"\xf4\x90\x80\x80\"]"), "UTF-8"}, /* beyond U+10FFFF */
    {BYTES("[\"\xe9\"]"), "UTF-8"},             /* Latin-1 */
    {BYTES("[\xe9]"), "UTF-8"},
    {BYTES("[\"\\u0000\"]"), "\\u0000"},
    {BYTES("{\"a\\u0000b\":1}"), "f:1:"},
    {BYTES("version https://git-lfs.github.com/spec/v1\n"), "f: not JSON but a Git LFS pointer"},
    {BYTES("\n<html></html>"), "f: not JSON but an HTML or XML page"},
    {BYTES("Entry not found"), "f: not JSON but plain text"},
    {BYTES("{\"a\":1,\"a\":2}"), "f:1:8: key a is given twice, as 1 and as 2; keep one"},
    {BYTES("{\"a\":1,\"\\u0061\":1}"), "f:1:8: key a is given twice, as 1 and as 1"},
    {BYTES("{\"\xc3\xa9\":{\"x\":[1,\"}\"]} , \"\\u00E9\" : \"two\"}"),
     "f:1:22: key \xc3\xa9 is given twice, as {\"x\":[1,\"}\"]} and as \"two\""},
    {BYTES("[{\"x\":0},{\"b\":[{}],\n\"x\":{},\"c\":1.5,\n\"c\":null"),
     "f:3:1: key c is given twice, as 1.5 and as null"},
    {BYTES("{\"a\":1,\"a\""), "f:1:8: key a is given twice, as 1 and as ;"},
    {BYTES("{\"a\":12345678901234567890,\"a\":2}"), "key a is given twice, as 12345678901234567890"},
};

static void accepts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        json_t *v;
        struct snug_err err = {0};
        if (json_parse(accepted[i].text, accepted[i].bytes, "f", &v, &err))
            fail_msg("%s: %s", accepted[i].text, err.text);
        json_decref(v);
    }
}

static void refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        json_t *v;
        struct snug_err err = {0};
        /* In memory of just this size, so that a sanitizer sees a read behind the end. */
        char *text = malloc(refused[i].bytes + !refused[i].bytes);
        memcpy(text, refused[i].text, refused[i].bytes);
        int code = json_parse(text, refused[i].bytes, "f", &v, &err);
        free(text);
        assert_null(v);
        if (code != SNUG_ERR_INPUT || !strstr(err.text, refused[i].part))
            fail_msg("%s: code %d, \"%s\" lacks \"%s\"", refused[i].text, code, err.text, refused[i].part);
    }
}

static void nesting_is_limited(void **state)
{
    (void)state;
    enum { N = 1000000 };
    char *text = malloc(2 * N);
    json_t *v;
    struct snug_err err;
    memset(text, '[', N);
    memset(text + N, ']', N);
    assert_int_equal(json_parse(text + N - 128, 256, "f", &v, &err), 0);
    json_decref(v);
    assert_int_equal(json_parse(text + N - 129, 258, "f", &v, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "f:1:129: nested deeper than 128 levels; is it the right file?");
    assert_int_equal(json_parse(text, N, "f", &v, &err), SNUG_ERR_INPUT);
    for (int i = 0; i < N; i += 4)
        memcpy(text + i, "{\"\":", 4);
    assert_int_equal(json_parse(text, N, "f", &v, &err), SNUG_ERR_INPUT);
    assert_non_null(strstr(err.text, "f:1:513: nested deeper"));
    free(text);
}

static void big_integers_are_reals(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_max_length\":1000000000000000019884624838656,\"s\":\"12345678901234567890\","
        "\"min\":-9223372036854775809, \"max\":9223372036854775807,"
        "\"nineteen\":9223372036854775808,\"fraction\":0.1234567890123456789012345678901234567890,"
        "\"forty\":1000000000000000000000000000000000000000}";
    json_t *v;
    struct snug_err err;
    assert_int_equal(json_parse(text, sizeof text - 1, "f", &v, &err), 0);
    assert_true(json_real_value(json_object_get(v, "model_max_length")) == 1e30);
    assert_string_equal(json_string_value(json_object_get(v, "s")), "12345678901234567890");
    assert_true(json_real_value(json_object_get(v, "min")) == -0x1p63);
    assert_true(json_integer_value(json_object_get(v, "max")) == INT64_MAX);
    assert_true(json_real_value(json_object_get(v, "nineteen")) == 0x1p63);
    assert_true(json_real_value(json_object_get(v, "fraction")) == 0.1234567890123456789);
    assert_true(json_real_value(json_object_get(v, "forty")) == 1e39);
    json_decref(v);
}

static void typed_members(void **state)
{
    (void)state;
    static const char text[] = "{\"n\":768,\"neg\":-1,\"half\":1.5,\"k\":1e3,\"s\":\"768\",\"null\":null,\"t\":true,"
                               "\"tiny\":1e-400,\"huge\":2147483648,\"o\":{},\"a\":[]}";
    json_t *o;
    struct snug_err err;
    assert_int_equal(json_parse(text, sizeof text - 1, "c", &o, &err), 0);
    int64_t n = 7;
    assert_int_equal(json_get_int(o, "c", "n", true, 1, 1 << 20, &n, &err), 0);
    assert_int_equal(n, 768);
    assert_int_equal(json_get_int(o, "c", "missing", false, 1, 10, &n, &err), 0);
    assert_int_equal(json_get_int(o, "c", "null", false, 1, 10, &n, &err), 0);
    assert_int_equal(n, 768);
    static const struct {
        const char *key, *text;
    } ints[] = {
        {"missing", "c: missing is absent; it must be given"},
        {"null", "c: null is null; it must be given"},
        {"neg", "c: neg is -1; expected an integer from 1 to 1048576"},
        {"half", "c: half is 1.5; expected an integer from 1 to 1048576"},
        {"k", "c: k is 1e+03; expected an integer from 1 to 1048576"},
        {"s", "c: s is \"768\"; expected an integer from 1 to 1048576"},
        {"t", "c: t is true; expected an integer from 1 to 1048576"},
        {"huge", "c: huge is 2147483648; expected an integer from 1 to 1048576"},
        {"o", "c: o is an object; expected an integer from 1 to 1048576"},
        {"a", "c: a is an array; expected an integer from 1 to 1048576"},
    };
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        assert_int_equal(json_get_int(o, "c", ints[i].key, true, 1, 1 << 20, &n, &err), SNUG_ERR_INPUT);
        assert_string_equal(err.text, ints[i].text);
    }
    assert_int_equal(n, 768);
    double x = 0;
    assert_int_equal(json_get_real(o, "c", "n", true, 0, 1000, &x, &err), 0);
    assert_true(x == 768);
    assert_int_equal(json_get_real(o, "c", "half", true, 0, 1000, &x, &err), 0);
    assert_true(x == 1.5);
    assert_int_equal(json_get_real(o, "c", "half", true, 0, 1, &x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "c: half is 1.5; expected a number from 0 to 1");
    assert_int_equal(json_get_real(o, "c", "tiny", true, 1e-30, 1, &x, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "c: tiny is 0.0; expected a number from 1e-30 to 1");
    bool b = false;
    assert_int_equal(json_get_bool(o, "c", "t", true, &b, &err), 0);
    assert_true(b);
    assert_int_equal(json_get_bool(o, "c", "n", true, &b, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "c: n is 768; expected true or false");
    const char *s = NULL;
    assert_int_equal(json_get_string(o, "c", "s", true, &s, &err), 0);
    assert_string_equal(s, "768");
    assert_int_equal(json_get_string(o, "c", "n", true, &s, &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "c: n is 768; expected a string");
    assert_int_equal(json_get_real(o, "c", "missing", false, 0, 1, &x, &err), 0);
    assert_int_equal(json_get_bool(o, "c", "missing", false, &b, &err), 0);
    assert_int_equal(json_get_string(o, "c", "missing", false, &s, &err), 0);
    assert_true(x == 1.5 && b && !strcmp(s, "768"));
    json_decref(o);
    char shown[64];
    assert_string_equal(json_value_text(json_false(), shown), "false");
    assert_string_equal(json_value_text(json_null(), shown), "null");
    assert_string_equal(json_value_text(NULL, shown), "absent");
}

/* jansson's own allocations: the k-th fails, alone or with all that follow, for every k. */
static int allocation, first_to_fail, last_to_fail;

static void *failing_malloc(size_t n)
{
    allocation++;
    return allocation >= first_to_fail && allocation <= last_to_fail ? NULL : malloc(n);
}

static void memory_runs_out(void **state)
{
    (void)state;
    static const char text[] = "{\"a\":[1,2.5,\"x\",{\"b\":null}],\"c\":{\"d\":true}}";
    json_set_alloc_funcs(failing_malloc, free);
    for (int forever = 0; forever < 2; forever++) {
        int k = 0;
        do {
            json_t *v;
            struct snug_err err = {0};
            allocation = 0, first_to_fail = ++k, last_to_fail = forever ? INT_MAX : k;
            int code = json_parse(text, sizeof text - 1, "f", &v, &err);
            json_decref(v);
            if (code != (forever && allocation >= k ? SNUG_ERR_ENV : SNUG_OK))
                fail_msg("allocation %d: code %d, %s", k, code, err.text);
        } while (allocation >= k);
        assert_true(k > 10);
    }
    json_set_alloc_funcs(malloc, free);
}

int main(void)
{
    /* A parser that recurses without a limit would need far more. */
    setrlimit(RLIMIT_STACK, &(struct rlimit){1 << 20, 1 << 20});
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(nesting_is_limited),
        cmocka_unit_test(big_integers_are_reals),
        cmocka_unit_test(typed_members),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
