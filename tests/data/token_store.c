/* data/tokens/token_store: arrays that went through files are those that stayed in memory, whatever they hold and however the rows came;
 * and a split of them has the same rows. */
#include "data/tokens/token_store.h"
#include "../folder.h"
#include "data/split.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static char dir[64], cache[96];

enum { ROWS = 1000, END = 7 };
enum { WITH_TYPES = 1, WITH_MASK = 2, WITH_WORDS = 4, WITH_SOURCES = 8 };

/* Row r has r * r % 9 tokens, or with sources 2 at least; types are 0 before row 300. */
static void add(struct token_rows *t, int64_t r, int with)
{
    int32_t ids[16], words[16], source[] = {1};
    uint8_t types[16], mask[16];
    int64_t n = r * r % 9;
    n = with & WITH_SOURCES && n < 2 ? 2 : n;
    for (int64_t i = 0; i < n; i++) {
        ids[i] = (int32_t)((r + i) % 11);
        words[i] = (int32_t)(i % 3 - 1);
        types[i] = (uint8_t)(r >= 300 && i % 2);
        mask[i] = (uint8_t)((r + i) % 2);
    }
    const struct token_rows one = {.n_rows = 1,
                                   .n_tokens = n,
                                   .offsets = (int64_t[]){0, n},
                                   .ids = ids,
                                   .types = with & WITH_TYPES ? types : NULL,
                                   .any_type = with & WITH_TYPES && r >= 300 && n > 1,
                                   .loss_mask = with & WITH_MASK ? mask : NULL,
                                   .words = with & WITH_WORDS ? words : NULL,
                                   .sources = with & WITH_SOURCES ? source : NULL,
                                   .truncated = r % 2,
                                   .no_target = r % 3 == 0};
    assert_int_equal(token_rows_append(t, &one, NULL), 0);
}

static struct dataset made(struct token_store_options o, int with, int64_t stretch)
{
    struct token_store s;
    struct dataset d = {.path = "d.csv", .task = TASK_UNLABELED};
    struct snug_err e, why;
    bool no_folder;
    token_store_open(&s, &o);
    for (int64_t r = 0; r < ROWS; r++) {
        add(&s.rows, r, with);
        if (r % stretch == stretch - 1 && token_store_settle(&s, &no_folder, &why, &e))
            fail_msg("%s", e.text);
    }
    if (token_store_finish(&s, &d, &e))
        fail_msg("%s", e.text);
    token_store_close(&s);
    return d;
}

static void check_array(const void *a, const void *b, int64_t bytes)
{
    assert_int_equal(a != NULL, b != NULL);
    if (a && bytes)
        assert_memory_equal(a, b, (size_t)bytes);
}

static void check_same(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->truncated, b->truncated);
    assert_int_equal(a->no_target, b->no_target);
    check_array(a->offsets, b->offsets, (a->n_rows + 1) * 8);
    check_array(a->ids, b->ids, a->n_tokens * 4);
    check_array(a->types, b->types, a->n_tokens);
    check_array(a->loss_mask, b->loss_mask, a->n_tokens);
    check_array(a->words, b->words, a->n_tokens * 4);
    check_array(a->targets, b->targets, a->n_tokens * 4);
    check_array(a->sources, b->sources, a->n_rows * 4);
    check_array(a->classes, b->classes, a->n_rows * 4);
}

static void files_are_as_memory(void **state)
{
    (void)state;
    static const int with[] = {0, WITH_TYPES, WITH_MASK, WITH_TYPES | WITH_WORDS, WITH_SOURCES};
    static const int32_t blocks[] = {0, 0, 16, 4096};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++)
        for (int k = 0; k < (with[i] ? 2 : 4); k++) {
            struct token_store_options o = {.io = &io_posix,
                                            .dir = cache,
                                            .in_memory = 1,
                                            .drop_empty = k > 0,
                                            .block_size = blocks[k],
                                            .end_id = END};
            struct token_store_options memory = o;
            memory.dir = NULL;
            struct dataset whole = made(memory, with[i], ROWS);
            assert_int_equal(whole.files.n_maps, 0);
            assert_int_equal(whole.truncated, ROWS / 2);
            static const int64_t stretches[] = {1, 7, 299, 300, ROWS};
            for (size_t s = 0; s < sizeof stretches / sizeof *stretches; s++) {
                struct dataset d = made(o, with[i], stretches[s]);
                if (k < 3) /* 4,000 tokens do not fill the block, so that there is nothing to map */
                    assert_true(d.files.n_maps >= 2);
                check_same(&whole, &d);
                dataset_close(&d);
            }
            dataset_close(&whole);
        }
}

