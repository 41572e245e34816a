/* token_cache_help.h: a folder with data, a tokenizer, and a cache of its own. */
#ifndef TEST_DATA_TOKEN_CACHE_HELP_H
#define TEST_DATA_TOKEN_CACHE_HELP_H

#include "../folder.h"
#include "base/cache_dir.h"
#include "data/dataset.h"
#include "data/tokens/token_cache.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], data[96], cache[96];
static struct tokenizer *tokenizer;
static char notes[4096];

static inline void note(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", line);
}

static inline struct dataset_options options(enum data_task task)
{
    return (struct dataset_options){
        .path = data, .task = task, .tokenizer = tokenizer, .max_length = 8, .cache_dir = cache, .note = note};
}

static inline struct dataset opened(const struct io *io, const struct dataset_options *o)
{
    struct dataset d;
    struct snug_err e;
    notes[0] = 0;
    if (dataset_open(io, o, &d, &e))
        fail_msg("%s", e.text);
    return d;
}

static inline void write_data(const char *text)
{
    struct snug_err e;
    assert_int_equal(io_write_file(&io_posix, data, text, strlen(text), &e), 0);
}

/* The cache's only file, or the n-th of them; false when there are fewer. */
static inline bool cache_file(char path[512], int n)
{
    DIR *d = opendir(cache);
    struct dirent *entry;
    bool found = false;
    while (d && !found && (entry = readdir(d)))
        if (entry->d_name[0] != '.' && n-- == 0) {
            snprintf(path, 512, "%s/%s", cache, entry->d_name);
            found = true;
        }
    if (d)
        closedir(d);
    return found;
}

static inline void empty_cache(void)
{
    char path[512];
    while (cache_file(path, 0))
        unlink(path);
}

static inline void check_same(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->task, b->task);
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->longest, b->longest);
    assert_int_equal(a->max_id, b->max_id);
    assert_int_equal(a->max_type, b->max_type);
    assert_int_equal(a->truncated, b->truncated);
    assert_int_equal(a->empty, b->empty);
    assert_int_equal(a->num_labels, b->num_labels);
    assert_int_equal(a->label_form, b->label_form);
    assert_int_equal(a->labels.n, b->labels.n);
    assert_int_equal(a->labels.numbers, b->labels.numbers);
    assert_int_equal(a->labels.from_data, b->labels.from_data);
    for (int32_t i = 0; i < a->labels.n; i++)
        assert_string_equal(a->labels.names[i], b->labels.names[i]);
    assert_memory_equal(&a->fingerprint, &b->fingerprint, sizeof a->fingerprint);
    assert_memory_equal(a->offsets, b->offsets, (size_t)(a->n_rows + 1) * sizeof *a->offsets);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_tokens * sizeof *a->ids);
    assert_int_equal(a->types != NULL, b->types != NULL);
    assert_int_equal(a->classes != NULL, b->classes != NULL);
    assert_int_equal(a->values != NULL, b->values != NULL);
    assert_int_equal(a->targets != NULL, b->targets != NULL);
    assert_int_equal(a->sources != NULL, b->sources != NULL);
    if (a->targets)
        assert_memory_equal(a->targets, b->targets, (size_t)a->n_tokens * sizeof *a->targets);
    if (a->sources)
        assert_memory_equal(a->sources, b->sources, (size_t)a->n_rows * sizeof *a->sources);
    if (a->types)
        assert_memory_equal(a->types, b->types, (size_t)a->n_tokens);
    if (a->classes)
        assert_memory_equal(a->classes, b->classes, (size_t)a->n_rows * sizeof *a->classes);
    if (a->values)
        assert_memory_equal(a->values, b->values, (size_t)(a->n_rows * a->num_labels) * sizeof *a->values);
}

static inline char *read_cache(size_t *n)
{
    char path[512], *bytes;
    struct snug_err e;
    assert_true(cache_file(path, 0));
    assert_int_equal(io_read_file(&io_posix, path, 1 << 20, &bytes, n, &e), 0);
    return bytes;
}

static inline void write_cache(const char *bytes, size_t n)
{
    char path[512];
    struct snug_err e;
    assert_true(cache_file(path, 0));
    assert_int_equal(io_write_file(&io_posix, path, bytes, n, &e), 0);
}

static inline int set_up(void **state)
{
    (void)state;
    char recorded[4096];
    struct snug_err e;
    make_folder(dir);
    snprintf(data, sizeof data, "%s/data.csv", dir);
    snprintf(cache, sizeof cache, "%s/cache", dir);
    snprintf(recorded, sizeof recorded, "%s/tests/tokenizer/recorded/uncased", getenv("SNUG_SOURCE"));
    return tokenizer_open(&io_posix, recorded, &tokenizer, &e);
}

static inline int tear_down(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    remove_tree(dir);
    return 0;
}

#endif
