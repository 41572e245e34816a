/* Where tokens stand in a text, as the tokenizers library gives it (recorded/places.py), and windows over a long second text. */
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct tokenizer *open_folder(const char *name)
{
    char path[4096];
    struct tokenizer *t = NULL;
    struct snug_err e = {0};
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/%s", getenv("SNUG_SOURCE"), name);
    if (tokenizer_open(&io_posix, path, &t, &e))
        fail_msg("%s: %s", name, e.text);
    return t;
}

static int encode(const struct tokenizer *t, json_t *pair, struct token_buf *buf, size_t *n_first)
{
    struct snug_err e = {0};
    json_t *text[2] = {json_array_get(pair, 0), json_array_get(pair, 1)};
    return tokenizer_encode_whole(t, json_string_value(text[0]), json_string_length(text[0]),
                                  json_string_value(text[1]), json_string_length(text[1]), buf, n_first, &e);
}

static int check(const char *folder, const struct tokenizer *t, json_t *row, struct token_buf *buf)
{
    size_t n[2], wrong = 0;
    json_t *pair = json_object_get(row, "pair");
    assert_int_equal(encode(t, pair, buf, &n[0]), 0);
    n[1] = buf->n_pieces - n[0];
    for (size_t k = 0, at = 0; k < 2; at += n[k++]) {
        json_t *ids = json_array_get(json_object_get(row, "ids"), k);
        json_t *places = json_array_get(json_object_get(row, "places"), k);
        const char *text = json_string_value(json_array_get(pair, k));
        if (json_array_size(ids) != n[k])
            fail_msg("%s: \"%s\" has %zu tokens, not %zu", folder, text, n[k], json_array_size(ids));
        for (size_t i = 0; i < n[k]; i++) {
            struct text_place got = buf->piece_places[at + i];
            size_t start = (size_t)json_integer_value(json_array_get(places, 2 * i));
            size_t end = (size_t)json_integer_value(json_array_get(places, 2 * i + 1));
            if (buf->pieces[at + i] != json_integer_value(json_array_get(ids, i)) || got.start != start ||
                got.end != end) {
                print_error("%s: \"%s\", token %zu, \"%s\": %zu to %zu, not %zu to %zu\n", folder, text, i,
                            tokenizer_token(t, buf->pieces[at + i]), got.start, got.end, start, end);
                wrong++;
            }
        }
    }
    return wrong != 0;
}

static void places_are_those_of_the_library(void **state)
{
    static char line[1 << 20];
    char path[4096];
    struct token_buf buf = {0};
    int rows = 0, wrong = 0;
    (void)state;
    snprintf(path, sizeof path, "%s/tests/tokenizer/recorded/places.jsonl", getenv("SNUG_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        json_t *folder = json_loads(line, 0, NULL), *row;
        const char *name = json_string_value(json_object_get(folder, "folder"));
        struct tokenizer *t = open_folder(name);
        size_t i;
        json_array_foreach(json_object_get(folder, "pairs"), i, row)
        {
            wrong += check(name, t, row, &buf);
            rows++;
        }
        json_decref(folder);
        tokenizer_close(t);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(rows, 390);
    fclose(f);
    token_buf_free(&buf);
}

/* A window is what encoding the pair gives whose second text is just those tokens' part of it. */
static void a_window_is_the_pair_with_part_of_the_text(void **state)
{
    static const char *const folders[] = {"uncased", "families/roberta_prefix_space", "families/xlm_roberta"};
    static const char question[] = "where is it", text[] = "one two three four five six seven";
    struct token_buf all = {0}, part = {0};
    struct snug_err e = {0};
    (void)state;
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        struct tokenizer *t = open_folder(folders[f]);
        size_t n_first, at, from, to;
        assert_int_equal(tokenizer_encode_whole(t, question, strlen(question), text, strlen(text), &all, &n_first, &e),
                         0);
        for (from = 0; all.piece_places[n_first + from].start < 8; from++) /* "three" */
            ;
        for (to = from; n_first + to < all.n_pieces && all.piece_places[n_first + to].end <= 18; to++) /* to "four" */
            ;
        assert_int_equal(tokenizer_window(t, n_first, from, to, &all, &at, &e), 0);
        assert_int_equal(tokenizer_encode(t, question, strlen(question), "three four", 10, 0, &part, &e), 0);
        assert_int_equal(all.n, part.n);
        assert_memory_equal(all.ids, part.ids, part.n * sizeof *part.ids);
        assert_memory_equal(all.type_ids, part.type_ids, part.n * sizeof *part.type_ids);
        assert_memory_equal(all.ids + at, all.pieces + n_first + from, (to - from) * sizeof *all.ids);
        tokenizer_close(t);
    }
    token_buf_free(&all);
    token_buf_free(&part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(places_are_those_of_the_library),
                                       cmocka_unit_test(a_window_is_the_pair_with_part_of_the_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