/* By hand: "0 | 1 | 2 2" with an end behind each, in blocks of three. */
static void texts_are_joined_by_hand(void **state)
{
    (void)state;
    static const int32_t ids[] = {0, 1, 2, END}, rows[] = {1, 1, 2}, expected[] = {0, END, 1, END, 2, END};
    for (int64_t in_memory = 1; in_memory < 1000; in_memory += 998) {
        struct token_store s;
        struct dataset d = {0};
        struct snug_err e;
        bool no_folder;
        const struct token_store_options o = {
            .io = &io_posix, .dir = cache, .in_memory = in_memory, .block_size = 3, .end_id = END};
        token_store_open(&s, &o);
        for (int r = 0, at = 0; r < 3; at += rows[r++]) {
            assert_int_equal(token_rows_add(&s.rows, ids + at, NULL, (size_t)rows[r], &e), 0);
            assert_int_equal(token_store_settle(&s, &no_folder, &e, &e), 0);
        }
        assert_int_equal(token_store_finish(&s, &d, &e), 0);
        assert_int_equal(d.n_rows, 2);
        assert_int_equal(d.n_tokens, 6);
        assert_int_equal(d.offsets[1], 3);
        assert_memory_equal(d.ids, expected, sizeof expected);
        assert_int_equal(s.n_rest, 0);
        assert_int_equal(d.files.n_maps, in_memory == 1 ? 2 : 0);
        token_store_close(&s);
        dataset_close(&d);
    }
}

static void a_split_has_the_same_rows(void **state)
{
    (void)state;
    uint8_t which[ROWS];
    for (int r = 0; r < ROWS; r++)
        which[r] = r % 5 == 2;
    for (int with = 0; with < 16; with++) {
        struct dataset d[2], out[2];
        for (int i = 0; i < 2; i++) {
            struct snug_err e;
            d[i] =
                made((struct token_store_options){.io = &io_posix, .dir = i ? cache : NULL, .in_memory = 1}, with, 64);
            d[i].classes = mem_alloc(ROWS * sizeof *d[i].classes);
            for (int r = 0; r < ROWS; r++)
                d[i].classes[r] = r % 3;
            d[i].targets = d[i].words; /* as labels of words are */
            d[i].words = NULL;
            if (dataset_move_rows(&d[i], which, &out[i], &e))
                fail_msg("%s", e.text);
        }
        assert_int_equal(d[0].n_rows, ROWS * 4 / 5);
        assert_true(d[1].files.n_maps && out[1].files.n_maps);
        check_same(&d[0], &d[1]);
        check_same(&out[0], &out[1]);
        for (int i = 0; i < 2; i++) {
            dataset_close(&d[i]);
            dataset_close(&out[i]);
        }
    }
}

static int n_writes, full_at;

static ssize_t full_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    errno = ENOSPC;
    return n_writes++ == full_at ? -1 : io_posix.pwrite(io, fd, buf, bytes, at);
}

/* The disk is full at any write: one line, and what to do. */
static void a_full_disk_is_said(void **state)
{
    (void)state;
    struct io io = io_posix;
    io.pwrite = full_pwrite;
    for (full_at = 0; full_at < 6; full_at++) {
        struct token_store s;
        struct dataset d = {0};
        struct snug_err e = {0};
        bool no_folder;
        int code = SNUG_OK;
        n_writes = 0;
        token_store_open(&s, &(struct token_store_options){.io = &io, .dir = cache, .in_memory = 1});
        for (int64_t r = 0; r < 6 && !code; r++) {
            add(&s.rows, r, WITH_MASK);
            code = token_store_settle(&s, &no_folder, NULL, &e);
        }
        if (!code)
            code = token_store_finish(&s, &d, &e);
        assert_int_equal(code, SNUG_ERR_IO);
        assert_non_null(strstr(e.text, "cache: cannot write: No space left on device; give --cache-dir a folder with "
                                       "more room, or a larger --in-memory-max-size"));
        token_store_close(&s);
        dataset_close(&d);
    }
}

static int set_up(void **state)
{
    (void)state;
    make_folder(dir);
    snprintf(cache, sizeof cache, "%s/cache", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    assert_int_equal(rmdir(cache), 0); /* no file has kept a name */
    remove_tree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_as_memory),
        cmocka_unit_test(texts_are_joined_by_hand),
        cmocka_unit_test(a_split_has_the_same_rows),
        cmocka_unit_test(a_full_disk_is_said),
    };
    return cmocka_run_group_tests_name("token_store", tests, set_up, tear_down);
}
