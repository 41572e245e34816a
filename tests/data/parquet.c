/* data/parquet: rows against those that pyarrow read (parquet/make.py), and what is refused. */
#include "data/files/objects/parquet.h"

#include "format/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { FILES = 26 };

static void path_of(char path[4200], const char *name)
{
    snprintf(path, 4200, "%s/tests/data/parquet/%s", getenv("SNUG_SOURCE"), name);
}

/* pread that gives a few bytes at a time. */
static ssize_t pread_few(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    return io_posix.pread(io, fd, buf, bytes < 7 ? bytes : 7, at);
}

static void must_be_rows(const struct io *io, const char *path, json_t *rows)
{
    struct parquet p;
    struct snug_err e;
    struct hash128 whole, read;
    size_t n = 0;
    int code = parquet_open(io, path, &p, &e);
    for (; !code && !(code = parquet_next(&p, &e)) && p.row; n++) {
        assert_int_equal(p.place.n, n);
        if (json_equal(p.row, json_array_get(rows, n)))
            continue;
        char *got = json_dumps(p.row, JSON_COMPACT), *want = json_dumps(json_array_get(rows, n), JSON_COMPACT);
        fail_msg("%s: row %zu is\n%s\nwhere pyarrow has\n%s", path, n, got, want);
    }
    if (code)
        fail_msg("%s", e.text);
    assert_int_equal(n, json_array_size(rows));
    assert_int_equal(source_hash_file(&io_posix, path, NULL, &whole, &e), 0);
    read = parquet_hash(&p);
    assert_memory_equal(&read, &whole, sizeof whole);
    parquet_close(&p);
}

static void rows_are_those_of_pyarrow(void **state)
{
    (void)state;
    struct io few = io_posix;
    few.pread = pread_few;
    char path[4200];
    json_t *list;
    int files = 0;
    path_of(path, "rows.jsonl");
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0; files++) {
        assert_int_equal(json_parse(line, (size_t)n, "rows.jsonl", &list, NULL), 0);
        char name[100];
        snprintf(name, sizeof name, "%s.parquet", json_string_value(json_object_get(list, "file")));
        path_of(path, name);
        must_be_rows(&io_posix, path, json_object_get(list, "rows"));
        must_be_rows(&few, path, json_object_get(list, "rows"));
        json_decref(list);
    }
    free(line);
    fclose(f);
    assert_int_equal(files, FILES);
}

static void classes_keep_their_order(void **state)
{
    (void)state;
    static const char *const labels[] = {"sadness", "joy", "anger"}, *const tags[] = {"O", "B-PER", "I-PER"};
    char path[4200];
    struct parquet p;
    struct snug_err e;
    size_t n, m;
    path_of(path, "classes.parquet");
    assert_int_equal(parquet_open(&io_posix, path, &p, &e), 0);
    const char *const *of_labels = parquet_classes(&p, "label", &n), *const *of_tags = parquet_classes(&p, "tags", &m);
    assert_int_equal(n, 3);
    assert_int_equal(m, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(of_labels[i], labels[i]);
        assert_string_equal(of_tags[i], tags[i]);
    }
    assert_null(parquet_classes(&p, "text", &n));
    parquet_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_those_of_pyarrow),
        cmocka_unit_test(classes_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
