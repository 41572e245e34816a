/* data/csv: rows against those that Python's csv module gave (csv/record.py), and what is refused, by line. */
#include "data/files/csv.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char path[64];

static void write_file(const char *text, size_t bytes)
{
    struct snug_err e;
    snprintf(path, sizeof path, "/tmp/snug-csv-%ld.csv", (long)getpid());
    if (io_write_file(&io_posix, path, text, bytes, &e))
        fail_msg("%s", e.text);
}

/* pread that gives one byte at a time, so that every boundary between two pieces is met. */
static ssize_t pread_one(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    return io_posix.pread(io, fd, buf, bytes ? 1 : 0, at);
}

static bool row_equals(json_t *want, const struct csv *c)
{
    bool same = json_array_size(want) == c->n_fields;
    for (size_t i = 0; same && i < c->n_fields; i++) {
        json_t *field = json_array_get(want, i);
        size_t bytes;
        const char *got = csv_field(c, i, &bytes);
        same = bytes == json_string_length(field) && memcmp(got, json_string_value(field), bytes + 1) == 0;
    }
    return same;
}

static bool reads_as(char delimiter, json_t *rows)
{
    struct csv c;
    struct snug_err e = {0};
    int code = csv_open(&io_posix, path, delimiter, &c, &e);
    size_t n = 0;
    bool same = true;
    while (!code && same) {
        code = csv_next(&c, &e);
        if (code || !c.n_fields)
            break;
        same = json_is_null(rows) || row_equals(json_array_get(rows, n++), &c);
    }
    csv_close(&c);
    if (json_is_null(rows))
        return code == SNUG_ERR_INPUT && strncmp(e.text, path, strlen(path)) == 0;
    return same && !code && n == json_array_size(rows);
}

static void rows_are_those_of_python(void **state)
{
    (void)state;
    char name[4096], line[4096];
    snprintf(name, sizeof name, "%s/tests/data/csv/cases.jsonl", getenv("SNUG_SOURCE"));
    FILE *f = fopen(name, "r");
    assert_non_null(f);
    int n = 0;
    while (fgets(line, sizeof line, f)) {
        json_t *c = json_loads(line, 0, NULL), *text = json_array_get(c, 1);
        assert_non_null(c);
        write_file(json_string_value(text), json_string_length(text));
        if (!reads_as(json_string_value(json_array_get(c, 0))[0], json_array_get(c, 2)))
            fail_msg("differs from Python: %s", line);
        json_decref(c);
        n++;
    }
    fclose(f);
    assert_int_equal(n, 789);
}

/* FNV-1a of all fields of BANKING77, each with a 0 byte behind it, as csv/banking77.py computed it. */
static void real_data(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t rows;
        uint64_t fnv;
    } files[] = {{"train.csv", 10004, 0xee5f7e61844bf58cu}, {"test.csv", 3081, 0x608fd7d4ff395b89u}};
    for (size_t i = 0; i < 2; i++) {
        char name[4200];
        snprintf(name, sizeof name, "%s/../shared/data/banking77/%s", getenv("SNUG_SOURCE"), files[i].name);
        if (!io_exists(&io_posix, name)) {
            print_message("skipped: ../shared/data/banking77/%s is not there\n", files[i].name);
            continue;
        }
        struct csv c;
        struct snug_err e;
        uint64_t fnv = 0xcbf29ce484222325u;
        size_t rows = 0, bytes;
        assert_int_equal(csv_open(&io_posix, name, ',', &c, &e), 0);
        for (; !csv_next(&c, &e) && c.n_fields; rows++)
            for (size_t k = 0; k < c.n_fields; k++) {
                const char *field = csv_field(&c, k, &bytes);
                for (size_t b = 0; b <= bytes; b++)
                    fnv = (fnv ^ (unsigned char)field[b]) * 0x100000001b3u;
            }
        csv_close(&c);
        assert_int_equal(rows, files[i].rows);
        assert_true(fnv == files[i].fnv);
    }
}

/* A text longer than a chunk, where quotes, line ends and characters of several bytes lie across the boundaries. */
static void chunks_do_not_show(void **state)
{
    (void)state;
    static const char row[] = "\"a\"\"b\r\nc\",\xC3\xA9\xF0\x9F\x98\x80 plain\r\n";
    enum { ROWS = 40000, BYTES = sizeof row - 1 };
    char *text = malloc((size_t)ROWS * BYTES + 1);
    for (int i = 0; i < ROWS; i++)
        memcpy(text + (size_t)i * BYTES, row, BYTES);
    write_file(text, (size_t)ROWS * BYTES);
    struct csv c;
    struct snug_err e;
    assert_int_equal(csv_open(&io_posix, path, ',', &c, &e), 0);
    for (int i = 0; i < ROWS; i++) {
        size_t bytes;
        assert_int_equal(csv_next(&c, &e), 0);
        assert_int_equal(c.n_fields, 2);
        assert_int_equal(c.line, 1 + 2 * i);
        assert_string_equal(csv_field(&c, 0, &bytes), "a\"b\r\nc");
        assert_string_equal(csv_field(&c, 1, &bytes), "\xC3\xA9\xF0\x9F\x98\x80 plain");
    }
    assert_int_equal(csv_next(&c, &e), 0);
    assert_int_equal(c.n_fields, 0);
    struct hash128 h = hash_bytes(text, (size_t)ROWS * BYTES), got = source_hash(&c.source);
    assert_true(h.high == got.high && h.low == got.low);
    csv_close(&c);
    free(text);
}

