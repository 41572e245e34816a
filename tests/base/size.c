/* base/size: the texts are those of the definition, 1 KiB = 1024 B, rounded by hand. */
#include "base/size.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void three_digits(void **state)
{
    (void)state;
    static const struct {
        int64_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {812, "812 B"},
        {999, "999 B"},
        {1000, "0.977 KiB"}, /* 1000 / 1024 = 0.9766 */
        {1023, "0.999 KiB"}, /* 0.99902 */
        {1024, "1.00 KiB"},
        {10239, "10.0 KiB"},    /* 9.999 */
        {1023488, "0.976 MiB"}, /* 999.5 KiB */
        {364159616, "347 MiB"}, /* 347.29 */
        {8589934592, "8.00 GiB"},
        {149182291968, "139 GiB"}, /* 138.94 */
        {(int64_t)1 << 50, "1.00 PiB"},
        {INT64_MAX, "8.00 EiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[SIZE_TEXT_MAX];
        assert_string_equal(size_text(cases[i].bytes, text), cases[i].text);
    }
}

static void what_people_type(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t bytes; /* 0: refused */
        bool unit;
    } cases[] = {
        {"8g", 8589934592, true},
        {"8G", 8589934592, true},
        {"8GiB", 8589934592, true},
        {"8 GiB", 8589934592, true},
        {"8gib", 8589934592, true},
        {"8Gi", 8589934592, true},
        {"900mi", 943718400, true},
        {"8i", 0, false},
        {"8gb", 8000000000, true},
        {"8GB", 8000000000, true},
        {"1.5G", 1610612736, true},
        {".5k", 512, true},
        {"900MB", 900000000, true},
        {"123456789", 123456789, false},
        {"7b", 7, true},
        {"2T", 2199023255552, true},
        {"", 0, false},
        {"G", 0, false},
        {"8 ", 0, false},
        {"8  GiB", 0, false},
        {"8GiBs", 0, false},
        {"0GiB", 0, false},
        {"-1G", 0, false},
        {"1.2.3G", 0, false},
        {"1e3", 0, false},
        {"0x10", 0, false},
        {"9999999T", 0, false},
        {".", 0, false},
        {"8GiB ", 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t bytes = 0;
        bool unit, is_size = size_read(cases[i].text, &bytes, &unit);
        if (is_size != (cases[i].bytes > 0) || (is_size && (bytes != cases[i].bytes || unit != cases[i].unit)))
            fail_msg("'%s' gave %lld", cases[i].text, is_size ? (long long)bytes : -1LL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_digits),
        cmocka_unit_test(what_people_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