static int read_all(const struct io *io, char delimiter, struct snug_err *e)
{
    struct csv c;
    int code = csv_open(io, path, delimiter, &c, e);
    do
        code = code ? code : csv_next(&c, e);
    while (!code && c.n_fields);
    csv_close(&c);
    return code;
}

static void short_reads_change_nothing(void **state)
{
    (void)state;
    struct io io = io_posix;
    struct snug_err e;
    io.pread = pread_one;
    write_file("a,\"b\"\n\xC3\xA9,2\n", 11);
    assert_int_equal(read_all(&io, ',', &e), 0);
}

/* bad-inputs.md, D6 to D9 and D2. */
static void refused(void **state)
{
    (void)state;
#define FILE_OF(s) s, sizeof(s) - 1
    static const struct {
        const char *text;
        size_t bytes;
        const char *message;
    } cases[] = {
        {FILE_OF("a,b\n1,2\n3,\"4\n5,6\n7"), ".csv:3: the quote opened here is never closed"},
        {FILE_OF("a,b\n1,\"x\ny\" z\n"), ".csv:3: field 2, 'x\\x0Ay', goes on behind its closing quote"},
        {FILE_OF("\"a\\\"b\"\n"), ".csv:1: field 1, 'a\\', goes on behind its closing quote"},
        {FILE_OF("a\nb\ncaf\xE9\n"), ".csv:3: row 3, byte at offset 7: 0xE9 is not UTF-8"},
        {FILE_OF("a\nb\n\xC3"), ".csv:3: row 3, byte at offset 4: 0xC3 is not UTF-8"},
        {FILE_OF("a\n\xED\xA0\x80\n"), "0xED is not UTF-8"},
        {FILE_OF("abcd\nef\0g\n"), ".csv:2: row 2 has a NUL byte at offset 7"},
        {FILE_OF("\xFF\xFE"
                 "a\0,\0b\0"),
         "looks like UTF-16"},
        {FILE_OF("a\0,\0b\0\n\0"), "looks like UTF-16"},
        {FILE_OF("\x1F\x8B\x08\0\0"), "ends in the middle of its compressed data; copy it again"},
        {FILE_OF("PK\x03\x04...."), "looks like a zip file (.xlsx"},
        {FILE_OF("PAR1\x15\x04"), "looks like a Parquet file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct snug_err e = {0};
        write_file(cases[i].text, cases[i].bytes);
        int code = read_all(&io_posix, ',', &e);
        if (code != SNUG_ERR_INPUT || !strstr(e.text, cases[i].message))
            fail_msg("wanted '%s', got %d '%s'", cases[i].message, code, e.text);
    }
    struct snug_err e = {0};
    write_file("a\n", 2);
    assert_int_equal(read_all(&io_posix, '"', &e), SNUG_ERR_USAGE);
    write_file("\xEF\xBB\xBF"
               "a\n",
               5); /* a BOM is no part of the first field */
    struct csv c;
    size_t bytes;
    assert_int_equal(csv_open(&io_posix, path, ',', &c, &e), 0);
    assert_int_equal(csv_next(&c, &e), 0);
    assert_string_equal(csv_field(&c, 0, &bytes), "a");
    csv_close(&c);
}

/* A quote that swallows a large file costs no more memory than a row may have (D14). */
static void a_row_is_bounded(void **state)
{
    (void)state;
    size_t n = (size_t)SOURCE_ROW_BYTES + (2 << 20);
    char *text = malloc(n);
    memset(text, 'x', n);
    memcpy(text, "a\n\"", 3);
    write_file(text, n);
    struct snug_err e;
    assert_int_equal(read_all(&io_posix, ',', &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, ".csv:2: a row of more than 67108864 bytes; is the quote opened on line 2"));
    text[2] = 'x';
    write_file(text, n);
    assert_int_equal(read_all(&io_posix, ',', &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "split the text"));
    free(text);
}

static ssize_t pread_appends(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    FILE *f = fopen(path, "a");
    fputs("more\n", f);
    fclose(f);
    return io_posix.pread(io, fd, buf, bytes, at);
}

/* D16 */
static void a_file_that_changes_is_noticed(void **state)
{
    (void)state;
    struct io io = io_posix;
    struct snug_err e;
    io.pread = pread_appends;
    write_file("a\nb\n", 4);
    assert_int_equal(read_all(&io, ',', &e), SNUG_ERR_IO);
    assert_non_null(strstr(e.text, "changed while it was read"));
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_python),
        cmocka_unit_test(chunks_do_not_show),
        cmocka_unit_test(short_reads_change_nothing),
        cmocka_unit_test(refused),
        cmocka_unit_test(real_data),
        cmocka_unit_test(a_row_is_bounded),
        cmocka_unit_test(a_file_that_changes_is_noticed),
    };
    return cmocka_run_group_tests_name("csv", tests, NULL, remove_file);
}
